//! The audit of a load: what was lost, doubled, out of order or damaged.

use serde::{Deserialize, Serialize};

/// Whether everything arrived as it was sent, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    /// Whether loss could be seen: somebody consumed, and the queues were drained at the end.
    pub loss_checked: bool,
    /// Messages that were confirmed (or, without confirms, published) and never arrived, counted
    /// once for each queue that misses them.
    pub lost: u64,
    /// Deliveries of what had arrived before, not marked as redelivered.
    pub duplicated: u64,
    /// Deliveries marked as redelivered. No failure.
    pub redelivered: u64,
    /// First deliveries to a consumer that came after a later message of the same publisher.
    pub disordered: u64,
    /// Deliveries whose checksum is wrong, or that nobody sent.
    pub damaged: u64,
    /// Deliveries of another run's messages, which lay in a queue that was there before. No
    /// failure.
    pub foreign: u64,
    /// Messages that the broker refused (`basic.nack`). No failure by itself.
    pub refused: u64,
    /// Messages that the broker returned as unroutable. No failure by itself.
    pub returned: u64,
    /// Messages that were neither confirmed nor refused when the run gave up waiting.
    pub unconfirmed: u64,
    /// Deliveries of what had arrived before, not marked as redelivered, of messages that had to be
    /// sent again over a new connection. No failure: nobody could tell whether they had arrived.
    #[serde(default)]
    pub republished_twice: u64,
    /// Deliveries, not marked as redelivered, of what had arrived at a consumer whose connection
    /// then broke. No failure: AMQP asks for the mark where a broker can know.
    #[serde(default)]
    pub unmarked: u64,
    /// Messages that did not arrive, and for which nobody answers: sent without confirms over a
    /// connection that broke, or settled by the broker as it sent them to a consumer whose
    /// connection broke. No failure.
    #[serde(default)]
    pub in_doubt: u64,
}

impl Checks {
    /// Whether the broker broke a promise.
    #[must_use]
    pub fn failed(&self) -> bool {
        let Self {
            lost,
            duplicated,
            disordered,
            damaged,
            unconfirmed,
            ..
        } = self;
        lost + duplicated + disordered + damaged + unconfirmed > 0
    }

    /// The broken promises in words.
    #[must_use]
    pub fn broken(&self) -> String {
        let counts = [
            (self.lost, "lost"),
            (self.duplicated, "delivered twice without the mark"),
            (self.disordered, "out of order"),
            (self.damaged, "damaged"),
            (self.unconfirmed, "never confirmed"),
        ];
        let said: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        said.join(", ")
    }
}
