//! A classic queue that is a view of a stream: what it does for its [`StreamView`].

use super::ClassicQueue;
use crate::log_ids::log_of;
use crate::queue_host::HostContext;
use crate::queue_spec::QueueSpec;
use crate::stream_events::StreamNews;
use crate::stream_view::StreamView;
use leveret_queue::{Counts, Meta, Position, Queue, State};
use leveret_storage::{LogKind, ShardLogs};
use leveret_stream::{Command, SessionId};
use leveret_types::{Now, QueueId};

/// The priority log whose log keeps a view's state: all its messages are of that one.
const PRIORITY_LOG: u8 = 0;

fn enqueue(queue: &mut Queue, position: Position, meta: Meta) {
    queue.enqueue(position, &meta);
}

impl ClassicQueue {
    pub(super) fn new_view(
        now: Now,
        id: QueueId,
        mut spec: QueueSpec,
        priority_logs: Vec<u8>,
        logs: &ShardLogs,
    ) -> Self {
        let view = spec.view.take().expect("it is a view");
        let saved = match priority_logs.contains(&PRIORITY_LOG) {
            true => Some(logs.state(log_of(id, PRIORITY_LOG))),
            false => None,
        };
        let (view, queue) = StreamView::new(now, id, &view, (spec.kind, spec.settings), saved);
        let mut made = Self::with(id, queue, priority_logs, State::default());
        (made.durable, made.auto_delete) = (spec.durable, spec.auto_delete);
        made.view = Some(Box::new(view));
        made
    }

    /// How it stands, with what a view has not read of its stream.
    pub(super) fn counts_now(&self, now: Now) -> Counts {
        let mut counts = self.queue.counts(now);
        counts.ready += self.backlog();
        counts
    }

    /// Messages that are ready in the stream, and that the queue does not know of.
    pub(super) fn backlog(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.backlog())
    }

    /// Somebody waits for a message.
    pub(super) fn want_view(&mut self, now: Now) {
        if let Some(view) = &mut self.view {
            view.step(now, true, 1);
        }
    }

    /// Does what is due, and gives the queue what has been read, before the queue acts.
    pub(super) fn begin_viewing(&mut self, now: Now) {
        let Some(view) = &mut self.view else {
            return;
        };
        let is_wanted = !self.consumers.is_empty() || !self.waiting_gets.is_empty();
        let [_, unsettled, leaving] = self.queue.depths();
        view.step(now, is_wanted, unsettled + leaving);
        view.give(&mut self.queue, enqueue);
    }

    /// Gives the queue what has been read, now that it has acted; whether there was anything.
    pub(super) fn give_from_stream(&mut self) -> bool {
        let view = self.view.as_mut();
        view.is_some_and(|view| view.give(&mut self.queue, enqueue))
    }

    /// Hands over what is to be said to the stream, and saves what is due.
    pub(super) fn end_viewing(&mut self, context: &mut HostContext<'_>) {
        let Some(view) = &mut self.view else {
            return;
        };
        let session = SessionId::Queue(self.id);
        let said = view.commands.drain(..).map(|command| (session, command));
        context.effects.streams.extend(said);
        if self.durable && view.is_save_due(context.now) {
            self.write_view(context.now, context.logs, false);
        }
    }

    /// The stream says something.
    pub(super) fn hear_stream(&mut self, context: &mut HostContext<'_>, news: StreamNews) {
        if let Some(view) = &mut self.view {
            view.hear(context.now, news, &mut self.queue, context.scratch);
            self.carry_out(context);
            self.begin_viewing(context.now);
            self.loaded(context);
        }
    }

    /// What the stream has and the queue has not is given up; says how much that is.
    pub(super) fn purge_view(&mut self, context: &mut HostContext<'_>) -> u64 {
        let Some(view) = &mut self.view else {
            return 0;
        };
        let count = view.purge();
        if self.durable {
            self.write_view(context.now, context.logs, false);
        }
        count
    }

    /// The queue is gone: its stream need not know it any more.
    pub(super) fn leave_stream(&self, context: &mut HostContext<'_>) {
        if self.view.is_some() {
            let session = SessionId::Queue(self.id);
            context.effects.streams.push((session, Command::Leave));
        }
    }

    /// Writes the view's state down, if it has changed or is the last one.
    pub(super) fn save_view(&mut self, logs: &mut ShardLogs, clean: bool) {
        if clean || self.view.as_ref().is_some_and(|view| view.is_dirty()) {
            self.write_view(Now::both(0), logs, clean);
        }
    }

    fn write_view(&mut self, now: Now, logs: &mut ShardLogs, clean: bool) {
        let view = self.view.as_mut();
        let Some(bytes) = view.and_then(|view| view.save(now, &self.queue, clean)) else {
            return;
        };
        let log = log_of(self.id, PRIORITY_LOG);
        if !self.priority_logs.contains(&PRIORITY_LOG) {
            logs.create_log(log, LogKind::Durable);
            self.priority_logs.push(PRIORITY_LOG);
        }
        logs.set_state(log, &bytes);
    }
}
