//! What must agree: the list of rules by which parts are compared with parts like them.

use record::{InventoryPart, PartClass};

/// Which parts of a kind are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of them, wherever they are.
    Fleet,
    /// Those of the same name: the same slot of every host.
    Slot,
    /// Those of one host, where no other host has a part of the same name that it could be compared with.
    Node,
}

/// Parts that are alike, and what they must have in common.
#[derive(Debug)]
pub struct DriftRule {
    /// Name, for reports.
    pub name: &'static str,
    /// What it is about.
    pub class: PartClass,
    /// Parts with the same values of these facts are alike; a part whose value is not known is compared with none.
    pub alike: &'static [&'static str],
    /// These must be the same too, where they are known.
    pub alike_if_known: &'static [&'static str],
    /// Which of them are compared.
    pub scope: Scope,
    /// Facts that must agree among them.
    pub agree: &'static [&'static str],
    /// Why they must.
    pub because: &'static str,
    /// What to do about one that does not.
    pub advice: &'static str,
}

/// What an interface does about congestion, and must do like the others.
pub(in crate::findings) const CONGESTION_OF_INTERFACE: &[&str] = &[
    "pfc",
    "pfc-prevention",
    "trust",
    "dscp-map",
    "priority-classes",
    "class-scheduling",
    "ecn-np",
    "ecn-rp",
    "cnp-dscp",
    "cnp-priority",
    "cnp-priority-mode",
    "cnp-interval",
    "rp-clamp-target-rate",
    "rp-clamp-target-rate-after-time",
    "rp-time-reset",
    "rp-byte-reset",
    "rp-threshold",
    "rp-ai-rate",
    "rp-max-rate",
    "rp-hai-rate",
    "rp-min-decrease",
    "rp-min-rate",
    "rp-first-cnp-rate",
    "rp-dce-tcp-g",
    "rp-dce-tcp-rtt",
    "rp-decrease-period",
    "rp-initial-alpha",
    "rp-gd",
];

/// The class that RDMA marks its packets with.
pub(in crate::findings) const CONGESTION_OF_PORT: &[&str] = &["roce-tos", "traffic-class"];

/// The same of TCP.
pub(in crate::findings) const CONGESTION_OF_HOST: &[&str] = &["tcp-congestion-control", "tcp-ecn"];

/// What a switch does about congestion.
pub(in crate::findings) const CONGESTION_OF_SWITCH: &[&str] =
    &["pfc", "pfc-watchdog", "trust", "dscp-map", "ecn", "roce-mode"];

/// Every rule there is. A new one is a line here, and a test in which it fires and one in which it must not.
pub const RULES: &[DriftRule] = &[
    DriftRule {
        name: "nic-firmware",
        class: PartClass::Nic,
        alike: &["board"],
        alike_if_known: &["type"],
        scope: Scope::Fleet,
        agree: &["firmware"],
        because: "NICs of one board id run one firmware across a fleet: its congestion \
                  control and defaults change with it",
        advice: "bring its firmware to the fleet's, or hold the node back until that is done",
    },
    DriftRule {
        name: "nic-driver",
        class: PartClass::Nic,
        alike: &["board"],
        alike_if_known: &["type"],
        scope: Scope::Fleet,
        agree: &["driver", "driver-version"],
        because: "one driver serves all NICs of a kind",
        advice: "install the fleet's driver",
    },
    DriftRule {
        name: "port",
        class: PartClass::Port,
        alike: &["link-layer"],
        alike_if_known: &[],
        scope: Scope::Slot,
        agree: &["physical-state", "width", "rate", "mtu"],
        because: "the same port of every node is cabled alike",
        advice: "look at its cable and the switch port behind it: a lane or the whole link may be down",
    },
    DriftRule {
        name: "port-of-node",
        class: PartClass::Port,
        alike: &["link-layer"],
        alike_if_known: &[],
        scope: Scope::Node,
        agree: &["physical-state", "width", "rate"],
        because: "the ports of one node are cabled alike",
        advice: "look at its cable and the switch port behind it: a lane or the whole link may be down",
    },
    DriftRule {
        name: "interface",
        class: PartClass::Interface,
        alike: &["driver"],
        alike_if_known: &[],
        scope: Scope::Slot,
        agree: &[
            "mtu",
            "speed",
            "duplex",
            "bond-mode",
            "fec",
            "pause",
            "rx-ring",
            "tx-ring",
        ],
        because: "the same interface of every node is set up alike",
        advice: "bring its settings to the fleet's",
    },
    DriftRule {
        name: "interface-congestion",
        class: PartClass::Interface,
        alike: &["driver"],
        alike_if_known: &[],
        scope: Scope::Slot,
        agree: CONGESTION_OF_INTERFACE,
        because: "loss prevention and congestion control work only where all ends of a fabric are set up alike: one that pauses, marks or backs off in \
                  another way loses packets, or takes what is not its own",
        advice: "bring its PFC, trust, DSCP map, ECN and DCQCN settings to the fleet's, and look whether something sets them at boot",
    },
    DriftRule {
        name: "port-congestion",
        class: PartClass::Port,
        alike: &["link-layer"],
        alike_if_known: &[],
        scope: Scope::Slot,
        agree: CONGESTION_OF_PORT,
        because: "packets of another class are neither paused nor marked like those of the rest of the job",
        advice: "set the fleet's traffic class, and look whether something sets it at boot",
    },
    DriftRule {
        name: "pci",
        class: PartClass::Pci,
        alike: &["vendor", "device"],
        alike_if_known: &["subsystem"],
        scope: Scope::Fleet,
        agree: &["speed", "width", "max-read-request", "relaxed-ordering", "acs"],
        because: "devices of a kind sit in slots of a kind",
        advice: "reseat the card, and compare the slot's settings in the firmware setup",
    },
    DriftRule {
        name: "gpu",
        class: PartClass::Gpu,
        alike: &["name"],
        alike_if_known: &["part-number"],
        scope: Scope::Fleet,
        agree: &[
            "driver",
            "vbios",
            "inforom",
            "gsp-firmware",
            "ecc",
            "nvlinks",
            "fabric-state",
        ],
        because: "GPUs of one part number run one VBIOS and one driver, with all their links",
        advice: "bring it to the fleet's version and settings",
    },
    DriftRule {
        name: "host",
        class: PartClass::Host,
        alike: &["product"],
        alike_if_known: &[],
        scope: Scope::Fleet,
        agree: &["bios", "bmc", "kernel", "os", "iommu", "container"],
        because: "machines of one model run one image",
        advice: "reinstall or update it to the fleet's image",
    },
    DriftRule {
        name: "host-cards",
        class: PartClass::Host,
        alike: &["product"],
        alike_if_known: &[],
        scope: Scope::Fleet,
        agree: &["nics"],
        because: "machines of one model hold the same cards",
        advice: "look for the card that is not detected: in the kernel's log, in the firmware setup; \
                 reseat or replace it",
    },
    DriftRule {
        name: "software",
        class: PartClass::Host,
        alike: &[],
        alike_if_known: &[],
        scope: Scope::Fleet,
        agree: &["ofed", "nvidia-driver", "peer-memory", "nccl", "cuda-runtime"],
        because: "ranks of one job must speak the same versions",
        advice: "install the fleet's version",
    },
    DriftRule {
        name: "tcp",
        class: PartClass::Host,
        alike: &[],
        alike_if_known: &[],
        scope: Scope::Fleet,
        agree: CONGESTION_OF_HOST,
        because: "senders with another congestion control share a path unfairly",
        advice: "set the fleet's congestion control (`sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_ecn`)",
    },
    DriftRule {
        name: "switch-congestion",
        class: PartClass::Switch,
        alike: &["type"],
        alike_if_known: &["tier"],
        scope: Scope::Fleet,
        agree: CONGESTION_OF_SWITCH,
        because: "a class is lossless, and marks come before pauses, only where every switch on the way treats it alike",
        advice: "bring its PFC, DSCP map and marking to those of its tier",
    },
    DriftRule {
        name: "switch",
        class: PartClass::Switch,
        alike: &["type"],
        alike_if_known: &["tier"],
        scope: Scope::Fleet,
        agree: &["firmware", "os"],
        because: "switches of one tier forward alike only with one firmware",
        advice: "upgrade it in a maintenance window",
    },
    DriftRule {
        name: "module",
        class: PartClass::Module,
        alike: &["vendor", "part-number"],
        alike_if_known: &[],
        scope: Scope::Fleet,
        agree: &["firmware"],
        because: "optics of one part number run one firmware",
        advice: "update the module, or swap it",
    },
];

/// Vendors whose GPUs lower the speed of their PCI link while idle: its current speed says nothing.
const SLEEPERS: [&str; 2] = ["0x10de", "0x1002"];

/// Whether a value says nothing about the part, because it depends on what the part is doing: an idle GPU, a port
/// without a link.
pub(super) fn is_momentary(part: &InventoryPart, fact: &str) -> bool {
    match (part.class, fact) {
        (PartClass::Pci, "speed") => part
            .value("vendor")
            .is_some_and(|vendor| SLEEPERS.contains(&vendor)),
        (PartClass::Port, "rate" | "speed" | "width" | "mtu") => part
            .value("physical-state")
            .is_some_and(|state| state != "LinkUp"),
        _ => false,
    }
}

/// Facts that follow from another one of the same part: where that deviates, they are not reported as well.
const FOLLOWS: &[(PartClass, &str, &str)] = &[(PartClass::Port, "rate", "width")];

/// The fact that another one follows from.
pub(super) fn follows_from(class: PartClass, fact: &str) -> Option<&'static str> {
    let mut known = FOLLOWS
        .iter()
        .filter(|(of, which, _)| *of == class && *which == fact);
    known.next().map(|(_, _, from)| *from)
}
