//! The bytes of links, as they are sent, as they come, and as somebody between makes them.

use super::super::seal::pair;
use super::*;
use leveret_types::limits::PEER_RECORD_BYTES_MAX;
use mio::Events;
use std::time::Duration;

const BOTH: [Protection; 2] = [Protection::Sealed, Protection::Plain];

/// Numbers that look random, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Frames of all sizes, some of several pieces.
fn frames(chance: &mut Chance, count: u64) -> Vec<PeerFrame> {
    let mut piece = |of: u64| {
        let bounds = [2, 40, COPIED_BYTES_MAX * 2, 3 * PEER_RECORD_BYTES_MAX];
        let bound = bounds[chance.below(bounds.len())];
        Bytes::from(vec![of as u8; chance.below(bound)])
    };
    let frames = (1..=count).map(|queue| {
        let mut frame = PeerFrame::new(QueueId(queue), piece(queue));
        if queue % 3 == 0 {
            frame.pieces.extend([piece(queue), piece(queue)]);
        }
        frame
    });
    frames.collect()
}

fn whole(frames: &[PeerFrame]) -> Vec<(QueueId, Bytes)> {
    let whole = |frame: &PeerFrame| (frame.queue, Bytes::from(frame.pieces.concat()));
    frames.iter().map(whole).collect()
}

/// The pieces of bytes that a socket is given for these frames, each of which it takes in steps.
fn sent(leaving: &mut Leaving, frames: &mut Vec<PeerFrame>, chance: &mut Chance) -> Vec<u8> {
    leaving.add(frames, &mut BytesMut::new());
    let (mut sent, mut frame_bytes) = (Vec::new(), 0);
    loop {
        let step = match leaving {
            Leaving::Plain(pending) => pending.iter().flatten().copied().take(999).collect(),
            Leaving::Sealed(records) => records.next().to_vec(),
        };
        if step.is_empty() {
            return sent;
        }
        let written = 1 + chance.below(step.len());
        sent.extend_from_slice(&step[..written]);
        frame_bytes += leaving.advance(written);
        assert!(
            frame_bytes <= sent.len(),
            "no more is counted than has left"
        );
    }
}

/// What comes of bytes that arrive in steps.
fn received(
    arriving: &mut Arriving,
    bytes: &[u8],
    chance: &mut Chance,
) -> (Vec<(QueueId, Bytes)>, Result<(), String>) {
    let mut scratch = vec![0; READ_BYTES];
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        // Most of them long ones, so that there are records that come at once; some a few bytes.
        let bound = [scratch.len(), scratch.len(), 9][chance.below(3)];
        let count = 1 + chance.below(bound.min(bytes.len() - at));
        scratch[..count].copy_from_slice(&bytes[at..at + count]);
        at += count;
        if let Err(why) = arriving.take(&mut scratch[..count], &mut frames) {
            return (frames, Err(why));
        }
    }
    (frames, Ok(()))
}

#[test]
fn frames_come_as_they_were_sent_in_any_steps() {
    for protection in BOTH {
        let mut chance = Chance(7);
        let (near, far) = pair();
        let mut leaving = Leaving::new(protection, near.sealer);
        let mut arriving = Arriving::new(protection, far.opener);
        for count in [1, 0, 60, 5] {
            let mut posted = frames(&mut chance, count);
            let expected = whole(&posted);
            leaving.beat();
            let bytes = sent(&mut leaving, &mut posted, &mut chance);
            assert!(bytes.len() >= wire::HEADER_BYTES, "a heartbeat at least");
            let (came, result) = received(&mut arriving, &bytes, &mut chance);
            assert_eq!((came.len(), result), (expected.len(), Ok(())));
            assert!(came == expected, "{protection:?}");
        }
    }
}

#[test]
fn bytes_that_nobody_has_sealed_say_nothing_of_the_other_node() {
    let (near, far) = pair();
    let mut leaving = Leaving::new(Protection::Sealed, near.sealer);
    let mut arriving = Arriving::new(Protection::Sealed, far.opener);
    leaving.beat();
    let mut record = sent(&mut leaving, &mut Vec::new(), &mut Chance(3));
    let mut frames = Vec::new();
    for at in 0..record.len() {
        let heard = arriving.take(&mut [record[at]], &mut frames);
        assert_eq!(heard, Ok(at + 1 == record.len()), "byte {at}");
    }
    // A length that somebody claims, and bytes that drip behind it.
    record.truncate(4);
    record.extend_from_slice(&[7; 3]);
    assert_eq!(arriving.take(&mut record, &mut frames), Ok(false));
}

/// Somebody on the way who passes on one byte after the other has a node do no more for each than
/// take it: what is there of a record is not moved again.
#[test]
fn a_record_that_drips_is_kept_where_it_is() {
    let (near, far) = pair();
    let mut leaving = Leaving::new(Protection::Sealed, near.sealer);
    let mut arriving = Arriving::new(Protection::Sealed, far.opener);
    let body = Bytes::from(vec![7; PEER_RECORD_BYTES_MAX - wire::HEADER_BYTES]);
    let mut posted = vec![PeerFrame::new(QueueId(1), body)];
    let record = sent(&mut leaving, &mut posted, &mut Chance(3));
    assert_eq!(records(&record).len(), 1);
    let (mut frames, mut moves, mut place) = (Vec::new(), 0, std::ptr::null());
    for (at, byte) in record.iter().enumerate() {
        assert_eq!(arriving.partial.len(), at);
        let heard = arriving.take(&mut [*byte], &mut frames);
        assert_eq!(heard, Ok(at + 1 == record.len()), "byte {at}");
        moves += usize::from(place != arriving.partial.as_ptr());
        place = arriving.partial.as_ptr();
    }
    assert_eq!(frames.len(), 1);
    assert!(moves <= 20, "it grows by doubling: {moves}");
}

#[test]
fn what_has_left_is_counted_to_the_last_byte() {
    for protection in BOTH {
        let mut leaving = Leaving::new(protection, pair().0.sealer);
        let mut posted = frames(&mut Chance(3), 30);
        let bytes = posted.iter().map(|frame| frame.len() + wire::HEADER_BYTES);
        let expected: usize = bytes.sum();
        leaving.add(&mut posted, &mut BytesMut::new());
        let mut counted = 0;
        loop {
            let step = match &mut leaving {
                Leaving::Plain(pending) => pending.front().map_or(0, Bytes::len),
                Leaving::Sealed(records) => records.next().len(),
            };
            if step == 0 && leaving.is_done() {
                break;
            }
            counted += leaving.advance(step);
        }
        assert_eq!(counted, expected, "{protection:?}");
    }
}

/// A link's bytes with something done to them between the nodes.
fn altered(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut altered = bytes.to_vec();
    let at = chance.below(bytes.len());
    let length = 1 + chance.below((bytes.len() - at).min(PEER_RECORD_BYTES_MAX + 99));
    let to = chance.below(bytes.len() - length + 1);
    match chance.below(6) {
        0 => altered[at] ^= 1 << chance.below(8),
        1 => drop(altered.drain(at..at + length)),
        2 => drop(altered.splice(to..to, bytes[at..at + length].iter().copied())),
        3 => drop(altered.splice(to..to + length, bytes[at..at + length].iter().copied())),
        4 => altered.rotate_left(at),
        _ => {
            let noise = (0..length).map(|_| chance.below(256) as u8);
            let noise: Vec<u8> = noise.collect();
            drop(altered.splice(at..at, noise));
        }
    }
    altered
}

/// Where each record begins.
fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut records, mut rest) = (Vec::new(), bytes);
    while let Some((length, _)) = rest.split_first_chunk::<{ seal::HEADER_BYTES }>() {
        let (record, behind) =
            rest.split_at(seal::HEADER_BYTES + u32::from_le_bytes(*length) as usize);
        records.push(record);
        rest = behind;
    }
    records
}

/// Whoever is between two nodes can end a link, and nothing else: what is taken from it are the
/// first frames of those that were sent, each as it was.
#[test]
fn whatever_is_done_to_a_sealed_link_on_its_way_only_frames_that_were_sent_come() {
    let mut chance = Chance(11);
    for round in 0..400 {
        let (near, far) = pair();
        let mut posted = frames(&mut chance, 12);
        let expected = whole(&posted);
        let mut leaving = Leaving::new(Protection::Sealed, near.sealer);
        let mut bytes = Vec::new();
        // Several turns, so that there are records of all sizes.
        while !posted.is_empty() {
            let rest = posted.split_off(posted.len().min(3));
            bytes.extend(sent(&mut leaving, &mut posted, &mut chance));
            posted = rest;
        }
        let records = records(&bytes);
        let (one, other) = (chance.below(records.len()), chance.below(records.len()));
        let mut moved = records.clone();
        let bad = match round % 4 {
            0 => {
                moved.swap(one, other);
                moved.concat()
            }
            1 => {
                moved.insert(other, records[one]);
                moved.concat()
            }
            2 => {
                moved.remove(one);
                moved.concat()
            }
            _ => altered(&bytes, &mut chance),
        };
        let mut arriving = Arriving::new(Protection::Sealed, far.opener);
        let (came, result) = received(&mut arriving, &bad, &mut chance);
        assert!(expected.starts_with(&came), "round {round}");
        let untouched = bytes.starts_with(&bad) || bad.starts_with(&bytes);
        if bad.len() >= bytes.len() && !bad.starts_with(&bytes) {
            // A length may have been made longer than all that comes: it waits then.
            assert!(
                result.is_err() || came.len() < expected.len(),
                "round {round}"
            );
        }
        assert!(untouched || came.len() < expected.len(), "round {round}");
    }
}

#[test]
fn what_is_sealed_cannot_be_read_on_its_way() {
    let (near, _) = pair();
    let mut leaving = Leaving::new(Protection::Sealed, near.sealer);
    let word = b"what nobody is to read";
    let mut posted = vec![PeerFrame::new(
        QueueId(0x5151_5151),
        Bytes::from_static(word),
    )];
    let bytes = sent(&mut leaving, &mut posted, &mut Chance(1));
    for secret in [&word[..4], &0x5151_5151_u32.to_le_bytes()] {
        assert!(!bytes.windows(4).any(|found| found == secret));
    }
}

#[test]
fn a_close_right_behind_the_last_frame_is_seen() {
    for protection in BOTH {
        let mut poll = Poll::new().expect("a poll");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let mut other = std::net::TcpStream::connect(address).expect("connects");
        let (socket, _) = listener.accept().expect("accepted");
        let token = token(NodeId(2), true);
        let socket = watch(&poll, socket, token, Interest::READABLE).expect("watched");
        let (near, far) = pair();
        let mut link = Incoming::new(socket, 1, protection, far, Now::both(0));
        let mut leaving = Leaving::new(protection, near.sealer);
        let mut posted = vec![PeerFrame::new(QueueId(7), Bytes::from_static(b"last"))];
        let bytes = sent(&mut leaving, &mut posted, &mut Chance(1));
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
}

#[test]
fn tokens_tell_the_node_and_the_direction() {
    for node in [NodeId(1), NodeId(u32::MAX)] {
        for incoming in [false, true] {
            let token = token(node, incoming);
            assert_eq!((node_of(token), is_incoming(token)), (node, incoming));
            assert_ne!(token, super::super::link_thread::TOKEN_WAKER);
        }
    }
}
