//! How an interface deals with congestion: PFC, the way packets get their priority, ECN and the parameters of DCQCN, and the class that
//! RDMA marks its packets with. Values stay as the kernel and its drivers write them.
//!
//! PFC, maps and buffers come from the driver (data centre bridging). The rest is files of mlx5: `ecn` below an interface and `tc` below an RDMA
//! device are MLNX_OFED's, `cc_params` in debugfs (root) is the kernel's own. What an interface of another driver has instead is not read: absent.

use std::collections::BTreeMap;

use super::super::dcb::{Dcb, Scheduling};
use super::super::ethtool::Unavailable;
use super::super::priorities;
use super::tree::Tree;
use record::Fact;

/// Facts from the driver's answers.
const OF_DRIVER: [&str; 7] = [
    "pfc",
    "pfc-delay",
    "priority-classes",
    "class-scheduling",
    "dscp-map",
    "trust",
    "buffers",
];

/// A parameter of congestion control: the fact, its file in the interface's `ecn` folder, and its file in `cc_params`.
const PARAMETERS: [(&str, &str, &str); 20] = [
    ("cnp-dscp", "roce_np/cnp_dscp", "np_cnp_dscp"),
    ("cnp-priority", "roce_np/cnp_802p_prio", "np_cnp_prio"),
    (
        "cnp-interval",
        "roce_np/min_time_between_cnps",
        "np_min_time_between_cnps",
    ),
    ("cnp-priority-mode", "", "np_cnp_prio_mode"),
    (
        "rp-clamp-target-rate",
        "roce_rp/clamp_tgt_rate",
        "rp_clamp_tgt_rate",
    ),
    (
        "rp-clamp-target-rate-after-time",
        "roce_rp/clamp_tgt_rate_after_time_inc",
        "rp_clamp_tgt_rate_ati",
    ),
    ("rp-time-reset", "roce_rp/rpg_time_reset", "rp_time_reset"),
    ("rp-byte-reset", "roce_rp/rpg_byte_reset", "rp_byte_reset"),
    ("rp-threshold", "roce_rp/rpg_threshold", "rp_threshold"),
    ("rp-ai-rate", "roce_rp/rpg_ai_rate", "rp_ai_rate"),
    ("rp-max-rate", "roce_rp/rpg_max_rate", "rp_max_rate"),
    ("rp-hai-rate", "roce_rp/rpg_hai_rate", "rp_hai_rate"),
    ("rp-min-decrease", "roce_rp/rpg_min_dec_fac", "rp_min_dec_fac"),
    ("rp-min-rate", "roce_rp/rpg_min_rate", "rp_min_rate"),
    (
        "rp-first-cnp-rate",
        "roce_rp/rate_to_set_on_first_cnp",
        "rp_rate_to_set_on_first_cnp",
    ),
    ("rp-dce-tcp-g", "roce_rp/dce_tcp_g", "rp_dce_tcp_g"),
    ("rp-dce-tcp-rtt", "roce_rp/dce_tcp_rtt", "rp_dce_tcp_rtt"),
    (
        "rp-decrease-period",
        "roce_rp/rate_reduce_monitor_period",
        "rp_rate_reduce_monitor_period",
    ),
    (
        "rp-initial-alpha",
        "roce_rp/initial_alpha_value",
        "rp_initial_alpha_value",
    ),
    ("rp-gd", "roce_rp/rpg_gd", "rp_gd"),
];

/// Priorities for which a NIC answers marked packets, and for which it slows down when it is told: the facts and their folders.
const BY_PRIORITY: [(&str, &str); 2] = [("ecn-np", "roce_np/enable"), ("ecn-rp", "roce_rp/enable")];

/// The driver whose files are known.
const KNOWN_DRIVER: &str = "mlx5_core";
/// The most bytes that a driver writes into one file.
const LONGEST_CLASS: u64 = 4096;
const DEBUG: &str = "sys/kernel/debug/mlx5";

/// What an interface does about congestion, by the names of facts.
pub(super) fn of_interface(
    tree: &Tree,
    folder: &str,
    (driver, pci): (Option<&str>, Option<&str>),
    dcb: &Result<Dcb, Unavailable>,
) -> BTreeMap<String, Fact> {
    let mut facts: BTreeMap<String, Fact> = OF_DRIVER
        .into_iter()
        .map(|name| (name.to_string(), of_driver(name, dcb)))
        .collect();
    // MLNX_OFED tells it where the kernel's own drivers do not.
    if facts["trust"].value().is_none() {
        match tree.fact(format!("{folder}/qos/trust")) {
            Fact::Absent => {}
            trust => drop(facts.insert("trust".to_string(), trust)),
        }
    }
    for (name, file) in BY_PRIORITY {
        facts.insert(name.to_string(), enabled(tree, &format!("{folder}/ecn/{file}")));
    }
    let debug = pci
        .filter(|_| driver == Some(KNOWN_DRIVER))
        .map(|pci| format!("{DEBUG}/{pci}/cc_params"));
    for (name, file, debug_file) in PARAMETERS {
        let own = match file {
            "" => Fact::Absent,
            file => tree.fact(format!("{folder}/ecn/{file}")),
        };
        let fact = match (own, &debug) {
            (Fact::Absent, Some(debug)) => tree.fact(format!("{debug}/{debug_file}")),
            (own, _) => own,
        };
        facts.insert(name.to_string(), fact);
    }
    facts
}

/// Priorities whose file in a folder is not zero.
fn enabled(tree: &Tree, folder: &str) -> Fact {
    let is_priority = |name: &str| matches!(name.as_bytes(), [b'0'..=b'7']);
    let names = match tree.names(folder, is_priority) {
        Ok(names) if names.is_empty() => return Fact::Absent,
        Ok(names) => names,
        Err(fact) => return fact,
    };
    let mut on = Vec::new();
    for name in names {
        match tree.fact(format!("{folder}/{name}")) {
            Fact::Value(value) if value == "0" => {}
            Fact::Value(value) if value == "1" => on.extend(name.parse::<u8>().ok()),
            Fact::Value(value) => return super::read::unreadable(&format!("priority {name} is `{value}`")),
            Fact::Absent => return super::read::unreadable(&format!("priority {name} has no value")),
            fact => return fact,
        }
    }
    Fact::Value(priorities::list(&on))
}

fn of_driver(name: &str, dcb: &Result<Dcb, Unavailable>) -> Fact {
    let dcb = match dcb {
        Ok(dcb) => dcb,
        Err(missing) => return missing.clone().into(),
    };
    let text = match name {
        "pfc" => dcb.pfc.as_deref().map(priorities::list),
        "pfc-delay" => dcb.pfc_delay.map(|delay| delay.to_string()),
        "priority-classes" => dcb.class_of.as_ref().map(|classes| priorities::numbers(classes)),
        "class-scheduling" => dcb.scheduling.as_ref().map(|ways| {
            let ways: Vec<String> = ways.iter().map(|way| scheduling(*way)).collect();
            ways.join(" ")
        }),
        "dscp-map" => dcb.dscp_map.as_deref().map(priorities::map),
        "trust" => dcb.trust.as_ref().map(|trust| match trust.is_empty() {
            true => "port".to_string(),
            false => trust.join(" "),
        }),
        "buffers" => dcb.buffers.as_ref().map(|(of, sizes)| {
            let used = (0u8..).zip(sizes).filter(|(_, size)| **size > 0);
            let used: Vec<String> = used.map(|(buffer, size)| format!("{buffer}:{size}")).collect();
            format!("{} of priorities {}", used.join(" "), priorities::numbers(of))
        }),
        _ => None,
    };
    text.map_or(Fact::Absent, Fact::Value)
}

fn scheduling(way: Scheduling) -> String {
    match way {
        Scheduling::Strict => "strict".to_string(),
        Scheduling::Share(percent) => format!("{percent}%"),
        Scheduling::CreditBased => "credit-based".to_string(),
        Scheduling::Vendor => "vendor".to_string(),
        Scheduling::Other(number) => format!("way-{number}"),
    }
}

/// The type of service that RDMA's connection manager gives a port's connections, where somebody set it.
pub(super) fn of_port(tree: &Tree, device: &str, number: &str) -> [(&'static str, Fact); 2] {
    let tos = tree.fact(format!(
        "sys/kernel/config/rdma_cm/{device}/ports/{number}/default_roce_tos"
    ));
    let class = tree.bytes(
        format!("sys/class/infiniband/{device}/tc/{number}/traffic_class"),
        LONGEST_CLASS,
    );
    let class = class.map_or_else(|fact| fact, |bytes| class_in_words(&bytes));
    [("roce-tos", tos), ("traffic-class", class)]
}

/// `Global tclass=106`, and the rules of single addresses behind it, as one line. A file with nothing in it says that none is set.
fn class_in_words(bytes: &[u8]) -> Fact {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return super::read::unreadable("it is not text");
    };
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    Fact::Value(match lines.is_empty() {
        true => "not set".to_string(),
        false => lines.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOLDER: &str = "sys/class/net/eth0";
    const MLX5: (Option<&str>, Option<&str>) = (Some("mlx5_core"), Some("0000:17:00.0"));

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::open(folder.path());
        (folder, tree)
    }

    fn unknown() -> Result<Dcb, Unavailable> {
        Err(Unavailable::Absent)
    }

    #[test]
    fn parameters_are_told_alike_whichever_driver_shows_them() {
        let ofed = [
            ("sys/class/net/eth0/ecn/roce_np/cnp_dscp", "48\n"),
            ("sys/class/net/eth0/ecn/roce_rp/rpg_ai_rate", "5\n"),
            ("sys/class/net/eth0/qos/trust", "dscp\n"),
        ];
        let inbox = [
            ("sys/kernel/debug/mlx5/0000:17:00.0/cc_params/np_cnp_dscp", "48\n"),
            ("sys/kernel/debug/mlx5/0000:17:00.0/cc_params/rp_ai_rate", "5\n"),
        ];
        for files in [&ofed[..], &inbox[..]] {
            let (_folder, tree) = tree(files);
            let facts = of_interface(&tree, FOLDER, MLX5, &unknown());
            assert_eq!(facts["cnp-dscp"].value(), Some("48"));
            assert_eq!(facts["rp-ai-rate"].value(), Some("5"));
            assert_eq!(facts["rp-gd"], Fact::Absent);
            assert_eq!(facts["pfc"], Fact::Absent);
        }
        let (_folder, tree) = tree(&ofed);
        let facts = of_interface(&tree, FOLDER, MLX5, &unknown());
        assert_eq!(facts["trust"].value(), Some("dscp"));
        // Another card at that place on the bus has files of its own, which are not these.
        let other = of_interface(&tree, "sys/class/net/eth1", (Some("bnxt_en"), MLX5.1), &unknown());
        assert!(other.values().all(|fact| *fact == Fact::Absent), "{other:?}");
    }

    #[test]
    fn one_priority_without_ecn_is_told_and_none_at_all_is_off() {
        let enable = |of: &str, priority: u8| format!("sys/class/net/eth0/ecn/{of}/enable/{priority}");
        let files: Vec<(String, &str)> = (0..8)
            .flat_map(|priority| {
                let np = if priority == 5 { "0" } else { "1" };
                [
                    (enable("roce_np", priority), np),
                    (enable("roce_rp", priority), "0"),
                ]
            })
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (_folder, one) = tree(&files);
        let facts = of_interface(&one, FOLDER, MLX5, &unknown());
        assert_eq!(facts["ecn-np"].value(), Some("0 1 2 3 4 6 7"));
        assert_eq!(facts["ecn-rp"].value(), Some("off"));
        let (_folder, torn) = tree(&[(&enable("roce_np", 0), "1"), (&enable("roce_np", 1), "\u{1b}")]);
        let facts = of_interface(&torn, FOLDER, MLX5, &unknown());
        assert!(matches!(facts["ecn-np"], Fact::Unreadable { .. }), "{facts:?}");
    }

    #[test]
    fn an_empty_answer_is_no_priority_and_a_missing_one_is_not_known() {
        let answered = |dcb: Dcb| {
            let (_folder, tree) = tree(&[]);
            of_interface(&tree, FOLDER, MLX5, &Ok(dcb))
        };
        let off = answered(Dcb {
            pfc: Some(Vec::new()),
            dscp_map: Some((0..64).map(|dscp| (dscp, dscp / 8)).collect()),
            trust: Some(Vec::new()),
            buffers: Some(([0, 0, 0, 1, 0, 0, 0, 0], [20_016, 156_096, 0, 0, 0, 0, 0, 0])),
            ..Dcb::default()
        });
        assert_eq!(off["pfc"].value(), Some("off"));
        assert_eq!(off["trust"].value(), Some("port"));
        assert_eq!(
            off["dscp-map"].value(),
            Some("0-7:0 8-15:1 16-23:2 24-31:3 32-39:4 40-47:5 48-55:6 56-63:7")
        );
        assert_eq!(
            off["buffers"].value(),
            Some("0:20016 1:156096 of priorities 0 0 0 1 0 0 0 0")
        );
        assert_eq!(off["priority-classes"], Fact::Absent);
        assert_eq!(answered(Dcb::default())["pfc"], Fact::Absent);
        let why = Unavailable::Unreadable {
            why: "it was not recorded".to_string(),
            needs: None,
        };
        let (_folder, tree) = tree(&[]);
        let facts = of_interface(&tree, FOLDER, MLX5, &Err(why));
        assert!(matches!(facts["pfc"], Fact::Unreadable { .. }));
    }

    #[test]
    fn the_class_of_rdma_packets_is_one_line_whoever_set_it() {
        let (_folder, set) = tree(&[
            (
                "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
                "106\n",
            ),
            (
                "sys/class/infiniband/mlx5_0/tc/1/traffic_class",
                "Global tclass=106\nsrc_ip=10.0.0.1,tclass=96\n",
            ),
        ]);
        let facts = of_port(&set, "mlx5_0", "1");
        assert_eq!(facts[0].1.value(), Some("106"));
        assert_eq!(
            facts[1].1.value(),
            Some("Global tclass=106, src_ip=10.0.0.1,tclass=96")
        );
        let (_folder, unset) = tree(&[("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "")]);
        let [(_, tos), (_, class)] = of_port(&unset, "mlx5_0", "1");
        assert_eq!((tos, class.value()), (Fact::Absent, Some("not set")));
    }

    proptest! {
        #[test]
        fn no_text_in_a_file_makes_a_reader_fail(text in "\\PC{0,40}", priority in 0u8..8) {
            let enable = format!("sys/class/net/eth0/ecn/roce_np/enable/{priority}");
            let (_folder, tree) = tree(&[
                (&enable, &text),
                ("sys/class/net/eth0/ecn/roce_np/cnp_dscp", &text),
                ("sys/class/infiniband/mlx5_0/tc/1/traffic_class", &text),
            ]);
            let facts = of_interface(&tree, FOLDER, MLX5, &unknown());
            let is_on = text.trim() == "1";
            prop_assert_eq!(facts["ecn-np"].value() == Some(priority.to_string().as_str()), is_on);
            of_port(&tree, "mlx5_0", "1");
        }
    }
}
