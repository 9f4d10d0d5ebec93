//! Who leads replicated streams: chosen by the node that leads the catalogue's group, of what the
//! members of a stream answer when they are asked to prepare its next epoch.
//!
//! Elections of many streams go on at once; what they choose is proposed as soon as it is known,
//! and what is proposed together is one entry of the catalogue. An idle stream has no part in this.
//!
//! Invariant: an epoch has one leader: the catalogue takes a choice only if the epoch before is
//! still the last one.

use super::election_request::ElectionRequest;
use leveret_metadata::{Catalogue, Command, QueueRecord};
use leveret_stream::ReplicaMessage;
use leveret_stream::replica::{Answer, Epoch, choose};
use leveret_types::limits::STREAM_ELECTION_MS;
use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, BTreeSet};

/// How often streams are looked through for those whose leader is not up.
const CHECK_EVERY_MS: u64 = 5_000;

/// What elections are about.
#[derive(Debug)]
pub(super) enum Event {
    /// A node is up, or is not any more.
    Peer(NodeId, bool),
    /// A replica cannot follow the catalogue, or should lead no more.
    ElectionRequest(NodeId, ElectionRequest),
    /// The leader on this node hands over to that one, if the stream may be led there.
    Move(NodeId, QueueId, NodeId),
    /// A replica has answered.
    Prepared(NodeId, QueueId, ReplicaMessage),
}

/// One election.
#[derive(Debug)]
struct Election {
    /// The catalogue's epoch.
    after: u64,
    /// The one that is to begin.
    epoch: Epoch,
    queried: BTreeSet<NodeId>,
    answers: Vec<Answer>,
    /// Who is not to lead, and is not asked while the others are a majority, until they are asked
    /// again.
    left_out: Option<NodeId>,
    preferred: Option<NodeId>,
    /// When it is asked and proposed again.
    again_ms: u64,
}

/// What is to be done for elections.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) asks: Vec<(NodeId, QueueId, Epoch)>,
    pub(super) proposals: Vec<Command>,
}

/// The elections that go on, on the node that leads the catalogue's group.
#[derive(Debug, Default)]
pub(super) struct Elections {
    leads: bool,
    running: BTreeMap<QueueId, Election>,
    next_check_ms: u64,
}

impl Elections {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes note of what has happened, and goes on.
    pub(super) fn run(
        &mut self,
        now: Now,
        events: Vec<Event>,
        leads: bool,
        catalogue: &Catalogue,
        is_up: impl Fn(NodeId) -> bool + Copy,
    ) -> Steps {
        let mut steps = Steps::default();
        if leads != self.leads {
            *self = Self {
                leads,
                ..Self::default()
            };
        }
        if !leads {
            return steps;
        }
        for event in events {
            self.take(now, event, catalogue);
        }
        if self.next_check_ms <= now.monotonic_ms {
            self.next_check_ms = now.monotonic_ms + CHECK_EVERY_MS;
            let lost = catalogue
                .queues(None)
                .filter(|r| is_led(r) && !is_up(r.home()));
            lost.for_each(|record| self.begin(now, record, Epoch(0)));
        }
        self.running.retain(|stream, election| {
            let record = catalogue.queue(*stream).filter(|record| is_led(record));
            record.is_some_and(|record| record.epoch() == election.after)
        });
        for (stream, election) in &mut self.running {
            if let Some(record) = catalogue.queue(*stream) {
                election.step(now, record, is_up, &mut steps);
            }
        }
        steps
    }

    fn take(&mut self, now: Now, event: Event, catalogue: &Catalogue) {
        match event {
            Event::Peer(node, true) => {
                for election in self.running.values_mut() {
                    election.queried.remove(&node);
                }
            }
            Event::Peer(node, false) => {
                for record in catalogue.queues(None) {
                    if is_led(record) && record.home() == node {
                        self.begin(now, record, Epoch(0));
                    }
                }
            }
            Event::ElectionRequest(from, election_request) => {
                let record = catalogue
                    .queue(election_request.stream)
                    .filter(|r| is_led(r));
                // A replica that has not heard of the newest epoch needs no other one.
                if let Some(record) = record.filter(|r| election_request.promised.0 >= r.epoch()) {
                    self.begin(now, record, election_request.promised);
                    let tired = election_request.wants_other_leader && record.home() == from;
                    self.leave_out(election_request.stream, tired.then_some(from), None);
                }
            }
            Event::Move(from, stream, to) => {
                let record = catalogue.queue(stream).filter(|r| is_led(r));
                if let Some(record) = record.filter(|r| r.home() == from && from != to) {
                    self.begin(now, record, Epoch(0));
                    self.leave_out(stream, Some(from), Some(to));
                }
            }
            Event::Prepared(from, stream, message) => self.prepared(from, stream, &message),
        }
    }

    /// Begins an election, of an epoch after the one that was prepared.
    fn begin(&mut self, now: Now, record: &QueueRecord, promised: Epoch) {
        let known = self.running.get(&record.id());
        if known.is_some_and(|election| election.epoch >= promised) {
            return;
        }
        let election = Election {
            after: record.epoch(),
            epoch: Epoch(record.epoch()).max(promised).next(),
            queried: BTreeSet::new(),
            answers: Vec::new(),
            left_out: known.and_then(|election| election.left_out),
            preferred: known.and_then(|election| election.preferred),
            again_ms: now.monotonic_ms + STREAM_ELECTION_MS,
        };
        self.running.insert(record.id(), election);
    }

    fn leave_out(&mut self, stream: QueueId, node: Option<NodeId>, preferred: Option<NodeId>) {
        if let Some(election) = self.running.get_mut(&stream) {
            election.left_out = node.or(election.left_out);
            election.preferred = preferred.or(election.preferred);
        }
    }

    fn prepared(&mut self, from: NodeId, stream: QueueId, message: &ReplicaMessage) {
        let ReplicaMessage::Prepared {
            epoch,
            promised,
            position,
            is_whole,
        } = message
        else {
            return;
        };
        let Some(election) = self.running.get_mut(&stream) else {
            return;
        };
        if *epoch != election.epoch {
            return;
        }
        if *promised > election.epoch {
            // Somebody has begun a later one that did not end: its number is used up.
            election.epoch = promised.next();
            election.queried.clear();
            election.answers.clear();
            return;
        }
        election.answers.retain(|answer| answer.node != from);
        election.answers.push(Answer {
            node: from,
            promised: *promised,
            position: *position,
            is_whole: *is_whole,
        });
    }
}

impl Election {
    fn step(
        &mut self,
        now: Now,
        record: &QueueRecord,
        is_up: impl Fn(NodeId) -> bool,
        steps: &mut Steps,
    ) {
        let members: Vec<NodeId> = record.members().iter().map(|m| m.node()).collect();
        let up = |node: &NodeId| is_up(*node);
        let others = members.iter().filter(|node| Some(**node) != self.left_out);
        if 2 * others.filter(|node| up(node)).count() <= members.len() {
            self.left_out = None;
        }
        let is_again = self.again_ms <= now.monotonic_ms;
        if is_again {
            self.again_ms = now.monotonic_ms + STREAM_ELECTION_MS;
            self.queried.clear();
            // Of the others some are up and do not answer, and those who have answered follow their
            // leader no more: it is heard too.
            self.left_out = None;
        }
        for node in &members {
            if Some(*node) != self.left_out && is_up(*node) && self.queried.insert(*node) {
                steps.asks.push((*node, record.id(), self.epoch));
            }
        }
        let counts = |answer: &&Answer| Some(answer.node) != self.left_out;
        let answers: Vec<Answer> = self.answers.iter().filter(counts).copied().collect();
        let preferred: Vec<NodeId> = self.preferred.into_iter().chain([record.home()]).collect();
        if let Some(leader) = choose(self.epoch, &members, &answers, &preferred) {
            steps.proposals.push(Command::StreamLeader {
                stream: record.id().0,
                after: self.after,
                epoch: self.epoch.0,
                leader: leader.0,
            });
            // Proposed once; again with the answers to the next question.
            self.answers.clear();
        }
    }
}

/// Whether it is a replicated stream.
fn is_led(record: &QueueRecord) -> bool {
    record.epoch() > 0
}

#[cfg(test)]
#[path = "elections/tests.rs"]
mod tests;
