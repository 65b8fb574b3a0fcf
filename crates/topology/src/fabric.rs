//! The machines and ranks of a run, and the rails between them.
//!
//! A run can use a rail only when every rank has an end of it; one that some rank lacks is reported with the ranks that lack
//! it, never dropped silently.

use record::{DeviceKind, HostRecord, RailEnd, RankRecord};

/// The machines and ranks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fabric {
    /// Machines taking part.
    pub hosts: Vec<HostRecord>,
    /// Ranks in order.
    pub ranks: Vec<RankRecord>,
}

/// A rail that not every rank has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialRail {
    /// Rail by name.
    pub rail: String,
    /// The ranks that lack it.
    pub lacking: Vec<u32>,
}

impl Fabric {
    /// `ranks` ranks of one process on `host`, which all share its rails.
    pub fn local(host: HostRecord, ranks: u32, device: DeviceKind, rails: Vec<RailEnd>) -> Fabric {
        let ranks = (0..ranks)
            .map(|rank| RankRecord {
                rank,
                host: host.name.clone(),
                pid: std::process::id(),
                device,
                rails: rails.clone(),
                gpu: None,
            })
            .collect();
        Fabric {
            hosts: vec![host],
            ranks,
        }
    }

    /// How many ranks there are.
    pub fn rank_count(&self) -> usize {
        self.ranks.len()
    }

    /// A rank by its number.
    pub fn rank(&self, rank: u32) -> Option<&RankRecord> {
        self.ranks.iter().find(|record| record.rank == rank)
    }

    /// `rank 3 (node07)`.
    pub fn rank_name(&self, rank: u32) -> String {
        match self.rank(rank) {
            Some(record) => format!("rank {rank} ({})", record.host),
            None => format!("rank {rank}"),
        }
    }

    /// Whether two ranks are on one host.
    pub fn same_host(&self, a: u32, b: u32) -> bool {
        match (self.rank(a), self.rank(b)) {
            (Some(a), Some(b)) => a.host == b.host,
            _ => false,
        }
    }

    /// Whether every rank has a host to itself.
    pub fn is_one_rank_per_host(&self) -> bool {
        let mut hosts: Vec<&str> = self.ranks.iter().map(|record| record.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The rails every rank has, in the order in which the first rank names them.
    pub fn common_rails(&self) -> Vec<&str> {
        let Some(first) = self.ranks.first() else {
            return Vec::new();
        };
        let everywhere = |rail: &str| self.ranks.iter().all(|record| has(record, rail));
        let rails = first.rails.iter().map(|end| end.rail.as_str());
        rails.filter(|rail| everywhere(rail)).collect()
    }

    /// The rails that some rank lacks, and the ranks that lack them, in the order in which they are first named.
    pub fn partial_rails(&self) -> Vec<PartialRail> {
        let mut partial: Vec<PartialRail> = Vec::new();
        for end in self.ranks.iter().flat_map(|record| &record.rails) {
            if partial.iter().any(|known| known.rail == end.rail) {
                continue;
            }
            let lacks = self.ranks.iter().filter(|record| !has(record, &end.rail));
            let lacking: Vec<u32> = lacks.map(|record| record.rank).collect();
            if !lacking.is_empty() {
                partial.push(PartialRail {
                    rail: end.rail.clone(),
                    lacking,
                });
            }
        }
        partial
    }

    /// All ends of a rail.
    pub fn ends_of<'f>(&'f self, rail: &'f str) -> impl Iterator<Item = (&'f RankRecord, &'f RailEnd)> {
        let ends = self
            .ranks
            .iter()
            .flat_map(|record| record.rails.iter().map(move |end| (record, end)));
        ends.filter(move |(_, end)| end.rail == rail)
    }
}

fn has(record: &RankRecord, rail: &str) -> bool {
    record.rails.iter().any(|end| end.rail == rail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rail: &str) -> RailEnd {
        RailEnd {
            rail: rail.to_string(),
            address: "127.0.1.1".to_string(),
            interface: None,
            speed_mbit: None,
            rdma: None,
        }
    }

    #[test]
    fn a_rail_one_rank_lacks_is_reported_with_that_rank_and_not_used() {
        let mut fabric = Fabric::local(
            record::HostRecord::named("node"),
            3,
            DeviceKind::Host,
            vec![end("a"), end("b"), end("c")],
        );
        fabric.ranks[1].rails.remove(1);
        fabric.ranks[2].rails.push(end("d"));
        assert_eq!(fabric.common_rails(), ["a", "c"]);
        let partial = fabric.partial_rails();
        assert_eq!(
            (partial[0].rail.as_str(), &partial[0].lacking[..]),
            ("b", &[1][..])
        );
        assert_eq!(
            (partial[1].rail.as_str(), &partial[1].lacking[..]),
            ("d", &[0, 1][..])
        );
        assert_eq!(fabric.ends_of("b").count(), 2);
    }

    #[test]
    fn ranks_of_one_machine_are_known_to_share_it() {
        let mut fabric = Fabric::local(record::HostRecord::named("node"), 2, DeviceKind::Host, Vec::new());
        assert!(fabric.same_host(0, 1) && !fabric.is_one_rank_per_host());
        fabric.ranks[1].host = "elsewhere".to_string();
        assert!(!fabric.same_host(0, 1) && fabric.is_one_rank_per_host());
        assert!(!fabric.same_host(0, 9));
        assert_eq!(fabric.rank_name(1), "rank 1 (elsewhere)");
    }
}
