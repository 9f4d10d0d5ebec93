//! In words: what held a run back, and what would help.
//!
//! Evidence is taken from the result once; rules look at evidence alone, are tried in order, and
//! the first that holds gives the verdict. So a rule is a row of a table, and so is its test.

mod evidence;
mod rules;

pub use evidence::Evidence;

use crate::result::RunResult;
use rules::RULES;

/// What held a run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing was sent, so that nothing can be said.
    Nothing,
    /// The load generator.
    Generator,
    /// All cores of the machine, broker and generator together.
    Machine,
    /// The broker had blocked its publishers: an alarm.
    Alarm,
    /// Connections broke, and there was no broker for a while.
    Outage,
    /// The broker's processors.
    BrokerProcessor,
    /// Nothing: the load was carried as asked.
    Load,
    /// How long a sync takes.
    SyncLatency,
    /// How many bytes the drive takes.
    Bandwidth,
    /// Consumers took less than was published.
    Consumers,
    /// The broker took bytes no faster: its socket was full.
    Broker,
    /// Publishers waited for confirms, though the log was not busy.
    ConfirmWindow,
    /// Publishers sent no more than they did.
    Publishers,
}

/// What was found, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What held the run back.
    pub limit: Limit,
    /// That, with the figures it is drawn from.
    pub found: String,
    /// What would help.
    pub helps: String,
}

/// What held the run back.
#[must_use]
pub fn verdict(run: &RunResult) -> Verdict {
    judge(&Evidence::of(run))
}

/// The verdict that evidence gives.
///
/// # Panics
/// Never: the last rule always holds.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    let rule = RULES
        .iter()
        .find(|rule| (rule.holds)(evidence))
        .expect("the last rule holds");
    Verdict {
        limit: rule.limit,
        found: (rule.found)(evidence),
        helps: rule.helps.to_owned(),
    }
}

#[cfg(test)]
mod tests;
