//! Network interfaces, from `/sys/class/net` and from their drivers. No privilege is needed.

use super::super::ethtool::Unavailable;
use super::driver_answers::{DriverAnswers, InterfaceAnswers};
use super::read::{REFUSED, unreadable};
use super::tree::Tree;
use super::{board, congestion, pci};
use record::text::natural;
use record::{Fact, InventoryPart, PartClass};

const CLASS: &str = "sys/class/net";

/// Facts of an interface and the files that tell them.
const FACTS: &[(&str, &str)] = &[
    ("state", "operstate"),
    ("mtu", "mtu"),
    ("duplex", "duplex"),
    ("speed", "speed"),
    ("address", "address"),
    ("port-name", "phys_port_name"),
    ("bond-mode", "bonding/mode"),
];

/// The same of files that are empty when there is nothing to say.
const FACTS_OR_NOTHING: &[(&str, &str)] = &[
    ("bond-members", "bonding/slaves"),
    ("bond-active", "bonding/active_slave"),
];

/// Entries of the folder that are not counted as interfaces: the loopback, and a file that lists bonds.
const NO_INTERFACES: [&str; 2] = ["lo", "bonding_masters"];

/// Values for an unknown speed or duplex.
const UNKNOWN: [&str; 3] = ["-1", "4294967295", "unknown"];

/// All interfaces but the loopback, by name.
pub(super) fn names(tree: &Tree) -> Result<Vec<String>, Fact> {
    let mut names = tree.names(CLASS, |name| !NO_INTERFACES.contains(&name))?;
    names.sort_by_cached_key(|name| natural(name));
    Ok(names)
}

/// The interfaces of these names. What is known of a board goes to its RDMA device when it has one.
pub(super) fn parts(
    tree: &Tree,
    names: &[String],
    answers: &DriverAnswers,
    nics: &[InventoryPart],
) -> Vec<InventoryPart> {
    let one = |name: &String| {
        let part = part(tree, name, &answers.interface(name));
        let address = part.value("pci");
        let is_nic = nics
            .iter()
            .any(|nic| address.is_some() && nic.value("pci") == address);
        match is_nic || address.is_none() {
            true => part,
            false => board::completed(tree, part, answers),
        }
    };
    names.iter().map(one).collect()
}

fn part(tree: &Tree, name: &str, answers: &InterfaceAnswers) -> InventoryPart {
    let folder = format!("{CLASS}/{name}");
    let mut part = InventoryPart::new(PartClass::Interface, name);
    for (name, file) in FACTS {
        part = part.with(name, tree.fact(format!("{folder}/{file}")));
    }
    for (name, file) in FACTS_OR_NOTHING {
        part = part.with(name, tree.fact_or_nothing(format!("{folder}/{file}")));
    }
    let is_down = part.value("state") == Some("down");
    for name in ["speed", "duplex"] {
        let fact = if_known(part.facts[name].clone(), is_down);
        part = part.with(name, fact);
    }
    part = part
        .with("master", tree.link_name(format!("{folder}/master")))
        .with("pci", pci::address_of(tree, &format!("{folder}/device")))
        .with("driver", tree.link_name(format!("{folder}/device/driver")));
    let mut part = of_driver(part, answers);
    let place = (part.value("driver"), part.value("pci"));
    let facts = congestion::of_interface(tree, &folder, place, &answers.dcb);
    part.facts.extend(facts);
    part
}

/// Replaces placeholder values for unknown, and the refusal of an interface that is down.
fn if_known(fact: Fact, is_down: bool) -> Fact {
    match fact {
        Fact::Value(value) if UNKNOWN.contains(&value.as_str()) => match is_down {
            true => unreadable("the interface is down"),
            false => unreadable("the driver does not know it"),
        },
        Fact::Unreadable { why, .. } if why == REFUSED && is_down => unreadable("the interface is down"),
        fact => fact,
    }
}

/// Adds the answers of the driver.
fn of_driver(mut part: InventoryPart, answers: &InterfaceAnswers) -> InventoryPart {
    let driver = answers.driver.as_ref();
    let optional = |value: &Option<String>| value.clone().map_or(Fact::Absent, Fact::Value);
    if part.facts["driver"] == Fact::Absent {
        part = part.with(
            "driver",
            fact_of(&answers.driver, |driver| optional(&driver.driver)),
        );
    }
    let firmware = driver
        .ok()
        .and_then(|driver| driver.firmware.as_deref())
        .map(firmware_and_board);
    if let Some((_, Some(board))) = firmware {
        part = part.with("board", Fact::Value(board.to_string()));
    }
    let is_set = |set: bool| if set { "on" } else { "off" }.to_string();
    part.with(
        "driver-version",
        fact_of(&answers.driver, |driver| optional(&driver.version)),
    )
    .with(
        "firmware",
        fact_of(&answers.driver, |_| {
            firmware.map_or(Fact::Absent, |(version, _)| Fact::Value(version.to_string()))
        }),
    )
    .with(
        "autonegotiation",
        fact_of(&answers.link, |link| {
            link.autonegotiation
                .map_or(Fact::Absent, |set| Fact::Value(is_set(set)))
        }),
    )
    .with("port-type", fact_of(&answers.link, |link| optional(&link.port)))
    .with(
        "lanes",
        fact_of(&answers.lanes, |lanes| Fact::Value(lanes.to_string())),
    )
    .with("fec", fact_of(&answers.fec, |fec| Fact::Value(fec.clone())))
    .with(
        "pause",
        fact_of(&answers.pause, |pause| {
            let directions = match (pause.receive, pause.transmit) {
                (true, true) => "receive and transmit",
                (true, false) => "receive",
                (false, true) => "transmit",
                (false, false) => "off",
            };
            Fact::Value(directions.to_string())
        }),
    )
    .with(
        "pfc-prevention",
        fact_of(&answers.pfc_prevention, |time| Fact::Value(time.clone())),
    )
    .with(
        "rx-ring",
        fact_of(&answers.rings, |rings| Fact::Value(rings.receive.to_string())),
    )
    .with(
        "tx-ring",
        fact_of(&answers.rings, |rings| Fact::Value(rings.transmit.to_string())),
    )
}

/// The fact in an answer, or why it is unavailable.
fn fact_of<T>(answer: &Result<T, Unavailable>, fact: impl Fn(&T) -> Fact) -> Fact {
    match answer {
        Ok(answer) => fact(answer),
        Err(missing) => missing.clone().into(),
    }
}

/// `28.39.1002 (MT_0000000838)` is the firmware of a board of that id.
fn firmware_and_board(said: &str) -> (&str, Option<&str>) {
    match said.strip_suffix(')').and_then(|said| said.split_once(" (")) {
        Some((version, board)) => (version, Some(board)),
        None => (said, None),
    }
}
