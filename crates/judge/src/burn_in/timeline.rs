//! What happened when: cycles in order with their times, and hosts that were away.

use std::collections::BTreeMap;

use super::cycle_store::{CycleStore, CycleView};
use record::units::Nanos;
use record::{EndReason, Journal, JournalLine, Moment};

/// One cycle.
#[derive(Debug, Clone)]
pub(super) struct Cycle<'a> {
    /// When it began.
    pub(super) moment: Moment,
    /// How long it loaded the fabric.
    pub(super) took: Nanos,
    /// What it said.
    pub(super) said: CycleView<'a>,
}

impl Cycle<'_> {
    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.moment.cycle
    }

    /// Time under load in the middle of it, in hours.
    pub(super) fn hours(&self) -> f64 {
        (self.moment.load_ns.as_secs_f64() + self.took.as_secs_f64() / 2.0) / 3600.0
    }
}

/// A host that was lost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Absence {
    pub(super) host: String,
    pub(super) lost: Moment,
    /// How that was noticed.
    pub(super) reason: String,
    /// When it took part again.
    pub(super) returned: Option<Moment>,
}

/// A burn-in in order.
#[derive(Debug, Clone)]
pub(super) struct Timeline<'a> {
    /// By number.
    pub(super) cycles: Vec<Cycle<'a>>,
    /// As the journal tells them, in order.
    pub(super) absences: Vec<Absence>,
    /// Time under load.
    pub(super) load: Nanos,
    /// How often it was cut off and resumed.
    pub(super) resumed: u32,
    /// Complete cycles.
    pub(super) complete: u32,
    /// Why it ended, and when.
    pub(super) ended: Option<(EndReason, String)>,
}

impl<'a> Timeline<'a> {
    pub(super) fn of(journal: &[JournalLine], store: &'a CycleStore) -> Timeline<'a> {
        let mut began: BTreeMap<u32, &JournalLine> = BTreeMap::new();
        let mut took: BTreeMap<u32, Nanos> = BTreeMap::new();
        let mut timeline = Timeline {
            cycles: Vec::new(),
            absences: Vec::new(),
            load: Nanos(0),
            resumed: 0,
            complete: 0,
            ended: None,
        };
        let mut met = 0u32;
        for line in journal {
            timeline.load = timeline.load.max(line.load_ns);
            match &line.what {
                Journal::Met { .. } => met += 1,
                // A resumed cycle began when it first did.
                Journal::CycleBegan { cycle, .. } => _ = began.entry(*cycle).or_insert(line),
                Journal::CycleEnded { cycle, took_ns, .. } => _ = took.insert(*cycle, *took_ns),
                Journal::Lost { cycle, hosts, reason } => timeline.lose(line, *cycle, hosts, reason),
                Journal::Returned { cycle, hosts } => timeline.take_back(line, *cycle, hosts),
                Journal::Ended { reason } => timeline.ended = Some((*reason, line.at.clone())),
                Journal::Refused { .. } | Journal::Condensed { .. } => {}
            }
        }
        timeline.resumed = met.saturating_sub(1);
        let mut passed = Nanos(0);
        for said in store.views() {
            let number = said.number();
            let line = began.get(&number);
            let took = said.took().or_else(|| took.get(&number).copied());
            let took = took.unwrap_or_default();
            let load_ns = line.map_or(passed, |line| line.load_ns);
            let at = line.map_or(said.started(), |line| &line.at);
            timeline.complete += u32::from(said.is_complete());
            timeline.cycles.push(Cycle {
                moment: Moment {
                    cycle: number,
                    at: at.to_string(),
                    load_ns,
                },
                took,
                said,
            });
            passed = load_ns + took;
        }
        timeline.load = timeline.load.max(passed);
        timeline
    }

    fn lose(&mut self, line: &JournalLine, cycle: u32, hosts: &[String], reason: &str) {
        for host in hosts {
            self.absences.push(Absence {
                host: host.clone(),
                lost: moment(line, cycle),
                reason: reason.to_string(),
                returned: None,
            });
        }
    }

    fn take_back(&mut self, line: &JournalLine, cycle: u32, hosts: &[String]) {
        for absence in &mut self.absences {
            if absence.returned.is_none() && hosts.contains(&absence.host) {
                absence.returned = Some(moment(line, cycle));
            }
        }
    }

    /// The cycle of that number.
    pub(super) fn cycle(&self, number: u32) -> Option<&Cycle<'a>> {
        let at = self.cycles.binary_search_by_key(&number, Cycle::number).ok()?;
        self.cycles.get(at)
    }

    /// When a cycle began; what is known of it when it is not there.
    pub(super) fn moment(&self, number: u32) -> Moment {
        let known = self.cycle(number).map(|cycle| cycle.moment.clone());
        known.unwrap_or(Moment {
            cycle: number,
            at: String::new(),
            load_ns: Nanos(0),
        })
    }
}

fn moment(line: &JournalLine, cycle: u32) -> Moment {
    Moment {
        cycle,
        at: line.at.clone(),
        load_ns: line.load_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{line, night};
    use super::*;

    #[test]
    fn cycles_stand_in_order_and_begin_where_the_journal_says() {
        let nights = [night(2), night(1)];
        let began = |cycle, load| line(load, Journal::CycleBegan { cycle, seed: 1 });
        let journal = [began(1, 0), began(2, 70), began(2, 75)];
        let store = CycleStore::of(&nights);
        let timeline = Timeline::of(&journal, &store);
        let numbers: Vec<u32> = timeline.cycles.iter().map(Cycle::number).collect();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(
            timeline.cycles[1].moment.load_ns,
            Nanos::from_secs(70),
            "not when it was resumed"
        );
        assert_eq!(timeline.load, Nanos::from_secs(130));
    }

    #[test]
    fn a_host_that_comes_back_ends_its_own_absence_only() {
        let hosts = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let lost = Journal::Lost {
            cycle: 3,
            hosts: hosts(&["h1", "h2"]),
            reason: "silent".into(),
        };
        let back = Journal::Returned {
            cycle: 5,
            hosts: hosts(&["h2"]),
        };
        let again = Journal::Lost {
            cycle: 7,
            hosts: hosts(&["h2"]),
            reason: "silent".into(),
        };
        let journal = [line(100, lost), line(200, back), line(300, again)];
        let absences = Timeline::of(&journal, &CycleStore::default()).absences;
        let spans: Vec<(&str, u32, Option<u32>)> = absences
            .iter()
            .map(|a| {
                (
                    a.host.as_str(),
                    a.lost.cycle,
                    a.returned.as_ref().map(|m| m.cycle),
                )
            })
            .collect();
        assert_eq!(spans, [("h1", 3, None), ("h2", 3, Some(5)), ("h2", 7, None)]);
    }
}
