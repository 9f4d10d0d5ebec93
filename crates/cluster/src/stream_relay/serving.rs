//! Events of this node's streams for the sessions of another one.

use super::frame::Frame;
use super::has_room;
use leveret_queue_host::events::PeerFrame;
use leveret_stream::{Event, SessionId};
use std::collections::VecDeque;

/// What is on its way to sessions of another node.
#[derive(Default)]
pub(super) struct Serving {
    /// Bytes of chunks that have left and not reached their sessions.
    under_way: u64,
    /// Chunks that there is no room for, as readers' credit allows, and what comes behind them.
    held: VecDeque<(SessionId, Event)>,
}

/// Bytes that count.
fn bytes_of(event: &Event) -> u64 {
    match event {
        Event::Chunk { chunk, .. } => chunk.bytes().len() as u64,
        _ => 0,
    }
}

impl Serving {
    pub(super) fn hear(&mut self, session: SessionId, event: Event, post: &dyn Fn(PeerFrame)) {
        // The end of a reader must not overtake its last chunks; all else may.
        let has_place = matches!(event, Event::Chunk { .. } | Event::ReaderEnded { .. });
        let waits = !self.held.is_empty() || !has_room(self.under_way, bytes_of(&event));
        if has_place && waits {
            return self.held.push_back((session, event));
        }
        self.send(session, event, post);
    }

    /// So many bytes of chunks have reached their sessions.
    pub(super) fn delivered(&mut self, bytes: u64, post: &dyn Fn(PeerFrame)) {
        self.under_way = self.under_way.saturating_sub(bytes);
        while let Some((_, event)) = self.held.front()
            && has_room(self.under_way, bytes_of(event))
            && let Some((session, event)) = self.held.pop_front()
        {
            self.send(session, event, post);
        }
    }

    fn send(&mut self, session: SessionId, event: Event, post: &dyn Fn(PeerFrame)) {
        self.under_way += bytes_of(&event);
        post(Frame::Event(session, event).encode());
    }
}
