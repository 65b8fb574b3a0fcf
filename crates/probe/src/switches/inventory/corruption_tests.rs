//! Files that are damaged: whatever happened to them, reading ends, nothing panics, and what is lost is parsed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fields::SwitchHint;
use super::format_tests::data;
use super::read::of_text;
use super::*;
use crate::switches::Source;

/// Every file that somebody's switches may have printed.
const FILES: &[&str] = &[
    "switches/ibdiagnet2.db_csv",
    "switches/ibswitches.txt",
    "switches/own.toml",
    "switches/nvue/leaf01.json",
    "switches/nvue/leaf02/interface.json",
    "switches/nvue/leaf02/transceiver.json",
    "switches/sonic/leaf1/appl_db.json",
    "switches/sonic/leaf1/config_db.json",
    "switches/sonic/leaf1/state_db.json",
    "switches/sonic/leaf1/version.json",
    "switches/sonic/spine1.json",
    "topology/lldp-everybody.json",
];
/// How long a command would get.
const PATIENCE: Duration = Duration::from_secs(30);
/// Larger than anything that is read.
const TOO_LARGE: u64 = (64 << 20) + 1;

/// Damage that may hit what nobody reads: a comment, a column, blanks.
const MAY_BE_HARMLESS: &[&str] = &[
    "a bit flipped",
    "a piece cut out",
    "truncated",
    "a piece doubled",
    "a line without an end",
];

fn read_folder(path: &Path) -> SwitchInventory {
    read(&Source::Path(path.to_path_buf()), PATIENCE)
}

/// A folder with all files, each under its own name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (index, file) in FILES.iter().enumerate() {
        fs::copy(data(file), path_of(folder.path(), index)).unwrap();
    }
    folder
}

fn path_of(folder: &Path, index: usize) -> PathBuf {
    let name = FILES[index].replace('/', "-");
    folder.join(name)
}

/// One kind of damage to one file; its name, and whether it must show.
fn damage(path: &Path, random: &mut ChaCha8Rng) -> &'static str {
    let mut bytes = fs::read(path).unwrap();
    let at = random.random_range(0..bytes.len());
    let other = path.with_extension("elsewhere");
    match random.random_range(0..16) {
        0 => {
            bytes.truncate(at);
            fs::write(path, bytes).unwrap();
            "truncated"
        }
        1 => {
            random.fill_bytes(&mut bytes);
            fs::write(path, bytes).unwrap();
            "binary"
        }
        2 => {
            bytes[at] ^= 1 << random.random_range(0..8);
            fs::write(path, bytes).unwrap();
            "a bit flipped"
        }
        3 => {
            let length = random.random_range(1..200).min(bytes.len() - at);
            bytes.drain(at..at + length);
            fs::write(path, bytes).unwrap();
            "a piece cut out"
        }
        4 => {
            let piece = bytes[at..].to_vec();
            bytes.splice(at..at, piece);
            fs::write(path, bytes).unwrap();
            "a piece doubled"
        }
        5 => {
            let file = fs::File::create(path).unwrap();
            file.set_len(TOO_LARGE).unwrap();
            "huge"
        }
        6 => {
            fs::remove_file(path).unwrap();
            symlink(path.file_name().unwrap(), path).unwrap();
            "a link to itself"
        }
        7 => {
            fs::remove_file(path).unwrap();
            symlink(path.parent().unwrap(), path).unwrap();
            "a link to its own folder"
        }
        8 => {
            fs::remove_file(path).unwrap();
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            "a pipe"
        }
        9 => {
            fs::remove_file(path).unwrap();
            symlink(&other, path).unwrap();
            "a link to nowhere"
        }
        10 => {
            fs::remove_file(path).unwrap();
            symlink("/dev/zero", path).unwrap();
            "a device without an end"
        }
        11 => {
            fs::write(path, "").unwrap();
            "empty"
        }
        12 => {
            let deep = "[".repeat(100_000);
            fs::write(path, deep).unwrap();
            "brackets without an end"
        }
        13 => {
            let line = "x".repeat(5_000_000);
            bytes.splice(at..at, line.into_bytes());
            fs::write(path, bytes).unwrap();
            "a line without an end"
        }
        14 => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            "unreadable"
        }
        _ => {
            let text = String::from_utf8_lossy(&bytes).replace(['0', '1'], "\u{1b}[2J\u{202e}");
            fs::write(path, text).unwrap();
            "escapes in every value"
        }
    }
}

#[test]
fn a_thousand_damaged_folders_are_read_to_the_end_and_what_is_lost_is_told() {
    let mut whole = read_folder(folder().path());
    let clean = whole.troubles.len();
    // Where the files lie is not what they say.
    whole.troubles.clear();
    let intact = whole.switches.len();
    let is_root = nix::unistd::Uid::effective().is_root();
    let mut shown = std::collections::BTreeMap::new();
    for seed in 0..1000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let folder = folder();
        let path = path_of(folder.path(), random.random_range(0..FILES.len()));
        let what = damage(&path, &mut random);
        let mut inventory = read_folder(folder.path());
        let is_told = inventory.troubles.len() > clean;
        inventory.troubles.clear();
        // Root may read anything.
        let may_be_harmless = MAY_BE_HARMLESS.contains(&what) || (what == "unreadable" && is_root);
        let shows = is_told || inventory != whole;
        assert!(
            shows || may_be_harmless,
            "{seed}: {what} at {} shows nowhere",
            path.display()
        );
        assert!(
            inventory.switches.len() + 4 >= intact,
            "{seed}: {what}: the other switches are there"
        );
        let (times, seen) = shown.entry(what).or_insert((0, 0));
        *times += 1;
        *seen += u32::from(shows);
    }
    assert_eq!(shown.len(), 16, "{shown:?}");
    // Damage within a text shows nearly always; where it does not, it hit what nobody reads.
    for what in ["truncated", "a piece cut out"] {
        let (times, seen) = shown[what];
        assert!(seen * 4 >= times * 3, "{what}: {seen} of {times}");
    }
}

#[test]
fn a_folder_without_an_end_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..16_500 {
        fs::write(folder.path().join(format!("{index}")), "").unwrap();
    }
    let inventory = read_folder(folder.path());
    assert_eq!(inventory.troubles.len(), 1, "{:?}", inventory.troubles);
    assert!(inventory.troubles[0].contains("more than 16384 entries"));
}

#[test]
fn a_thousand_bad_files_do_not_drown_the_report() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..1200 {
        fs::write(folder.path().join(format!("{index}")), "nonsense").unwrap();
    }
    let inventory = read_folder(folder.path());
    assert_eq!(inventory.troubles.len(), 1001);
    assert_eq!(inventory.troubles[1000], "and 200 more of that kind");
}

#[test]
fn files_of_a_hundred_thousand_switches_are_read_to_the_end() {
    let mut tables = "START_NODES\nNodeDesc,NodeType,NodeGUID\n".to_string();
    for node in 0..100_000 {
        tables.push_str(&format!("\"MF0;leaf{node}:X/U1\",2,0x{node:x}\n"));
    }
    tables.push_str("END_NODES\n");
    let lines: String = (0..100_000)
        .map(|node| format!("Switch : 0x{node:x} ports 65 \"leaf{node}\" base port 0 lid 1 lmc 0\n"))
        .collect();
    let own: String = (0..20_000)
        .map(|node| {
            format!("[[switch]]\nname = \"s{node}\"\n[[cable]]\nends = [\"h{node}/r\", \"s{node}/p\"]\n")
        })
        .collect();
    let nodes: Vec<String> = (0..20_000)
        .map(|node| format!("\"leaf{node}\": {{\"x\": 1}}"))
        .collect();
    let strangers = format!(
        "{{\"leaf\": {{\"product-release\": \"1\"}}, {}}}",
        nodes.join(",\n")
    );
    for text in [&tables, &lines, &own, &strangers] {
        let parsed = of_text(text, SwitchHint::Unknown).unwrap();
        assert!(parsed.parts.len() + parsed.errors.len() >= 20_000);
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,300}|.*") {
        for about in [SwitchHint::Unknown, SwitchHint::Named("leaf1"), SwitchHint::Perhaps("x")] {
            let _ = of_text(&text, about);
        }
    }

    #[test]
    fn nor_any_text_behind_what_a_format_is_recognised_by(which in 0usize..9, text in ".*", more in "[\\[\\]{}\":,=\n ]{0,80}") {
        let heads = ["[[switch]]\n", "[[cable]]\nends=", "START_NODES\nNodeDesc,NodeGUID\n", "Switch : 0x1 ports 2 ", "{\"PORT\":",
            "{\"lldp\": ", "{\"product-release\": ", "{\"swp1\": {\"link\": ", "START_LINKS\n"];
        let _ = of_text(&format!("{}{text}{more}", heads[which]), SwitchHint::Named("leaf1"));
        let _ = of_text(&format!("{}{more}{text}", heads[which]), SwitchHint::Named("leaf1"));
    }

    #[test]
    fn what_is_left_of_a_file_has_only_names_that_a_topology_may_have(
        which in 0..FILES.len(), at in 0usize..12_000, less in 0usize..300, put in ".{0,20}"
    ) {
        let text = fs::read_to_string(data(FILES[which])).unwrap();
        let at = at % text.chars().count();
        let kept: String = text.chars().take(at).chain(put.chars()).chain(text.chars().skip(at + less)).collect();
        if let Ok(parsed) = of_text(&kept, SwitchHint::Named("leaf1")) {
            let legal = |name: &str| !name.is_empty() && name.len() <= 200 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c));
            for (switch, part) in &parsed.parts {
                prop_assert!(legal(switch) && legal(&part.name), "{switch} {}", part.name);
            }
            for cable in &parsed.cables {
                prop_assert!(legal(&cable.name) && cable.ends.iter().all(|end| legal(&end.node) && legal(&end.part)), "{cable:?}");
            }
        }
    }
}
