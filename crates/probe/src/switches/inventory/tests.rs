//! What somebody who compares switches would lose, format by format.

use std::path::Path;
use std::time::Duration;

use super::fields::SwitchHint;
use super::read::of_text;
use super::*;
use crate::switches::Source;
use ::topology::Topology;
use record::{Fact, PartClass};

const PATIENCE: Duration = Duration::from_secs(20);

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What a folder with these files tells.
fn of_files(files: &[(&str, &str)]) -> SwitchInventory {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(root.path(), path, text);
    }
    let mut inventory = read(&Source::Path(root.path().to_path_buf()), PATIENCE);
    let folder = format!("{}/", root.path().display());
    for trouble in &mut inventory.troubles {
        *trouble = trouble.replace(&folder, "");
    }
    inventory
}

fn value<'i>(
    inventory: &'i SwitchInventory,
    switch: &str,
    class: PartClass,
    part: &str,
    fact: &str,
) -> Option<&'i str> {
    let node = inventory.switches.iter().find(|node| node.node == switch)?;
    node.part(class, part)?.value(fact)
}

fn of_switch<'i>(inventory: &'i SwitchInventory, switch: &str, fact: &str) -> Option<&'i str> {
    value(inventory, switch, PartClass::Switch, switch, fact)
}

const OWN: &str = r#"
[[switch]]
name = "rail0-leaf0"
type = "MQM9700-NS2F"
firmware = "31.2012.4036"
os = "3.11.4002"
serial = "MT2306X00317"
tier = "leaf"

[[switch.port]]
name = "p1"
speed = "400 Gb/s"
mtu = 4096
fec = "rs"
module = { vendor = "NVIDIA", part-number = "MMA4Z00-NS", firmware = "47.171.0001" }

[[switch]]
name = "rail0-spine0"
firmware = 31

[[cable]]
ends = ["h1/rail0", "rail0-leaf0/p1"]
part-number = "MCP7Y00-N002"
serial = "MT2311VS04721"
length = "2 m"
"#;

#[test]
fn our_own_format_tells_of_switches_ports_modules_and_cables() {
    let inventory = of_files(&[("all.toml", OWN)]);
    assert_eq!(inventory.troubles, Vec::<String>::new());
    assert_eq!(of_switch(&inventory, "rail0-leaf0", "type"), Some("MQM9700-NS2F"));
    assert_eq!(of_switch(&inventory, "rail0-leaf0", "tier"), Some("leaf"));
    assert_eq!(of_switch(&inventory, "rail0-spine0", "firmware"), Some("31"));
    let port = |fact| value(&inventory, "rail0-leaf0", PartClass::Port, "p1", fact);
    assert_eq!(port("speed"), Some("400000"), "as kernels say it");
    assert_eq!((port("mtu"), port("fec")), (Some("4096"), Some("rs")));
    let module = |fact| value(&inventory, "rail0-leaf0", PartClass::Module, "p1", fact);
    assert_eq!(module("firmware"), Some("47.171.0001"));
    assert_eq!(module("interface"), Some("p1"));
    let cable = &inventory.cables[0];
    assert_eq!(cable.ends[0].to_string(), "h1/rail0");
    assert_eq!(cable.ends[1].to_string(), "rail0-leaf0/p1");
    assert_eq!(cable.facts["serial"], Fact::Value("MT2311VS04721".to_string()));
    assert_eq!(cable.facts["length"], Fact::Value("2 m".to_string()));
}

#[test]
fn what_is_written_is_what_is_read() {
    let file: InventoryFile = toml::from_str(OWN).unwrap();
    assert_eq!(toml::from_str::<InventoryFile>(&file.to_toml()).unwrap(), file);
    assert_eq!(
        of_files(&[("a.toml", OWN)]).switches,
        of_files(&[("b.toml", &file.to_toml())]).switches
    );
}

#[test]
fn a_mistake_is_named_with_file_and_line_and_the_rest_is_read() {
    let cable = "[[switch]]\nname = \"s\"\nfirmware = \"1\"\n\n[[cable]]\nends = [\"h1/rail0\"]\n\n[[switch]]\nfirmware = \"2\"\n";
    let inventory = of_files(&[
        ("bad.toml", "[[switch]]\nname = \"x\"\nfirmwear = \"1\"\n"),
        ("cable.toml", cable),
        ("good.toml", OWN),
        ("notes.txt", "call Anna about leaf 3\n"),
    ]);
    assert_eq!(inventory.switches.len(), 3);
    let said = inventory.troubles.join("\n");
    assert!(said.contains("bad.toml:3: unknown field `firmwear`"), "{said}");
    assert!(said.contains("cable.toml:5: a cable has two `ends`"), "{said}");
    assert!(said.contains("cable.toml:8: a switch without `name`"), "{said}");
    assert!(said.contains("notes.txt: unknown format"), "{said}");
    assert_eq!(inventory.troubles.len(), 4, "{said}");
}

const IBSWITCHES: &str = "Switch\t: 0xfc6a1c0300d00100 ports 65 \"MF0;leaf-a:MQM9700/U1\" enhanced port 0 lid 7 lmc 0\n\
    Switch\t: 0xfc6a1c0300d00300 ports 65 \"Quantum-2 Mellanox Technologies\" base port 0 lid 9 lmc 0\n\
    Switch\t: 0xfc6a1c0300d00400 ports 65 \"Quantum-2 Mellanox Technologies\" base port 0 lid 10 lmc 0\n";

#[test]
fn ibswitches_names_switches_as_the_topology_does_and_says_that_it_knows_no_firmware() {
    let inventory = of_files(&[("printed", &format!("{IBSWITCHES}ibwarn: [12] discovery failed\n"))]);
    let names: Vec<&str> = inventory.switches.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["S-fc6a1c0300d00300", "S-fc6a1c0300d00400", "leaf-a"]);
    assert_eq!(of_switch(&inventory, "leaf-a", "type"), Some("MQM9700"));
    assert_eq!(
        of_switch(&inventory, "leaf-a", "guid"),
        Some("0xfc6a1c0300d00100")
    );
    assert_eq!(of_switch(&inventory, "leaf-a", "lid"), Some("7"));
    let firmware = &inventory.switches[0].parts[0].facts["firmware"];
    assert!(matches!(firmware, Fact::Unreadable { why, .. } if why == "no source has it"));
    assert_eq!(
        inventory.troubles,
        ["printed:4: not a line of ibswitches: `ibwarn: [12] discovery failed`"]
    );
}

#[test]
fn what_two_files_tell_of_one_switch_is_put_together() {
    let more = "[[switch]]\nname = \"leaf-a\"\nfirmware = \"31.2012.4036\"\ntype = \"MQM9700\"\n";
    let inventory = of_files(&[("ibswitches.txt", IBSWITCHES), ("more.toml", more)]);
    assert_eq!(of_switch(&inventory, "leaf-a", "firmware"), Some("31.2012.4036"));
    assert_eq!(of_switch(&inventory, "leaf-a", "lid"), Some("7"));
    assert_eq!(inventory.troubles, Vec::<String>::new());
}

#[test]
fn of_two_files_that_contradict_each_other_neither_is_believed() {
    let with = |firmware: &str| format!("[[switch]]\nname = \"s\"\nfirmware = \"{firmware}\"\nos = \"9\"\n");
    let inventory = of_files(&[
        ("a.toml", &with("1")),
        ("b.toml", &with("2")),
        ("c.toml", &with("1")),
    ]);
    assert_eq!(of_switch(&inventory, "s", "firmware"), None);
    assert_eq!(of_switch(&inventory, "s", "os"), Some("9"));
    assert_eq!(
        inventory.troubles,
        ["b.toml: `s`: firmware is `1` and `2`: sources contradict each other"]
    );
}

#[test]
fn a_port_holds_one_cable() {
    let cables = "[[cable]]\nends = [\"h1/rail0\", \"s/p1\"]\n[[cable]]\nends = [\"s/p1\", \"h1/rail0\"]\n\
        [[cable]]\nends = [\"h2/rail0\", \"s/p1\"]\n[[cable]]\nends = [\"s/p9\", \"s/p9\"]\n";
    let inventory = of_files(&[("c.toml", cables)]);
    assert_eq!(inventory.cables.len(), 1);
    let said = inventory.troubles.join("\n");
    assert!(said.contains("port `s/p1` holds two cables"), "{said}");
    assert!(
        said.contains("a cable cannot lead from `s/p9` to `s/p9`"),
        "{said}"
    );
    assert_eq!(inventory.troubles.len(), 2, "{said}");
}

const TOPOLOGY: &str = r#"
[[host]]
name = "h1"
[[switch]]
name = "rail0-leaf0"
tier = "leaf"
[[switch]]
name = "rail0-leaf1"
tier = "leaf"
[[link]]
name = "h1-rail0-leaf0"
ends = ["h1/rail0", "rail0-leaf0/p1"]
[[link]]
name = "h1-rail1-leaf1"
ends = ["h1/rail1", "rail0-leaf1/p1"]
"#;

#[test]
fn a_topology_gives_tiers_and_the_cables_that_nobody_told_of() {
    let topology = Topology::parse("fabric.toml", TOPOLOGY).unwrap();
    let mut inventory = of_files(&[("all.toml", &OWN.replace("tier = \"leaf\"\n", ""))]);
    apply_topology(&mut inventory, &topology);
    assert_eq!(of_switch(&inventory, "rail0-leaf0", "tier"), Some("leaf"));
    assert_eq!(
        of_switch(&inventory, "rail0-leaf0", "firmware"),
        Some("31.2012.4036")
    );
    let unknown = inventory
        .switches
        .iter()
        .find(|node| node.node == "rail0-leaf1")
        .unwrap();
    assert!(
        matches!(&unknown.parts[0].facts["firmware"], Fact::Unreadable { why, .. } if why.contains("no source"))
    );
    let names: Vec<&str> = inventory.cables.iter().map(|cable| cable.name.as_str()).collect();
    assert_eq!(names, ["h1-rail0-leaf0", "h1-rail1-leaf1"]);
    assert_eq!(
        inventory.cables[0].facts["length"],
        Fact::Value("2 m".to_string())
    );
    assert_eq!(inventory.troubles, Vec::<String>::new());
    let once = inventory.clone();
    apply_topology(&mut inventory, &topology);
    assert_eq!(inventory, once);
}

#[test]
fn a_topology_that_stands_for_every_rail_gives_tiers_and_no_cables() {
    let text = "each_rail = true\n[[host]]\nname = \"h1\"\n[[switch]]\nname = \"leaf0\"\ntier = \"leaf\"\n\
        [[link]]\nname = \"c\"\nends = [\"h1/rail\", \"leaf0/p1\"]\n";
    let topology = Topology::parse("fabric.toml", text).unwrap();
    let mut inventory = of_files(&[(
        "all.toml",
        "[[switch]]\nname = \"rail0-leaf0\"\nfirmware = \"1\"\n",
    )]);
    apply_topology(&mut inventory, &topology);
    assert_eq!(of_switch(&inventory, "rail0-leaf0", "tier"), Some("leaf"));
    assert_eq!((inventory.switches.len(), inventory.cables.len()), (1, 0));
}

#[test]
fn a_topology_alone_is_no_inventory_of_switches() {
    let topology = Topology::parse("fabric.toml", TOPOLOGY).unwrap();
    let mut inventory = SwitchInventory::default();
    apply_topology(&mut inventory, &topology);
    assert_eq!((inventory.switches.len(), inventory.cables.len()), (0, 2));
}

#[test]
fn a_cable_that_is_not_where_the_topology_has_it_is_told() {
    let topology = Topology::parse("fabric.toml", TOPOLOGY).unwrap();
    let moved = "[[switch]]\nname = \"rail0-leaf0\"\n[[cable]]\nname = \"c7\"\nends = [\"h1/rail0\", \"rail0-leaf0/p2\"]\n";
    let mut inventory = of_files(&[("all.toml", moved)]);
    apply_topology(&mut inventory, &topology);
    let said = inventory.troubles.join("\n");
    assert!(
        said.contains(
            "fabric.toml: port `h1/rail0` holds two cables: `h1-rail0-leaf0`, and `c7` in another source"
        ),
        "{said}"
    );
}

#[test]
fn a_command_is_read_and_one_that_fails_is_a_trouble() {
    let command = |words: &[&str]| {
        let words = words.iter().map(|word| word.to_string()).collect();
        read(&Source::Command(words), PATIENCE)
    };
    let printed = command(&["printf", "[[switch]]\nname = \"s\"\nfirmware = \"1\"\n"]);
    assert_eq!(of_switch(&printed, "s", "firmware"), Some("1"));
    let failed = command(&["sh", "-c", "echo 'no route to leaf1' >&2; exit 3"]);
    assert!(failed.troubles[0].contains("no route to leaf1"), "{failed:?}");
}

#[test]
fn what_is_no_file_is_told_and_never_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    write(root.path(), "good.toml", OWN);
    std::fs::write(path("binary"), [0xff, 0x00, 0x12]).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("round", path("round")).unwrap();
    std::os::unix::fs::symlink(root.path(), path("again")).unwrap();
    let inventory = read(&Source::Path(root.path().to_path_buf()), PATIENCE);
    assert_eq!(of_switch(&inventory, "rail0-leaf0", "os"), Some("3.11.4002"));
    let said = inventory.troubles.join("\n");
    for name in [
        "binary: not text",
        "empty: unknown format",
        "pipe: not a file",
        "round: ",
    ] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let nowhere = read(&Source::Path(path("nowhere")), PATIENCE);
    assert_eq!(nowhere.troubles.len(), 1);
    let text = of_text("", SwitchHint::Unknown).unwrap_err();
    assert_eq!(text.line, None);
}
