//! What every section of the page is written from.

use std::collections::HashMap;
use std::io;

use crate::figure::Figure;
use crate::figures;
use record::{Judgement, Recorded};

/// What the page is written from.
pub(super) struct Facts<'a> {
    pub(super) recorded: &'a Recorded,
    pub(super) judgement: &'a Judgement,
    pub(super) figures: Vec<Figure>,
    /// The host of every rank.
    hosts: HashMap<u32, &'a str>,
}

impl<'a> Facts<'a> {
    /// Those of a run, with its figures drawn.
    pub(super) fn of(recorded: &'a Recorded, judgement: &'a Judgement) -> io::Result<Facts<'a>> {
        let ranks = recorded.run.ranks.iter();
        Ok(Facts {
            recorded,
            judgement,
            figures: figures::all(recorded, judgement)?,
            hosts: ranks.map(|rank| (rank.rank, rank.host.as_str())).collect(),
        })
    }

    /// The host of a rank, or its number where the host is unknown.
    pub(super) fn host(&self, rank: u32) -> String {
        self.hosts
            .get(&rank)
            .map_or_else(|| format!("rank {rank}"), |host| host.to_string())
    }
}
