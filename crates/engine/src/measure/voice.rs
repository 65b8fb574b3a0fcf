//! A rank's words to the coordinator.

use super::orders::Answer;
use crate::launch::{Answering, Gone};

/// Says things to the coordinator.
#[derive(Clone)]
pub(super) struct Voice(pub Answering);

impl Voice {
    /// Says it; an error when nobody listens any more.
    pub fn say(&self, answer: &Answer) -> Result<(), Gone> {
        let message = serde_json::to_vec(answer).map_err(|error| Gone(error.to_string()))?;
        self.0.send(message)
    }
}
