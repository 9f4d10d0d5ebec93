//! Spans of the way of messages that their publishers trace: W3C's `traceparent` in a message's
//! headers says of which trace it is, and whether that is sampled.
//!
//! The broker begins no trace, and changes no header: its spans are children of the publisher's, so
//! that what a consumer makes of the same header stands beside them.
//!
//! Invariant: spans wait in bounded room; what finds it full is counted and dropped, and no message
//! waits for it. What is dropped then is of the connection that has most spans there: whoever marks
//! all messages as sampled shuts nobody else's traces out.

use leveret_amqp::{Properties, Property, RawValue};
use leveret_message::{as_amqp091, has_property};
use leveret_types::limits::TRACE_SPANS_MAX;
use leveret_types::{ConnectionId, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The header that says of which trace a message is.
const HEADER: &[u8] = b"traceparent";

/// The trace that a message is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: u128,
    /// The span that is above all of the broker's.
    pub parent: u64,
}

/// A part of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From when the node took the message in until it was put into its queues.
    Publish,
    /// The finding of its queues; part of `Publish`.
    Route,
    /// From being put into queues until it was durable, or committed by the cluster: what its
    /// confirm waited for. Publishes without confirms have none.
    Store,
    /// From when the broker took it until it was written for a consumer: how long it waited.
    Deliver,
    /// From its delivery until the consumer settled it.
    Settle,
}

impl Stage {
    /// Its name in a span's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Route => "route",
            Self::Store => "store",
            Self::Deliver => "deliver",
            Self::Settle => "settle",
        }
    }
}

/// One span that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which part of the way.
    pub stage: Stage,
    /// Its trace, and the span above it.
    pub context: Context,
    /// Its own number.
    pub id: u64,
    /// When it began, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// When it ended; never before it began.
    pub end_ns: u64,
    /// The exchange of a publish, the queue of a delivery.
    pub destination: String,
    /// The routing key of a publish.
    pub routing_key: String,
    /// What became of it, where more than one thing can.
    pub outcome: Option<&'static str>,
}

/// Spans by the connections that they are of.
#[derive(Debug, Default)]
struct Waiting {
    by_connection: BTreeMap<ConnectionId, Vec<Span>>,
    count: usize,
    /// The connections by how many spans they have, once there is no more room: before, nobody has
    /// to know.
    crowded: BTreeSet<(usize, ConnectionId)>,
}

impl Waiting {
    /// Keeps one more; false if one had to go, or this one, because there are as many as may be.
    fn keep(&mut self, connection: ConnectionId, span: Span) -> bool {
        let is_full = self.count == TRACE_SPANS_MAX;
        if is_full && !self.make_room(connection) {
            return false;
        }
        let spans = self.by_connection.entry(connection).or_default();
        if is_full {
            self.crowded.remove(&(spans.len(), connection));
            self.crowded.insert((spans.len() + 1, connection));
        }
        spans.push(span);
        self.count += 1;
        !is_full
    }

    /// Drops the last span of the connection that has most, for one of another that has fewer.
    fn make_room(&mut self, connection: ConnectionId) -> bool {
        if self.crowded.is_empty() {
            let counts = self.by_connection.iter();
            self.crowded = counts.map(|(of, spans)| (spans.len(), *of)).collect();
        }
        let own = self.by_connection.get(&connection).map_or(0, Vec::len);
        let Some(most @ (count, crowded)) = self.crowded.last().copied() else {
            return false;
        };
        if count <= own + 1 {
            return false;
        }
        if let Some(spans) = self.by_connection.get_mut(&crowded) {
            spans.pop();
            self.count -= 1;
        }
        self.crowded.remove(&most);
        self.crowded.insert((count - 1, crowded));
        true
    }
}

/// The spans of a node that wait to be sent away.
#[derive(Debug)]
pub struct Traces {
    /// Nanoseconds since the Unix epoch.
    clock: fn() -> u64,
    /// Traces whose low 64 bits are at most this are sampled.
    threshold: u64,
    seed: u64,
    spans: AtomicU64,
    waiting: Mutex<Waiting>,
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Traces {
    /// Traces of which the part `ratio`, 0 to 1, is sampled: the same ones on every node. `seed` is
    /// a random number, from which spans get theirs.
    #[must_use]
    pub fn new(clock: fn() -> u64, ratio: f64, seed: u64) -> Self {
        Self {
            clock,
            // From 1 on this is all of them: a cast ends at the greatest number.
            threshold: (ratio.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64,
            seed,
            spans: AtomicU64::new(0),
            waiting: Mutex::default(),
            exported: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// The trace of a message that is to be traced; nothing for most.
    #[must_use]
    pub fn context_of(&self, message: &Message) -> Option<Context> {
        let converted = as_amqp091(message);
        let properties = converted.as_ref().unwrap_or(message).properties();
        if !has_property(properties, Property::Headers) {
            return None;
        }
        let headers = Properties::trusted(properties).headers?;
        let (RawValue::LongString(value) | RawValue::Bytes(value)) = headers.get(HEADER)? else {
            return None;
        };
        let (context, is_sampled) = parse(value)?;
        (is_sampled && self.samples(context)).then_some(context)
    }

    fn samples(&self, context: Context) -> bool {
        self.threshold == u64::MAX || (context.trace as u64) < self.threshold
    }

    /// A number for a span; never 0.
    #[must_use]
    pub fn span_id(&self) -> u64 {
        let number = self.spans.fetch_add(1, Ordering::Relaxed);
        // SplitMix64: a bijection, so that no two of a node are alike.
        let mut mixed = self
            .seed
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }

    /// Keeps a span of what this connection does until it is sent away. Where too many wait, one is
    /// dropped, and counted: of the connection that has most of them.
    pub fn record(&self, connection: ConnectionId, span: Span) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept_whole = waiting.keep(connection, span);
        drop(waiting);
        if !is_kept_whole {
            self.drop_spans(1);
        }
    }

    /// Takes all that wait.
    #[must_use]
    pub fn take(&self) -> Vec<Span> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::take(&mut *waiting);
        drop(waiting);
        taken.by_connection.into_values().flatten().collect()
    }

    /// Counts spans that nobody will see.
    pub fn drop_spans(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts spans that a collector took.
    pub fn note_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Spans that a collector took, and spans that were dropped.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (
            self.exported.load(Ordering::Relaxed),
            self.dropped.load(Ordering::Relaxed),
        )
    }
}

/// Reads a `traceparent`: the context, and whether it is sampled.
fn parse(value: &[u8]) -> Option<(Context, bool)> {
    // Version, trace, parent and flags; a later version may say more behind a dash.
    let (known, rest) = value.split_at_checked(55)?;
    let version = hex(&known[..2])?;
    let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    let is_longer = !rest.is_empty();
    if !dashes || version == 0xff || (is_longer && (version == 0 || rest[0] != b'-')) {
        return None;
    }
    let context = Context {
        trace: hex(&known[3..35])?,
        parent: u64::try_from(hex(&known[36..52])?).ok()?,
    };
    let flags = hex(&known[53..55])?;
    (context.trace != 0 && context.parent != 0).then_some((context, flags & 1 == 1))
}

/// A number of lower-case hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);
    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn traces(ratio: f64) -> Traces {
        Traces::new(|| 5, ratio, 7)
    }

    fn span(traces: &Traces) -> Span {
        Span {
            stage: Stage::Route,
            context: Context {
                trace: 1,
                parent: 1,
            },
            id: traces.span_id(),
            start_ns: 1,
            end_ns: 2,
            destination: String::new(),
            routing_key: String::new(),
            outcome: None,
        }
    }

    #[test]
    fn a_traceparent_is_read_as_w3c_has_it() {
        let (context, is_sampled) = parse(SAMPLED.as_bytes()).expect("one");
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.parent, is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        let of = |text: &str| parse(text.as_bytes()).map(|(_, sampled)| sampled);
        assert_eq!(of(&SAMPLED.replace("-01", "-00")), Some(false));
        assert_eq!(of(&SAMPLED.replace("-01", "-03")), Some(true));
        assert_eq!(of(&SAMPLED.replacen("00-", "01-", 1)), Some(true));
        assert_eq!(
            of(&(SAMPLED.replacen("00-", "01-", 1) + "-more")),
            Some(true)
        );
        for wrong in [
            "",
            "00",
            &SAMPLED[..54],
            &(SAMPLED.to_owned() + "-more"),
            &(SAMPLED.replacen("00-", "01-", 1) + "more"),
            &SAMPLED.replacen("00-", "ff-", 1),
            &SAMPLED.to_uppercase(),
            &SAMPLED.replace('-', "_"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473\u{e9}-00f067aa0ba902b7-1",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        for length in 0..70 {
            for byte in [0, b'-', b'0', b'f', 0xff] {
                let _ = parse(&vec![byte; length]);
            }
        }
        for at in 0..SAMPLED.len() {
            for byte in 0..=u8::MAX {
                let mut changed = SAMPLED.as_bytes().to_vec();
                changed[at] = byte;
                let _ = parse(&changed);
            }
        }
    }

    #[test]
    fn the_same_traces_are_sampled_everywhere_and_as_many_as_asked() {
        let context = |low: u64| Context {
            trace: u128::from(low) | 1 << 100,
            parent: 1,
        };
        let (all, half, none) = (traces(1.0), traces(0.5), traces(0.0));
        for low in [0, 1, u64::MAX / 2 - 1, u64::MAX / 2 + 2, u64::MAX] {
            assert!(all.samples(context(low)));
            assert!(!none.samples(context(low)));
            assert_eq!(half.samples(context(low)), low <= u64::MAX / 2, "{low}");
        }
    }

    #[test]
    fn spans_wait_up_to_the_bound_and_the_next_one_is_counted() {
        let traces = traces(1.0);
        for _ in 0..TRACE_SPANS_MAX {
            traces.record(ONE, span(&traces));
        }
        assert_eq!(traces.counts(), (0, 0));
        traces.record(ONE, span(&traces));
        assert_eq!(traces.counts(), (0, 1));
        assert_eq!(traces.take().len(), TRACE_SPANS_MAX);
        traces.record(ONE, span(&traces));
        assert_eq!((traces.take().len(), traces.counts().1), (1, 1));
    }

    /// How many of these spans say that they are of each.
    fn shares(spans: &[Span], of: &[ConnectionId]) -> Vec<usize> {
        let count = |of: &ConnectionId| spans.iter().filter(|s| s.context.parent == of.0).count();
        of.iter().map(count).collect()
    }

    #[test]
    fn a_connection_that_fills_the_room_makes_place_for_spans_of_others() {
        let traces = traces(1.0);
        let record = |connection: ConnectionId, count: usize| {
            for _ in 0..count {
                let mut span = span(&traces);
                span.context.parent = connection.0;
                traces.record(connection, span);
            }
        };
        let (flood, few, many) = (ConnectionId(1), ConnectionId(2), ConnectionId(3));
        record(flood, 2 * TRACE_SPANS_MAX);
        record(few, 5);
        record(flood, 1_000);
        record(few, 5);
        record(many, TRACE_SPANS_MAX);
        record(few, 1);
        let spans = traces.take();
        assert_eq!(spans.len(), TRACE_SPANS_MAX);
        let found = shares(&spans, &[few, flood, many]);
        assert_eq!(found[0], 11);
        assert!(found[1].abs_diff(found[2]) <= 2, "{found:?}");
        let recorded = 3 * TRACE_SPANS_MAX + 1_000 + 11;
        let dropped = (recorded - TRACE_SPANS_MAX) as u64;
        assert_eq!(traces.counts(), (0, dropped));
        // What waits later begins anew.
        record(many, 1);
        assert_eq!(traces.take().len(), 1);
    }

    #[test]
    fn spans_have_numbers_of_their_own() {
        let traces = traces(1.0);
        let mut ids: Vec<u64> = (0..10_000).map(|_| traces.span_id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 10_000);
        assert_ne!(ids[0], 0);
    }
}
