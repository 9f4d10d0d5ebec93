//! The beginning of a view: anew, or from its saved state.

use super::loss::{MissingOffsets, Shortness};
use super::progress::{Given, Progress};
use super::saves::Saves;
use super::state::SavedView;
use super::tail::StreamEnd;
use super::window::Window;
use super::{Stage, StreamView};
use crate::queue_spec::ViewSpec;
use leveret_queue::{Queue, QueueKind, RecoveredPriorityLog, Settings};
use leveret_stream::{OffsetSpec, offset_spec};
use leveret_types::{Now, QueueId, RangeSet};

/// What the entries of a replicated view's group say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownView {
    /// The stream.
    pub(crate) source: QueueId,
    /// What is below this the queue was given.
    pub(crate) given: u64,
    /// When the newest chunk came that was read, in milliseconds since the Unix epoch; 0 if that is
    /// not known.
    pub(crate) read_ms: i64,
    /// What of that is not settled.
    pub(crate) unsettled: RangeSet,
}

impl StreamView {
    /// A view that does not know yet where it begins.
    fn begin(now: Now, queue: QueueId, spec: &ViewSpec) -> Self {
        let mut view = Self {
            queue,
            source: spec.source.unwrap_or(QueueId(0)),
            name: spec.name.clone(),
            begins: Some(match &spec.start {
                None => OffsetSpec::First,
                Some(start) => offset_spec(start, now.wall_ms).unwrap_or(OffsetSpec::First),
            }),
            stage: Stage::Unplaced,
            numbers: 0,
            reader: None,
            wanted_until_ms: 0,
            window: Window::default(),
            progress: Progress::default(),
            given: Given::default(),
            missing_offsets: MissingOffsets::default(),
            is_unreadable_reported: false,
            short: Shortness::default(),
            end: StreamEnd::default(),
            saves: Saves::default(),
            commands: Vec::new(),
        };
        if spec.source.is_none() {
            tracing::error!(view = %queue, "there is no stream '{}': delete the view", spec.name);
            view.stage = Stage::Broken;
        }
        view
    }

    /// The view of a group's leader, new or as the group's entries have it. `numbers` are the
    /// requests and readers of the session before: what comes for those is not heard.
    pub(crate) fn of_group(
        now: Now,
        queue: QueueId,
        spec: &ViewSpec,
        known: Option<KnownView>,
        numbers: u32,
    ) -> Self {
        let mut view = Self::begin(now, queue, spec);
        view.numbers = numbers;
        match known {
            Some(known) if Some(known.source) == spec.source => view.go_on(known),
            Some(_) => view.end_for_other_stream(),
            None => {}
        }
        view
    }

    /// A view and its queue, new or as `saved` has it. One whose state is damaged, or was lost, is
    /// not served: it would leave messages out.
    pub fn new(
        now: Now,
        queue: QueueId,
        spec: &ViewSpec,
        (kind, settings): (QueueKind, Settings),
        saved: Option<&[u8]>,
    ) -> (Self, Queue) {
        let mut view = Self::begin(now, queue, spec);
        // Only what counts returns can limit them.
        let kind = match settings.delivery_limit {
            Some(_) => QueueKind::Quorum,
            None => kind,
        };
        let Some(saved) = saved else {
            return (view, Queue::new(kind, settings, now));
        };
        match SavedView::decode(saved) {
            Ok(saved) if Some(saved.source) == spec.source => {
                let machine = view.restore(now, kind, settings, saved);
                return (view, machine);
            }
            Ok(_) => view.end_for_other_stream(),
            Err(error) => tracing::error!(
                view = %queue, %error,
                "what the view has settled cannot be read: delete it, and declare it again"
            ),
        }
        view.stage = Stage::Broken;
        (view, Queue::new(kind, settings, now))
    }

    fn restore(
        &mut self,
        now: Now,
        kind: QueueKind,
        settings: Settings,
        saved: SavedView,
    ) -> Queue {
        self.given.delivered_through = saved.reserved;
        self.saves.reserved = saved.reserved;
        self.go_on(KnownView {
            source: saved.source,
            given: saved.given,
            read_ms: saved.read_ms,
            unsettled: saved.unsettled,
        });
        let recovered = RecoveredPriorityLog {
            priority_log: 0,
            live: self.given.unsettled.clone(),
            bytes: 0,
            next_index: self.given.end,
        };
        Queue::recover(kind, settings, now, vec![recovered], &saved.queue)
    }

    /// Goes on where it was.
    fn go_on(&mut self, known: KnownView) {
        self.begins = None;
        self.stage = Stage::Idle;
        self.given.end = known.given;
        self.given.unsettled = known.unsettled;
        self.end.offset = known.given;
        self.progress.read_ms = known.read_ms;
    }

    fn end_for_other_stream(&mut self) {
        tracing::error!(
            view = %self.queue,
            "the stream '{}' was deleted and declared again since the view was declared: delete \
             the view",
            self.name
        );
        self.stage = Stage::Broken;
    }
}
