//! Tables about the nodes: all there, and nothing in them is alive.

use crate::{escape, terminal, write_all};
use judge::findings::drift::fixture::{inventory, node, part};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::{Fact, PartClass};

const NEW: &str = "28.43.2026";

#[test]
fn the_report_has_every_table_and_nothing_of_it_is_alive() {
    const HOSTILE: &str = "\u{1b}[2J<script>x</script> | `y` [z](http://evil)";
    let drifted = inventory(
        (0..8)
            .map(|host| {
                let firmware = if host == 1 { HOSTILE } else { NEW };
                let nic = part(
                    PartClass::Nic,
                    "mlx5_0",
                    &[("board", "b"), ("firmware", firmware)],
                );
                let interface = part(PartClass::Interface, "eth0", &[("mtu", "9000")]);
                node(&format!("node{host:02}"), vec![nic, interface])
            })
            .collect(),
    );
    let mut before = drifted.clone();
    before.nodes[2].node = HOSTILE.to_string();
    before.nodes[3].parts[0] = part(PartClass::Nic, "mlx5_0", &[("board", "b"), ("firmware", HOSTILE)]);
    let mut recorded = Fixture::pairs(8).recorded();
    let hidden = Fact::Unreadable {
        why: HOSTILE.into(),
        needs: Some("root".into()),
    };
    let mut inventory = drifted;
    inventory.nodes[5].parts[1].facts.insert("mtu".into(), hidden);
    recorded.inventory = Some(inventory);
    recorded.inventory_before = Some(before);
    recorded.golden = Some("[[gpu]]\nvbios = \"1\"\n".into());
    let judgement = judge(&recorded);
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), &recorded, &judgement).unwrap();
    let report = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    for wanted in [
        "## Nodes and firmware",
        "8 nodes compared with each other and golden.toml and the inventory of 2026-11-14T23:50:12Z: 1 deviation",
        "| what | is | should be | basis | where | effect on speed |",
        "Changed since 2026-11-14T23:50:12Z:",
        "| what | why | needs | nodes |",
        "Lines of the golden file that match no part:",
    ] {
        assert!(report.contains(wanted), "{wanted}:\n{report}");
    }
    for live in ["<script", "http://", "\u{1b}", " `y"] {
        assert!(!report.contains(live), "{live:?}:\n{report}");
    }
    let page = terminal::Page::terminal(false);
    let text = terminal::summary(&judgement, folder.path(), page);
    assert!(
        text.contains("inventory  8 nodes compared") && !text.contains('\u{1b}'),
        "{text}"
    );
    assert_eq!(escape::line(&text.replace('\n', "")), text.replace('\n', ""));
}
