//! Asking ranks which ways between different rails there are, before anything is measured on them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::orders::{Answer, Order};
use super::session::{Heard, MeasureError, Session};
use crate::transport::CrossWay;

/// How much longer than the deadline a rank may take to answer.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// For each way why there is none; those that nobody answered for count as none, too. All ranks are asked at once.
    pub fn reach_across(
        &mut self,
        ways: &[CrossWay],
    ) -> Result<HashMap<CrossWay, Option<String>>, MeasureError> {
        let mut of_rank: HashMap<u32, Vec<CrossWay>> = HashMap::new();
        for way in ways.iter().filter(|way| !self.absent.contains(&way.from)) {
            of_rank.entry(way.from).or_default().push(way.clone());
        }
        for (rank, ways) in &of_rank {
            self.order(*rank, &Order::Reach(ways.clone()))?;
        }
        let mut known = HashMap::new();
        let mut overheard = Vec::new();
        let until = Instant::now() + self.deadline() + GRACE;
        while !of_rank.is_empty() {
            match self.listen(until) {
                Heard::Answer(rank, Answer::Reached(answers)) => {
                    let asked = of_rank.remove(&rank).unwrap_or_default();
                    known.extend(asked.into_iter().zip(answers));
                }
                heard @ (Heard::Gone(rank, _) | Heard::Silent(rank, _)) => {
                    of_rank.remove(&rank);
                    overheard.push(heard);
                }
                heard @ Heard::Answer(..) => overheard.push(heard),
                Heard::Interrupted | Heard::Nothing => break,
            }
        }
        self.overheard.borrow_mut().extend(overheard);
        for way in ways {
            let nobody = || Some(format!("rank {} did not say whether it gets there", way.from));
            known.entry(way.clone()).or_insert_with(nobody);
        }
        Ok(known)
    }
}
