//! One connection between two nodes: its frames as bytes, and what a socket takes and gives.

use super::outbox::Outbox;
use bytes::{Bytes, BytesMut};
use leveret_node::PeerFrame;
use leveret_node::cluster::wire::{self, Decoded, Decoder};
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

/// A link on which frames leave.
pub(super) struct Outgoing {
    pub(super) socket: TcpStream,
    /// The other node's start.
    pub(super) start: u64,
    pub(super) pending: VecDeque<Bytes>,
    pub(super) blocked: bool,
    pub(super) since_ms: u64,
}

/// A link on which frames come.
pub(super) struct Incoming {
    pub(super) socket: TcpStream,
    pub(super) start: u64,
    pub(super) decoder: Decoder,
    /// The socket may hold bytes that have not been read.
    pub(super) unread: bool,
    /// The other node sends nothing more: behind what the socket holds is its end, of which no edge
    /// tells again.
    pub(super) ending: bool,
    pub(super) since_ms: u64,
}

impl Incoming {
    pub(super) fn new(socket: TcpStream, start: u64, now: Now) -> Self {
        Self {
            socket,
            start,
            decoder: Decoder::default(),
            unread: true,
            ending: false,
            since_ms: now.monotonic_ms,
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
                    self.decoder.feed(&scratch[..count]);
                    while let Some(decoded) = self.decoder.take().map_err(|e| e.to_string())? {
                        match decoded {
                            Decoded::Frame(queue, frame) => frames.push((queue, frame)),
                            Decoded::Heartbeat => {}
                        }
                    }
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

/// Makes bytes of frames: headers and small pieces together, large pieces as they are.
pub(super) fn stage(
    frames: &mut Vec<PeerFrame>,
    staging: &mut BytesMut,
    pending: &mut VecDeque<Bytes>,
) {
    for frame in frames.drain(..) {
        staging.extend_from_slice(&wire::header(frame.queue, &frame.pieces));
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

/// Writes as much as the socket takes.
pub(super) fn send(link: &mut Outgoing, outbox: &Outbox) -> Result<(), String> {
    while !link.blocked && !link.pending.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = link.pending.len().min(SLICES_MAX);
        for (slice, bytes) in slices.iter_mut().zip(&link.pending) {
            *slice = IoSlice::new(bytes);
        }
        match link.socket.write_vectored(&slices[..count]) {
            Ok(0) => return Err("it has closed the link".to_owned()),
            Ok(written) => {
                outbox.sent(written);
                advance(&mut link.pending, written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => link.blocked = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

pub(super) fn advance(pending: &mut VecDeque<Bytes>, mut written: usize) {
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
mod tests {
    use super::*;
    use mio::Events;
    use std::time::Duration;

    #[test]
    fn frames_are_staged_in_order_and_sent_in_any_steps() {
        let large = Bytes::from(vec![7; COPIED_BYTES_MAX + 1]);
        let mut frames: Vec<PeerFrame> = (1..=40)
            .map(|queue| {
                let mut frame = PeerFrame::new(QueueId(queue), Bytes::from_static(b"small"));
                if queue % 3 == 0 {
                    frame.pieces.push(large.clone());
                }
                frame
            })
            .collect();
        let expected: Vec<u8> = frames
            .iter()
            .flat_map(|frame| {
                let mut bytes = wire::header(frame.queue, &frame.pieces).to_vec();
                frame
                    .pieces
                    .iter()
                    .for_each(|piece| bytes.extend_from_slice(piece));
                bytes
            })
            .collect();
        let mut pending = VecDeque::new();
        stage(&mut frames, &mut BytesMut::new(), &mut pending);
        let mut sent = Vec::new();
        for step in (1..400).cycle() {
            let all: Vec<u8> = pending.iter().flatten().copied().take(step).collect();
            if all.is_empty() {
                break;
            }
            advance(&mut pending, all.len());
            sent.extend(all);
        }
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_close_right_behind_the_last_frame_is_seen() {
        let mut poll = Poll::new().expect("a poll");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let mut other = std::net::TcpStream::connect(address).expect("connects");
        let (socket, _) = listener.accept().expect("accepted");
        let token = token(NodeId(2), true);
        let socket = watch(&poll, socket, token, Interest::READABLE).expect("watched");
        let mut link = Incoming::new(socket, 1, Now::both(0));
        let frame = PeerFrame::new(QueueId(7), Bytes::from_static(b"last"));
        let mut bytes = wire::header(frame.queue, &frame.pieces).to_vec();
        bytes.extend_from_slice(b"last");
        other.write_all(&bytes).expect("written");
        drop(other);
        let mut frames = Vec::new();
        let mut scratch = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(8);
        let end = loop {
            poll.poll(&mut events, Some(Duration::from_secs(5)))
                .expect("polled");
            assert!(!events.is_empty(), "no edge tells of the end");
            for event in &events {
                link.unread |= event.is_readable();
                link.ending |= event.is_read_closed();
            }
            if let Err(end) = link.read(&mut scratch, &mut frames) {
                break end;
            }
        };
        assert_eq!(end, "it has closed its link");
        assert_eq!(frames, [(QueueId(7), Bytes::from_static(b"last"))]);
    }

    #[test]
    fn tokens_tell_the_node_and_the_direction() {
        for node in [NodeId(1), NodeId(u32::MAX)] {
            for incoming in [false, true] {
                let token = token(node, incoming);
                assert_eq!((node_of(token), is_incoming(token)), (node, incoming));
                assert_ne!(token, super::super::link_thread::TOKEN_BELL);
            }
        }
    }
}
