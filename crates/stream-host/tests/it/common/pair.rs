//! Two replicas of one stream, each on a node of its own.

use leveret_storage::{MemoryDisk, StreamFiles};
use leveret_stream::replica::Epoch;
use leveret_stream::{
    BatchBuilder, Command, Event, Events, PublisherId, ReplicaEvent, ReplicaMessage, ReplicaOrder,
    ReplicaOrigin, ReplicaRole, RequestId, SessionId, StreamSettings,
};
use leveret_stream_host::{Found, StreamHost};
use leveret_types::{ConnectionId, NodeId, Now, QueueId};
use std::path::Path;

pub const STREAM: QueueId = QueueId(7);
pub const SESSION: SessionId = SessionId::Connection(ConnectionId(1));
pub const LEADER: NodeId = NodeId(1);
pub const FOLLOWER: NodeId = NodeId(2);
/// Whoever elects; it has no replica.
pub const ELECTOR: NodeId = NodeId(9);

/// One node with its disk.
pub struct Node {
    pub id: NodeId,
    pub disk: MemoryDisk,
    pub host: StreamHost<MemoryDisk>,
    pub lives: u64,
    pub reports: Vec<ReplicaEvent>,
    pub answers: Vec<ReplicaMessage>,
    pub events: Vec<Event>,
}

pub fn host(disk: &MemoryDisk, life: u64) -> StreamHost<MemoryDisk> {
    StreamHost::new(StreamFiles::open(disk.clone(), Path::new("streams"), life).unwrap())
}

impl Node {
    pub fn new(id: NodeId) -> Self {
        let disk = MemoryDisk::new();
        let mut node = Self {
            id,
            host: host(&disk, 1),
            disk,
            lives: 1,
            reports: Vec::new(),
            answers: Vec::new(),
            events: Vec::new(),
        };
        node.begin(ReplicaOrigin::NewStream);
        node
    }

    pub fn begin(&mut self, origin: ReplicaOrigin) -> Found {
        let settings = StreamSettings::default();
        self.host
            .begin_replica(STREAM, settings, self.id, origin)
            .unwrap()
    }

    /// Ends, and starts with what is on this disk.
    pub fn restart(&mut self, disk: MemoryDisk, origin: ReplicaOrigin) -> Found {
        self.lives += 1;
        self.host = host(&disk, self.lives);
        self.disk = disk;
        self.begin(origin)
    }

    pub fn order(&mut self, epoch: Epoch) {
        let leader = LEADER;
        let order = match self.id == leader {
            true => ReplicaOrder::Lead {
                epoch,
                members: (1..=3).map(NodeId).collect(),
            },
            false => ReplicaOrder::Follow { epoch, leader },
        };
        self.host.order(STREAM, order, &mut Events::new());
    }

    /// Takes turns until it reads no more.
    pub fn turn(&mut self) {
        let mut events = Events::new();
        loop {
            self.host.end_turn(Now::both(0), &mut events).unwrap();
            for sync in self.host.take_syncs() {
                self.host.synced(&sync.run().unwrap());
            }
            let reads = self.host.take_reads();
            if reads.is_empty() {
                break;
            }
            for read in reads {
                self.host.was_read(read.run(), &mut events);
            }
        }
        let reports = self.host.take_reports();
        self.reports.extend(reports.into_iter().map(|(_, r)| r));
        self.events.extend(events.into_iter().map(|(_, e)| e));
    }

    /// What it promises when it is asked to prepare an epoch, and whether it is whole.
    pub fn prepare(&mut self, epoch: Epoch) -> (Epoch, bool) {
        let prepare = ReplicaMessage::Prepare { epoch };
        self.host
            .receive(ELECTOR, STREAM, prepare, &mut Events::new());
        let mut pair = [self];
        run(&mut pair);
        match pair[0].answers.pop() {
            Some(ReplicaMessage::Prepared {
                promised, is_whole, ..
            }) => (promised, is_whole),
            other => panic!("{other:?}"),
        }
    }

    pub fn leads(&self) -> bool {
        matches!(self.host.role(STREAM), Some(ReplicaRole::Leader { .. }))
    }

    pub fn needs_an_epoch(&mut self) -> bool {
        let reports = std::mem::take(&mut self.reports);
        let needed = |r: &ReplicaEvent| matches!(r, ReplicaEvent::ElectionNeeded { .. });
        reports.iter().any(needed)
    }
}

/// Takes turns until nobody has anything to say.
pub fn run(nodes: &mut [&mut Node]) {
    loop {
        let mut messages = Vec::new();
        for node in nodes.iter_mut() {
            node.turn();
            let to: Vec<NodeId> = node.host.messages_for().collect();
            for to in to {
                let taken = node.host.take_messages(to, usize::MAX);
                messages.extend(taken.into_iter().map(|(_, m)| (node.id, to, m)));
            }
        }
        if messages.is_empty() {
            return;
        }
        for (from, to, message) in messages {
            if let Some(at) = nodes.iter_mut().find(|node| node.id == to) {
                let mut events = Events::new();
                at.host.receive(from, STREAM, message, &mut events);
                at.events.extend(events.into_iter().map(|(_, e)| e));
            } else if let Some(asked) = nodes.iter_mut().find(|n| n.id == from && to == ELECTOR) {
                asked.answers.push(message);
            }
        }
    }
}

/// Publishes one message at the leader; whether it is confirmed.
pub fn publishes(leader: &mut Node, follower: &mut Node, id: u64) -> bool {
    let publisher = PublisherId(1);
    let declare = Command::DeclarePublisher {
        request: RequestId(0),
        stream: STREAM,
        publisher,
        reference: None,
    };
    let mut batch = BatchBuilder::new();
    assert!(batch.push(id, None, b"body"));
    let publish = Command::Publish {
        stream: STREAM,
        publisher,
        batch: batch.take(),
    };
    for command in [declare, publish] {
        let mut events = Events::new();
        leader
            .host
            .handle(Now::both(0), SESSION, command, &mut events);
    }
    leader.events.clear();
    run(&mut [leader, follower]);
    let confirms = |e: &Event| matches!(e, Event::Confirmed { ids, .. } if ids.contains(&id));
    leader.events.iter().any(confirms)
}

/// A stream with two of three members up, and a message that both have.
pub fn pair() -> (Node, Node) {
    let (mut leader, mut follower) = (Node::new(LEADER), Node::new(FOLLOWER));
    leader.order(Epoch(1));
    follower.order(Epoch(1));
    run(&mut [&mut leader, &mut follower]);
    assert!(publishes(&mut leader, &mut follower, 1));
    (leader, follower)
}

/// The link between both is new.
pub fn reconnect(leader: &mut Node, follower: &mut Node) {
    leader.host.connected(FOLLOWER);
    follower.host.connected(LEADER);
    run(&mut [leader, follower]);
}

/// An election that the leader wins once more; gives the epoch.
pub fn elect(leader: &mut Node, follower: &mut Node, after: Epoch) -> Epoch {
    let mut epoch = after.next();
    loop {
        let promised = [leader.prepare(epoch).0, follower.prepare(epoch).0];
        match promised.iter().max() {
            Some(newest) if *newest > epoch => epoch = newest.next(),
            _ => break,
        }
    }
    leader.order(epoch);
    follower.order(epoch);
    reconnect(leader, follower);
    epoch
}
