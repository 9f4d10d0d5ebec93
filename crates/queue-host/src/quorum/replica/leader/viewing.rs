//! The leader of a view of a stream: it reads the stream, as a session of its node.
//!
//! What it reads is given to the queue once an entry says so that is committed. Followers hold no
//! messages: who leads next reads again what is not settled.

use super::Leader;
use super::under_way::Request;
use crate::queue_spec::ViewSpec;
use crate::quorum::replica::ShardContext;
use crate::quorum::replica::applied_state::ViewState;
use crate::stream_events::StreamNews;
use crate::stream_view::{KnownView, StreamView};
use leveret_queue::{Counts, Meta, Position, Queue};
use leveret_stream::{Command, SessionId};
use leveret_types::{Now, QueueId};

/// A leader's view of a stream.
pub(super) struct Viewing {
    pub(super) view: StreamView,
    /// How far entries say that the queue was given the stream, those included that are not
    /// committed; nothing before it is known where the view begins.
    pub(super) proposed: Option<u64>,
}

impl Viewing {
    /// The view of a leader that begins, as the entries so far have it. `numbers` are those of
    /// [`StreamView::of_group`].
    pub fn new(
        now: Now,
        queue: QueueId,
        spec: &ViewSpec,
        known: Option<(&ViewState, u64)>,
        numbers: u32,
    ) -> Self {
        let proposed = known.map(|(_, given)| given);
        let known = known.map(|(known, given)| KnownView {
            source: known.source,
            given,
            read_ms: known.read_ms,
            unsettled: known.unsettled.clone(),
        });
        Self {
            view: StreamView::of_group(now, queue, spec, known, numbers),
            proposed,
        }
    }
}

impl Leader {
    /// Requests and readers of a view so far; nothing if the queue is none.
    pub(in super::super) fn view_numbers(&self) -> Option<u32> {
        Some(self.viewing.as_ref()?.view.numbers())
    }

    /// The stream says something.
    pub(in super::super) fn hear_stream(
        &mut self,
        context: &mut ShardContext<'_>,
        news: StreamNews,
    ) {
        if let Some(viewing) = &mut self.viewing {
            let out = &mut self.scratch;
            viewing.view.hear(context.now, news, &mut self.queue, out);
            self.note_given();
            self.carry_out(context);
            self.dirty = true;
        }
    }

    /// Does what is due for the view, before the queue acts.
    pub(super) fn begin_viewing(&mut self, context: &mut ShardContext<'_>) {
        let Some(viewing) = &mut self.viewing else {
            return;
        };
        let now = context.now;
        let out = &mut self.scratch;
        viewing.view.give_up_lost(&mut self.queue, out);
        self.carry_out(context);
        let Some(viewing) = &mut self.viewing else {
            return;
        };
        let [_, unsettled, leaving] = self.queue.depths();
        // What is on its way to the dead-letter exchange must be read for that.
        let is_wanted = self.usage.has_consumers() || !self.waiting_gets.is_empty() || leaving > 0;
        viewing.view.step(now, is_wanted, unsettled + leaving);
        self.give_from_stream();
    }

    /// Takes what has been read; whether there was anything.
    pub(super) fn give_from_stream(&mut self) -> bool {
        if self.is_purge_under_way() {
            return false;
        }
        let Some(viewing) = &mut self.viewing else {
            return false;
        };
        let batch = &mut self.under_way.batch;
        let take = |queue: &mut Queue, position: Position, meta: Meta| {
            batch.header.give(position.index);
            batch.came.push((position, meta));
            batch.is_awaited = true;
            queue.announce(meta.bytes);
        };
        let has_given = viewing.view.give(&mut self.queue, take);
        self.note_given();
        has_given
    }

    /// Has the next entry say how far the queue was given the stream, if none says so yet.
    fn note_given(&mut self) {
        let Some(viewing) = &mut self.viewing else {
            return;
        };
        let given = viewing.view.given();
        if given > viewing.proposed
            && let Some(through) = given
        {
            let header = &mut self.under_way.batch.header;
            header.given_through(through, viewing.view.read());
            viewing.proposed = given;
        }
    }

    /// Hands over what is to be said to the stream.
    pub(super) fn end_viewing(&mut self, context: &mut ShardContext<'_>) {
        if let Some(viewing) = &mut self.viewing {
            let session = SessionId::Queue(self.id);
            let said = viewing.view.commands.drain(..);
            let said = said.map(|command| (session, command));
            context.effects.streams.extend(said);
        }
    }

    /// It leads no more: the stream need not know it.
    pub(in super::super) fn leave_stream(&self, context: &mut ShardContext<'_>) {
        if self.viewing.is_some() {
            let session = SessionId::Queue(self.id);
            context.effects.streams.push((session, Command::Leave));
        }
    }

    /// Everything that the stream has and the queue was not given is given up; says how much that
    /// is.
    pub(super) fn purge_view(&mut self) -> u64 {
        let Some(viewing) = &mut self.viewing else {
            return 0;
        };
        let count = viewing.view.purge();
        self.note_given();
        count
    }

    /// Messages that the queue is given by an entry that is not committed. Nobody but a stream
    /// gives a view any.
    pub(super) fn count_under_way(&self) -> u64 {
        self.under_way.came()
    }

    /// Whether a purge waits for what the queue is given before it: nothing is given meanwhile.
    fn is_purge_under_way(&self) -> bool {
        let mut pending = self.under_way.pending_requests();
        pending.any(|pending| matches!(pending.request, Request::Purge { .. }))
    }

    /// Whether the stream may have a message although the queue has none.
    pub(super) fn may_have_more(&self) -> bool {
        let viewing = self.viewing.as_ref();
        viewing.is_some_and(|viewing| viewing.view.may_have_more() || self.count_under_way() > 0)
    }

    /// Messages that are ready in the stream, and that the queue does not have yet.
    fn backlog(&self) -> u64 {
        let viewing = self.viewing.as_ref();
        viewing.map_or(0, |viewing| viewing.view.backlog() + self.count_under_way())
    }

    /// How the queue stands, with what a view has not read of its stream.
    pub(in super::super) fn counts(&self, now: Now) -> Counts {
        let mut counts = self.queue.counts(now);
        counts.ready += self.backlog();
        counts
    }

    /// The same in short: see [`Queue::depths`].
    pub(in super::super) fn depths(&self) -> [u64; 3] {
        let [ready, unsettled, leaving] = self.queue.depths();
        [ready + self.backlog(), unsettled, leaving]
    }
}
