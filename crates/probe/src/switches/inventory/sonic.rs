//! SONiC: `show version`, `config_db.json`, and dumps of its databases, as JSON of one switch.
//!
//! A database is printed either as tables with their entries inside (`{"PORT": {"Ethernet0": {...}}}`, as in `config_db.json`) or with
//! table and entry in one key (`{"PORT|Ethernet0": {"value": {...}}}`, as `sonic-db-dump -y` prints it).

use serde_json::{Map, Value};

use super::fields::{SwitchHint, first, nameless, text};
use super::parsed::{ParsedInventory, cable, end, module_part, port_part, put, speed, switch_part};
use super::sonic_qos;
use record::InventoryPart;

const METADATA: &str = "DEVICE_METADATA";
const PORT: &str = "PORT";
const PORT_STATE: &str = "PORT_TABLE";
const MODULE: &str = "TRANSCEIVER_INFO";
const MODULE_FIRMWARE: &str = "TRANSCEIVER_FIRMWARE_INFO";
const NEIGHBOUR: &str = "LLDP_ENTRY_TABLE";
const TABLES: &[&str] = &[METADATA, PORT, PORT_STATE, MODULE, MODULE_FIRMWARE, NEIGHBOUR];
/// Fields that only `show version` has.
const VERSION: &[&str] = &["sonic_software_version", "build_version"];
/// The subtype of a port id that is an address: then the description has the name.
const BY_ADDRESS: &str = "3";

/// Facts of a switch and the fields that tell them.
const SWITCH_FACTS: &[(&str, &[&str])] = &[
    ("os", &["sonic_software_version", "build_version"]),
    ("type", &["hwsku"]),
    ("platform", &["platform"]),
    ("serial", &["serial_number"]),
    ("part-number", &["model_number"]),
    ("revision", &["hardware_revision"]),
    ("kernel", &["kernel", "kernel_version"]),
    ("firmware", &["asic_firmware", "firmware_version"]),
    ("hostname", &["hostname"]),
];

/// Facts of what is plugged in; names changed over releases.
const MODULE_FACTS: &[(&str, &[&str])] = &[
    ("vendor", &["manufacturer", "manufacturename"]),
    ("part-number", &["model", "modelname"]),
    ("serial", &["serial", "serialnum"]),
    ("revision", &["vendor_rev", "hardware_rev", "hardwarerev"]),
    ("firmware", &["active_firmware"]),
    ("kind", &["type_abbrv_name", "type"]),
    ("length", &["cable_length"]),
    ("date-code", &["vendor_date"]),
];

/// An entry of a table.
pub(super) struct Entry<'v> {
    pub(super) table: &'static str,
    pub(super) key: &'v str,
    pub(super) fields: &'v Map<String, Value>,
}

/// What one switch tells; none when it is not SONiC's.
pub(super) fn read(
    object: &Map<String, Value>,
    about: SwitchHint<'_>,
) -> Option<Result<ParsedInventory, String>> {
    let entries: Vec<Entry<'_>> = object
        .iter()
        .flat_map(|(key, value)| entries_of(key, value))
        .collect();
    let version = VERSION
        .iter()
        .any(|field| object.contains_key(*field))
        .then_some(object);
    if entries.is_empty() && version.is_none() {
        return None;
    }
    let metadata = entries
        .iter()
        .filter(|entry| entry.table == METADATA)
        .map(|entry| entry.fields);
    let facts: Vec<&Map<String, Value>> = version.into_iter().chain(metadata).collect();
    let own = facts.iter().find_map(|fields| fields.get("hostname")?.as_str());
    let Some(name) = about.name(own) else {
        return Some(Err(nameless()));
    };
    let mut parsed = ParsedInventory::default();
    for fields in facts {
        let mut part = switch_part(name);
        add(&mut part, SWITCH_FACTS, fields);
        parsed.part(name, part);
    }
    for entry in &entries {
        add_entry(&mut parsed, name, entry);
    }
    sonic_qos::add(&mut parsed, name, &entries);
    Some(Ok(parsed))
}

fn add_entry(parsed: &mut ParsedInventory, switch: &str, entry: &Entry<'_>) {
    let fields = entry.fields;
    match entry.table {
        // The table also has status entries without a port: `PORT_TABLE:PortInitDone`.
        PORT | PORT_STATE if fields.contains_key("speed") || fields.contains_key("lanes") => {
            let mut part = port_part(entry.key);
            let megabits = text(fields, "speed").map(|said| speed(&said));
            put(&mut part, "speed", megabits.as_deref());
            let state = text(fields, "oper_status");
            put(&mut part, "state", state.as_deref());
            for (fact, field) in [
                ("mtu", "mtu"),
                ("fec", "fec"),
                ("autonegotiation", "autoneg"),
                ("alias", "alias"),
            ] {
                put(&mut part, fact, text(fields, field).as_deref());
            }
            parsed.part(switch, part);
        }
        MODULE | MODULE_FIRMWARE => {
            let mut part = module_part(entry.key);
            add(&mut part, MODULE_FACTS, fields);
            parsed.part(switch, part);
        }
        NEIGHBOUR => {
            let by_address = text(fields, "lldp_rem_port_id_subtype").as_deref() == Some(BY_ADDRESS);
            let names = match by_address {
                true => ["lldp_rem_port_desc", "lldp_rem_port_id"],
                false => ["lldp_rem_port_id", "lldp_rem_port_desc"],
            };
            let filled = |name: &&str| text(fields, name).filter(|text| !text.trim().is_empty());
            let port = names.iter().find_map(filled);
            let other = ["lldp_rem_sys_name", "lldp_rem_chassis_id"]
                .iter()
                .find_map(filled);
            if let (Some(other), Some(port)) = (other, port) {
                parsed
                    .cables
                    .push(cable([end(switch, entry.key), end(&other, &port)]));
            }
        }
        _ => {}
    }
}

fn add(part: &mut InventoryPart, facts: &[(&str, &[&str])], fields: &Map<String, Value>) {
    for (fact, names) in facts {
        put(part, fact, first(fields, names).as_deref());
    }
}

/// The entries under one key of a database.
fn entries_of<'v>(key: &'v str, value: &'v Value) -> Vec<Entry<'v>> {
    let fields = |value: &'v Value| value.get("value").unwrap_or(value).as_object();
    let mut tables = TABLES.iter().chain(&sonic_qos::TABLES);
    if let Some(table) = tables.clone().find(|table| **table == key) {
        let entries = value.as_object().into_iter().flatten();
        let entry = |(key, value): (&'v String, &'v Value)| {
            let fields = fields(value)?;
            Some(Entry { table, key, fields })
        };
        return entries.filter_map(entry).collect();
    }
    let Some((name, entry)) = key.split_once(['|', ':']) else {
        return Vec::new();
    };
    let table = tables.find(|table| **table == name);
    let entry = table.and_then(|table| {
        let fields = fields(value)?;
        Some(Entry {
            table,
            key: entry,
            fields,
        })
    });
    entry.into_iter().collect()
}
