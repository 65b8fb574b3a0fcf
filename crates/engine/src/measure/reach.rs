//! Asking ranks which ways between different rails there are, before anything is measured on them.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::orders::{Answer, Order};
use super::session::{MeasureError, Session};
use crate::transport::CrossWay;

/// How much longer than the deadline a rank may take to answer.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// For each way why there is none; those that nobody answered for count as none, too. All ranks are asked at once.
    pub fn check_cross_rail(
        &mut self,
        ways: &[CrossWay],
    ) -> Result<HashMap<CrossWay, Option<String>>, MeasureError> {
        let mut of_rank: BTreeMap<u32, Vec<CrossWay>> = BTreeMap::new();
        for way in ways {
            of_rank.entry(way.from).or_default().push(way.clone());
        }
        let orders = of_rank
            .iter()
            .map(|(rank, ways)| (*rank, Order::Reach(ways.clone())))
            .collect();
        let mut known = HashMap::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.ask(orders, until, |rank, answer| match answer {
            Answer::Reached(answers) => {
                let asked = of_rank.remove(&rank).unwrap_or_default();
                known.extend(asked.into_iter().zip(answers));
                None
            }
            other => Some(other),
        })?;
        for way in ways {
            let nobody = || Some(format!("rank {} did not say whether it gets there", way.from));
            known.entry(way.clone()).or_insert_with(nobody);
        }
        Ok(known)
    }
}
