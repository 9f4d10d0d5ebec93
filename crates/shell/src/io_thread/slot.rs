//! One connection of an IO thread: its socket, its client, and how far reading and writing are.

use super::client::Client;
use crate::admission::PendingLogin;
use crate::read_size::ReadSize;
use crate::transport::Transport;
use leveret_queue_host::delivery_credit::OutboxShare;
use leveret_types::limits::{
    CLIENT_GONE_MS_MAX, CONNECTION_FIRST_BYTE_MS_MAX, UNFINISHED_PROBE_MS, UNREAD_PROBE_MS,
};
use leveret_types::{ConnectionId, Now};
use std::io;

/// After which a socket that took less than it was given is looked at again.
const SOCKET_STALL_CHECK_MS: u64 = 10_000;

/// One connection.
pub(super) struct Slot {
    pub(super) id: ConnectionId,
    pub(super) transport: Transport,
    pub(super) client: Client,
    /// Held until the client has logged in.
    pub(super) pending_login: Option<PendingLogin>,
    pub(super) input: Input,
    pub(super) output: OutputProgress,
    pub(super) listed: Listed,
    pub(super) torn_down: bool,
    pub(super) broken: bool,
}

/// What is known of the bytes that the client sends.
pub(super) struct Input {
    /// The socket may hold bytes that have not been read.
    pub(super) unread: bool,
    pub(super) read_size: ReadSize,
    /// When it must have brought its first byte, in monotonic milliseconds; 0 once it has.
    pub(super) first_byte_until_ms: u64,
    /// The client sends nothing more: behind what the socket holds is its end, of which no edge
    /// tells again.
    pub(super) ending: bool,
    /// Since when that is known, and what it had sent before is not to be read; 0 if it is.
    pub(super) gone_ms: u64,
    /// When it is next seen to whether the client is still there though its input is not to be
    /// read; 0 if that is read.
    pub(super) probe_ms: u64,
}

/// How far the client takes what is written.
pub(super) struct OutputProgress {
    /// The socket took less than it was given.
    pub(super) blocked: bool,
    /// When the socket last took something while output waited.
    pub(super) progress_ms: u64,
    /// When the socket last took something, or, if that is later, when an orderly end began.
    pub(super) taken_ms: u64,
    /// The client has been shown the end of the output.
    pub(super) ended: bool,
    /// What waits to be written, as the node counts it.
    pub(super) share: OutboxShare,
}

/// In which lists of its thread a connection stands, so that it is not entered twice.
#[derive(Default)]
pub(super) struct Listed {
    /// Those to be read in this turn.
    pub(super) queued: bool,
    /// Those that something happened to in this turn.
    pub(super) touched: bool,
    /// Those that wait for the write-ahead log.
    pub(super) awaiting: bool,
    /// The deadline that stands in the heap; 0 for none.
    pub(super) deadline_ms: u64,
}

impl Slot {
    /// A connection that was just accepted.
    pub(super) fn new(
        id: ConnectionId,
        transport: Transport,
        client: Client,
        pending_login: PendingLogin,
        share: OutboxShare,
        now: Now,
    ) -> Self {
        Self {
            id,
            transport,
            client,
            pending_login: Some(pending_login),
            input: Input {
                unread: true,
                read_size: ReadSize::default(),
                first_byte_until_ms: now.monotonic_ms + CONNECTION_FIRST_BYTE_MS_MAX,
                ending: false,
                gone_ms: 0,
                probe_ms: 0,
            },
            output: OutputProgress {
                blocked: false,
                progress_ms: now.monotonic_ms,
                taken_ms: now.monotonic_ms,
                ended: false,
                share,
            },
            listed: Listed::default(),
            torn_down: false,
            broken: false,
        }
    }

    /// Whether the client has hung up while others compute what it needs to go on.
    pub(super) fn has_gone(&self) -> bool {
        self.input.ending && (self.client.checking() || self.transport.awaits_answer())
    }

    /// Whether the client's input may be read.
    pub(super) fn is_read(&mut self) -> bool {
        self.client.reading() && !self.is_stuck()
    }

    /// Whether so much waits to be written that the client must take some of it first.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.client.output().len() > self.output.share.bytes_max()
    }

    /// Whether a publish waits for room that can never become whole: the client sends no more, and
    /// what it has sent is not all of it.
    pub(super) fn waits_in_vain(&self) -> bool {
        let lacks = self.client.lacks_bytes().filter(|_| self.input.ending);
        lacks.is_some_and(|bytes| self.transport.unread_bytes_max() < bytes)
    }

    /// A client that has gone hides behind what it had sent while that is not read: where the
    /// socket has no room for it all, the end does not come. To say something finds it out, for its
    /// system refuses to take that. Says when that is done next, if it is.
    pub(super) fn probe(&mut self, now: Now) -> Option<u64> {
        if !self.input.unread || self.input.ending || self.output.blocked || self.is_read() {
            self.input.probe_ms = 0;
            return None;
        }
        // Others wait behind one that waits for room.
        let wait_ms = match self.client.lacks_bytes() {
            Some(_) => UNFINISHED_PROBE_MS,
            None => UNREAD_PROBE_MS,
        };
        if self.input.probe_ms > 0 && self.input.probe_ms <= now.monotonic_ms {
            self.client.beat();
            self.input.probe_ms = 0;
        }
        let probe_ms = now.monotonic_ms + wait_ms;
        self.input.probe_ms = match self.input.probe_ms {
            0 => probe_ms,
            at => at.min(probe_ms),
        };
        Some(self.input.probe_ms)
    }

    /// Gives back its place among those that have not logged in once it has, or tells whether it is
    /// the node's turn; says when it must have brought its first byte, if it has not.
    pub(super) fn check_pending_login(&mut self, now: Now) -> Option<u64> {
        let pending_login = self.pending_login.as_ref()?;
        if self.client.open() {
            self.pending_login = None;
            return None;
        }
        pending_login.set_checked(self.client.checking());
        let until_ms = Some(self.input.first_byte_until_ms).filter(|until| *until > 0);
        self.broken |= until_ms.is_some_and(|until| until <= now.monotonic_ms);
        until_ms
    }

    /// Counts how long a client has been gone whose input is not read; breaks its connection after
    /// a while, and says when that is.
    pub(super) fn check_gone(&mut self, now: Now) -> Option<u64> {
        if !self.input.ending || self.is_read() {
            self.input.gone_ms = 0;
            return None;
        }
        // Nobody waits for what is held back any more. It has a while to be carried out still.
        if self.input.gone_ms == 0 {
            self.input.gone_ms = now.monotonic_ms.max(1);
        }
        let at = self.input.gone_ms + CLIENT_GONE_MS_MAX;
        self.broken |= at <= now.monotonic_ms;
        Some(at)
    }

    /// Shows the client the end of the output once, when all is written; says whether it is.
    pub(super) fn end_output(&mut self) -> bool {
        let written = self.client.output().is_empty();
        if written && !self.output.ended && self.client.ends_output() {
            self.output.ended = true;
            // A socket that cannot be told so is gone.
            self.broken |= self.transport.end_output().is_err();
        }
        written
    }

    /// The deadline that is to be entered, if one of these is before the one that stands.
    pub(super) fn new_deadline(&mut self, now: Now, own: [Option<u64>; 4]) -> Option<u64> {
        let deadlines = own.into_iter().chain([self.client.deadline()]);
        let stalled_at = now.monotonic_ms + SOCKET_STALL_CHECK_MS;
        let stalled_at = self.output.blocked.then_some(stalled_at);
        let at = deadlines.chain([stalled_at]).flatten().min()?.max(1);
        if self.listed.deadline_ms > 0 && self.listed.deadline_ms <= at {
            return None;
        }
        self.listed.deadline_ms = at;
        Some(at)
    }
}

/// Says why a connection has ended that its stream ended.
pub(super) fn lost(state: &mut Slot, error: &io::Error) {
    let connection = state.client.name();
    match state.transport.established() {
        true => tracing::debug!(%error, %connection, "connection lost"),
        // A certificate that is refused, say: the client is told less than this.
        false => tracing::warn!(%error, %connection, "TLS handshake failed"),
    }
    state.broken = true;
}
