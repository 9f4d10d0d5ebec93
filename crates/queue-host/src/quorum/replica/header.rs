//! The header of a batch: what an entry of a queue's Raft log says.
//!
//! ```text
//! header:    version u8 = 2 | weight | origins | came | left | returned | delivered | leaving
//!            each: count, items; version 3, of a view of a stream, has behind them: given
//!            version 4, where something was refused, has behind them: refused | given: count
//! weight:    bytes that the messages take behind the entry, lengths included
//! origin:    node | start | through
//! came:      priority log u8 | first index | count
//! left:      priority log u8 | start | count | bytes
//! returned:  priority log u8 | start | count | failed | acquired | ready at
//! delivered: priority log u8 | through
//! leaving:   priority log u8 | start | count | why u8
//! given:     stream | when the newest chunk came | through | count, (start | count)
//! refused:   count, (node | start | first | numbers: count, (from the one before | count))
//! ```
//! Version 1 had neither the last two of what returned, nor what is leaving. Numbers are LEB128
//! ([`super::wire`]). The messages that came lie behind the entry
//! ([`super::entry_payload`]), in the order in which the header names them.
//!
//! Invariant: numbers are absolute, so that a header that is applied twice changes nothing.

use super::wire::{Malformed, Reader, put, put_range, put_set, take_set};
use crate::quorum::Refusals;
use crate::quorum::protocol::Origin;
use bytes::Bytes;
use leveret_queue::{Reason, Returns};
use leveret_types::limits::REFUSED_RANGES_MAX;
use leveret_types::{NodeId, QueueId};
use std::ops::Range;

const VERSION: u8 = 2;
/// The version of what a view's leader proposes that has been given messages.
const VERSION_OF_VIEW: u8 = 3;
/// The version of what has refused publishes in it.
const VERSION_OF_REFUSALS: u8 = 4;
/// The oldest version that is read.
const VERSION_FIRST: u8 = 1;
/// The highest priority log that messages may have: the last one has the headers.
pub(super) const PRIORITY_LOG_MAX: u8 = 254;

/// Messages that came to a priority log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) priority_log: u8,
    /// Indexes in the priority log.
    pub(super) range: Range<u64>,
}

/// Messages that left a priority log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) priority_log: u8,
    pub(super) range: Range<u64>,
    /// Bytes of their bodies together.
    pub(super) bytes: u64,
}

/// Messages that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) priority_log: u8,
    pub(super) range: Range<u64>,
    /// What is known of each from then on.
    pub(super) known: Returns,
}

/// Messages that are on their way to the dead-letter exchange from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) priority_log: u8,
    pub(super) range: Range<u64>,
    pub(super) reason: Reason,
}

/// Messages of a stream that its view was given. Their bodies stay in the stream: an offset is an
/// index of the view's one priority log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) source: QueueId,
    /// When the newest chunk came that was read, in milliseconds since the Unix epoch; 0 if that is
    /// not known.
    pub(super) read_ms: i64,
    /// What is below this is given, or has no message for the view.
    pub(super) through: u64,
    /// The offsets, ascending, apart from each other and below `through`.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Given {
    /// Notes one more message.
    fn message(&mut self, offset: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.end == offset => last.end += 1,
            _ => self.ranges.push(offset..offset + 1),
        }
        self.through = self.through.max(offset + 1);
    }
}

/// What a queue did between two writes of its leader's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes that the messages take behind the entry.
    pub(super) weight: u64,
    /// Whose operations took effect, and the last of each.
    pub(super) origins: Vec<(Origin, u64)>,
    pub(super) came: Vec<Came>,
    pub(super) left: Vec<Left>,
    pub(super) returned: Vec<Returned>,
    /// Below this index of a priority log messages may be handed out once this is committed.
    pub(super) delivered: Vec<(u8, u64)>,
    pub(super) leaving: Vec<Leaving>,
    /// Which publishes were refused, by whose they are.
    pub(super) refused: Vec<(Origin, Refusals)>,
    /// What it was given, if it is a view of a stream.
    pub(super) given: Option<Box<Given>>,
}

impl Header {
    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty()
            && self.came.is_empty()
            && self.left.is_empty()
            && self.returned.is_empty()
            && self.leaving.is_empty()
            && self.refused.is_empty()
            && self.given.is_none()
    }

    /// Items in it: what its size goes by.
    pub(super) fn items(&self) -> usize {
        let refused = self.refused.iter();
        let refused = refused.map(|(_, of)| of.numbers.interval_count());
        self.origins.len()
            + self.came.len()
            + self.left.len()
            + self.returned.len()
            + self.leaving.len()
            + refused.sum::<usize>()
            + self
                .given
                .as_ref()
                .map_or(0, |given| 1 + given.ranges.len())
    }

    /// How many messages came.
    pub(super) fn messages(&self) -> u64 {
        let came = self.came.iter();
        came.map(|came| came.range.end - came.range.start).sum()
    }

    /// Notes that one more message came to a priority log.
    pub(super) fn message(&mut self, priority_log: u8, index: u64) {
        match self.came.last_mut() {
            Some(last) if last.priority_log == priority_log && last.range.end == index => {
                last.range.end += 1
            }
            _ => self.came.push(Came {
                priority_log,
                range: index..index + 1,
            }),
        }
    }

    /// Notes that a view was given one more message of its stream.
    pub(super) fn give(&mut self, offset: u64) {
        self.given.get_or_insert_default().message(offset);
    }

    /// Notes how far a view was given its stream, which it has read as `read` says.
    pub(super) fn given_through(&mut self, through: u64, read: (QueueId, i64)) {
        let given = self.given.get_or_insert_default();
        (given.source, given.read_ms) = read;
        given.through = given.through.max(through);
    }

    /// Notes that messages left.
    pub(super) fn left(&mut self, priority_log: u8, range: Range<u64>, bytes: u64) {
        match self.left.last_mut() {
            Some(last) if last.priority_log == priority_log && last.range.end == range.start => {
                last.range.end = range.end;
                last.bytes += bytes;
            }
            _ => self.left.push(Left {
                priority_log,
                range,
                bytes,
            }),
        }
    }

    /// Notes how far an origin's operations have come.
    pub(super) fn through(&mut self, origin: Origin, sequence: u64) {
        match self.origins.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, through)) => *through = sequence,
            None => self.origins.push((origin, sequence)),
        }
    }

    /// Notes that an origin's publish is refused. What is below `first` has reached whom it
    /// concerns.
    pub(super) fn refuse(&mut self, origin: Origin, first: u64, sequence: u64) {
        let known = self.refused.iter().position(|(known, _)| *known == origin);
        let at = known.unwrap_or_else(|| {
            self.refused.push((origin, Refusals::default()));
            self.refused.len() - 1
        });
        let (_, refusals) = &mut self.refused[at];
        refusals.acknowledged(first.min(sequence));
        refusals.refuse(sequence);
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(16 + 12 * self.items());
        out.push(match self.given {
            _ if !self.refused.is_empty() => VERSION_OF_REFUSALS,
            None => VERSION,
            Some(_) => VERSION_OF_VIEW,
        });
        put(&mut out, self.weight);
        put(&mut out, self.origins.len() as u64);
        for (origin, through) in &self.origins {
            put(&mut out, u64::from(origin.node.0));
            put(&mut out, origin.start);
            put(&mut out, *through);
        }
        put(&mut out, self.came.len() as u64);
        for came in &self.came {
            out.push(came.priority_log);
            put_range(&mut out, &came.range);
        }
        put(&mut out, self.left.len() as u64);
        for left in &self.left {
            out.push(left.priority_log);
            put_range(&mut out, &left.range);
            put(&mut out, left.bytes);
        }
        put(&mut out, self.returned.len() as u64);
        for returned in &self.returned {
            out.push(returned.priority_log);
            put_range(&mut out, &returned.range);
            put_returns(&mut out, returned.known);
        }
        put(&mut out, self.delivered.len() as u64);
        for (priority_log, through) in &self.delivered {
            out.push(*priority_log);
            put(&mut out, *through);
        }
        put(&mut out, self.leaving.len() as u64);
        for leaving in &self.leaving {
            out.push(leaving.priority_log);
            put_range(&mut out, &leaving.range);
            out.push(reason_byte(leaving.reason));
        }
        if !self.refused.is_empty() {
            put_refused(&mut out, &self.refused);
            out.push(u8::from(self.given.is_some()));
        }
        if let Some(given) = &self.given {
            put_given(&mut out, given);
        }
        Bytes::from(out)
    }

    /// Reads a header from exactly these bytes.
    ///
    /// # Errors
    /// Where the bytes stop making sense.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8("the version of a batch")?;
        if !(VERSION_FIRST..=VERSION_OF_REFUSALS).contains(&version) {
            return Err(reader.fail("a batch of this version"));
        }
        let mut header = Self {
            weight: reader.number("the weight of a batch")?,
            ..Self::default()
        };
        for _ in 0..reader.count("origins")? {
            let node = NodeId(reader.u32("an origin's node")?);
            let start = reader.number("an origin's start")?;
            let through = reader.number("an origin's last operation")?;
            header.origins.push((Origin { node, start }, through));
        }
        for _ in 0..reader.count("arrivals")? {
            let priority_log = priority_log(&mut reader)?;
            let range = reader.range("arrivals")?;
            header.came.push(Came {
                priority_log,
                range,
            });
        }
        for _ in 0..reader.count("departures")? {
            let priority_log = priority_log(&mut reader)?;
            let range = reader.range("departures")?;
            let bytes = reader.number("bytes of departures")?;
            header.left.push(Left {
                priority_log,
                range,
                bytes,
            });
        }
        for _ in 0..reader.count("returns")? {
            let priority_log = priority_log(&mut reader)?;
            let range = reader.range("returns")?;
            let known = take_returns(&mut reader, version > VERSION_FIRST)?;
            header.returned.push(Returned {
                priority_log,
                range,
                known,
            });
        }
        for _ in 0..reader.count("deliveries")? {
            let priority_log = priority_log(&mut reader)?;
            let through = reader.number("deliveries")?;
            header.delivered.push((priority_log, through));
        }
        let leaving = match version {
            VERSION_FIRST => 0,
            _ => reader.count("what is leaving")?,
        };
        for _ in 0..leaving {
            header.leaving.push(Leaving {
                priority_log: priority_log(&mut reader)?,
                range: reader.range("what is leaving")?,
                reason: take_reason(&mut reader)?,
            });
        }
        let is_given = match version {
            VERSION_OF_REFUSALS => {
                header.refused = take_refused(&mut reader)?;
                flag(&mut reader, "whether a view was given messages")?
            }
            version => version == VERSION_OF_VIEW,
        };
        if is_given {
            header.given = Some(Box::new(take_given(&mut reader)?));
        }
        reader.end("what follows a batch")?;
        Ok(header)
    }
}

fn put_given(out: &mut Vec<u8>, given: &Given) {
    put(out, given.source.0);
    put(out, given.read_ms.cast_unsigned());
    put(out, given.through);
    put(out, given.ranges.len() as u64);
    given.ranges.iter().for_each(|range| put_range(out, range));
}

fn take_given(reader: &mut Reader<'_>) -> Result<Given, Malformed> {
    let mut given = Given {
        source: QueueId(reader.number("a view's stream")?),
        read_ms: reader.number("when a chunk came")?.cast_signed(),
        through: reader.number("how far a view was given its stream")?,
        ranges: Vec::new(),
    };
    for _ in 0..reader.count("offsets")? {
        let range = reader.range("offsets")?;
        let is_behind = given
            .ranges
            .last()
            .is_none_or(|last| last.end < range.start);
        if !is_behind || range.end > given.through {
            return Err(reader.fail("offsets in order"));
        }
        given.ranges.push(range);
    }
    Ok(given)
}

/// Writes which publishes were refused, of at least one origin.
pub(super) fn put_refused(out: &mut Vec<u8>, refused: &[(Origin, Refusals)]) {
    put(out, refused.len() as u64);
    for (origin, refusals) in refused {
        put(out, u64::from(origin.node.0));
        put(out, origin.start);
        put(out, refusals.first);
        put_set(out, &refusals.numbers);
    }
}

/// Reads which publishes were refused: of each origin some, and none that it has heard of.
pub(super) fn take_refused(reader: &mut Reader<'_>) -> Result<Vec<(Origin, Refusals)>, Malformed> {
    let count = reader.count("whose publishes were refused")?;
    if count == 0 {
        return Err(reader.fail("whose publishes were refused"));
    }
    let mut refused: Vec<(Origin, Refusals)> = Vec::new();
    for _ in 0..count {
        let origin = Origin {
            node: NodeId(reader.u32("an origin's node")?),
            start: reader.number("an origin's start")?,
        };
        let first = reader.number("an origin's first operation without an answer")?;
        let numbers = take_set(reader, "refused publishes")?;
        let is_known = refused.iter().any(|(known, _)| *known == origin);
        let is_pending = numbers.first().is_some_and(|number| number >= first);
        if is_known || !is_pending || numbers.interval_count() > REFUSED_RANGES_MAX {
            return Err(reader.fail("refused publishes of an origin"));
        }
        refused.push((origin, Refusals { first, numbers }));
    }
    Ok(refused)
}

/// Whether something is so, as a byte.
pub(super) fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Malformed> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.fail(what)),
    }
}

/// What an entry with this data weighs on its way to another node: what lies behind it is counted.
pub(super) fn weigh(data: &[u8]) -> u64 {
    let behind = data.get(1..).map(|rest| Reader::new(rest).number(""));
    let behind = behind.and_then(Result::ok).unwrap_or(0);
    behind.saturating_add(data.len() as u64)
}

/// Why a message leaves, as a byte.
pub(super) const fn reason_byte(reason: Reason) -> u8 {
    match reason {
        Reason::Rejected => 0,
        Reason::Expired => 1,
        Reason::MaxLength => 2,
        Reason::DeliveryLimit => 3,
    }
}

/// Reads why a message leaves.
pub(super) fn take_reason(reader: &mut Reader<'_>) -> Result<Reason, Malformed> {
    match reader.u8("why messages are leaving")? {
        0 => Ok(Reason::Rejected),
        1 => Ok(Reason::Expired),
        2 => Ok(Reason::MaxLength),
        3 => Ok(Reason::DeliveryLimit),
        _ => Err(reader.fail("why messages are leaving")),
    }
}

/// Writes what is known of messages that came back: three numbers.
pub(super) fn put_returns(out: &mut Vec<u8>, known: Returns) {
    put(out, u64::from(known.failed));
    put(out, u64::from(known.acquired));
    put(out, known.ready_ms);
}

/// Reads what is known of messages that came back; of old only how often their delivery failed.
pub(super) fn take_returns(reader: &mut Reader<'_>, whole: bool) -> Result<Returns, Malformed> {
    let failed = reader.u32("a count of failed deliveries")?;
    Ok(match whole {
        true => Returns {
            failed,
            acquired: reader.u32("a count of acquisitions")?,
            ready_ms: reader.number("when messages are ready")?,
        },
        false => Returns {
            failed,
            acquired: failed,
            ready_ms: 0,
        },
    })
}

pub(super) fn priority_log(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
    let priority_log = reader.u8("a priority log")?;
    match priority_log <= PRIORITY_LOG_MAX {
        true => Ok(priority_log),
        false => Err(reader.fail("a priority log of messages")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::RangeSet;

    /// What is in a header that has one of its parts, and nothing beside it.
    #[test]
    fn a_header_is_empty_when_nothing_is_in_any_of_its_parts() {
        let origin = Origin {
            node: NodeId(1),
            start: 7,
        };
        let all = header();
        let none = Header::default;
        let parts = [
            (none(), 0),
            // Where messages may be handed out is told with whatever else there is.
            (
                Header {
                    weight: 9,
                    delivered: vec![(4, 9)],
                    ..none()
                },
                0,
            ),
            (
                Header {
                    origins: vec![(origin, 1), (origin, 2)],
                    ..none()
                },
                2,
            ),
            (
                Header {
                    came: all.came.clone(),
                    ..none()
                },
                all.came.len(),
            ),
            (
                Header {
                    left: all.left.clone(),
                    ..none()
                },
                all.left.len(),
            ),
            (
                Header {
                    returned: all.returned.clone(),
                    ..none()
                },
                all.returned.len(),
            ),
            (
                Header {
                    leaving: vec![Leaving {
                        priority_log: 4,
                        range: 1..3,
                        reason: Reason::Rejected,
                    }],
                    ..none()
                },
                1,
            ),
            (
                Header {
                    refused: header_of_refusals(header()).refused,
                    ..none()
                },
                3,
            ),
        ];
        for (header, items) in parts {
            assert_eq!(header.items(), items, "{header:?}");
            assert_eq!(header.is_empty(), items == 0, "{header:?}");
        }
        assert_eq!(all.messages(), 51);
    }

    fn header() -> Header {
        let origin = |node, start| Origin {
            node: NodeId(node),
            start,
        };
        let mut header = Header {
            weight: 51_000,
            ..Header::default()
        };
        header.through(origin(1, 7), 1);
        header.through(origin(2, u64::MAX), 5);
        header.through(origin(1, 7), 300);
        for index in 40..90 {
            header.message(4, index);
        }
        header.message(31, 0);
        header.left(4, 0..20, 100);
        header.left(4, 20..21, 5);
        header.left(4, 30..31, 5);
        header.returned.push(Returned {
            priority_log: 4,
            range: 22..24,
            known: Returns {
                failed: 3,
                acquired: 4,
                ready_ms: 0,
            },
        });
        header.delivered.push((4, 64));
        header.leaving.push(Leaving {
            priority_log: 4,
            range: 24..26,
            reason: Reason::DeliveryLimit,
        });
        header
    }

    /// The header of a view that was given messages.
    fn header_of_view() -> Header {
        let mut header = header();
        header.came.clear();
        for offset in [300, 301, 303] {
            header.give(offset);
        }
        header.given_through(310, (QueueId(9).of_stream(), 1_700_000_000_000));
        header
    }

    /// The header with refused publishes of two nodes beside what it has.
    fn header_of_refusals(mut header: Header) -> Header {
        let origin = |node, start| Origin {
            node: NodeId(node),
            start,
        };
        for sequence in [290, 291, 300] {
            header.refuse(origin(1, 7), 280, sequence);
        }
        header.refuse(origin(2, u64::MAX), 0, 5);
        header
    }

    #[test]
    fn what_was_refused_is_of_its_origin_and_not_what_that_has_heard_of() {
        let header = header_of_refusals(Header::default());
        let refused = header.refused.iter().map(|(origin, of)| {
            let numbers = of.numbers.iter().map(|range| (range.start, range.end));
            (origin.node.0, of.first, numbers.collect())
        });
        let refused: Vec<(u32, u64, Vec<_>)> = refused.collect();
        let expected = [(1, 280, vec![(290, 292), (300, 301)]), (2, 0, vec![(5, 6)])];
        assert_eq!(refused, expected);
        let (origin, _) = header.refused[0];
        let mut later = header;
        later.refuse(origin, 291, 301);
        let numbers: Vec<_> = later.refused[0].1.numbers.iter().collect();
        assert_eq!(numbers, [291..292, 300..302]);
    }

    #[test]
    fn refused_publishes_of_nobody_or_that_were_heard_of_or_of_too_many_ranges_are_none() {
        let encoded = |first, numbers: &RangeSet| {
            let refusals = Refusals {
                first,
                numbers: numbers.clone(),
            };
            let header = Header {
                refused: vec![(Origin::default(), refusals)],
                ..Header::default()
            };
            header.encode()
        };
        let mut most: RangeSet = (1..=REFUSED_RANGES_MAX as u64)
            .map(|number| 2 * number..2 * number + 1)
            .collect();
        assert!(Header::decode(&encoded(2, &most)).is_ok());
        assert!(Header::decode(&encoded(3, &most)).is_err());
        assert!(Header::decode(&encoded(0, &RangeSet::new())).is_err());
        most.insert(2 * REFUSED_RANGES_MAX as u64 + 2);
        assert!(Header::decode(&encoded(2, &most)).is_err());
        let mut twice = header_of_refusals(Header::default());
        twice.refused[1].0 = twice.refused[0].0;
        assert!(Header::decode(&twice.encode()).is_err());
        let nobody = [VERSION_OF_REFUSALS, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(Header::decode(&nobody).is_err());
    }

    #[test]
    fn offsets_that_follow_each_other_are_one_range() {
        let given = header_of_view().given.expect("it was given some");
        assert_eq!(given.ranges, [300..302, 303..304]);
        assert_eq!(given.through, 310);
        assert_eq!(header_of_view().items(), header().items() - 2 + 3);
        let mut header = Header::default();
        header.give(41);
        let given = header.given.expect("it was given one");
        assert_eq!(given.through, 42, "it is given that one");
    }

    #[test]
    fn offsets_out_of_order_or_beyond_what_is_given_are_refused() {
        for ranges in [vec![5..6, 6..7], vec![5..6, 3..4], vec![0..1, 9..11]] {
            let given = Given {
                through: 10,
                ranges,
                ..Given::default()
            };
            let header = Header {
                given: Some(Box::new(given)),
                ..Header::default()
            };
            assert!(Header::decode(&header.encode()).is_err(), "{header:?}");
        }
    }

    #[test]
    fn a_header_with_any_one_thing_in_it_is_not_empty() {
        assert!(Header::default().is_empty());
        let parts: [fn(&mut Header, Header); 7] = [
            |header, full| header.refused = header_of_refusals(full).refused,
            |header, _| header.given = header_of_view().given,
            |header, full| header.origins = full.origins,
            |header, full| header.came = full.came,
            |header, full| header.left = full.left,
            |header, full| header.returned = full.returned,
            |header, full| header.leaving = full.leaving,
        ];
        for (number, part) in parts.iter().enumerate() {
            let mut one = Header::default();
            part(&mut one, header());
            assert!(!one.is_empty(), "part {number}");
        }
    }

    #[test]
    fn what_follows_in_another_priority_log_or_behind_a_gap_is_no_neighbour() {
        let mut header = Header::default();
        header.message(4, 0);
        header.message(5, 1);
        header.message(5, 2);
        header.message(5, 4);
        let came = |priority_log, range| Came {
            priority_log,
            range,
        };
        assert_eq!(header.came, [came(4, 0..1), came(5, 1..3), came(5, 4..5)]);
        header.left(4, 0..1, 7);
        header.left(5, 1..3, 8);
        header.left(5, 4..5, 8);
        let left: Vec<_> = header.left.iter().map(|of| of.range.clone()).collect();
        assert_eq!(left, [0..1, 1..3, 4..5]);
    }

    #[test]
    fn neighbours_are_one_item() {
        let header = header();
        assert_eq!(header.items(), 2 + 2 + 2 + 1 + 1);
        assert_eq!(header.messages(), 51);
        assert_eq!(header.origins[0].1, 300);
        assert_eq!(header.left[0].bytes, 105);
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        let headers = [
            Header::default(),
            header(),
            header_of_view(),
            header_of_refusals(header()),
            header_of_refusals(header_of_view()),
        ];
        for header in headers {
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Ok(header));
        }
        let bytes = header().encode();
        assert!(bytes.len() < 70, "a few dozen bytes, not {}", bytes.len());
        assert_eq!(weigh(&bytes), 51_000 + bytes.len() as u64);
        assert_eq!(weigh(&[]), 0);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused_or_another_header() {
        let headers = [
            header(),
            header_of_view(),
            header_of_refusals(header()),
            header_of_refusals(header_of_view()),
        ];
        headers.iter().for_each(check_changes);
    }

    fn check_changes(header: &Header) {
        let bytes = header.encode();
        for end in 0..bytes.len() {
            assert!(Header::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert!(Header::decode(&longer).is_err());
        for at in 0..bytes.len() {
            for flip in 1..=255_u8 {
                let mut changed = bytes.to_vec();
                changed[at] ^= flip;
                let is_older = at == 0 && changed[0] < bytes[0];
                if let Ok(header) = Header::decode(&changed)
                    && !is_older
                {
                    assert_eq!(header.encode(), changed, "byte {at} changed by {flip}");
                }
            }
        }
    }

    #[test]
    fn counts_are_not_believed() {
        for count in [1_u64 << 20, u64::MAX] {
            let mut bytes = vec![VERSION, 0];
            put(&mut bytes, count);
            assert!(Header::decode(&bytes).is_err());
        }
        let mut bytes = vec![VERSION, 0, 0, 1, 4];
        put(&mut bytes, u64::MAX);
        put(&mut bytes, 2);
        bytes.extend([0, 0, 0, 0]);
        assert!(Header::decode(&bytes).is_err(), "indexes have 64 bits");
        let last = [VERSION, 0, 0, 1, 255, 0, 1, 0, 0, 0, 0];
        assert!(
            Header::decode(&last).is_err(),
            "the last priority log has headers"
        );
    }
}
