//! `ibdiagnet2.db_csv`: the whole InfiniBand subnet in one file of many tables.
//!
//! | table | contains |
//! |---|---|
//! | NODES | which nodes are switches, and their names |
//! | NODES_INFO | firmware and board id |
//! | SYSTEM_GENERAL_INFORMATION | serial and part number of switches |
//! | PORTS | state, rate, width and MTU of their ports |
//! | LINKS | cables |
//! | CABLE_INFO | modules in ports |
//!
//! A missing table is skipped, a truncated one is an error; the others are read. Of adapters only the facts of their cables are
//! kept: their own hosts have better data about the rest.

use std::collections::{BTreeMap, HashMap};

use super::ibswitches::type_in_description;
use super::parsed::{ParsedInventory, cable, fact, module_part, port_part, put, switch_part};
use crate::switches::number;
use crate::switches::tables::{NODES, Node, Row, Table, id_of, nodes_in, table};
use record::{Fact, InventoryPart, PartAt};
use topology::text_error::TextError;

const LINKS: &str = "LINKS";
const PORTS: &str = "PORTS";
const FIRMWARE: &str = "NODES_INFO";
const SYSTEMS: &str = "SYSTEM_GENERAL_INFORMATION";
const CABLES: &str = "CABLE_INFO";

/// Facts of what is plugged in, and the columns that may tell them, the best first.
const MODULE: &[(&str, &[&str])] = &[
    ("vendor", &["Vendor"]),
    ("part-number", &["PN"]),
    ("serial", &["SN"]),
    ("revision", &["Rev"]),
    ("firmware", &["FWVersion", "FW_VERSION", "FW Version"]),
    ("kind", &["TypeDesc", "IdentifierStr", "Identifier"]),
    (
        "length",
        &[
            "LengthDesc",
            "LengthCopperOrActive",
            "LengthSMFiber",
            "LengthOM4",
            "LengthOM3",
        ],
    ),
    ("date-code", &["DateCode"]),
];

/// `LinkSpeedActv`: the bit, the name, Gb/s of a lane.
const SPEEDS: &[(u64, &str, f64)] = &[
    (1, "SDR", 2.5),
    (2, "DDR", 5.0),
    (4, "QDR", 10.0),
    (256, "FDR", 14.0),
    (512, "EDR", 25.0),
    (1024, "HDR", 50.0),
    (2048, "NDR", 100.0),
    (4096, "XDR", 200.0),
    (65_536, "FDR10", 10.0),
];
/// `LinkWidthActv`: the bit, lanes.
const WIDTHS: &[(u64, u32)] = &[(1, 1), (2, 4), (4, 8), (8, 12), (16, 2)];
const STATES: &[(u64, &str)] = &[(1, "DOWN"), (2, "INIT"), (3, "ARMED"), (4, "ACTIVE")];
const PHYSICAL: &[(u64, &str)] = &[
    (1, "Sleep"),
    (2, "Polling"),
    (3, "Disabled"),
    (4, "PortConfigurationTraining"),
    (5, "LinkUp"),
    (6, "LinkErrorRecovery"),
    (7, "Phy Test"),
];
/// `NMTU`: the code, bytes.
const MTUS: &[(u64, &str)] = &[(1, "256"), (2, "512"), (3, "1024"), (4, "2048"), (5, "4096")];

pub(super) fn recognises(text: &str) -> bool {
    let is_start = |line: &str| {
        let name = line.trim_end().strip_prefix("START_");
        name.is_some_and(|name| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
        })
    };
    text.lines().any(is_start)
}

pub(super) fn read(text: &str) -> ParsedInventory {
    let mut reading = Reading::default();
    let Some(nodes) = reading.table(text, NODES) else {
        // Without it switches and adapters cannot be distinguished.
        if reading.parsed.errors.is_empty() {
            reading
                .parsed
                .errors
                .push(TextError::whole_text("table NODES is missing"));
        }
        return reading.parsed;
    };
    reading.run(&nodes, Reading::nodes);
    for (name, step) in [
        (SYSTEMS, Reading::systems as Step),
        (FIRMWARE, Reading::firmware),
        (PORTS, Reading::ports),
        (CABLES, Reading::modules),
        (LINKS, Reading::links),
    ] {
        if let Some(table) = reading.table(text, name) {
            reading.run(&table, step);
        }
    }
    reading.parsed
}

type Step = fn(&mut Reading, &Table<'_>) -> Result<(), TextError>;

#[derive(Default)]
struct Reading {
    parsed: ParsedInventory,
    nodes: HashMap<String, Node>,
    firmware: HashMap<String, String>,
    modules: HashMap<(String, u64), BTreeMap<String, Fact>>,
}

impl Reading {
    fn table<'t>(&mut self, text: &'t str, name: &'static str) -> Option<Table<'t>> {
        match table(text, name) {
            Ok(table) => table,
            Err(error) => {
                self.parsed.errors.push(error);
                None
            }
        }
    }

    fn run(&mut self, table: &Table<'_>, step: Step) {
        self.parsed.errors.extend(table.cut_off());
        if let Err(error) = step(self, table) {
            self.parsed.errors.push(error);
        }
    }

    /// The switch of a row, when it is one's.
    fn switch(&self, id: &str) -> Option<String> {
        match self.nodes.get(id) {
            Some(Node::Switch(name)) => Some(name.clone()),
            Some(Node::Adapter { .. } | Node::Other) | None => None,
        }
    }

    fn nodes(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        self.nodes = nodes_in(table)?;
        let (guid, description) = (table.column("NodeGUID")?, table.column("NodeDesc")?);
        let ports = table.find("NumPorts");
        for row in whole(table) {
            let Some(name) = self.switch(&id_of(row.get(guid))) else {
                continue;
            };
            let mut part = switch_part(&name);
            put(&mut part, "guid", Some(row.get(guid)));
            put(&mut part, "description", Some(row.get(description)));
            put(&mut part, "type", type_in_description(row.get(description)));
            put(&mut part, "ports", ports.map(|ports| row.get(ports)));
            self.parsed.part(&name, part);
        }
        Ok(())
    }

    fn systems(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        let guid = table.column("NodeGUID")?;
        let columns = [
            ("serial", "SerialNumber"),
            ("part-number", "PartNumber"),
            ("revision", "Revision"),
            ("product", "ProductName"),
        ];
        for row in whole(table) {
            let Some(name) = self.switch(&id_of(row.get(guid))) else {
                continue;
            };
            let mut part = switch_part(&name);
            for (fact, column) in columns {
                put(&mut part, fact, table.find(column).map(|column| row.get(column)));
            }
            self.parsed.part(&name, part);
        }
        Ok(())
    }

    fn firmware(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        let guid = table.column("NodeGUID")?;
        let named = |prefix: &str| {
            let column = |name: &str| table.column(&format!("{prefix}{name}"));
            Ok::<_, TextError>([column("Major")?, column("Minor")?, column("SubMinor")?])
        };
        let version = named("FWInfo_Extended_").or_else(|_| named("FWInfo_"))?;
        let board = table.find("FWInfo_PSID");
        for row in whole(table) {
            let id = id_of(row.get(guid));
            let numbers = version.map(|column| number_in(row.get(column)));
            let version = match numbers {
                [Some(major), Some(minor), Some(sub)] => Some(format!("{major}.{minor}.{sub:04}")),
                _ => None,
            };
            if let Some(version) = &version {
                self.firmware.insert(id.clone(), version.clone());
            }
            if let Some(name) = self.switch(&id) {
                let mut part = switch_part(&name);
                put(
                    &mut part,
                    "firmware",
                    Some(version.as_deref().unwrap_or_default()),
                );
                put(&mut part, "board", board.map(|board| row.get(board)));
                self.parsed.part(&name, part);
            }
        }
        Ok(())
    }

    fn ports(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        let (guid, port) = (table.column("NodeGUID")?, table.column("PortNum")?);
        for row in whole(table) {
            let number = number::of_text(row.get(port));
            let (Some(name), Some(number @ 1..)) = (self.switch(&id_of(row.get(guid))), number) else {
                continue;
            };
            let code = |column: &str| number::of_text(row.get(table.find(column)?));
            let mut part = port_part(&format!("p{number}"));
            put(&mut part, "state", word(STATES, code("PortState")));
            put(&mut part, "physical-state", word(PHYSICAL, code("PortPhyState")));
            // Of a port that is down only its state is known.
            if code("PortState") == Some(4) {
                put(&mut part, "mtu", word(MTUS, code("NMTU")));
                add_rate(&mut part, code("LinkSpeedActv"), code("LinkWidthActv"));
            }
            self.parsed.part(&name, part);
        }
        Ok(())
    }

    fn modules(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        let (guid, port) = (table.column("NodeGUID")?, table.column("PortNum")?);
        for row in whole(table) {
            let id = id_of(row.get(guid));
            let Some(number) = number::of_text(row.get(port)) else {
                continue;
            };
            let mut part = module_part(&format!("p{number}"));
            for (name, columns) in MODULE {
                let parsed = columns.iter().filter_map(|column| table.find(column));
                let mut parsed = parsed
                    .map(|column| row.get(column))
                    .filter(|text| !text.is_empty());
                put(&mut part, name, parsed.next());
            }
            let facts = part.facts.iter().filter(|(name, _)| *name != "interface");
            let facts = facts.map(|(name, fact)| (name.clone(), fact.clone())).collect();
            if let Some(name) = self.switch(&id) {
                self.parsed.part(&name, part);
            }
            self.modules.insert((id, number), facts);
        }
        Ok(())
    }

    fn links(&mut self, table: &Table<'_>) -> Result<(), TextError> {
        let columns = ["1", "2"].map(|end| {
            let column = |name: &str| table.column(&format!("{name}{end}"));
            Ok::<_, TextError>((column("NodeGuid")?, column("PortNum")?))
        });
        let [one, other] = columns;
        let columns = [one?, other?];
        for row in whole(table) {
            let ids = columns.map(|(guid, port)| (id_of(row.get(guid)), number::of_text(row.get(port))));
            let [Some(one), Some(other)] = ids.each_ref().map(|(id, port)| self.end(id, (*port)?)) else {
                continue;
            };
            let mut cable = cable([one, other]);
            let modules = ids.each_ref().map(|(id, port)| {
                let key = (id.clone(), port.unwrap_or_default());
                self.modules.get(&key)
            });
            cable.facts = shared(modules);
            let adapters = ids
                .iter()
                .filter(|(id, _)| matches!(self.nodes.get(id), Some(Node::Adapter { .. })));
            for firmware in adapters.filter_map(|(id, _)| self.firmware.get(id)) {
                cable.facts.insert("adapter-firmware".to_string(), fact(firmware));
            }
            self.parsed.cables.push(cable);
        }
        Ok(())
    }

    /// The port of a node; none inside switches and beyond routers.
    fn end(&self, id: &str, port: u64) -> Option<PartAt> {
        let (node, part) = match self.nodes.get(id)? {
            Node::Switch(name) => (name.clone(), format!("p{port}")),
            Node::Adapter { host, adapter } => (host.clone(), format!("{adapter}/{port}")),
            Node::Other => return None,
        };
        Some(PartAt { node, part })
    }
}

/// What both ends of a cable say alike, or only one of them says: two modules with a fibre between have each their own serial.
fn shared(modules: [Option<&BTreeMap<String, Fact>>; 2]) -> BTreeMap<String, Fact> {
    let [one, other] = modules;
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other).cloned().unwrap_or_default();
    };
    let alike = |(name, fact): &(&String, &Fact)| other.get(*name).is_none_or(|there| there == *fact);
    let of_both = one.iter().filter(alike);
    let of_other = other.iter().filter(|(name, _)| !one.contains_key(*name));
    of_both
        .chain(of_other)
        .map(|(name, fact)| (name.clone(), fact.clone()))
        .collect()
}

fn whole<'r, 't>(table: &'r Table<'t>) -> impl Iterator<Item = &'r Row<'t>> {
    table.rows.iter().filter(|row| table.is_whole(row))
}

/// `0x1f`, or `31`. All bits set is how a node says that it has none.
fn number_in(text: &str) -> Option<u64> {
    number::of_text(text).filter(|number| *number < u64::from(u32::MAX))
}

fn word(words: &[(u64, &'static str)], code: Option<u64>) -> Option<&'static str> {
    let found = words.iter().find(|(known, _)| Some(*known) == code);
    found.map(|(_, word)| *word)
}

/// Rate and width as an adapter's own host tells them: `400 Gb/sec`, `4X NDR`.
fn add_rate(part: &mut InventoryPart, speed: Option<u64>, width: Option<u64>) {
    let speed = SPEEDS.iter().find(|(bit, _, _)| Some(*bit) == speed);
    let width = WIDTHS.iter().find(|(bit, _)| Some(*bit) == width);
    if let (Some((_, name, gigabits)), Some((_, lanes))) = (speed, width) {
        let rate = format!("{} Gb/sec", gigabits * f64::from(*lanes));
        put(part, "rate", Some(&rate));
        put(part, "width", Some(&format!("{lanes}X {name}")));
    }
}
