//! How long it takes to judge the inventory of 1,024 nodes: like parts, golden file, both ends of cables, what changed.
//!
//! `cargo bench --bench drift`. Each node has 8 NICs, 8 ports, 8 interfaces, 8 transceivers, 8 GPUs and 16 PCI devices with the facts
//! that collectors read; every 100th node drifts in something. The aim is 2 s; the last line says whether it is met.

use std::time::Instant;

use judge::findings::drift;
use record::{Cable, Fact, Inventory, InventoryPart, NodeInventory, PartAt, PartClass, SCHEMA};
use topology::suite::Golden;

const NODES: usize = 1024;
const SECONDS: f64 = 2.0;
const GOLDEN: &str = include_str!("../suites/golden/h100-connectx7.example.toml");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let inventory = fleet("28.43.2026");
    let before = fleet("28.42.1000");
    let text = serde_json::to_string(&inventory)?;
    let parts: usize = inventory.nodes.iter().map(|node| node.parts.len()).sum();
    println!(
        "{NODES} nodes, {parts} parts, {} MB of inventory.json",
        text.len() / 1_000_000
    );
    let golden = Golden::parse(GOLDEN, "golden.toml")?;

    let start = Instant::now();
    let read = Inventory::from_json(text.as_bytes())?;
    println!("read               {:.3} s", start.elapsed().as_secs_f64());

    let alone = timed("judged             ", || drift::judge(&read, None, None));
    let took = timed("with golden, since ", || {
        drift::judge(&read, Some(&golden), Some(&before))
    });
    let is_met = alone.max(took) < SECONDS;
    println!(
        "{}: {:.3} s of {SECONDS} s",
        if is_met { "OK" } else { "MISSED" },
        alone.max(took)
    );
    Ok(())
}

fn timed(what: &str, judge: impl Fn() -> record::Drift) -> f64 {
    let start = Instant::now();
    let drift = judge();
    let findings = drift::findings(&drift);
    let took = start.elapsed().as_secs_f64();
    println!(
        "{what}{took:.3} s: {} deviations, {} disagreements, {} changes, {} findings",
        drift.deviations.len(),
        drift.disagreements.len(),
        drift.changes.len(),
        findings.len()
    );
    took
}

fn part(class: PartClass, name: String, facts: &[(&str, &str)]) -> InventoryPart {
    facts
        .iter()
        .fold(InventoryPart::new(class, name), |part, (name, value)| {
            part.with(name, Fact::Value(value.to_string()))
        })
}

fn fleet(firmware: &str) -> Inventory {
    let mut cables = Vec::new();
    for node in 0..NODES {
        for rail in 0..8 {
            let at = |node: String, part: String| PartAt { node, part };
            cables.push(Cable {
                name: format!("node{node:04}-rail{rail}"),
                ends: [
                    at(format!("node{node:04}"), format!("mlx5_{rail}/1")),
                    at(format!("leaf{}", node / 32), format!("p{}", node % 32 * 8 + rail)),
                ],
                facts: Default::default(),
            });
        }
    }
    let port = [("rate", "400 Gb/sec"), ("width", "4X NDR"), ("mtu", "4096")];
    let switches = (0..NODES / 32).map(|leaf| {
        let name = format!("leaf{leaf}");
        let facts = [
            ("type", "MQM9700"),
            ("firmware", "31.2012.1024"),
            ("tier", "leaf"),
        ];
        let mut parts = vec![part(PartClass::Switch, name.clone(), &facts)];
        parts.extend((0..256).map(|number| part(PartClass::Port, format!("p{number}"), &port)));
        NodeInventory { node: name, parts }
    });
    Inventory {
        schema: SCHEMA,
        version: "0.1.0".into(),
        taken: "2026-11-15T00:00:00Z".into(),
        nodes: (0..NODES).map(|number| node(number, firmware)).collect(),
        switches: switches.collect(),
        cables,
        troubles: Vec::new(),
    }
}

fn node(number: usize, firmware: &str) -> NodeInventory {
    let drifts = number % 100 == 7;
    let name = format!("node{number:04}");
    let host = [
        ("product", "DGXH100"),
        ("bios", "1.05.03"),
        ("bmc", "23.11.09"),
        (
            "kernel",
            if drifts {
                "5.15.0-1053-nvidia"
            } else {
                "5.15.0-1060-nvidia"
            },
        ),
        ("os", "Ubuntu 22.04.4 LTS"),
        ("ofed", "MLNX_OFED_LINUX-24.10-0.7.0.0"),
        ("nvidia-driver", "580.65.06"),
        ("peer-memory", "580.65.06"),
        ("nccl", "2.28.9"),
        ("iommu", "identity"),
        ("container", "none"),
        ("command-line", "BOOT_IMAGE=/vmlinuz root=/dev/md0 ro"),
    ];
    let mut parts = vec![part(PartClass::Host, name.clone(), &host)];
    for rail in 0..8 {
        let guid = format!("0c42:a103:{number:04x}:{rail:04x}");
        let slot = format!("0000:{:02x}:00.0", 16 * rail + 7);
        let firmware = if drifts && rail == 3 {
            "28.39.1002"
        } else {
            firmware
        };
        parts.push(part(
            PartClass::Nic,
            format!("mlx5_{rail}"),
            &[
                ("board", "MT_0000000838"),
                ("type", "MT4129"),
                ("firmware", firmware),
                ("guid", &guid),
                ("driver", "mlx5_core"),
                ("driver-version", "24.10-0.7.0"),
                ("pci", &slot),
                ("description", &name),
                ("serial", &guid),
            ],
        ));
        parts.push(part(
            PartClass::Port,
            format!("mlx5_{rail}/1"),
            &[
                ("state", "ACTIVE"),
                ("physical-state", "LinkUp"),
                ("rate", "400 Gb/sec"),
                ("width", if drifts && rail == 5 { "2X NDR" } else { "4X NDR" }),
                ("mtu", "4096"),
                ("link-layer", "InfiniBand"),
                ("lid", &guid[10..14]),
                ("interface", &format!("ib{rail}")),
            ],
        ));
        parts.push(part(
            PartClass::Interface,
            format!("ib{rail}"),
            &[
                ("state", "up"),
                ("mtu", "4092"),
                ("driver", "ib_ipoib"),
                ("speed", "400000"),
                ("duplex", "full"),
                ("rx-ring", "512"),
                ("tx-ring", "512"),
                ("pause", "off"),
            ],
        ));
        parts.push(part(
            PartClass::Module,
            format!("ib{rail}"),
            &[
                ("vendor", "NVIDIA"),
                ("part-number", "MMA4Z00-NS400"),
                ("serial", &guid),
                ("firmware", "46.120.0129"),
            ],
        ));
        parts.push(part(
            PartClass::Gpu,
            format!("gpu{rail}"),
            &[
                ("name", "NVIDIA H100 80GB HBM3"),
                ("part-number", "2330-885-A1"),
                ("uuid", &guid),
                ("driver", "580.65.06"),
                ("vbios", "96.00.89.00.01"),
                ("inforom", "G520.0200.00.05"),
                ("gsp-firmware", "580.65.06"),
                ("ecc", "on"),
                ("nvlinks", "18 of 18 up"),
            ],
        ));
        for (kind, vendor, device) in [(7, "0x15b3", "0x1021"), (11, "0x10de", "0x2330")] {
            parts.push(part(
                PartClass::Pci,
                format!("0000:{:02x}:00.0", 16 * rail + kind),
                &[
                    ("vendor", vendor),
                    ("device", device),
                    ("subsystem", "0x0041"),
                    ("speed", "32.0 GT/s PCIe"),
                    ("speed-capable", "32.0 GT/s PCIe"),
                    ("width", "16"),
                    ("width-capable", "16"),
                    ("max-read-request", "4096"),
                    ("relaxed-ordering", "on"),
                ],
            ));
        }
    }
    NodeInventory { node: name, parts }
}
