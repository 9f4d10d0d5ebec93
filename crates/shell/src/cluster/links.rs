//! One connection between two nodes: its frames as bytes, and what a socket takes and gives.

use super::handshake::Protection;
use super::outbox::Outbox;
use super::seal::{self, Opener, SealError, Sealer, Session};
use bytes::{Buf, Bytes, BytesMut};
use leveret_cluster::wire::{self, Decoded, Decoder, Integrity};
use leveret_node::PeerFrame;
use leveret_types::limits::PEER_RECORD_BYTES_MAX;
use leveret_types::{NodeId, Now, QueueId};
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};

/// Slices of one vectored write.
const SLICES_MAX: usize = 128;
/// Pieces up to this size are copied together; larger ones are slices of their own.
const COPIED_BYTES_MAX: usize = 2_048;
/// Bytes of one read.
pub(super) const READ_BYTES: usize = 256 * 1024;
/// Reads of one link in one turn, so that no peer keeps the others waiting.
const READS_MAX: usize = 8;
/// Bytes that are sealed at once, in as many records as they need.
const SEALED_BYTES: usize = 4 * seal::RECORD_BYTES_MAX;

/// A link on which frames leave.
pub(super) struct Outgoing {
    pub(super) socket: TcpStream,
    /// The other node's start.
    pub(super) start: u64,
    /// The socket takes nothing for now.
    pub(super) blocked: bool,
    pub(super) since_ms: u64,
    leaving: Leaving,
}

/// What is to leave on a link.
enum Leaving {
    /// The bytes of frames, as they are.
    Plain(VecDeque<Bytes>),
    /// In records.
    Sealed(Box<Records>),
}

/// Frames on their way into records. What the socket has not taken yet is sealed only when it takes
/// more: one buffer is all that a link needs.
struct Records {
    sealer: Sealer,
    waiting: VecDeque<PeerFrame>,
    /// The frame whose header is in a record, with what of its bytes is not.
    begun: Option<PeerFrame>,
    heartbeat: bool,
    sealed: Vec<u8>,
    /// Bytes of `sealed` that the socket has.
    written: usize,
    /// Bytes of frames in `sealed`.
    frame_bytes: usize,
}

/// A link on which frames come.
pub(super) struct Incoming {
    pub(super) socket: TcpStream,
    pub(super) start: u64,
    /// The socket may hold bytes that have not been read.
    pub(super) unread: bool,
    /// The other node sends nothing more: behind what the socket holds is its end, of which no edge
    /// tells again.
    pub(super) ending: bool,
    pub(super) since_ms: u64,
    /// Something has come that only the other node can have sent.
    heard: bool,
    arriving: Arriving,
}

/// The bytes of a link on their way to frames.
struct Arriving {
    decoder: Decoder,
    /// What opens records; none where frames come as they are.
    opener: Option<Opener>,
    /// The beginning of a record of which more is to come.
    partial: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(
        socket: TcpStream,
        start: u64,
        protection: Protection,
        session: Session,
        now: Now,
    ) -> Self {
        Self {
            socket,
            start,
            unread: true,
            ending: false,
            since_ms: now.monotonic_ms,
            heard: false,
            arriving: Arriving::new(protection, session.opener),
        }
    }

    /// Reads what has come, so much of it that other nodes have their turn too.
    ///
    /// # Errors
    /// Why the link is at its end. What came before is in `frames`.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        frames: &mut Vec<(QueueId, Bytes)>,
    ) -> Result<(), String> {
        for _ in 0..READS_MAX {
            match self.socket.read(scratch) {
                Ok(0) => return Err("it has closed its link".to_owned()),
                Ok(count) => {
                    self.heard |= self.arriving.take(&mut scratch[..count], frames)?;
                    // A read that did not fill the buffer has emptied the socket: the next edge
                    // tells of more.
                    if count < scratch.len() && !self.ending {
                        self.unread = false;
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unread = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

impl Incoming {
    /// Whether the other node was heard since this was last asked: bytes that have not been
    /// authenticated yet may be anybody's, and say nothing of it.
    pub(super) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }
}

impl Arriving {
    fn new(protection: Protection, opener: Opener) -> Self {
        let (integrity, opener) = match protection {
            Protection::Sealed => (Integrity::Sealed, Some(opener)),
            Protection::Plain => (Integrity::Checksum, None),
        };
        Self {
            decoder: Decoder::new(integrity),
            opener,
            partial: Vec::new(),
        }
    }

    /// Takes in what has come: the rest of a record that began before and what is behind it. Says
    /// whether any of it is known to be the other node's. What it costs grows with what has come
    /// alone, however little that is of a record.
    fn take(
        &mut self,
        bytes: &mut [u8],
        frames: &mut Vec<(QueueId, Bytes)>,
    ) -> Result<bool, String> {
        let opened = self.open(bytes);
        while let Some(decoded) = self.decoder.take().map_err(|e| e.to_string())? {
            match decoded {
                Decoded::Frame(queue, frame) => frames.push((queue, frame)),
                Decoded::Heartbeat => {}
            }
        }
        opened.map_err(|e| e.to_string())
    }

    fn open(&mut self, bytes: &mut [u8]) -> Result<bool, SealError> {
        let Some(opener) = &mut self.opener else {
            self.decoder.feed(bytes);
            return Ok(true);
        };
        let (mut at, mut heard) = (0, false);
        while !self.partial.is_empty() {
            let lacking = seal::lacking(&self.partial).min(bytes.len() - at);
            self.partial.extend_from_slice(&bytes[at..at + lacking]);
            at += lacking;
            match opener.open(&mut self.partial)? {
                Some((said, _)) => {
                    self.decoder.feed(said);
                    self.partial.clear();
                    heard = true;
                }
                None if at == bytes.len() => return Ok(heard),
                // Its length is known now.
                None => {}
            }
        }
        while let Some((said, taken)) = opener.open(&mut bytes[at..])? {
            self.decoder.feed(said);
            at += taken;
            heard = true;
        }
        self.partial.extend_from_slice(&bytes[at..]);
        Ok(heard)
    }
}

impl Outgoing {
    pub(super) fn new(
        socket: TcpStream,
        start: u64,
        protection: Protection,
        session: Session,
        now: Now,
    ) -> Self {
        Self {
            socket,
            start,
            blocked: false,
            since_ms: now.monotonic_ms,
            leaving: Leaving::new(protection, session.sealer),
        }
    }

    /// Adds frames behind those that wait. `staging` is a buffer to make bytes in.
    pub(super) fn add(&mut self, frames: &mut Vec<PeerFrame>, staging: &mut BytesMut) {
        self.leaving.add(frames, staging);
    }

    /// Adds a heartbeat, if nothing else waits: any frame says that this node lives.
    pub(super) fn beat(&mut self) {
        self.leaving.beat();
    }

    /// Writes as much as the socket takes.
    pub(super) fn send(&mut self, outbox: &Outbox) -> Result<(), String> {
        while !self.blocked {
            let written = match &mut self.leaving {
                Leaving::Plain(pending) if pending.is_empty() => return Ok(()),
                Leaving::Plain(pending) => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let count = pending.len().min(SLICES_MAX);
                    for (slice, bytes) in slices.iter_mut().zip(&*pending) {
                        *slice = IoSlice::new(bytes);
                    }
                    self.socket.write_vectored(&slices[..count])
                }
                Leaving::Sealed(records) => match records.next() {
                    [] => return Ok(()),
                    sealed => self.socket.write(sealed),
                },
            };
            match written {
                Ok(0) => return Err("it has closed the link".to_owned()),
                Ok(written) => outbox.sent(self.leaving.advance(written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

impl Leaving {
    fn new(protection: Protection, sealer: Sealer) -> Self {
        match protection {
            Protection::Sealed => Self::Sealed(Box::new(Records::new(sealer))),
            Protection::Plain => Self::Plain(VecDeque::new()),
        }
    }

    fn add(&mut self, frames: &mut Vec<PeerFrame>, staging: &mut BytesMut) {
        match self {
            Self::Plain(pending) => stage(frames, staging, pending),
            Self::Sealed(records) => records.waiting.extend(frames.drain(..)),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Plain(pending) => pending.is_empty(),
            Self::Sealed(records) => records.is_done(),
        }
    }

    fn beat(&mut self) {
        let is_done = self.is_done();
        match self {
            Self::Plain(pending) if is_done => {
                let heartbeat = wire::heartbeat(Integrity::Checksum);
                pending.push_back(Bytes::copy_from_slice(&heartbeat));
            }
            Self::Plain(_) => {}
            Self::Sealed(records) => records.heartbeat |= is_done,
        }
    }

    /// The socket has taken so many bytes: how many bytes of frames have left with them. Those of
    /// records are counted when all that was sealed at once has.
    fn advance(&mut self, written: usize) -> usize {
        match self {
            Self::Plain(pending) => {
                advance(pending, written);
                written
            }
            Self::Sealed(records) => records.advance(written),
        }
    }
}

impl Records {
    fn new(sealer: Sealer) -> Self {
        Self {
            sealer,
            waiting: VecDeque::new(),
            begun: None,
            heartbeat: false,
            sealed: Vec::new(),
            written: 0,
            frame_bytes: 0,
        }
    }

    fn is_done(&self) -> bool {
        let nothing_waits = self.begun.is_none() && self.waiting.is_empty();
        nothing_waits && self.written == self.sealed.len()
    }

    /// What the socket is to have next; empty if there is nothing.
    fn next(&mut self) -> &[u8] {
        if self.written == self.sealed.len() {
            self.fill();
        }
        &self.sealed[self.written..]
    }

    fn advance(&mut self, written: usize) -> usize {
        self.written += written;
        match self.written == self.sealed.len() {
            true => std::mem::take(&mut self.frame_bytes),
            false => 0,
        }
    }

    fn fill(&mut self) {
        self.sealed.clear();
        self.written = 0;
        if self.is_done() && !self.heartbeat {
            return;
        }
        self.sealed.reserve(SEALED_BYTES);
        loop {
            let start = self.sealed.len();
            self.sealed.resize(start + seal::HEADER_BYTES, 0);
            self.fill_record(start + seal::HEADER_BYTES + PEER_RECORD_BYTES_MAX);
            self.sealer.seal(&mut self.sealed, start);
            let has_room = self.sealed.len() + seal::RECORD_BYTES_MAX <= SEALED_BYTES;
            if !has_room || self.begun.is_none() && self.waiting.is_empty() {
                return;
            }
        }
    }

    /// Puts as much of what waits into a record as it holds, which ends at `end`.
    fn fill_record(&mut self, end: usize) {
        let before = self.sealed.len();
        if std::mem::take(&mut self.heartbeat) && self.begun.is_none() {
            let heartbeat = wire::heartbeat(Integrity::Sealed);
            self.sealed.extend_from_slice(&heartbeat);
        }
        loop {
            if let Some(frame) = &mut self.begun {
                if !move_pieces(frame, &mut self.sealed, end) {
                    break;
                }
                self.begun = None;
            }
            // A header stays in one record.
            if end - self.sealed.len() < wire::HEADER_BYTES {
                break;
            }
            let Some(frame) = self.waiting.pop_front() else {
                break;
            };
            let header = wire::header(frame.queue, &frame.pieces, Integrity::Sealed);
            self.sealed.extend_from_slice(&header);
            self.begun = Some(frame);
        }
        self.frame_bytes += self.sealed.len() - before;
    }
}

/// Moves what is left of a frame into a record that ends at `end`; false if it does not hold all.
fn move_pieces(frame: &mut PeerFrame, record: &mut Vec<u8>, end: usize) -> bool {
    for piece in &mut frame.pieces {
        let fits = piece.len().min(end - record.len());
        record.extend_from_slice(&piece[..fits]);
        piece.advance(fits);
        if !piece.is_empty() {
            return false;
        }
    }
    true
}

/// Makes bytes of frames: headers and small pieces together, large pieces as they are.
fn stage(frames: &mut Vec<PeerFrame>, staging: &mut BytesMut, pending: &mut VecDeque<Bytes>) {
    for frame in frames.drain(..) {
        let header = wire::header(frame.queue, &frame.pieces, Integrity::Checksum);
        staging.extend_from_slice(&header);
        for piece in frame.pieces {
            if piece.len() <= COPIED_BYTES_MAX {
                staging.extend_from_slice(&piece);
            } else {
                pending.push_back(staging.split().freeze());
                pending.push_back(piece);
            }
        }
    }
    if !staging.is_empty() {
        pending.push_back(staging.split().freeze());
    }
}

fn advance(pending: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = pending.front_mut() {
        if first.len() > written {
            let _ = first.split_to(written);
            return;
        }
        written -= first.len();
        pending.pop_front();
    }
}

pub(super) fn watch(
    poll: &Poll,
    socket: std::net::TcpStream,
    token: Token,
    interest: Interest,
) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    let mut socket = TcpStream::from_std(socket);
    poll.registry().register(&mut socket, token, interest)?;
    Ok(socket)
}

pub(super) fn close(poll: &Poll, mut socket: TcpStream) {
    // A socket that is gone already cannot be deregistered or shut down, and need not be.
    let _ = poll.registry().deregister(&mut socket);
    let _ = socket.shutdown(std::net::Shutdown::Both);
}

/// Whether the other side has closed a link on which nothing has been read.
pub(super) fn is_closed(socket: &TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

pub(super) fn token(node: NodeId, incoming: bool) -> Token {
    Token((node.0 as usize) << 1 | usize::from(incoming))
}

pub(super) fn node_of(token: Token) -> NodeId {
    NodeId(u32::try_from(token.0 >> 1).unwrap_or(u32::MAX))
}

pub(super) fn is_incoming(token: Token) -> bool {
    token.0 & 1 == 1
}

#[cfg(test)]
mod tests;
