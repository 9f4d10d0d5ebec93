//! What nodes tell each other for operators: how the queues stand that a node leads, who is
//! connected to it, how it is itself. Every listing of a cluster is put together from these.
//!
//! What is asked and answered is between those who ask and answer, above this crate: here it is
//! bytes. An answer may be long; it comes in parts, so that it does not keep the frames of queues
//! waiting.
//!
//! ```text
//! frame for queue 0   kind 4 u8 | number u64 | what is asked
//!                     kind 5 u8 | number u64 | part u32 | last u8 | bytes
//! ```
//! Integers are little endian. Nothing is repeated: who gets no answer in time goes without.

use super::state::{CATALOGUE_GROUP, lock};
use crate::frame_kinds;
use bytes::{BufMut, Bytes, BytesMut};
use leveret_queue_host::events::PeerFrame;
use leveret_types::NodeId;
use leveret_types::limits::{
    REPORT_ASK_BYTES_MAX, REPORT_BYTES_MAX, REPORT_PART_BYTES, REPORTS_PENDING_MAX,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, OnceLock};

/// What another node asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The node that asks.
    pub from: NodeId,
    /// Its number of the question.
    pub number: u64,
    /// What it asks.
    pub what: Bytes,
}

/// What another node has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The node that answers.
    pub from: NodeId,
    /// Its answer.
    pub bytes: Vec<u8>,
}

/// Who is handed what other nodes ask. It must not block: it hands on.
pub type Answerer = Box<dyn Fn(Ask) + Send + Sync>;

/// Questions that this node has asked, and who answers those of others.
#[derive(Default)]
pub struct Reports {
    pending: Mutex<PendingQuestions>,
    answerer: OnceLock<Answerer>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PendingQuestions {
    last: u64,
    questions: HashMap<u64, Question>,
}

struct Question {
    to: SyncSender<Report>,
    /// How many have not answered.
    left: usize,
    /// What has come of the answers, by who sends it.
    gathering: HashMap<NodeId, Gathered>,
}

/// What has come of one node's answer.
enum Gathered {
    /// So many parts, and their bytes.
    Parts(u32, Vec<u8>),
    /// A part was lost with the link, or it is more than anybody wants: the rest is of no use.
    Broken,
}

impl Reports {
    /// Says who answers what other nodes ask; only the first to say so does.
    pub fn set_answerer(&self, answerer: Answerer) {
        let _ = self.answerer.set(answerer);
    }

    /// Notes a question to so many, whose answers go to `to`; nothing if too many wait already.
    /// When all have answered it waits no longer, whether anybody has looked at the answers or not.
    pub(super) fn note(&self, to: SyncSender<Report>, left: usize) -> Option<u64> {
        let mut pending = lock(&self.pending);
        if pending.questions.len() >= REPORTS_PENDING_MAX {
            return None;
        }
        pending.last += 1;
        let (number, gathering) = (pending.last, HashMap::new());
        let question = Question {
            to,
            left,
            gathering,
        };
        if left > 0 {
            pending.questions.insert(number, question);
        }
        Some(number)
    }

    /// Waits no longer for answers to a question.
    pub fn forget(&self, number: u64) {
        lock(&self.pending).questions.remove(&number);
    }

    /// Takes in a frame; what makes no sense is passed over, for nothing depends on it.
    pub(super) fn receive(&self, from: NodeId, frame: &Bytes) {
        let Some((number, rest)) = frame.get(1..).and_then(<[u8]>::split_first_chunk) else {
            return;
        };
        let number = u64::from_le_bytes(*number);
        if frame.first() == Some(&frame_kinds::ASK) {
            let Some(answerer) = self.answerer.get() else {
                return;
            };
            if rest.len() <= REPORT_ASK_BYTES_MAX {
                let what = frame.slice_ref(rest);
                answerer(Ask { from, number, what });
            }
            return;
        }
        let Some((part, [last, bytes @ ..])) = rest.split_first_chunk() else {
            return;
        };
        let part = u32::from_le_bytes(*part);
        self.gather(from, number, part, *last == 1, bytes);
    }

    fn gather(&self, from: NodeId, number: u64, part: u32, last: bool, bytes: &[u8]) {
        let mut pending = lock(&self.pending);
        let Some(question) = pending.questions.get_mut(&number) else {
            return;
        };
        let nothing = || Gathered::Parts(0, Vec::new());
        let answer = question.gathering.entry(from).or_insert_with(nothing);
        match answer {
            Gathered::Parts(parts, gathered)
                if *parts == part && gathered.len() + bytes.len() <= REPORT_BYTES_MAX =>
            {
                // Parts may be empty: not their bytes, their number bounds them.
                let Some(next) = parts.checked_add(1) else {
                    *answer = Gathered::Broken;
                    return;
                };
                *parts = next;
                gathered.extend_from_slice(bytes);
            }
            _ => {
                *answer = Gathered::Broken;
                return;
            }
        }
        if last && let Some(Gathered::Parts(_, bytes)) = question.gathering.remove(&from) {
            // Whoever asked has room for one answer of each node, or has given up.
            let _ = question.to.try_send(Report { from, bytes });
            question.left = question.left.saturating_sub(1);
            if question.left == 0 {
                pending.questions.remove(&number);
            }
        }
    }
}

/// The frames of an answer, to be posted to who asked, in this order; none if it is longer than any
/// may be.
pub fn answer(ask: &Ask, bytes: Bytes) -> impl Iterator<Item = PeerFrame> {
    let number = ask.number;
    let fits = bytes.len() <= REPORT_BYTES_MAX;
    let parts = if fits {
        bytes.len() / REPORT_PART_BYTES + 1
    } else {
        0
    };
    (0..parts).map(move |part| {
        let from = part * REPORT_PART_BYTES;
        let to = bytes.len().min(from + REPORT_PART_BYTES);
        let mut head = BytesMut::with_capacity(14);
        head.put_u8(frame_kinds::ANSWER);
        head.put_u64_le(number);
        head.put_u32_le(part as u32);
        head.put_u8(u8::from(part + 1 == parts));
        let pieces = [head.freeze(), bytes.slice(from..to)];
        PeerFrame::of_pieces(CATALOGUE_GROUP, pieces.into_iter().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, sync_channel};

    const PEER: NodeId = NodeId(2);

    fn frames(number: u64, bytes: Vec<u8>) -> Vec<Bytes> {
        let ask = Ask {
            from: NodeId(1),
            number,
            what: Bytes::new(),
        };
        let whole = |frame: PeerFrame| frame.pieces.concat().into();
        answer(&ask, bytes.into()).map(whole).collect()
    }

    fn pending() -> (Reports, u64, Receiver<Report>) {
        let reports = Reports::default();
        let (to, answers) = sync_channel(8);
        let number = reports.note(to, 1).expect("there is room");
        (reports, number, answers)
    }

    #[test]
    fn an_answer_of_any_length_arrives_whole() {
        for length in [
            0,
            1,
            REPORT_PART_BYTES - 1,
            REPORT_PART_BYTES,
            3 * REPORT_PART_BYTES + 7,
        ] {
            let (reports, number, answers) = pending();
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for frame in frames(number, bytes.clone()) {
                assert!(answers.try_recv().is_err(), "not before its end");
                reports.receive(PEER, &frame);
            }
            let report = answers.try_recv().expect("an answer");
            assert_eq!(
                (report.from, report.bytes == bytes),
                (PEER, true),
                "{length}"
            );
        }
    }

    #[test]
    fn an_answer_with_a_gap_or_beyond_the_bound_never_arrives() {
        let (reports, number, answers) = pending();
        let whole = frames(number, vec![7; 3 * REPORT_PART_BYTES]);
        for frame in [&whole[0], &whole[2], &whole[3]] {
            reports.receive(PEER, frame);
        }
        assert!(answers.try_recv().is_err());

        let (reports, number, answers) = pending();
        let part = vec![7; REPORT_PART_BYTES];
        for number_of_part in 0..=(REPORT_BYTES_MAX / REPORT_PART_BYTES) as u32 {
            reports.gather(PEER, number, number_of_part, false, &part);
        }
        reports.gather(PEER, number, 0, true, b"");
        assert!(answers.try_recv().is_err());
        // Nor does a part of the number that no part has.
        reports.gather(PEER, number, u32::MAX, true, b"");
        assert!(answers.try_recv().is_err());
        assert_eq!(frames(1, vec![0; REPORT_BYTES_MAX + 1]).len(), 0);
    }

    #[test]
    fn questions_are_bounded_and_forgotten() {
        let reports = Reports::default();
        let (to, answers) = sync_channel(8);
        let numbers: Vec<_> = (0..REPORTS_PENDING_MAX)
            .map(|_| reports.note(to.clone(), 2).expect("there is room"))
            .collect();
        assert_eq!(reports.note(to.clone(), 2), None);
        reports.forget(numbers[0]);
        for frame in frames(numbers[0], b"late".to_vec()) {
            reports.receive(PEER, &frame);
        }
        assert!(answers.try_recv().is_err());
        assert!(reports.note(to.clone(), 2).is_some());
        assert_eq!(reports.note(to.clone(), 2), None);
        // One that both have answered makes room, though nobody has looked at what they say.
        for node in [PEER, NodeId(3)] {
            assert_eq!(reports.note(to.clone(), 2), None);
            for frame in frames(numbers[1], b"in time".to_vec()) {
                reports.receive(node, &frame);
            }
        }
        assert!(reports.note(to, 2).is_some());
        assert_eq!(answers.try_iter().count(), 2);
    }

    #[test]
    fn what_is_asked_reaches_the_answerer_and_nonsense_nobody() {
        let reports = Reports::default();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&questions);
        reports.set_answerer(Box::new(move |ask| lock(&recorded).push(ask)));
        let mut frame = vec![frame_kinds::ASK];
        frame.extend_from_slice(&9_u64.to_le_bytes());
        frame.extend_from_slice(b"queues");
        for end in 0..=frame.len() {
            reports.receive(PEER, &Bytes::copy_from_slice(&frame[..end]));
        }
        let long = [&frame[..9], &vec![b'x'; REPORT_ASK_BYTES_MAX + 1]].concat();
        reports.receive(PEER, &long.into());
        let questions = lock(&questions);
        assert_eq!(
            questions.len(),
            7,
            "the whole question, and six shorter ones"
        );
        assert_eq!(
            (questions[6].number, &questions[6].what[..]),
            (9, &b"queues"[..])
        );
    }
}
