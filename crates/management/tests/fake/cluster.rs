//! Fakes that are nodes of one cluster: each has its share of what there is besides the usual
//! things, and they ask each other.

use super::Fake;
use leveret_management::api::ReplicaStats;
use leveret_management::question::Question;
use leveret_management::{App, answers};
use leveret_types::{ConnectionId, NodeId, QueueId, RaftCounts};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A fake's place in a cluster.
#[derive(Default)]
pub struct Member {
    /// Which part of how many is here; all where there is none.
    pub share: Option<(u64, u64)>,
    /// The other nodes.
    pub others: Mutex<Vec<(NodeId, Arc<App>)>>,
    /// Others that do not answer any more.
    pub silent: Mutex<Vec<NodeId>>,
    /// How many of the next questions are answered by all, before those others fall silent.
    pub before_silence: AtomicU64,
    /// Questions of this node.
    pub questions: AtomicU64,
    /// Bytes of questions of this node and their answers.
    pub moved_bytes: AtomicU64,
    /// Bytes of the longest answer.
    pub longest_bytes: AtomicU64,
    /// How often a node was asked, and did not answer.
    pub waits: AtomicU64,
}

impl Member {
    /// Whether a queue is led here.
    pub fn leads(&self, queue: QueueId) -> bool {
        let is_here = |(part, parts)| queue.unmarked().0 % parts == part;
        self.share.is_none_or(is_here)
    }

    /// Whether the usual connections are here.
    pub fn has_usual(&self) -> bool {
        self.share.is_none_or(|(part, _)| part == 0)
    }

    /// The number in the name of a connection, which no other node has.
    pub fn number_of(&self, connection: ConnectionId) -> u64 {
        let (part, parts) = self.share.unwrap_or((0, 1));
        1_000 + (connection.0 - 1_000) * parts + part
    }

    /// What other nodes answer, or those of `only`.
    pub fn ask(&self, only: Option<&[NodeId]>, question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        let asked = question.encode();
        self.questions.fetch_add(1, Relaxed);
        let fewer = |left: u64| left.checked_sub(1);
        let all_speak = self.before_silence.fetch_update(Relaxed, Relaxed, fewer);
        let silent = self.silent.lock().expect("silent").clone();
        let others = self.others.lock().expect("others");
        let is_asked =
            |(node, _): &&(NodeId, Arc<App>)| only.is_none_or(|only| only.contains(node));
        let mut answers = Vec::new();
        for (node, app) in others.iter().filter(is_asked) {
            if all_speak.is_err() && silent.contains(node) {
                self.waits.fetch_add(1, Relaxed);
                continue;
            }
            let answer = answers::answer(app, asked.as_bytes());
            self.moved_bytes
                .fetch_add((asked.len() + answer.len()) as u64, Relaxed);
            self.longest_bytes.fetch_max(answer.len() as u64, Relaxed);
            answers.push((*node, answer));
        }
        answers
    }
}

/// Nodes 1 to `count`, which share things evenly, each with what is served of it.
pub fn nodes(count: u32, make: impl Fn(Fake) -> Arc<Fake>) -> Vec<(Arc<Fake>, Arc<App>)> {
    let node = |part: u32| {
        let share = Some((part.into(), count.into()));
        let member = Member {
            share,
            ..Member::default()
        };
        let node = make(Fake {
            member,
            ..Fake::default()
        });
        let app = App::new(Arc::clone(&node) as _, None, false);
        (node, Arc::new(app))
    };
    let nodes: Vec<_> = (0..count).map(node).collect();
    for (at, (node, _)) in nodes.iter().enumerate() {
        let apps = (1..)
            .map(NodeId)
            .zip(nodes.iter().map(|(_, app)| Arc::clone(app)));
        let others = apps.enumerate().filter(|(other, _)| *other != at);
        *node.member.others.lock().expect("others") = others.map(|(_, other)| other).collect();
    }
    nodes
}

/// The replica of the quorum queue here.
pub fn replica(queue: QueueId) -> Option<ReplicaStats> {
    (queue == QueueId(9)).then(|| ReplicaStats {
        role: "follower",
        term: 7,
        counts: RaftCounts {
            appends: 40,
            elections: 2,
            ..RaftCounts::default()
        },
        ..ReplicaStats::default()
    })
}

/// A quorum queue `r` in `other` with members on nodes 1 (this one, which follows), 2 and 3, and
/// what is known of it.
#[derive(Clone, Default)]
pub struct Group {
    /// Whom the member here takes for the leader.
    pub leader: Option<NodeId>,
    /// Who is down.
    pub down: Option<NodeId>,
    /// Who says that it leads, when it is asked.
    pub leads: Option<NodeId>,
}
