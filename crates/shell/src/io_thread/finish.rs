//! The end of a turn: what connections have gathered is written, each is heard of again when it
//! needs to be, and those that are over go.

use super::{IoThread, OUTPUT_BYTES_MAX, Slot};
use leveret_node::Env;
use leveret_types::Now;
use leveret_types::limits::{CLIENT_GONE_MS_MAX, SHUTDOWN_CLIENT_MS};
use std::cmp::Reverse;
use std::io::{self, IoSlice};

/// Slices of one vectored write.
const SLICES_MAX: usize = 64;

impl IoThread {
    /// Writes what the connections have gathered, and sees to it that each is heard of again when
    /// it needs to be.
    pub(super) fn finish_touched(&mut self, now: Now, epoch: u64) {
        let mut touched = std::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            self.finish(now, slot, epoch);
        }
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    fn finish(&mut self, now: Now, slot: usize, epoch: u64) {
        let Some(state) = &mut self.slots[slot] else {
            return;
        };
        state.touched = false;
        // Nobody is there any more to hear what becomes of the login: its check is not run.
        state.broken |= state.ending && state.client.checking();
        let first_byte_at = state.check_pending_login(now);
        if state.client.over() && !state.torn_down {
            // What was the connection's alone is gone before the client hears that the connection
            // is closed.
            state.torn_down = true;
            state.client.teardown(now, &self.broker);
            self.broker.run_deferred(now);
        }
        let Some(state) = &mut self.slots[slot] else {
            return;
        };
        while !state.broken && !state.write_blocked {
            write_output(state, now);
            state.client.written(now, &self.broker);
            // What was held back while the output was full may have gone into it now.
            if state.client.output().writable_len() == 0 {
                break;
            }
        }
        let mut gone_at = None;
        let output_fits = state.client.output().len() <= OUTPUT_BYTES_MAX;
        if !state.ending || state.client.reading() && output_fits {
            state.gone_ms = 0;
        } else {
            // Nobody waits for what is held back any more. It has a while to be carried out still.
            if state.gone_ms == 0 {
                state.gone_ms = now.monotonic_ms.max(1);
            }
            let at = state.gone_ms + CLIENT_GONE_MS_MAX;
            state.broken |= at <= now.monotonic_ms;
            gone_at = Some(at);
        }
        // An orderly end waits for who still takes what waits for it, and for no last words else.
        let given_up_at = self.draining.then(|| state.taken_ms + SHUTDOWN_CLIENT_MS);
        state.broken |= given_up_at.is_some_and(|at| at <= now.monotonic_ms);
        let written = state.client.output().is_empty();
        if written && !state.output_ended && state.client.ends_output() {
            state.output_ended = true;
            // A socket that cannot be told so is gone.
            state.broken |= state.transport.end_output().is_err();
        }
        // A node that goes down waits for nobody's last words.
        let over = state.client.closed() || self.draining && state.client.over();
        if state.broken || over && written {
            self.close(now, slot);
            return;
        }
        // A publisher ahead of the write-ahead log is read on when that has gone on.
        let ahead = state.unread && state.client.publishes() && self.broker.log_congested();
        if (ahead || state.client.awaiting()) && !state.awaiting {
            state.awaiting = true;
            self.awaiting.push(slot);
            self.broker.await_durable(self.index, epoch);
        }
        let deadlines = [state.client.deadline(), gone_at, given_up_at, first_byte_at];
        let deadline = deadlines.into_iter().flatten().min();
        let deadline = match (deadline, state.write_blocked) {
            (Some(at), false) => Some(at),
            (at, true) => Some(at.unwrap_or(u64::MAX).min(now.monotonic_ms + 10_000)),
            (None, false) => None,
        };
        if let Some(at) = deadline
            && (state.deadline_ms == 0 || at < state.deadline_ms)
        {
            state.deadline_ms = at.max(1);
            self.deadlines.push(Reverse((state.deadline_ms, slot)));
        }
        let output_fits = state.client.output().len() <= OUTPUT_BYTES_MAX;
        if state.unread && !ahead && state.client.reading() && output_fits {
            self.queue_read(slot);
        }
    }

    fn close(&mut self, now: Now, slot: usize) {
        let Some(mut state) = self.slots[slot].take() else {
            return;
        };
        if !state.torn_down {
            state.client.teardown(now, &self.broker);
        }
        // A socket that is gone already cannot be deregistered, and need not be.
        let _ = self.poll.registry().deregister(state.transport.socket());
        self.free.push(slot);
        self.open -= 1;
        self.broker.connection_closed();
        // What the connection held went back to queues, which may have delivered it to others here.
        self.broker.run_deferred(now);
    }
}

impl Slot {
    /// Gives back its place among those that have not logged in once it has, or tells whether it is
    /// the node's turn; says when it must have brought its first byte, if it has not.
    fn check_pending_login(&mut self, now: Now) -> Option<u64> {
        let pending_login = self.pending_login.as_ref()?;
        if self.client.open() {
            self.pending_login = None;
            return None;
        }
        pending_login.set_checked(self.client.checking());
        let until_ms = Some(self.first_byte_until_ms).filter(|until| *until > 0);
        self.broken |= until_ms.is_some_and(|until| until <= now.monotonic_ms);
        until_ms
    }
}

fn write_output(state: &mut Slot, now: Now) {
    state.client.flush();
    loop {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = state.client.output().slices(&mut slices);
        if count == 0 {
            break;
        }
        match state.transport.write(&slices[..count]) {
            Ok(0) => {
                state.broken = true;
                return;
            }
            Ok(written) => {
                state.client.output().advance(written);
                state.write_progress_ms = now.monotonic_ms;
                state.taken_ms = now.monotonic_ms;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.write_blocked = true;
                return;
            }
            Err(error) => {
                tracing::debug!(%error, connection = %state.client.name(), "connection lost");
                state.broken = true;
                return;
            }
        }
    }
    state.write_progress_ms = now.monotonic_ms;
    match state.transport.flush() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.write_blocked = true,
        Err(_) => state.broken = true,
        Ok(()) => {}
    }
}
