//! The node's code in a cluster, under virtual time: real shards, queues, groups, proxies, sessions
//! and stores; simulated disks, connections, clocks and clients.
//!
//! A life has two phases. In the first, whatever can go wrong does: processes are killed at calls
//! to their disks, power is cut (each unsynced sector is kept, lost or garbled), disks stall, fill
//! up, fail and corruption, connections break, directions are cut, clocks are set, machines are
//! lost and found, reads fail or give damaged bytes, clients come and go, queues are deleted and
//! declared, groups change their members. In the second, everything works again, operators put
//! right what was lost, everybody must be answered, and all that was confirmed must be found, once.
//!
//! Checked at every step: one leader a term; terms that do not go back; catalogues that agree; no
//! message at two consumers; none after its acknowledgement was durable, none of a queue that was
//! deleted, none that is not as it was published; order; one answer to each publish. Whenever all
//! is well: all members of a queue have the same state (what lives, in which order, what came back
//! how often, what may have been delivered), and its leader's queue is what that says. At the end:
//! nothing that was confirmed is lost, all queues are empty from every node's view.
//!
//! A view of a stream is held to the same ([`Plan::of_views`]): what is published to the stream is
//! owed by the view, and what is rejected there is found among the dead letters, at least once.
//!
//! Invariant: the same seed gives the same life, to the byte.

mod calm;
mod client;
mod compare;
mod faults;
pub mod hostile;
mod ledger;
pub mod node;
mod operators;
mod people;
mod simulation_run;
#[cfg(test)]
mod tests;
mod watch;
mod wires;
mod world;

use simulation_run::SimulationRun;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A bug that is put in on purpose: what the checks must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Disks say that they have synced and have not: appends are acknowledged, and publishes
    /// confirmed, before a majority has them.
    ConfirmsEarly,
    /// Only nodes that lead nothing do so: a follower's answers reach beyond what it has synced.
    AnswersEarly,
    /// A disk goes back to what it was: terms, votes and acknowledged entries are forgotten.
    ForgetsVotes,
    /// The end of the log has rotted, and is taken for never written.
    TruncatesOnCorruption,
    /// Every start of a node is the same to the queues' leaders: a new operation is taken for one
    /// that was seen.
    ForgetsOrigins,
    /// Each time that a node presents itself to a leader it is another run of it: operations that
    /// are sent again are taken for new ones.
    ForgetsOperations,
    /// Each member settles another message by itself: all have as many, and not the same.
    SettlesAlone,
    /// What cannot be read is taken for settled, without a word.
    ForgetsUnreadable,
    /// Some acknowledgements get lost on their way from a client that lives: what it settled stays
    /// unsettled.
    ForgetsSettles,
}

impl Planted {
    /// All bugs.
    pub const ALL: [Self; 9] = [
        Self::ConfirmsEarly,
        Self::AnswersEarly,
        Self::ForgetsVotes,
        Self::TruncatesOnCorruption,
        Self::ForgetsOrigins,
        Self::ForgetsOperations,
        Self::SettlesAlone,
        Self::ForgetsUnreadable,
        Self::ForgetsSettles,
    ];

    /// Those that break what a view of a stream promises. The members of its group have no messages
    /// that they could settle alone, and no disk corrupts in lives of views.
    pub const OF_VIEWS: [Self; 4] = [
        Self::ConfirmsEarly,
        Self::ForgetsVotes,
        Self::ForgetsOperations,
        Self::ForgetsSettles,
    ];
}

/// How a life is lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Nodes.
    pub nodes: u32,
    /// Quorum queues that stay.
    pub queues: usize,
    /// Whether there is a classic queue beside them, and a quorum queue that comes and goes.
    pub has_all_queues: bool,
    /// Whether there is a quorum view of a stream on one node; what is rejected of it goes to the
    /// first of the queues.
    pub has_view: bool,
    /// Things that happen in the first phase.
    pub steps: usize,
    /// Whether connections break and directions are cut between nodes that live.
    pub has_cuts: bool,
    /// Whether disks fail, fill up and corruption, machines are lost and groups change their
    /// members.
    pub has_losses: bool,
    /// Whether disks fail and fill up where no machine is lost.
    pub has_disk_faults: bool,
    /// What is wrong on purpose.
    pub planted: Planted,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            queues: 2,
            has_all_queues: true,
            has_view: false,
            steps: 1_500,
            has_cuts: true,
            has_losses: true,
            has_disk_faults: false,
            planted: Planted::Nothing,
        }
    }
}

impl Plan {
    /// A view, and the queue of its dead letters. The stream has one replica: no machine is lost.
    #[must_use]
    pub fn of_views() -> Self {
        Self {
            queues: 1,
            has_all_queues: false,
            has_view: true,
            has_losses: false,
            has_disk_faults: true,
            ..Self::default()
        }
    }
}

/// A life that kept every promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// All that was said, in one number.
    pub trace: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Processes that ended.
    pub crashes: u64,
    /// Reads that failed or gave damaged bytes.
    pub bad_reads: u64,
}

impl Lived {
    /// Counts another life.
    pub fn add(&mut self, other: &Self) {
        self.trace = self.trace.rotate_left(1) ^ other.trace;
        self.confirmed += other.confirmed;
        self.delivered += other.delivered;
        self.crashes += other.crashes;
        self.bad_reads += other.bad_reads;
    }
}

impl fmt::Display for Lived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} confirmed, {} delivered, {} crashes, {} bad reads",
            self.confirmed, self.delivered, self.crashes, self.bad_reads
        )
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// In which life.
    pub seed: u64,
    /// How it was lived.
    pub plan: Plan,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, plan, what } = self;
        let views = if plan.has_view { " --views 1" } else { "" };
        let cuts = if plan.has_cuts { "" } else { " --cuts 0" };
        write!(
            f,
            "seed {seed}: {what}\nsee it again: cargo run --release -p leveret-sim -- \
             cluster{views}{cuts} --seeds 1 --from {seed}"
        )
    }
}

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// The seed whose life this thread lives, or has lived last: for whoever reports a panic.
#[must_use]
pub fn seed() -> u64 {
    SEED.get()
}

/// Lives the life of a seed.
///
/// # Errors
/// What it found: a broken promise, or a panic of the node's code.
pub fn live(seed: u64, plan: &Plan) -> Result<Lived, Broken> {
    SEED.set(seed);
    let lived = catch_unwind(AssertUnwindSafe(|| SimulationRun::new(seed, plan)?.live()));
    let what = match lived {
        Ok(Ok(lived)) => return Ok(lived),
        Ok(Err(what)) => what,
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => format!("a panic: {text}"),
            Err(_) => "a panic".to_owned(),
        },
    };
    Err(Broken {
        seed,
        plan: *plan,
        what,
    })
}
