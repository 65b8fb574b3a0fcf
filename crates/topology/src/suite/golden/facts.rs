//! The facts that a golden file may use: those that select parts, and those that it may require a value of.

use record::PartClass;

/// The facts of one class of parts.
pub(super) struct ClassFacts {
    pub(super) class: PartClass,
    /// As it is written in the file: `[[nic]]`.
    pub(super) title: &'static str,
    /// Facts that select parts.
    pub(super) selects: &'static [&'static str],
    /// Facts that may have a required value.
    pub(super) wants: &'static [&'static str],
}

/// Every class a golden file may use.
pub(super) const KNOWN: &[ClassFacts] = &[
    ClassFacts {
        class: PartClass::Host,
        title: "[[host]]",
        selects: &["product", "vendor", "board"],
        wants: &[
            "bios",
            "bios-date",
            "bios-vendor",
            "bmc",
            "board-version",
            "kernel",
            "command-line",
            "os",
            "ofed",
            "mlx5-driver",
            "mlx5-provider",
            "nvidia-driver",
            "peer-memory",
            "nccl",
            "cuda-runtime",
            "cuda",
            "ibverbs",
            "container",
            "iommu",
            "nics",
            "interfaces",
            "pci-devices",
        ],
    },
    ClassFacts {
        class: PartClass::Nic,
        title: "[[nic]]",
        selects: &["board", "type", "part-number"],
        wants: &[
            "firmware",
            "firmware-stored",
            "revision",
            "driver",
            "driver-version",
            "ports",
        ],
    },
    ClassFacts {
        class: PartClass::Port,
        title: "[[port]]",
        selects: &["link-layer", "interface"],
        wants: &["state", "physical-state", "rate", "speed", "width", "mtu", "fec"],
    },
    ClassFacts {
        class: PartClass::Interface,
        title: "[[interface]]",
        selects: &["driver"],
        wants: &[
            "state",
            "mtu",
            "duplex",
            "speed",
            "driver-version",
            "firmware",
            "bond-mode",
            "bond-members",
            "fec",
            "pause",
            "rx-ring",
            "tx-ring",
            "autonegotiation",
            "lanes",
            "port-type",
        ],
    },
    ClassFacts {
        class: PartClass::Module,
        title: "[[module]]",
        selects: &["vendor", "part-number", "kind"],
        wants: &["firmware", "revision", "length", "medium"],
    },
    ClassFacts {
        class: PartClass::Gpu,
        title: "[[gpu]]",
        selects: &["name", "part-number"],
        wants: &[
            "driver",
            "vbios",
            "inforom",
            "gsp-firmware",
            "ecc",
            "nvlinks",
            "fabric-state",
            "persistence",
            "cuda",
        ],
    },
    ClassFacts {
        class: PartClass::Pci,
        title: "[[pci]]",
        selects: &["vendor", "device", "subsystem"],
        wants: &[
            "speed",
            "width",
            "max-payload",
            "max-read-request",
            "relaxed-ordering",
            "acs",
            "numa-node",
            "driver",
        ],
    },
    ClassFacts {
        class: PartClass::Switch,
        title: "[[switch]]",
        selects: &["type", "tier", "part-number"],
        wants: &["firmware", "os"],
    },
];

/// Keys that select parts by name instead of by a fact; `*` stands for anything.
pub(super) const BY_NAME: [&str; 2] = ["node", "part"];
/// Keys that give the reason.
pub(super) const WHY: [&str; 2] = ["because", "source"];
