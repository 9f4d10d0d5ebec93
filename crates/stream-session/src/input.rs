//! From the socket's bytes to frames.

use crate::port::Port;
use crate::session::{Phase, Session};
use bytes::Bytes;
use leveret_stream_protocol::frame::bytes_wanted;
use leveret_stream_protocol::{FrameError, ResponseCode, next_frame};
use leveret_types::Now;
use leveret_types::limits::{SOCKET_READ_BYTES, UNFINISHED_CHECK_MS};
use leveret_types::pool::Buffer;
use leveret_types::unfinished::{Late, Reservation, Unfinished};
use std::collections::VecDeque;
use std::sync::Arc;

/// A frame that comes in pieces is given room for so many times what has come of it: what it claims
/// to be long alone takes no memory. One of which as much has come as one read brings has room for
/// all of it, so that no more than that is copied.
const ROOM_FACTOR: usize = 8;
/// The least room for a frame that comes in pieces.
const ROOM_BYTES_MIN: usize = 64;

/// What is missing of a frame is read into its own room if it is so much at least. Less comes
/// together with what follows.
const DIRECT_BYTES_MIN: usize = SOCKET_READ_BYTES / 4;

/// A frame that comes in pieces is read on uncounted among the node's unfinished publishes while it
/// has room for so many bytes at most: as one read of any socket brings.
const UNCOUNTED_BYTES_MAX: usize = SOCKET_READ_BYTES;

/// What has arrived and has not been looked at.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The beginning of a frame, and nothing of the next one.
    partial: Option<Buffer>,
    /// What came behind it.
    waiting: VecDeque<Bytes>,
    /// Whether the end of a frame could not be found: what still arrives cannot be read.
    is_ignored: bool,
    unfinished: Arc<Unfinished>,
    /// That of the partial frame, if it is large. Nothing more is read while it waits for room.
    reservation: Option<Reservation>,
    /// When to look for room again, or whether it is late for others who wait for what it has, in
    /// monotonic milliseconds.
    check_ms: Option<u64>,
}

impl Input {
    /// Nothing yet; large frames are counted here while they come.
    pub(crate) fn new(unfinished: Arc<Unfinished>) -> Self {
        Self {
            unfinished,
            ..Self::default()
        }
    }

    /// Whether nothing is to be read, for there is no room for what comes.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.reservation.as_ref().is_some_and(Reservation::waits)
    }

    /// Bytes that are missing of a frame that waits for room, beside what has come; nothing if none
    /// waits.
    pub(crate) fn lacks_bytes(&self) -> Option<usize> {
        let partial = self.partial.as_ref().filter(|_| self.waits_for_room())?;
        let waiting: usize = self.waiting.iter().map(Bytes::len).sum();
        let missing = self.wanted(partial).saturating_sub(partial.len());
        Some(missing.saturating_sub(waiting))
    }

    /// When time matters to a frame that has begun to come, in monotonic milliseconds.
    pub(crate) const fn check_ms(&self) -> Option<u64> {
        self.check_ms
    }

    /// Something of a frame has come, or could not come.
    pub(crate) fn note_input(&mut self, now_ms: u64) {
        if let Some(reservation) = &mut self.reservation {
            reservation.note_progress(now_ms);
        }
    }

    /// Whether a frame is late while others wait for its room.
    pub(crate) fn late(&mut self, now_ms: u64) -> Option<Late> {
        let reservation = self.reservation.as_ref()?;
        if self.check_ms.is_some_and(|at| at > now_ms) {
            return None;
        }
        let check_ms = reservation
            .check_ms()
            .filter(|_| !reservation.waits())
            .unwrap_or(0);
        self.check_ms = Some(check_ms.max(now_ms + UNFINISHED_CHECK_MS));
        reservation.late(now_ms)
    }

    /// Drops what has arrived.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            is_ignored: self.is_ignored,
            ..Self::new(Arc::clone(&self.unfinished))
        };
    }

    /// Drops what has arrived, and all that still arrives.
    pub(crate) fn ignore(&mut self) {
        self.forget();
        self.is_ignored = true;
    }

    /// Whether there may be a whole frame.
    pub(crate) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Where the rest of a large frame belongs that has begun to come, if nothing else is to be
    /// looked at before it. Never more than that rest.
    fn room(&mut self) -> Option<&mut [u8]> {
        let partial = self.partial.as_mut().filter(|_| self.waiting.is_empty())?;
        let missing = bytes_wanted(partial.filled()).saturating_sub(partial.len());
        let room = partial.unfilled();
        let end = missing.min(room.len());
        (missing >= DIRECT_BYTES_MIN && end > 0).then(|| &mut room[..end])
    }

    /// The partial frame in a buffer that has room for what comes next, unless that is large and
    /// there is none among the node's unfinished publishes.
    fn grow(
        &mut self,
        partial: Buffer,
        piece_bytes: usize,
        (user, now_ms): (&str, u64),
    ) -> (Buffer, bool) {
        let wanted = self.wanted(&partial);
        let room = room_for(partial.len() + piece_bytes, wanted);
        if room > UNCOUNTED_BYTES_MAX {
            let unfinished = &self.unfinished;
            let reservation = self
                .reservation
                .get_or_insert_with(|| unfinished.reserve(user, wanted));
            if !reservation.grow(room, now_ms) {
                self.check_ms = Some(now_ms + UNFINISHED_CHECK_MS);
                return (partial, false);
            }
            self.check_ms = reservation.check_ms();
        }
        let mut grown = Buffer::with_capacity(room);
        grown.extend_from_slice(partial.filled());
        (grown, true)
    }

    /// Bytes of the partial frame once it is whole, as far as it says so yet.
    fn wanted(&self, partial: &Buffer) -> usize {
        match (partial.is_empty(), self.waiting.front()) {
            (true, Some(piece)) => bytes_wanted(piece),
            _ => bytes_wanted(partial.filled()),
        }
    }

    /// The next frame with its size, if it is whole. One that came in one piece is not copied, any
    /// other once at most.
    fn next(&mut self, frame_max: u32, user_now: (&str, u64)) -> Result<Option<Bytes>, FrameError> {
        loop {
            let Some(mut partial) = self.partial.take() else {
                let Some(piece) = self.waiting.front_mut() else {
                    return Ok(None);
                };
                let Some(frame) = next_frame(piece, frame_max)? else {
                    self.partial = Some(Buffer::with_capacity(0));
                    continue;
                };
                let length = frame.wire_len();
                let frame = piece.split_to(length);
                self.waiting.pop_front_if(|piece| piece.is_empty());
                return Ok(Some(frame));
            };
            if next_frame(partial.filled(), frame_max)?.is_some() {
                (self.reservation, self.check_ms) = (None, None);
                return Ok(Some(partial.freeze()));
            }
            let missing = bytes_wanted(partial.filled()) - partial.len();
            let piece_bytes = self.waiting.front().map_or(0, Bytes::len).min(missing);
            let is_full = match piece_bytes {
                // The rest of a large frame is read where it belongs.
                0 => partial.capacity() == partial.len() && missing >= DIRECT_BYTES_MIN,
                bytes => partial.capacity() < partial.len() + bytes,
            };
            let mut has_room = true;
            if is_full {
                (partial, has_room) = self.grow(partial, piece_bytes, user_now);
            }
            let piece = self.waiting.front_mut().filter(|_| has_room);
            let Some(piece) = piece else {
                self.partial = Some(partial);
                return Ok(None);
            };
            partial.extend_from_slice(&piece.split_to(piece_bytes));
            self.waiting.pop_front_if(|piece| piece.is_empty());
            self.partial = Some(partial);
        }
    }
}

/// Room for a frame of so many bytes, as far as it has said, of which so many have come.
fn room_for(arrived: usize, wanted: usize) -> usize {
    let room = (ROOM_FACTOR * arrived).max(ROOM_BYTES_MIN);
    room.min(wanted).max(arrived)
}

impl Session {
    /// Where the socket may be read into instead of a buffer of the reader's own, because what is
    /// missing of a large frame can only be next; whoever does so says how much with
    /// [`Self::receive_into_room`].
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let takes_in = self.phase != Phase::Over && !self.input.is_ignored;
        self.input.room().filter(|_| takes_in)
    }

    /// Takes in so many bytes that were read to the front of [`Self::room`]: a turn begins.
    ///
    /// # Panics
    /// If there was no such room.
    pub fn receive_into_room(&mut self, now: Now, bytes: usize, port: &mut impl Port) {
        let partial = self.input.partial.as_mut();
        partial.expect("room was asked for").wrote(bytes);
        self.input.note_input(now.monotonic_ms);
        self.receive(now, Bytes::new(), port);
        self.note_late(bytes, port);
    }

    /// Keeps what has arrived behind what has not been looked at.
    pub(crate) fn take_in(&mut self, bytes: Bytes) {
        if self.phase == Phase::Over || self.input.is_ignored || bytes.is_empty() {
            return;
        }
        self.input.note_input(self.now.monotonic_ms);
        self.input.waiting.push_back(bytes);
    }

    /// Looks at what has arrived until an answer is owed, or the turn is over.
    pub(crate) fn read_on(&mut self, port: &mut impl Port) {
        loop {
            self.work.spend(port.take_work());
            if !self.takes_frames() || self.phase == Phase::Over || self.work.is_spent() {
                return;
            }
            let user_now = (self.client.user.as_str(), self.now.monotonic_ms);
            match self.input.next(self.terms.frame_max, user_now) {
                Ok(Some(frame)) => {
                    self.work.spend(1);
                    self.frame(&frame, port);
                }
                Ok(None) => return,
                Err(error) => return self.lose_framing(error, port),
            }
        }
    }

    fn lose_framing(&mut self, error: FrameError, port: &mut impl Port) {
        let code = match error {
            FrameError::TooLarge { .. } => ResponseCode::FRAME_TOO_LARGE,
            _ => ResponseCode::UNKNOWN_FRAME,
        };
        self.close_unreadable(code, code.name(), port);
    }

    /// Closes the connection over a frame that is late while others wait for its room.
    pub(crate) fn give_up_late_frame(&mut self, port: &mut impl Port) {
        if self.is_left_unread() {
            self.input.note_input(self.now.monotonic_ms);
        }
        if let Some(late) = self.input.late(self.now.monotonic_ms) {
            let reason = format!("a frame {late}: send it faster, or smaller frames");
            self.close_unreadable(ResponseCode::PRECONDITION_FAILED, &reason, port);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_stream_protocol::frame::put_frame;

    const FRAME_MAX: u32 = 1_000_000;

    fn frame(key: u16, bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        put_frame(&mut frame, key, 1, |out| out.resize(out.len() + bytes, 7));
        frame
    }

    fn all(input: &mut Input) -> Vec<Bytes> {
        std::iter::from_fn(|| input.next(FRAME_MAX, ("u", 1)).unwrap()).collect()
    }

    #[test]
    fn frames_are_the_same_however_they_are_cut() {
        let frames = [frame(1, 0), frame(2, 300), frame(3, 5), frame(4, 1_000)];
        let bytes = Bytes::from(frames.concat());
        for piece in 1..=bytes.len() {
            let mut input = Input::default();
            let mut found = Vec::new();
            for at in (0..bytes.len()).step_by(piece) {
                let end = bytes.len().min(at + piece);
                input.waiting.push_back(bytes.slice(at..end));
                found.extend(all(&mut input));
            }
            assert_eq!(found, frames, "{piece}");
            assert!(input.partial.is_none() && input.waiting.is_empty());
        }
    }

    #[test]
    fn a_frame_that_came_whole_is_not_copied_and_one_in_pieces_takes_what_has_come_of_it() {
        let bytes = Bytes::from(frame(1, 100_000));
        let mut input = Input::default();
        input.waiting.push_back(bytes.clone());
        assert_eq!(all(&mut input)[0].as_ptr(), bytes.as_ptr());
        input.waiting.push_back(bytes.slice(..1_000));
        assert_eq!(all(&mut input).len(), 0);
        let room = input.partial.as_ref().unwrap().capacity();
        assert!((1_000..=ROOM_FACTOR * 1_000).contains(&room), "{room}");
        input.waiting.push_back(bytes.slice(1_000..));
        assert_eq!(all(&mut input), [bytes]);
    }

    /// Reads what the socket has: into the room for the rest of a frame where there is such, else
    /// in one piece of so many bytes at most. How many bytes were read directly.
    fn read(input: &mut Input, socket: &mut Bytes, piece: usize) -> usize {
        if let Some(room) = input.room() {
            let count = room.len().min(piece).min(socket.len());
            room[..count].copy_from_slice(&socket.split_to(count));
            input.partial.as_mut().unwrap().wrote(count);
            return count;
        }
        input
            .waiting
            .push_back(socket.split_to(piece.min(socket.len())));
        0
    }

    #[test]
    fn the_rest_of_a_large_frame_is_read_where_it_belongs_and_nothing_else_is() {
        let large = 10 * DIRECT_BYTES_MIN;
        let frames = [frame(1, 7), frame(2, large), frame(3, 0), frame(4, large)];
        for piece in [2, 1_000, DIRECT_BYTES_MIN, 3 * DIRECT_BYTES_MIN, large] {
            let mut socket = Bytes::from(frames.concat());
            let (mut input, mut found, mut direct) = (Input::default(), Vec::new(), 0);
            while !socket.is_empty() {
                direct += read(&mut input, &mut socket, piece);
                found.extend(all(&mut input));
            }
            assert_eq!(found, frames, "{piece}");
            assert!(input.partial.is_none() && input.waiting.is_empty());
            let least = 2 * large.saturating_sub(piece.max(DIRECT_BYTES_MIN) + DIRECT_BYTES_MIN);
            assert!(
                direct >= least,
                "{piece}: {direct} of {large} twice came directly"
            );
        }
    }

    #[test]
    fn a_frame_has_room_by_what_has_come_of_it_also_where_it_is_read_directly() {
        let bytes = Bytes::from(frame(1, 900_000));
        let mut input = Input::default();
        input.waiting.push_back(bytes.slice(..100));
        assert_eq!(all(&mut input).len(), 0);
        let mut arrived = 100;
        while let Some(room) = input.room() {
            // Large buffers are rounded up, so that one serves for another.
            assert!(arrived + room.len() <= 2 * ROOM_FACTOR * arrived);
            let count = room.len().min(1_000);
            room[..count].copy_from_slice(&bytes[arrived..arrived + count]);
            input.partial.as_mut().unwrap().wrote(count);
            arrived += count;
            assert_eq!(all(&mut input).len(), 0);
        }
        assert!(arrived > bytes.len() - DIRECT_BYTES_MIN, "{arrived}");
        input.waiting.push_back(bytes.slice(arrived..));
        assert_eq!(all(&mut input), [bytes]);
    }
}
