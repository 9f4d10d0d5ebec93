//! The part of a replica beside its logs: the state that its headers have made so far.
//!
//! ```text
//! blob: version u8 = 3 | member u64 | mark: length, bytes | votes from | its term
//!       | origins | priority logs | returns | leaving                        each: count, items
//! origin:  node | start | through
//! priority log:    priority log u8 | index after its last message | handed out below
//! returns: priority log u8 | start | count | failed | acquired | ready at
//! leaving: priority log u8 | start | count | why u8
//! view:    stream | when the newest chunk came | unsettled: count, (from the one before | count)
//! refused: as in a header, then whether a view is behind it u8
//! ```
//!
//! Version 1 had neither the last two of what returned, nor what is leaving; version 2 had no term
//! of the entry that is voted from, and is what is written still where there is none. Version 4 is
//! that of a view of a stream, which has its part behind the others. Version 5 is that of a queue
//! or a view that has refused publishes, and has those before a view's part. Numbers are LEB128. It
//! is the state of the log of headers, written with the headers that it makes superfluous.

use super::header::{
    Given, Header, flag, priority_log, put_refused, put_returns, reason_byte, take_reason,
    take_refused, take_returns,
};
use super::wire::{Malformed, Reader, put, put_range, put_set, take_set};
use crate::quorum::Refusals;
use crate::quorum::protocol::Origin;
use crate::stream_view::SavedView;
use bytes::Bytes;
use leveret_queue::{Reason, Returns, RunMap};
use leveret_replication::SnapshotMark;
use leveret_types::limits::CLUSTER_NODES_MAX;
use leveret_types::{NodeId, QueueId, RangeSet, ReplicaId};
use std::ops::Range;

const VERSION: u8 = 3;
/// The version of a state that has no term of the entry that is voted from: earlier versions of
/// Leveret read it.
const VERSION_WITHOUT_TERM: u8 = 2;
/// The version of a view's state.
const VERSION_OF_VIEW: u8 = 4;
/// The version of a state with refused publishes.
const VERSION_OF_REFUSALS: u8 = 5;
/// The priority log that all messages of a view are of.
pub(super) const VIEW_LOG: u8 = 0;
/// The oldest version that is read.
const VERSION_FIRST: u8 = 1;
/// Runs of nodes that are remembered: of each node that is in the cluster the last one, and of some
/// that have left.
const ORIGINS_MAX: usize = 2 * CLUSTER_NODES_MAX;

/// Of a member that never takes part again.
pub(super) const VOTES_NEVER: u64 = 1 << 62;

/// Why a state cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(
        "it is of format version {0}, and this version of Leveret reads version \
         {VERSION_OF_REFUSALS}"
    )]
    Version(u8),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// One priority log as the headers tell of it.
#[derive(Clone, Debug, Default)]
pub(super) struct PriorityLogState {
    pub(super) priority_log: u8,
    /// Index after the last message that a header named.
    pub(super) end: u64,
    /// What is below may have been handed out.
    pub(super) delivered: u64,
    /// What is known of messages that came back.
    pub(super) returns: RunMap<Returns>,
    /// What is on its way to the dead-letter exchange, and why.
    pub(super) leaving: RunMap<Reason>,
}

/// What the headers of a view tell of its messages, which no log of the queue has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ViewState {
    /// The stream.
    pub(super) source: QueueId,
    /// When the newest chunk came that was read: see [`Given`].
    pub(super) read_ms: i64,
    /// What the queue was given and is not settled.
    pub(super) unsettled: RangeSet,
}

/// What the headers so far have made, besides what lives in the logs.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    /// Whose state it is.
    pub(super) replica: ReplicaId,
    /// The last entry that this member ever acknowledged and took back since. Until its log is as
    /// long again it must not help to elect a leader who may lack what is committed.
    /// [`VOTES_NEVER`] if it lost what it cannot know to be there again.
    pub(super) votes_from: u64,
    /// The term of that entry; 0 if it is not known.
    pub(super) votes_from_term: u64,
    /// Whose operations have taken effect, and the last of each: of each node its last run.
    pub(super) origins: Vec<(Origin, u64)>,
    /// Which of these operations were publishes that were refused, as far as their origin may not
    /// know that: of each origin with such at least one.
    pub(super) refused: Vec<(Origin, Refusals)>,
    pub(super) priority_logs: Vec<PriorityLogState>,
    /// Of a view, once it is known where it begins.
    pub(super) view: Option<Box<ViewState>>,
}

impl Applied {
    pub(super) fn priority_log(&self, priority_log: u8) -> Option<&PriorityLogState> {
        self.priority_logs
            .iter()
            .find(|state| state.priority_log == priority_log)
    }

    pub(super) fn priority_log_mut(&mut self, priority_log: u8) -> &mut PriorityLogState {
        let at = match self
            .priority_logs
            .iter()
            .position(|state| state.priority_log == priority_log)
        {
            Some(at) => at,
            None => {
                self.priority_logs.push(PriorityLogState {
                    priority_log,
                    ..PriorityLogState::default()
                });
                self.priority_logs.len() - 1
            }
        };
        &mut self.priority_logs[at]
    }

    /// Notes that the entry at `index`, the last one of the log, is taken back.
    pub(super) fn took_back(&mut self, index: u64, term: u64) {
        let before = (self.votes_from_term, self.votes_from);
        if before == (0, 0) || self.votes_from_term > 0 && before < (term, index) {
            (self.votes_from_term, self.votes_from) = (term, index);
        } else if self.votes_from_term == 0 {
            self.votes_from = self.votes_from.max(index);
        }
    }

    /// Whether a member whose last entry is this one has all that this member took back and that
    /// may be committed: what any voter asks of who wants its vote, as if it had taken nothing
    /// back.
    pub(super) fn is_made_up_by(&self, index: u64, term: u64) -> bool {
        let is_known = self.votes_from_term > 0;
        is_known && (term, index) >= (self.votes_from_term, self.votes_from)
    }

    /// How far the operations of a node's run have come; nothing if none has, or a later run has.
    pub(super) fn through(&self, origin: Origin) -> Option<u64> {
        let known = self.origins.iter().find(|(known, _)| *known == origin);
        known.map(|(_, through)| *through)
    }

    /// Which of a node's publishes were refused, as far as that may not know it; nothing if none
    /// was.
    pub(super) fn refused(&self, origin: Origin) -> Option<&Refusals> {
        let known = self.refused.iter().find(|(known, _)| *known == origin);
        known.map(|(_, refusals)| refusals)
    }

    /// Takes in a header.
    pub(super) fn apply(&mut self, header: &Header) {
        for (origin, through) in &header.origins {
            self.note_origin(*origin, *through);
        }
        self.note_refused(&header.refused);
        for came in &header.came {
            let state = self.priority_log_mut(came.priority_log);
            state.end = state.end.max(came.range.end);
        }
        if let Some(given) = &header.given {
            self.give(given);
        }
        for returned in &header.returned {
            let known = returned.known;
            self.priority_log_mut(returned.priority_log).returns.update(
                returned.range.clone(),
                |_| known,
                |_, _| {},
            );
        }
        for leaving in &header.leaving {
            let reason = leaving.reason;
            self.priority_log_mut(leaving.priority_log).leaving.update(
                leaving.range.clone(),
                |_| reason,
                |_, _| {},
            );
        }
        for left in &header.left {
            if let Some(view) = &mut self.view {
                view.unsettled.remove_range(left.range.clone());
            }
            let state = self.priority_log_mut(left.priority_log);
            if !state.leaving.is_empty() {
                state.leaving.remove(left.range.clone(), |_, _| {});
            }
            if !state.returns.is_empty() {
                state.returns.remove(left.range.clone(), |_, _| {});
            }
        }
        for (priority_log, through) in &header.delivered {
            let state = self.priority_log_mut(*priority_log);
            state.delivered = state.delivered.max(*through);
        }
    }

    /// A view is given messages. What it was given before it is not given again.
    fn give(&mut self, given: &Given) {
        let state = self.priority_log_mut(VIEW_LOG);
        let end = state.end;
        state.end = end.max(given.through);
        let view = self.view.get_or_insert_default();
        (view.source, view.read_ms) = (given.source, given.read_ms);
        for range in &given.ranges {
            let new = range.start.max(end)..range.end;
            if !new.is_empty() {
                view.unsettled.insert_range(new);
            }
        }
    }

    /// Takes in what was known of a view that was on one node alone.
    pub(super) fn adopt_view(&mut self, saved: &SavedView) {
        self.view = Some(Box::new(ViewState {
            source: saved.source,
            read_ms: saved.read_ms,
            unsettled: saved.unsettled.clone(),
        }));
        let state = self.priority_log_mut(VIEW_LOG);
        (state.end, state.delivered) = (saved.given, saved.reserved);
        let known = saved.queue.priority_logs.iter();
        let known = known.filter(|known| known.priority_log == VIEW_LOG);
        for (range, returns) in known.flat_map(|known| &known.returns) {
            state.returns.update(range.clone(), |_| *returns, |_, _| {});
        }
    }

    fn note_origin(&mut self, origin: Origin, through: u64) {
        let of_node = |known: &(Origin, u64)| known.0.node == origin.node;
        match self.origins.iter_mut().find(|known| of_node(known)) {
            Some((known, _)) if known.start > origin.start => {}
            Some((known, last)) if *known == origin => *last = (*last).max(through),
            Some(known) => *known = (origin, through),
            None => {
                if self.origins.len() >= ORIGINS_MAX {
                    self.origins.remove(0);
                }
                self.origins.push((origin, through));
            }
        }
    }

    /// Notes what was refused, and forgets that of runs that are not known any more.
    fn note_refused(&mut self, refused: &[(Origin, Refusals)]) {
        for (origin, refusals) in refused {
            match self.refused.iter_mut().find(|(known, _)| known == origin) {
                Some((_, known)) => known.join(refusals),
                None => self.refused.push((*origin, refusals.clone())),
            }
        }
        let origins = &self.origins;
        self.refused.retain(|(origin, refusals)| {
            !refusals.numbers.is_empty() && origins.iter().any(|(known, _)| known == origin)
        });
    }

    pub(super) fn encode(&self, mark: &SnapshotMark) -> Vec<u8> {
        let version = match (&self.view, self.votes_from_term) {
            _ if !self.refused.is_empty() => VERSION_OF_REFUSALS,
            (Some(_), _) => VERSION_OF_VIEW,
            (None, 0) => VERSION_WITHOUT_TERM,
            (None, _) => VERSION,
        };
        let mut out = vec![version];
        out.extend_from_slice(&self.replica.0.to_le_bytes());
        let mut bytes = Vec::new();
        mark.encode(&mut bytes);
        put(&mut out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
        put(&mut out, self.votes_from);
        if version > VERSION_WITHOUT_TERM {
            put(&mut out, self.votes_from_term);
        }
        put(&mut out, self.origins.len() as u64);
        for (origin, through) in &self.origins {
            put(&mut out, u64::from(origin.node.0));
            put(&mut out, origin.start);
            put(&mut out, *through);
        }
        put(&mut out, self.priority_logs.len() as u64);
        for state in &self.priority_logs {
            out.push(state.priority_log);
            put(&mut out, state.end);
            put(&mut out, state.delivered);
        }
        let returns = || {
            let priority_logs = self.priority_logs.iter();
            priority_logs
                .flat_map(|state| state.returns.iter().map(|run| (state.priority_log, run)))
        };
        put(&mut out, returns().count() as u64);
        for (priority_log, (range, known)) in returns() {
            out.push(priority_log);
            put_range(&mut out, &range);
            put_returns(&mut out, known);
        }
        let leaving = || {
            let priority_logs = self.priority_logs.iter();
            priority_logs
                .flat_map(|state| state.leaving.iter().map(|run| (state.priority_log, run)))
        };
        put(&mut out, leaving().count() as u64);
        for (priority_log, (range, reason)) in leaving() {
            out.push(priority_log);
            put_range(&mut out, &range);
            out.push(reason_byte(reason));
        }
        if !self.refused.is_empty() {
            put_refused(&mut out, &self.refused);
            out.push(u8::from(self.view.is_some()));
        }
        if let Some(view) = &self.view {
            view.encode(&mut out);
        }
        out
    }

    /// Reads a state from exactly these bytes, with the mark of the last header in it.
    ///
    /// # Errors
    /// Which other version they are of, or where they stop making sense.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, SnapshotMark), Unreadable> {
        let mut reader = Reader::new(bytes);
        match reader.u8("the version of a state")? {
            version @ VERSION_FIRST..=VERSION_OF_REFUSALS => {
                Ok(Self::decode_fields(&mut reader, version)?)
            }
            other => Err(Unreadable::Version(other)),
        }
    }

    fn decode_fields(
        reader: &mut Reader<'_>,
        version: u8,
    ) -> Result<(Self, SnapshotMark), Malformed> {
        let replica = take_replica(reader)?;
        let len = reader.count("a mark")?;
        let mark = Bytes::copy_from_slice(reader.bytes(len, "a mark")?);
        let mark = SnapshotMark::decode(&mark).map_err(|_| reader.fail("a mark"))?;
        let mut state = Self {
            replica,
            votes_from: reader.number("the entry to vote from")?,
            ..Self::default()
        };
        if version > VERSION_WITHOUT_TERM {
            state.votes_from_term = reader.number("the term of the entry to vote from")?;
        }
        let origins = reader.count("origins")?;
        if origins > ORIGINS_MAX {
            return Err(reader.fail("so many origins"));
        }
        for _ in 0..origins {
            let node = NodeId(reader.u32("an origin's node")?);
            let start = reader.number("an origin's start")?;
            let through = reader.number("an origin's last operation")?;
            state.origins.push((Origin { node, start }, through));
        }
        for _ in 0..reader.count("priority logs")? {
            let number = priority_log(reader)?;
            let known = state.priority_log(number).is_some();
            if known {
                return Err(reader.fail("a priority log that is there already"));
            }
            let found = state.priority_log_mut(number);
            found.end = reader.number("a priority log's end")?;
            found.delivered = reader.number("a priority log's deliveries")?;
        }
        for _ in 0..reader.count("returns")? {
            let number = priority_log(reader)?;
            let range = reader.range("returns")?;
            let known = take_returns(reader, version > VERSION_FIRST)?;
            if state.priority_log(number).is_none() {
                return Err(reader.fail("returns to a priority log that is not there"));
            }
            state
                .priority_log_mut(number)
                .returns
                .update(range, |_| known, |_, _| {});
        }
        let leaving = match version {
            VERSION_FIRST => 0,
            _ => reader.count("what is leaving")?,
        };
        for _ in 0..leaving {
            let number = priority_log(reader)?;
            let range = reader.range("what is leaving")?;
            let reason = take_reason(reader)?;
            if state.priority_log(number).is_none() {
                return Err(reader.fail("what is leaving a priority log that is not there"));
            }
            let leaving = &mut state.priority_log_mut(number).leaving;
            leaving.update(range, |_| reason, |_, _| {});
        }
        let is_view = match version {
            VERSION_OF_REFUSALS => {
                state.refused = take_refused(reader)?;
                let mut of = state.refused.iter().map(|(origin, _)| *origin);
                if of.any(|origin| state.through(origin).is_none()) {
                    return Err(reader.fail("refused publishes of an origin that is not there"));
                }
                flag(reader, "whether it is a view's state")?
            }
            version => version == VERSION_OF_VIEW,
        };
        if is_view {
            let end = state.priority_log(VIEW_LOG).map(|state| state.end);
            state.view = Some(Box::new(ViewState::decode(reader, end)?));
        }
        reader.end("what follows a state")?;
        Ok((state, mark))
    }

    /// What of a priority log is on its way to the dead-letter exchange, and why.
    pub(super) fn leaving(
        &self,
        priority_log: u8,
    ) -> impl Iterator<Item = (Range<u64>, Reason)> + '_ {
        let state = self.priority_log(priority_log);
        state.into_iter().flat_map(|state| state.leaving.iter())
    }

    /// What is known of a view, and how far it was given its stream; nothing before it is known
    /// where it begins.
    pub(super) fn known_view(&self) -> Option<(&ViewState, u64)> {
        let given = self.priority_log(VIEW_LOG).map_or(0, |state| state.end);
        Some((self.view.as_ref()?, given))
    }

    /// Where live messages may have come back, for [`leveret_queue::State`].
    pub(super) fn returns(&self, priority_log: u8) -> Vec<(Range<u64>, Returns)> {
        self.priority_log(priority_log)
            .map(|state| state.returns.iter().collect())
            .unwrap_or_default()
    }
}

impl ViewState {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.source.0);
        put(out, self.read_ms.cast_unsigned());
        put_set(out, &self.unsettled);
    }

    /// Reads what is known of a view that was given its stream to `given`.
    fn decode(reader: &mut Reader<'_>, given: Option<u64>) -> Result<Self, Malformed> {
        let view = Self {
            source: QueueId(reader.number("a view's stream")?),
            read_ms: reader.number("when a chunk came")?.cast_signed(),
            unsettled: take_set(reader, "what is not settled, in order")?,
        };
        let end = view.unsettled.last().map_or(0, |last| last + 1);
        match given.is_some_and(|given| end <= given) {
            true => Ok(view),
            false => Err(reader.fail("what a view was given")),
        }
    }
}

pub(super) fn take_replica(reader: &mut Reader<'_>) -> Result<ReplicaId, Malformed> {
    let bytes = reader.bytes(8, "a replica")?;
    let word = <[u8; 8]>::try_from(bytes).map_err(|_| reader.fail("a replica"))?;
    Ok(ReplicaId(u64::from_le_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::replica::header::Leaving;
    use leveret_types::NodeId;

    fn header_of(origin: Origin) -> Header {
        let mut header = Header::default();
        header.through(origin, 5);
        header
    }

    #[test]
    fn the_operations_of_so_many_nodes_are_known_and_the_longest_known_one_gives_way() {
        let origin = |node| Origin {
            node: NodeId(node),
            start: 1,
        };
        let mut applied = Applied::default();
        let most = ORIGINS_MAX as u32;
        for node in 1..=most {
            applied.apply(&header_of(origin(node)));
        }
        assert_eq!(applied.origins.len(), ORIGINS_MAX);
        assert_eq!(applied.through(origin(1)), Some(5));
        applied.apply(&header_of(origin(most + 1)));
        assert_eq!(applied.origins.len(), ORIGINS_MAX);
        assert_eq!(applied.through(origin(1)), None);
        assert_eq!(applied.through(origin(2)), Some(5));
        assert_eq!(applied.through(origin(most + 1)), Some(5));
        // And all of them come back with the state, but not more.
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let (read, _) = Applied::decode(&applied.encode(&mark)).expect("as many as may be");
        assert_eq!(read.origins, applied.origins);
        applied.origins.push((origin(1), 5));
        assert!(Applied::decode(&applied.encode(&mark)).is_err());
    }

    #[test]
    fn what_was_refused_comes_back_with_the_state_until_it_was_heard_of_or_a_later_run_comes() {
        let origin = |start| Origin {
            node: NodeId(1),
            start,
        };
        let refused = |start, first, sequence| {
            let mut header = Header::default();
            header.through(origin(start), sequence);
            header.refuse(origin(start), first, sequence);
            header
        };
        let ranges = |state: &Applied, start| -> Vec<_> {
            let refused = state.refused(origin(start)).into_iter();
            refused
                .flat_map(|of| of.since(0).collect::<Vec<_>>())
                .collect()
        };
        let mut applied = Applied::default();
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        for header in [refused(7, 1, 3), refused(7, 3, 5), refused(7, 3, 5)] {
            applied.apply(&header);
        }
        let bytes = applied.encode(&mark);
        let (read, _) = Applied::decode(&bytes).expect("it was encoded");
        assert_eq!(
            (ranges(&read, 7), &read.refused),
            (vec![3..4, 5..6], &applied.refused)
        );
        for end in 0..bytes.len() {
            assert!(Applied::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        applied.apply(&refused(7, 5, 9));
        assert_eq!(ranges(&applied, 7), [5..6, 9..10]);
        // Of a run that is over nobody asks.
        applied.apply(&refused(8, 1, 2));
        applied.apply(&refused(7, 5, 11));
        assert!(applied.refused(origin(7)).is_none());
        assert!(ranges(&applied, 8).into_iter().eq(std::iter::once(2..3)));
        applied.origins.clear();
        assert!(
            Applied::decode(&applied.encode(&mark)).is_err(),
            "of nobody"
        );
    }

    #[test]
    fn what_a_view_was_given_and_has_not_settled_comes_back_with_its_state() {
        let source = QueueId(9).of_stream();
        let mut applied = Applied::default();
        let mut given = Header::default();
        given.given_through(100, (source, 0));
        applied.apply(&given);
        let (view, through) = applied.known_view().expect("it is placed");
        assert_eq!((view.unsettled.len(), through), (0, 100));
        let mut header = Header::default();
        for offset in [99, 100, 101, 102, 105] {
            header.give(offset);
        }
        header.given_through(107, (source, 1_700_000_000_000));
        header.left(VIEW_LOG, 101..102, 5);
        applied.apply(&header);
        // Applied twice, it changes nothing; nor does what was given before.
        applied.apply(&header);
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let bytes = applied.encode(&mark);
        let (read, _) = Applied::decode(&bytes).expect("it was encoded");
        assert_eq!(read.view, applied.view);
        let (view, through) = read.known_view().expect("it is a view's");
        let unsettled: Vec<_> = view.unsettled.iter().collect();
        assert_eq!(unsettled, [100..101, 102..103, 105..106]);
        assert_eq!((view.source, through), (source, 107));
        for end in 0..bytes.len() {
            assert!(Applied::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        applied.priority_log_mut(VIEW_LOG).end = 105;
        let beyond = Applied::decode(&applied.encode(&mark));
        assert!(beyond.is_err(), "it was not given 105");
    }

    #[test]
    fn what_is_leaving_comes_back_with_the_state_and_not_without_its_priority_log() {
        let mut header = Header::default();
        header.message(4, 30);
        for (range, reason) in [(3..5, Reason::Expired), (9..10, Reason::DeliveryLimit)] {
            header.leaving.push(Leaving {
                priority_log: 4,
                range,
                reason,
            });
        }
        let mut applied = Applied::default();
        applied.apply(&header);
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let bytes = applied.encode(&mark);
        let (read, _) = Applied::decode(&bytes).expect("it was encoded");
        let leaving: Vec<_> = read.leaving(4).collect();
        assert_eq!(
            leaving,
            [(3..5, Reason::Expired), (9..10, Reason::DeliveryLimit)]
        );
        // It ends with the number of the priority log, the range and the reason of the last one.
        let at = bytes.len() - 4;
        assert_eq!(bytes[at], 4, "{bytes:?}");
        let mut elsewhere = bytes;
        elsewhere[at] = 5;
        assert!(Applied::decode(&elsewhere).is_err());
        // What has left is not leaving any more.
        let mut gone = Header::default();
        gone.left(4, 3..5, 9);
        applied.apply(&gone);
        let leaving: Vec<_> = applied.leaving(4).collect();
        assert_eq!(leaving, [(9..10, Reason::DeliveryLimit)]);
    }

    #[test]
    fn what_was_taken_back_is_known_again_with_its_term_and_is_all_that_needs_a_newer_version() {
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let mut state = Applied::default();
        assert_eq!(state.encode(&mark)[0], VERSION_WITHOUT_TERM);
        state.took_back(20, 3);
        state.took_back(30, 2);
        let (read, _) = Applied::decode(&state.encode(&mark)).expect("its own version");
        assert_eq!((read.votes_from, read.votes_from_term), (20, 3));
        for (last, has_all) in [
            ((20, 3), true),
            ((9, 4), true),
            ((19, 3), false),
            ((40, 2), false),
        ] {
            assert_eq!(read.is_made_up_by(last.0, last.1), has_all, "{last:?}");
        }
        state.took_back(25, 3);
        assert_eq!((state.votes_from, state.votes_from_term), (25, 3));
    }

    #[test]
    fn what_was_taken_back_in_an_unknown_term_is_made_up_by_nothing_but_entries() {
        let mut state = Applied {
            votes_from: 20,
            ..Applied::default()
        };
        state.took_back(10, 7);
        assert_eq!((state.votes_from, state.votes_from_term), (20, 0));
        assert!(!state.is_made_up_by(100, 100));
    }

    #[test]
    fn a_state_of_another_version_is_refused_by_its_number() {
        let state = Applied::default();
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let mut bytes = state.encode(&mark);
        let (_, read) = Applied::decode(&bytes).expect("its own version");
        assert_eq!(read, mark);
        bytes[0] = VERSION_OF_REFUSALS + 1;
        let error = Applied::decode(&bytes).expect_err("of a later version");
        assert_eq!(
            error.to_string(),
            "it is of format version 6, and this version of Leveret reads version 5",
        );
        assert!(Applied::decode(&[]).is_err());
    }

    #[test]
    fn a_state_with_something_behind_it_is_refused() {
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let mut bytes = Applied::default().encode(&mark);
        bytes.push(0);
        assert!(Applied::decode(&bytes).is_err());
    }
}
