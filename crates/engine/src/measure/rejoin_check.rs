//! Whether a rank that rejoins is the one that was lost: the same host, the same rails, the same GPU.

use super::protocol::RankInfo;
use crate::transport::GpuEndpoint;
use record::{RailEnd, RankRecord};

/// How a rank with `info` differs from the lost rank `known`; none when it may take its place.
pub(super) fn difference_from(info: &RankInfo, known: &RankRecord) -> Option<String> {
    let name = &info.host.name;
    // A host that shares its name has the address of a rail appended.
    let is_same = known.host == *name
        || known
            .host
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('@'));
    if !is_same {
        return Some(format!("it is on host {name}, not on {}", known.host));
    }
    if let Some(difference) = rails_differ(&info.rails, &known.rails) {
        return Some(format!("its rails differ from before: {difference}"));
    }
    let gpu = info.endpoint.gpu.as_ref().map(GpuEndpoint::record);
    let uuid = |gpu: &Option<record::GpuRecord>| gpu.as_ref().map(|gpu| gpu.uuid.clone());
    if uuid(&gpu) != uuid(&known.gpu) {
        let named = |uuid: Option<String>| uuid.unwrap_or_else(|| "none".to_string());
        let (had, has) = (named(uuid(&known.gpu)), named(uuid(&gpu)));
        return Some(format!("its GPU differs: {had} before, {has} now"));
    }
    None
}

/// The first rail that differs. Speeds and states of ports may change: they are what is measured.
fn rails_differ(now: &[RailEnd], before: &[RailEnd]) -> Option<String> {
    for end in before {
        let Some(found) = now.iter().find(|found| found.rail == end.rail) else {
            return Some(format!("{} is missing", end.rail));
        };
        if (address(found), device(found)) != (address(end), device(end)) {
            let (had, has) = (describe(end), describe(found));
            return Some(format!("{} was {had} and is {has}", end.rail));
        }
    }
    let new = now
        .iter()
        .find(|end| before.iter().all(|known| known.rail != end.rail));
    if let Some(new) = new {
        return Some(format!("{} is new", new.rail));
    }
    let names = |ends: &[RailEnd]| ends.iter().map(|end| end.rail.clone()).collect::<Vec<_>>();
    (names(now) != names(before)).then(|| "their order changed".to_string())
}

fn address(end: &RailEnd) -> (&str, Option<&str>) {
    (&end.address, end.interface.as_deref())
}

fn device(end: &RailEnd) -> Option<(&str, u8)> {
    let port = end.rdma.as_ref()?;
    Some((&port.device, port.port))
}

fn describe(end: &RailEnd) -> String {
    let interface = end.interface.as_deref().unwrap_or("no interface");
    match device(end) {
        Some((device, port)) => format!("{} on {interface} ({device} port {port})", end.address),
        None => format!("{} on {interface}", end.address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rail: &str, address: &str) -> RailEnd {
        RailEnd {
            rail: rail.to_string(),
            address: address.to_string(),
            interface: Some("eth1".to_string()),
            speed_mbit: Some(100_000),
            rdma: None,
        }
    }

    #[test]
    fn a_rail_that_is_missing_new_or_elsewhere_is_named_and_a_slower_one_is_not() {
        let before = [end("rail0", "10.0.0.1"), end("rail1", "10.1.0.1")];
        assert_eq!(rails_differ(&before, &before), None);
        let mut slower = before.clone();
        slower[1].speed_mbit = Some(10_000);
        assert_eq!(rails_differ(&slower, &before), None);
        let missing = rails_differ(&before[..1], &before).unwrap();
        assert_eq!(missing, "rail1 is missing");
        assert_eq!(rails_differ(&before, &before[..1]).unwrap(), "rail1 is new");
        let elsewhere = [end("rail0", "10.0.0.9"), before[1].clone()];
        let elsewhere = rails_differ(&elsewhere, &before).unwrap();
        assert_eq!(elsewhere, "rail0 was 10.0.0.1 on eth1 and is 10.0.0.9 on eth1");
        let swapped = [before[1].clone(), before[0].clone()];
        assert_eq!(rails_differ(&swapped, &before).unwrap(), "their order changed");
    }
}
