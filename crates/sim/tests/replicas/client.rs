//! A publisher that is deduplicated: it says again what was not confirmed, in order, to whoever
//! leads.

use crate::ledger::{Ledger, NOISE};
use bytes::Bytes;
use leveret_stream::{BatchBuilder, Command, Event, PublisherId, Reference, RequestId, SessionId};
use leveret_types::{NodeId, QueueId};
use std::collections::VecDeque;

pub const PUBLISHER: PublisherId = PublisherId(1);

#[derive(Default)]
pub struct Client {
    /// Where it publishes, under which session.
    pub at: Option<(NodeId, SessionId)>,
    is_declared: bool,
    unconfirmed: VecDeque<u64>,
    /// How many of these were said in this session.
    said: usize,
    last: u64,
}

impl Client {
    pub fn declare(&mut self, node: NodeId, session: SessionId, stream: QueueId) -> Command {
        self.at = Some((node, session));
        self.is_declared = false;
        self.said = 0;
        Command::DeclarePublisher {
            request: RequestId(1),
            stream,
            publisher: PUBLISHER,
            reference: Reference::new(Bytes::from_static(b"publisher")),
        }
    }

    pub fn leave(&mut self) {
        self.at = None;
        self.is_declared = false;
    }

    /// Says what was not said in this session, with some new messages.
    pub fn publish(&mut self, stream: QueueId, new: u64, bytes: usize) -> Option<Command> {
        if !self.is_declared {
            return None;
        }
        for _ in 0..new {
            self.last += 1;
            self.unconfirmed.push_back(self.last);
        }
        if self.said == self.unconfirmed.len() {
            return None;
        }
        let mut batch = BatchBuilder::new();
        for id in self.unconfirmed.iter().skip(self.said) {
            let mut body = id.to_be_bytes().to_vec();
            body.resize(8 + bytes, 7);
            assert!(batch.push(*id, None, &body));
        }
        self.said = self.unconfirmed.len();
        Some(Command::Publish {
            stream,
            publisher: PUBLISHER,
            batch: batch.take(),
        })
    }

    pub fn hear(&mut self, session: SessionId, event: &Event, ledger: &mut Ledger) {
        if self.at.is_none_or(|(_, at)| at != session) {
            return;
        }
        match event {
            Event::PublisherDeclared { result: Ok(()), .. } => self.is_declared = true,
            Event::Confirmed { ids, .. } => {
                for id in ids {
                    assert_eq!(
                        self.unconfirmed.pop_front(),
                        Some(*id),
                        "confirmed in order"
                    );
                    self.said -= 1;
                    ledger.confirmed = ledger.confirmed.max(*id);
                }
            }
            Event::PublisherDeclared { .. } | Event::Refused { .. } | Event::Gone { .. } => {
                self.leave();
            }
            _ => {}
        }
    }

    pub fn is_done(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

/// What a publisher says that is not deduplicated and that nobody counts.
pub fn noise(stream: QueueId, messages: u64) -> [Command; 2] {
    let publisher = PublisherId(2);
    let mut batch = BatchBuilder::new();
    for id in 0..messages {
        assert!(batch.push(id, None, &NOISE.to_be_bytes()));
    }
    let declare = Command::DeclarePublisher {
        request: RequestId(3),
        stream,
        publisher,
        reference: None,
    };
    let batch = batch.take();
    let publish = Command::Publish {
        stream,
        publisher,
        batch,
    };
    [declare, publish]
}
