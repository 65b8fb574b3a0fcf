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
