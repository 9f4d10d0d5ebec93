//! Elections of a group that does not tick: begun by the failure detector, ended by a leader.
//!
//! A follower trusts its leader for as long as the detector says that the leader's node is up: the
//! library's timer stands still, and candidates are ignored. When the node is down, the trust ends
//! at once and the members stand one after the other, in an order that is the group's own, so that
//! they rarely split the votes and the groups of a dead node do not all stand at once. When there
//! is only reason to doubt (a new connection, another member that stands), the leader is asked, and
//! has as long to answer as an election timeout is.
//!
//! The members of a new group begin one after the other. The one that is to lead it stands as soon
//! as it is there, and again with each other one that says that it is there too.

use crate::group::Group;
use crate::message::{Body, Message};
use leveret_types::ReplicaId;
use leveret_types::limits::{GROUP_TICK_MS, PEER_HEARTBEAT_MS};
use raft::StateRole;

/// Ticks for which a leader's word is trusted while time is counted, and between two attempts.
pub(crate) const ELECTION_TICKS: usize = 10;
/// Ticks by which the second in the order waits longer than the first. The second may have noticed
/// the leader's death up to a heartbeat of its node earlier.
const RANK_TICKS: usize = 8;
/// Ticks over which the groups of one node spread.
const SPREAD_TICKS: usize = 5;
/// The last entry of a group that nobody has led yet.
const FOUNDING_INDEX: u64 = 1;
/// Ticks between two questions to a leader.
const ASK_TICKS: usize = 4;

const _: () = assert!(
    (RANK_TICKS - SPREAD_TICKS) as u64 * GROUP_TICK_MS > PEER_HEARTBEAT_MS,
    "the second waits for the first's round"
);

/// What a member knows of elections that the library does not.
#[derive(Debug)]
pub(crate) struct Election {
    seed: u64,
    /// Draws so far.
    draws: u64,
    /// Ticks without a leader's word after which this member stands.
    timeout: usize,
    /// Whether the leader may be gone.
    pub(crate) is_in_doubt: bool,
    /// Whether to stand as soon as all that is here is durable.
    is_standing_due: bool,
    /// Term, role and leader when the timeout was drawn.
    pub(crate) seen: (u64, StateRole, u64),
}

impl Election {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            draws: 0,
            timeout: 0,
            is_in_doubt: false,
            is_standing_due: false,
            seen: (0, StateRole::Follower, 0),
        }
    }
}

impl Group {
    pub(crate) fn election_wants_tick(&self) -> bool {
        let membership = self.membership();
        // A leader that was let go goes on until another one leads, or its node takes it away.
        let is_led = self
            .leader()
            .is_some_and(|leader| membership.contains(leader));
        let is_settled = is_led && !self.election.is_in_doubt;
        !is_settled
            && membership.contains(self.replica)
            && membership.has_majority(|voter| self.is_up(voter))
            || self.election.is_standing_due
    }

    pub(crate) fn tick_election(&mut self) {
        if !self.election_wants_tick() {
            return;
        }
        let elapsed = self.raw.raft.election_elapsed;
        if elapsed.is_multiple_of(ASK_TICKS) && self.raw.raft.state == StateRole::Follower {
            self.ask();
        }
        self.raw.raft.election_elapsed = elapsed + 1;
        if elapsed + 1 >= self.election.timeout {
            self.raw.raft.election_elapsed = 0;
            self.draw_timeout();
            self.stand();
        }
    }

    /// The leader is gone: nobody is bound to it any more.
    pub(crate) fn lose_leader(&mut self) {
        if self.raw.raft.state == StateRole::Follower {
            self.raw.raft.leader_id = 0;
            // Where another one has stood already, and was refused for the sake of this leader, the
            // first in the order has had its turn, and waits until the next attempt.
            let turn = if self.election.is_in_doubt {
                RANK_TICKS
            } else {
                0
            };
            self.raw.raft.election_elapsed = ELECTION_TICKS + turn;
            self.election.is_in_doubt = false;
        }
    }

    /// The leader may be gone: it is asked, and given time to answer.
    pub(crate) fn doubt_leader(&mut self) {
        if self.raw.raft.state == StateRole::Follower && !self.election.is_in_doubt {
            self.election.is_in_doubt = true;
            self.raw.raft.election_elapsed = 0;
        }
    }

    /// What another member's candidacy says about the leader, before it is answered.
    pub(crate) fn before_vote(&mut self, message: &Message) {
        let Body::Vote { is_transfer, .. } = message.body else {
            return;
        };
        if is_transfer || message.term <= self.term() || self.is_leader() {
            return;
        }
        match self.leader() {
            Some(leader) if leader == message.from => self.lose_leader(),
            Some(_) => self.doubt_leader(),
            None => {}
        }
    }

    /// Stands for election, at once or as soon as this member's log is durable: a vote for itself
    /// counts at once, and must count for what is on disk.
    pub(crate) fn stand(&mut self) {
        let raft = &self.raw.raft;
        if self.is_leader() || !raft.promotable() {
            self.election.is_standing_due = false;
            return;
        }
        let is_durable = self.unsettled.is_empty() && raft.raft_log.unstable_entries().is_empty();
        self.election.is_standing_due = !is_durable;
        if is_durable {
            // A refusal means that a membership change is committed and not yet applied.
            let has_begun = self.raw.campaign().is_ok();
            self.counts.trials += u64::from(has_begun);
        }
    }

    /// Another member looks for a leader. At the beginning of a group it may not have been there
    /// when this one asked whether it would get its vote: it is asked again.
    pub(crate) fn stand_again(&mut self) {
        let raft = &self.raw.raft;
        if raft.state == StateRole::PreCandidate && raft.raft_log.last_index() == FOUNDING_INDEX {
            self.stand();
        }
    }

    /// Something became durable.
    pub(crate) fn stand_if_due(&mut self) {
        if self.election.is_standing_due {
            self.stand();
        }
    }

    /// Draws after how many ticks to stand.
    pub(crate) fn draw_timeout(&mut self) {
        self.election.draws += 1;
        let own = mix(self.election.seed ^ self.replica.0);
        let drawn = mix(own ^ self.election.draws) % SPREAD_TICKS as u64;
        self.election.timeout = ELECTION_TICKS + self.rank() * RANK_TICKS + drawn as usize;
    }

    /// How many of the voters that are up stand before this member.
    fn rank(&self) -> usize {
        let order = |replica: ReplicaId| mix(self.election.seed.rotate_left(32) ^ replica.0);
        let own = order(self.replica);
        let voters = self.membership().voters.iter();
        let before = |voter: &&ReplicaId| self.is_up(**voter) && order(**voter) < own;
        voters.filter(before).count()
    }

    /// Asks whoever may lead.
    fn ask(&mut self) {
        let requested: Vec<ReplicaId> = match self.leader() {
            Some(leader) => vec![leader],
            None => self.membership().members(),
        };
        for to in requested {
            self.ask_one(to);
        }
    }

    pub(crate) fn ask_one(&mut self, to: ReplicaId) {
        if to != self.replica && self.is_up(to) {
            self.outbox.push(Message {
                to,
                from: self.replica,
                term: self.term(),
                body: Body::Ask,
            });
        }
    }
}

/// A number that looks random (splitmix64's finisher).
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
