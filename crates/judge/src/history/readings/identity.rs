//! What parts are made of: serial numbers, as far as the inventory knows them.
//!
//! An identity is a list of `key value` words joined by `; `, so that two of them can be compared by what both know.

use std::collections::HashMap;

use record::{Cable, Fact, Judgement, LinkName, NodeInventory, PartClass, PortName, RailEnd, Recorded};

/// Identities of the parts of one run.
pub(super) struct Identities<'a> {
    /// Hosts and switches by name.
    nodes: HashMap<&'a str, &'a NodeInventory>,
    ends: HashMap<(&'a str, &'a str), &'a RailEnd>,
    cables: HashMap<String, &'a Cable>,
}

impl<'a> Identities<'a> {
    /// Those that the inventory of a run tells.
    pub(super) fn of(recorded: &'a Recorded, judgement: &Judgement) -> Identities<'a> {
        let inventory = recorded.inventory.as_ref();
        let mut ends = HashMap::new();
        for rank in &recorded.run.ranks {
            for end in &rank.rails {
                ends.entry((rank.host.as_str(), end.rail.as_str())).or_insert(end);
            }
        }
        let mut cables = HashMap::new();
        for cable in inventory.map_or(&[][..], |inventory| &inventory.cables) {
            let [a, b] = &cable.ends;
            cables.insert(LinkName::between(a, b), cable);
            cables.insert(LinkName::between(b, a), cable);
        }
        // Ends have several names; the topology's name of a cable is one.
        let all = inventory.map_or(&[][..], |inventory| &inventory.cables);
        let by_name: HashMap<&str, &Cable> = all.iter().map(|cable| (cable.name.as_str(), cable)).collect();
        for link in &judgement.coverage.links {
            if let Some(cable) = by_name.get(link.cable.as_str()) {
                cables.entry(link.link.clone()).or_insert(cable);
            }
        }
        let mut nodes = HashMap::new();
        for node in inventory
            .into_iter()
            .flat_map(|inventory| inventory.nodes.iter().chain(&inventory.switches))
        {
            nodes.entry(node.node.as_str()).or_insert(node);
        }
        Identities { nodes, ends, cables }
    }

    /// A host: its serial number.
    pub(super) fn node(&self, host: &str) -> Option<String> {
        self.said([self
            .fact(host, PartClass::Host, host, "serial")
            .map(|serial| ("host", serial))])
    }

    /// A host's end of a rail: the NIC and what is plugged into it.
    pub(super) fn rail_end(&self, host: &str, rail: &str) -> Option<String> {
        let end = self.ends.get(&(host, rail))?;
        let interface = end.interface.as_deref();
        let device = end.rdma.as_ref().map(|port| port.device.as_str());
        let of_device = |fact| device.and_then(|device| self.fact(host, PartClass::Nic, device, fact));
        let of_interface = |class| interface.and_then(|name| self.fact(host, class, name, "serial"));
        let nic = of_device("serial").or_else(|| of_interface(PartClass::Interface));
        // A board that does not tell its serial number still has a name of its own.
        let guid = of_device("guid").filter(|_| nic.is_none());
        let module = of_interface(PartClass::Module);
        self.said([
            nic.map(|serial| ("nic", serial)),
            guid.map(|guid| ("guid", guid)),
            module.map(|serial| ("module", serial)),
        ])
    }

    /// A cable in one direction: its own serial number and that of the host's end, or of the switches at both ends.
    pub(super) fn link(&self, link: &str, host_end: Option<(&str, &str)>) -> Option<String> {
        let cable = self.cables.get(link);
        let serial = cable
            .and_then(|cable| cable.facts.get("serial"))
            .and_then(Fact::value);
        let own = self.said([serial.map(|serial| ("cable", serial))]);
        let ends = match host_end {
            Some((host, rail)) => self.rail_end(host, rail),
            None => self.between_switches(link),
        };
        let known: Vec<String> = [own, ends].into_iter().flatten().collect();
        (!known.is_empty()).then(|| known.join("; "))
    }

    /// Serial numbers of the modules at both ends, or else of the switches.
    fn between_switches(&self, link: &str) -> Option<String> {
        let [from, to] = LinkName::parse(link)?.ends();
        let one = |key: &'static str, PortName { node, port }: PortName<'_>| {
            let module = self.fact(node, PartClass::Module, port, "serial");
            let switch = || self.fact(node, PartClass::Switch, node, "serial");
            Some((key, module.or_else(switch)?))
        };
        // The same cable has the same identity in both directions.
        let (first, second) = match from.to_string() <= to.to_string() {
            true => (from, to),
            false => (to, from),
        };
        self.said([one("one-end", first), one("other-end", second)])
    }

    fn fact(&self, node: &str, class: PartClass, part: &str, fact: &str) -> Option<&'a str> {
        let part = self.nodes.get(node)?.part(class, part)?;
        part.value(fact).map(str::trim).filter(|value| !is_filler(value))
    }

    fn said<const N: usize>(&self, facts: [Option<(&str, &str)>; N]) -> Option<String> {
        let known: Vec<String> = facts
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key} {}", value.replace(';', ",")))
            .collect();
        (!known.is_empty()).then(|| known.join("; "))
    }
}

/// What boards and machines say that were never given a number of their own.
fn is_filler(value: &str) -> bool {
    const FILLERS: [&str; 8] = [
        "",
        "none",
        "n/a",
        "default string",
        "not specified",
        "to be filled by o.e.m.",
        "system serial number",
        "unknown",
    ];
    let value = value.to_ascii_lowercase();
    FILLERS.contains(&value.as_str())
        || value
            .chars()
            .all(|character| matches!(character, '0' | ':' | '-' | '.'))
}
