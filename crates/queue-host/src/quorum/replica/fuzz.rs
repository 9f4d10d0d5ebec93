//! An entrance for fuzzing: any bytes, as another member of a queue's group may send them.

use super::entry_payload::{self, Decoded, EntryPayload, Published};
use super::header::Header;
use crate::quorum::protocol::Origin;
use bytes::Bytes;
use leveret_replication::{Body, Entry, EntryKind, Message as GroupMessage};
use leveret_types::message::MessageSummary;
use leveret_types::{Message, MessageParts, NodeId, QueueId, ReplicaId};

/// What this node has published and keeps: operations 1 to 4 of this run.
const RUN: u64 = 7;
const KEPT: std::ops::RangeInclusive<u64> = 1..=4;
const BODY_BYTES: usize = 200;

/// What is in a frame is a message of the queue each, in memory bounded by the frame and by what is
/// kept here.
///
/// # Panics
/// If it is not.
pub fn fuzz(bytes: &[u8]) {
    let frame = Bytes::copy_from_slice(bytes);
    let kept = |run, number| (run == RUN && KEPT.contains(&number)).then(|| message(number));
    let Ok(Decoded::Message(message, arrivals)) = entry_payload::decode(&frame, &kept) else {
        return;
    };
    assert_eq!(message.entries().len(), arrivals.len());
    let mut total = 0;
    for arrival in arrivals {
        total += arrival.bodies.len();
        let mut rest = &arrival.bodies[..];
        for came in &arrival.header.came {
            for _ in came.range.clone() {
                let left = rest.len();
                match entry_payload::next(&mut rest) {
                    Some(body) => assert!(crate::stored::summary(body).is_some()),
                    None => assert_eq!(rest.len() + 4, left, "it has left"),
                }
            }
        }
        assert!(rest.is_empty(), "{} bytes too many", rest.len());
    }
    let kept_bytes = KEPT.map(|number| 4 + stored(number).len());
    assert!(total <= bytes.len() + kept_bytes.sum::<usize>());
}

/// Frames to begin with: entries with their messages, with references, and with both.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let origin = Origin {
        node: NodeId(2),
        start: RUN,
    };
    let mut header = Header::default();
    let (mut bytes, mut published) = (Vec::new(), Vec::new());
    for (index, sequence) in KEPT.enumerate() {
        let before = bytes.len();
        entry_payload::put_message(&mut bytes, &[&stored(sequence)]);
        header.message(0, index as u64);
        published.push(Published {
            origin,
            sequence,
            at: before..bytes.len(),
        });
    }
    entry_payload::put_gone(&mut bytes);
    header.message(0, KEPT.count() as u64);
    let bytes = Bytes::from(bytes);
    let entry = Entry {
        index: 2,
        term: 1,
        kind: EntryKind::Normal,
        data: header.encode(),
    };
    let append = GroupMessage {
        to: ReplicaId::new(NodeId(2), 0),
        from: ReplicaId::new(NodeId(1), 0),
        term: 1,
        body: Body::Append {
            index: 1,
            log_term: 1,
            commit: 1,
            entries: vec![entry],
        },
    };
    let frame = |published: Vec<Published>, run| {
        let entry_payload = EntryPayload {
            bytes: bytes.clone(),
            published,
        };
        let mut pieces = Vec::new();
        entry_payload.referring(origin, &mut pieces);
        let frame = entry_payload::frame(QueueId(1), &append, run, pieces);
        frame.pieces.concat()
    };
    vec![
        frame(Vec::new(), None),
        frame(Vec::new(), Some(RUN)),
        frame(published.clone(), Some(RUN)),
        frame(published.clone(), Some(RUN + 1)),
        frame(published[1..3].to_vec(), Some(RUN)),
        entry_payload::lacking(QueueId(1), 2).pieces.concat(),
    ]
}

fn message(number: u64) -> Message {
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"key",
        properties: &[0, 0],
        body: &[number as u8; BODY_BYTES],
    };
    Message::from_parts(parts, MessageSummary::default())
}

fn stored(number: u64) -> Vec<u8> {
    let message = message(number);
    let header = crate::stored::header(&message);
    crate::stored::pieces(&header, &message).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(frame: &[u8]) -> Option<Bytes> {
        let kept = |run, number| (run == RUN && KEPT.contains(&number)).then(|| message(number));
        match entry_payload::decode(&Bytes::copy_from_slice(frame), &kept) {
            Ok(Decoded::Message(_, arrivals)) => Some(arrivals[0].bodies.clone()),
            Ok(Decoded::Lacking(index)) => {
                assert_eq!(index, 2);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_is_referred_to_is_what_would_have_been_sent() {
        let [whole, no_references, all, other_run, some, _] = &seeds()[..] else {
            panic!("other seeds");
        };
        let bytes = decoded(whole);
        assert!(bytes.is_some());
        assert_eq!(decoded(no_references), bytes);
        assert_eq!(decoded(all), bytes);
        assert_eq!(decoded(some), bytes);
        assert_eq!(decoded(other_run), None, "a number of another run");
        assert!(all.len() < whole.len() / 4, "{} {}", all.len(), whole.len());
    }

    #[test]
    fn a_message_that_is_referred_to_twice_or_is_another_one_is_lacking() {
        let all = &seeds()[2];
        let at = |number: u64| {
            let found = all.windows(8).rposition(|w| w == number.to_le_bytes());
            found.expect("it is referred to")
        };
        let (first, second) = (at(1), at(2));
        let mut twice = all.clone();
        twice.copy_within(first..first + 12, second);
        assert_eq!(decoded(&twice), None);
        let mut other = all.clone();
        other[second + 8] ^= 1;
        assert_eq!(decoded(&other), None, "its checksum");
    }

    #[test]
    fn frames_that_are_cut_anywhere_do_no_harm() {
        for seed in seeds() {
            fuzz(&seed);
            (0..seed.len()).for_each(|len| fuzz(&seed[..len]));
        }
    }
}
