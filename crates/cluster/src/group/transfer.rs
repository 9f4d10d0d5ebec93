//! A catalogue on its way to another member, piece by piece.
//!
//! A catalogue may be larger than all that may wait for a node on its link, and the link carries
//! all else meanwhile. So a few pieces are under way at a time, and each that has come is answered:
//!
//! ```text
//! leader                                       member
//!   │ some pieces ──────────────────────────────► │ keeps them together
//!   │ ◄──────────────────── "here as far as this" │
//!   │ another piece ────────────────────────────► │
//!   │ the last, with the message that says so ──► │ steps it in
//!   │ ◄──────────────────── "here as far as this" │
//!
//! a piece     number of the transfer u64 | length of the catalogue u64 | where the piece begins u64 |
//!             its length u32 | the piece | in the last one: the replication::Message
//! an answer   number of the transfer u64 | how much is there u64
//! ```
//!
//! Invariant: what a member steps in is one catalogue of one transfer, from its first byte to its
//! last. A piece that does not go on where the one before it ended is dropped; the leader begins
//! anew when the link breaks, or when nothing has been answered for long.

use bytes::{Buf, Bytes};
use leveret_types::NodeId;
use leveret_types::ReplicaId;
use leveret_types::limits::{
    CATALOGUE_PIECE_BYTES, CATALOGUE_PIECES_UNDER_WAY, CATALOGUE_TRANSFER_STUCK_MS,
};

/// Octets of a piece's head.
const HEAD_BYTES: usize = 8 + 8 + 8 + 4;
/// Octets of an answer.
const ANSWER_BYTES: usize = 8 + 8;

/// A catalogue that this member sends.
#[derive(Debug)]
pub(super) struct Departing {
    pub(super) to: ReplicaId,
    number: u64,
    catalogue: Bytes,
    /// What goes behind the last piece.
    message: Bytes,
    sent: usize,
    answered: usize,
    /// When it began, or something was answered last.
    alive_ms: u64,
}

impl Departing {
    pub(super) const fn new(
        to: ReplicaId,
        number: u64,
        catalogue: Bytes,
        message: Bytes,
        now_ms: u64,
    ) -> Self {
        Self {
            to,
            number,
            catalogue,
            message,
            sent: 0,
            answered: 0,
            alive_ms: now_ms,
        }
    }

    /// The next piece as parts of a frame; none while enough are under way, or all are.
    pub(super) fn next_piece(&mut self) -> Option<[Bytes; 3]> {
        let under_way = (self.sent - self.answered).div_ceil(CATALOGUE_PIECE_BYTES);
        if under_way >= CATALOGUE_PIECES_UNDER_WAY || self.sent == self.catalogue.len() {
            return None;
        }
        let end = (self.sent + CATALOGUE_PIECE_BYTES).min(self.catalogue.len());
        let piece = self.catalogue.slice(self.sent..end);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&self.number.to_be_bytes());
        head.extend_from_slice(&(self.catalogue.len() as u64).to_be_bytes());
        head.extend_from_slice(&(self.sent as u64).to_be_bytes());
        head.extend_from_slice(&(piece.len() as u32).to_be_bytes());
        self.sent = end;
        let is_last = end == self.catalogue.len();
        let message = if is_last {
            self.message.clone()
        } else {
            Bytes::new()
        };
        Some([head.into(), piece, message])
    }

    /// The member says how much of it is there. What it says of another transfer, or of what was
    /// never sent, counts for nothing.
    pub(super) const fn note_answer(&mut self, answer: &Answer, now_ms: u64) {
        let through = answer.through as usize;
        if answer.number == self.number && through > self.answered && through <= self.sent {
            self.answered = through;
            self.alive_ms = now_ms;
        }
    }

    /// Whether all of it is there.
    pub(super) const fn has_arrived(&self) -> bool {
        self.answered == self.catalogue.len()
    }

    /// Whether nothing was answered for long, although the link is there.
    pub(super) const fn is_stuck(&self, now_ms: u64) -> bool {
        now_ms >= self.alive_ms + CATALOGUE_TRANSFER_STUCK_MS
    }
}

/// How much of a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    number: u64,
    through: u64,
}

impl Answer {
    pub(super) fn encode_onto(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.through.to_be_bytes());
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() != ANSWER_BYTES {
            return Err(format!("an answer of {} bytes", bytes.len()));
        }
        Ok(Self {
            number: bytes.get_u64(),
            through: bytes.get_u64(),
        })
    }
}

/// A catalogue that this member receives.
#[derive(Debug)]
pub(super) struct Arriving {
    from: NodeId,
    number: u64,
    whole: u64,
    bytes: Vec<u8>,
}

/// What a piece is to whom it reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// More is to come.
    Piece(Answer),
    /// It was the last: the catalogue, and the message behind it.
    Whole(Bytes, Bytes, Answer),
    /// It goes on with nothing that is here.
    Unknown,
}

impl Arriving {
    /// Puts a piece behind those that are here.
    ///
    /// # Errors
    /// It is no piece at all, or more than the catalogue that it belongs to. What came before it is
    /// dropped.
    pub(super) fn take(
        arriving: &mut Option<Self>,
        from: NodeId,
        frame: &Bytes,
    ) -> Result<Arrived, String> {
        let mut head = frame
            .get(..HEAD_BYTES)
            .ok_or_else(|| "it is too short".to_owned())?;
        let (number, whole) = (head.get_u64(), head.get_u64());
        let (begin, length) = (head.get_u64(), head.get_u32() as usize);
        let end = HEAD_BYTES + length;
        if frame.len() < end || length == 0 {
            return Err("a piece of a catalogue is too short".to_owned());
        }
        if begin == 0 {
            *arriving = Some(Self {
                from,
                number,
                whole,
                bytes: Vec::new(),
            });
        }
        let is_next = |of: &Self| {
            of.from == from
                && (of.number, of.whole) == (number, whole)
                && of.bytes.len() as u64 == begin
        };
        let Some(mut known) = arriving.take_if(|known| is_next(known)) else {
            return Ok(Arrived::Unknown);
        };
        known.bytes.extend_from_slice(&frame[HEAD_BYTES..end]);
        let through = known.bytes.len() as u64;
        let answer = Answer { number, through };
        if through > whole {
            return Err(format!("a catalogue of {whole} bytes has {through}"));
        }
        if through < whole {
            *arriving = Some(known);
            return Ok(Arrived::Piece(answer));
        }
        let message = frame.slice(end..);
        Ok(Arrived::Whole(known.bytes.into(), message, answer))
    }

    /// Whether it comes from this node.
    pub(super) fn is_from(&self, node: NodeId) -> bool {
        self.from == node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    fn departing(number: u64, bytes: usize) -> Departing {
        let catalogue: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
        let message = Bytes::from_static(b"stands for it");
        Departing::new(ReplicaId(3), number, catalogue.into(), message, 1_000)
    }

    fn frame([head, piece, message]: [Bytes; 3]) -> Bytes {
        [&head[..], &piece, &message].concat().into()
    }

    /// All pieces that are let go at once.
    fn pieces(of: &mut Departing) -> Vec<Bytes> {
        std::iter::from_fn(|| of.next_piece().map(frame)).collect()
    }

    #[test]
    fn a_catalogue_of_any_length_arrives_as_it_was_with_few_pieces_under_way() {
        let lengths = [
            1,
            CATALOGUE_PIECE_BYTES - 1,
            CATALOGUE_PIECE_BYTES,
            CATALOGUE_PIECE_BYTES + 1,
            CATALOGUE_PIECE_BYTES * CATALOGUE_PIECES_UNDER_WAY,
            CATALOGUE_PIECE_BYTES * CATALOGUE_PIECES_UNDER_WAY + 1,
            CATALOGUE_PIECE_BYTES * 11 + 17,
        ];
        for length in lengths {
            let mut departing = departing(7, length);
            let (mut arriving, mut whole) = (None, None);
            let mut under_way = pieces(&mut departing);
            while !under_way.is_empty() {
                assert!(under_way.len() <= CATALOGUE_PIECES_UNDER_WAY);
                assert!(!departing.has_arrived());
                let next = under_way.remove(0);
                let arrived = Arriving::take(&mut arriving, LEADER, &next).expect("a piece");
                let answer = match arrived {
                    Arrived::Piece(answer) => answer,
                    Arrived::Whole(catalogue, message, answer) => {
                        whole = Some((catalogue, message));
                        answer
                    }
                    Arrived::Unknown => panic!("it goes on with what is there"),
                };
                let mut bytes = Vec::new();
                answer.encode_onto(&mut bytes);
                departing.note_answer(&Answer::decode(&bytes).expect("an answer"), 2_000);
                under_way.extend(pieces(&mut departing));
            }
            let (catalogue, message) = whole.expect("all of it");
            assert_eq!(catalogue, departing.catalogue, "{length}");
            assert_eq!(&message[..], b"stands for it");
            assert!(departing.has_arrived() && arriving.is_none());
        }
    }

    #[test]
    fn what_goes_on_with_nothing_that_is_here_is_dropped() {
        let (mut first, mut second) = (
            departing(1, CATALOGUE_PIECE_BYTES * 3),
            departing(2, CATALOGUE_PIECE_BYTES * 3),
        );
        let (of_first, of_second) = (pieces(&mut first), pieces(&mut second));
        let mut arriving = None;
        let mut take = |from, piece| Arriving::take(&mut arriving, from, piece).expect("a piece");
        // Its beginning has not come.
        assert_eq!(take(LEADER, &of_first[1]), Arrived::Unknown);
        assert!(matches!(take(LEADER, &of_first[0]), Arrived::Piece(_)));
        // One is missing; another node's; another transfer's.
        assert_eq!(take(LEADER, &of_first[2]), Arrived::Unknown);
        assert_eq!(take(OTHER, &of_first[1]), Arrived::Unknown);
        assert_eq!(take(LEADER, &of_second[1]), Arrived::Unknown);
        // They have harmed nothing.
        assert!(matches!(take(LEADER, &of_first[1]), Arrived::Piece(_)));
        // Another transfer begins: the first is over.
        assert!(matches!(take(OTHER, &of_second[0]), Arrived::Piece(_)));
        assert_eq!(take(LEADER, &of_first[2]), Arrived::Unknown);
        assert!(matches!(take(OTHER, &of_second[1]), Arrived::Piece(_)));
        assert!(matches!(take(OTHER, &of_second[2]), Arrived::Whole(..)));
        assert_eq!(take(OTHER, &of_second[2]), Arrived::Unknown);
    }

    #[test]
    fn more_than_was_said_and_what_is_no_piece_are_errors() {
        let mut departing = departing(1, CATALOGUE_PIECE_BYTES + 1);
        let pieces = pieces(&mut departing);
        let mut short = pieces[0].to_vec();
        short[8..16].copy_from_slice(&3u64.to_be_bytes());
        let mut empty = pieces[0].slice(..HEAD_BYTES).to_vec();
        empty[24..28].copy_from_slice(&0u32.to_be_bytes());
        let mut claims = pieces[0].slice(..HEAD_BYTES + 5).to_vec();
        claims[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
        for wrong in [
            short,
            empty,
            claims,
            pieces[0][..HEAD_BYTES - 1].to_vec(),
            Vec::new(),
        ] {
            let mut arriving = None;
            let taken = Arriving::take(&mut arriving, LEADER, &wrong.into());
            assert!(taken.is_err());
            assert!(arriving.is_none());
        }
        assert!(Answer::decode(&[0; ANSWER_BYTES - 1]).is_err());
        assert!(Answer::decode(&[0; ANSWER_BYTES + 1]).is_err());
    }

    #[test]
    fn answers_count_once_and_for_what_was_sent() {
        let mut departing = departing(5, CATALOGUE_PIECE_BYTES * 9);
        let sent = pieces(&mut departing).len();
        let piece = CATALOGUE_PIECE_BYTES as u64;
        let answer = |number, through| Answer { number, through };
        for wrong in [
            answer(4, piece),
            answer(5, 0),
            answer(5, piece * sent as u64 + 1),
            answer(5, u64::MAX),
        ] {
            departing.note_answer(&wrong, 5_000);
            assert!(departing.next_piece().is_none());
            assert!(departing.is_stuck(1_000 + CATALOGUE_TRANSFER_STUCK_MS));
        }
        departing.note_answer(&answer(5, piece * 2), 5_000);
        assert!(!departing.is_stuck(1_000 + CATALOGUE_TRANSFER_STUCK_MS));
        assert_eq!(pieces(&mut departing).len(), 2);
        departing.note_answer(&answer(5, piece), 5_000);
        assert!(departing.next_piece().is_none());
        assert!(departing.is_stuck(5_000 + CATALOGUE_TRANSFER_STUCK_MS));
    }
}
