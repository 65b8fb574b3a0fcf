//! A rank's words to the coordinator.

use super::orders::Answer;
use crate::launch::{Disconnected, MessageSender};

/// Says things to the coordinator.
#[derive(Clone)]
pub(super) struct Voice(pub MessageSender);

impl Voice {
    /// Says it; an error when nobody listens any more.
    pub fn say(&self, answer: &Answer) -> Result<(), Disconnected> {
        let message = serde_json::to_vec(answer).map_err(|error| Disconnected(error.to_string()))?;
        self.0.send(message)
    }
}
