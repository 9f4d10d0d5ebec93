//! How the TLS handshakes of an IO thread's connections are computed elsewhere: their session is
//! away meanwhile, and their socket is not read.

use super::{IoThread, lost, slot_of};
use crate::transport::HandshakeDone;
use leveret_types::ConnectionId;
use std::io;

impl IoThread {
    /// Hands over a connection's handshake if that has a step to compute.
    pub(super) fn hand_over_handshake(&mut self, slot: usize) {
        let Some(state) = &mut self.slots[slot] else {
            return;
        };
        let Some(step) = state.transport.take_handshake() else {
            return;
        };
        state.input.first_byte_until_ms = 0;
        if !self.broker.compute_handshake(state.id, step) {
            let connection = state.client.name();
            tracing::warn!(%connection, "connection refused: too many TLS handshakes wait");
            state.broken = true;
        }
    }

    /// A step was computed: the session is back, and its socket is read on.
    pub(super) fn take_back_handshake(&mut self, id: ConnectionId, done: HandshakeDone) {
        let slot = slot_of(id);
        let Some(Some(state)) = self.slots.get_mut(slot) else {
            return;
        };
        if state.id != id {
            return;
        }
        let result = state.transport.put_back(done);
        state.output.blocked = false;
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.output.blocked = true,
            Err(error) => lost(state, &error),
        }
        // What came meanwhile has no edge of its own.
        state.input.unread = true;
        self.queue_read(slot);
        self.touch(slot);
    }
}
