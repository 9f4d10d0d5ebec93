//! What waits to be sent to the other nodes.

use super::LinkEvent;
use crate::inbox::Inbox;
use leveret_cluster::wire::HEADER_BYTES;
use leveret_node::PeerFrame;
use leveret_types::NodeId;
use leveret_types::limits::{PEER_OUTBOX_BYTES_CONGESTED, PEER_OUTBOX_BYTES_MAX};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Frames for one node, in order. Open while the node is up; what is posted to a closed one is
/// dropped.
#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<State>,
    /// Bytes that wait here or on their way into the socket.
    bytes: AtomicUsize,
    /// Whether somebody has more for this node than there is room for.
    is_room_awaited: AtomicBool,
}

/// What waits in an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing.
    Nothing,
    /// Frames that may wait for others.
    Lazily,
    /// Something that is to leave at once.
    Awaited,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    overflowed: bool,
    /// Whether somebody waits for one of the frames.
    is_awaited: bool,
    frames: Vec<PeerFrame>,
}

impl Outbox {
    /// Takes frames from now on.
    pub fn open(&self) {
        let mut state = self.state.lock();
        *state = State {
            open: true,
            ..State::default()
        };
        self.bytes.store(0, Ordering::Relaxed);
        self.is_room_awaited.store(false, Ordering::Relaxed);
    }

    /// Drops what waits, and what is posted from now on.
    pub fn close(&self) {
        *self.state.lock() = State::default();
        self.bytes.store(0, Ordering::Relaxed);
        self.is_room_awaited.store(false, Ordering::Relaxed);
    }

    /// Adds a frame, if there is room.
    pub fn post(&self, frame: PeerFrame) {
        let mut state = self.state.lock();
        if !state.open || state.overflowed {
            return;
        }
        let size = frame.len() + HEADER_BYTES;
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        let is_too_much = before + size > PEER_OUTBOX_BYTES_MAX;
        if before > PEER_OUTBOX_BYTES_CONGESTED && is_too_much {
            // A frame that is left out would be missed: the link is broken as a whole.
            state.overflowed = true;
            state.frames.clear();
            return;
        }
        state.is_awaited |= !frame.may_wait;
        state.frames.push(frame);
    }

    /// Whether frames wait, and whether somebody waits for one of them.
    pub fn waiting(&self) -> Waiting {
        let state = self.state.lock();
        match state.is_awaited || state.overflowed {
            true => Waiting::Awaited,
            false if state.frames.is_empty() => Waiting::Nothing,
            false => Waiting::Lazily,
        }
    }

    /// Whether any frame waits.
    pub fn has_frames(&self) -> bool {
        self.waiting() != Waiting::Nothing
    }

    /// Moves what waits to `into`; false if there was too much, and the link is to be broken.
    pub fn drain(&self, into: &mut Vec<PeerFrame>) -> bool {
        let mut state = self.state.lock();
        state.is_awaited = false;
        into.append(&mut state.frames);
        !state.overflowed
    }

    /// So many bytes have left for good.
    pub fn sent(&self, bytes: usize) {
        // Heartbeats are sent but were never posted.
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                Some(waiting.saturating_sub(bytes))
            });
    }

    /// Whether no more should be made for this node than must be.
    pub fn congested(&self) -> bool {
        self.waiting_bytes() > PEER_OUTBOX_BYTES_CONGESTED
    }

    /// Bytes that may be added before [`Self::congested`].
    pub fn room(&self) -> usize {
        PEER_OUTBOX_BYTES_CONGESTED.saturating_sub(self.waiting_bytes())
    }

    /// Somebody has more for this node than there is room for.
    pub fn await_room(&self) {
        self.is_room_awaited.store(true, Ordering::Relaxed);
    }

    /// Whether there is room again, half of all or more, for somebody who awaits it; said once.
    pub fn has_room_again(&self) -> bool {
        self.room() >= PEER_OUTBOX_BYTES_CONGESTED / 2
            && self.is_room_awaited.swap(false, Ordering::Relaxed)
    }

    /// Bytes that have not left for good.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The ways to the other nodes.
pub struct Links {
    /// This node's number; 0 outside clusters.
    pub node: NodeId,
    outboxes: RwLock<HashMap<NodeId, Arc<Outbox>>>,
    inbox: Option<Inbox<LinkEvent>>,
    /// Whether the thread looks by itself soon.
    looks_soon: AtomicBool,
}

impl Links {
    /// No ways: a node outside clusters.
    pub(crate) fn none() -> Self {
        Self {
            node: NodeId(0),
            outboxes: RwLock::default(),
            inbox: None,
            looks_soon: AtomicBool::new(false),
        }
    }

    /// The ways from this node, served by the thread that this inbox wakes.
    pub(crate) fn new(node: NodeId, inbox: Inbox<LinkEvent>) -> Self {
        Self {
            node,
            outboxes: RwLock::default(),
            inbox: Some(inbox),
            looks_soon: AtomicBool::new(false),
        }
    }

    /// Adds frames, each behind what was posted for its node before, without waking the thread: who
    /// holds a shard posts under its lock, and calls [`Self::ring`] after.
    ///
    /// Answers whether the thread is to be woken: frames that may wait alone do not wake it while
    /// it looks by itself soon.
    pub fn post(&self, frames: impl IntoIterator<Item = (NodeId, PeerFrame)>) -> bool {
        let outboxes = self.outboxes.read();
        let mut may_wait = true;
        for (to, frame) in frames {
            may_wait &= frame.may_wait;
            if let Some(outbox) = outboxes.get(&to) {
                outbox.post(frame);
            }
        }
        drop(outboxes);
        // Pairs with the fence in `sleeps_long`.
        fence(Ordering::SeqCst);
        if may_wait && self.looks_soon.load(Ordering::Relaxed) {
            return false;
        }
        self.note_work();
        true
    }

    /// The thread is about to sleep until it is woken; false if frames wait for others, so that it
    /// is not to.
    pub(crate) fn sleeps_long(&self) -> bool {
        self.looks_soon.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let outboxes = self.outboxes.read();
        outboxes.values().all(|outbox| !outbox.has_frames())
    }

    /// The thread looks into the outboxes within
    /// [`leveret_types::limits::PEER_FRAMES_GATHER_MS`], whether it is woken or not.
    pub(crate) fn looks_soon(&self) {
        self.looks_soon.store(true, Ordering::Relaxed);
    }

    /// Wakes the thread for what was posted.
    pub fn ring(&self) {
        if let Some(inbox) = &self.inbox {
            inbox.ring();
        }
    }

    /// Has the thread look for work before it sleeps: what is not in the outboxes. [`Self::ring`]
    /// wakes it.
    pub(crate) fn note_work(&self) {
        if let Some(inbox) = &self.inbox {
            inbox.post([]);
        }
    }

    /// Wakes the thread for what is not in the outboxes.
    pub fn wake(&self) {
        self.note_work();
        self.ring();
    }

    /// Bytes that may be added for a node before so much waits that no more should be made for it.
    pub(crate) fn room(&self, peer: NodeId) -> usize {
        let outboxes = self.outboxes.read();
        outboxes.get(&peer).map_or(0, |outbox| outbox.room())
    }

    /// Somebody has more for these nodes than there is room for; whether the thread is to be woken,
    /// which lets him go on once there is some.
    pub(crate) fn await_room(&self, peers: impl Iterator<Item = NodeId>) -> bool {
        let mut is_awaited = false;
        for peer in peers {
            let outboxes = self.outboxes.read();
            if let Some(outbox) = outboxes.get(&peer) {
                outbox.await_room();
                is_awaited = true;
            }
        }
        if is_awaited {
            self.note_work();
        }
        is_awaited
    }

    /// Whether so much waits for a node that no more should be made for it.
    #[must_use]
    pub fn congested(&self, peer: NodeId) -> bool {
        let outboxes = self.outboxes.read();
        outboxes.get(&peer).is_some_and(|outbox| outbox.congested())
    }

    /// Bytes that wait to be sent to a node; 0 where there is no way to it.
    #[must_use]
    pub fn waiting_bytes(&self, peer: NodeId) -> usize {
        let outboxes = self.outboxes.read();
        outboxes
            .get(&peer)
            .map_or(0, |outbox| outbox.waiting_bytes())
    }

    pub(crate) fn tell(&self, event: LinkEvent) {
        if let Some(inbox) = &self.inbox {
            inbox.post([event]);
            inbox.ring();
        }
    }

    pub(crate) fn inbox(&self) -> Option<&Inbox<LinkEvent>> {
        self.inbox.as_ref()
    }

    pub(super) fn outbox(&self, node: NodeId) -> Arc<Outbox> {
        Arc::clone(self.outboxes.write().entry(node).or_default())
    }

    pub(super) fn forget(&self, node: NodeId) {
        if let Some(outbox) = self.outboxes.write().remove(&node) {
            outbox.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use leveret_types::QueueId;
    use mio::{Poll, Token, Waker};

    fn frame(bytes: usize) -> PeerFrame {
        PeerFrame::new(QueueId(1), Bytes::from(vec![0; bytes - HEADER_BYTES]))
    }

    #[test]
    fn an_outbox_takes_as_much_as_it_may_and_then_breaks() {
        let outbox = Outbox::default();
        outbox.open();
        outbox.post(frame(PEER_OUTBOX_BYTES_MAX - HEADER_BYTES));
        outbox.post(frame(HEADER_BYTES));
        let mut frames = Vec::new();
        assert!(outbox.drain(&mut frames));
        assert_eq!(frames.len(), 2, "full to the last byte");
        outbox.post(frame(HEADER_BYTES));
        assert!(
            !outbox.drain(&mut frames),
            "what was drained is not sent yet"
        );
        outbox.open();
        outbox.post(frame(2 * PEER_OUTBOX_BYTES_MAX));
        assert!(outbox.drain(&mut frames), "one frame may exceed the bound");
        outbox.open();
        outbox.post(frame(PEER_OUTBOX_BYTES_CONGESTED));
        outbox.post(frame(PEER_OUTBOX_BYTES_MAX));
        assert!(outbox.drain(&mut frames), "also behind what others sent");
        outbox.post(frame(HEADER_BYTES));
        assert!(!outbox.drain(&mut frames), "but not behind another one");
    }

    #[test]
    fn who_awaits_room_goes_on_when_half_of_it_is_free_and_is_told_once() {
        let outbox = Outbox::default();
        outbox.open();
        assert_eq!(outbox.room(), PEER_OUTBOX_BYTES_CONGESTED);
        let half = PEER_OUTBOX_BYTES_CONGESTED / 2;
        outbox.post(frame(half + 1));
        outbox.post(frame(PEER_OUTBOX_BYTES_CONGESTED));
        assert_eq!(outbox.room(), 0);
        outbox.await_room();
        assert!(!outbox.has_room_again());
        outbox.sent(PEER_OUTBOX_BYTES_CONGESTED);
        assert!(!outbox.has_room_again(), "one byte is missing");
        outbox.sent(1);
        assert!(outbox.has_room_again());
        assert!(!outbox.has_room_again());
        outbox.await_room();
        outbox.close();
        outbox.open();
        assert!(!outbox.has_room_again(), "what waited is void");
    }

    #[test]
    fn frames_that_may_wait_leave_in_their_place_before_one_that_may_not() {
        let outbox = Outbox::default();
        outbox.open();
        assert_eq!(outbox.waiting(), Waiting::Nothing);
        let patient = PeerFrame {
            may_wait: true,
            ..frame(100)
        };
        outbox.post(patient.clone());
        assert_eq!(outbox.waiting(), Waiting::Lazily);
        outbox.post(frame(200));
        assert_eq!(outbox.waiting(), Waiting::Awaited);
        let mut frames = Vec::new();
        assert!(outbox.drain(&mut frames));
        assert_eq!(frames, [patient.clone(), frame(200)]);
        assert_eq!(outbox.waiting(), Waiting::Nothing);
        outbox.post(patient);
        assert_eq!(outbox.waiting(), Waiting::Lazily, "nothing is left over");
    }

    #[test]
    fn what_is_sent_makes_room_and_a_closed_one_takes_nothing() {
        let outbox = Outbox::default();
        outbox.post(frame(100));
        assert!(outbox.drain(&mut Vec::new()));
        outbox.open();
        outbox.post(frame(PEER_OUTBOX_BYTES_CONGESTED));
        assert!(!outbox.congested());
        outbox.post(frame(HEADER_BYTES));
        assert!(outbox.congested());
        let posted = PEER_OUTBOX_BYTES_CONGESTED + HEADER_BYTES;
        assert_eq!(outbox.waiting_bytes(), posted);
        outbox.sent(HEADER_BYTES);
        assert_eq!(outbox.waiting_bytes(), posted - HEADER_BYTES);
        assert!(!outbox.congested());
        outbox.close();
        let mut frames = Vec::new();
        outbox.post(frame(100));
        assert!(outbox.drain(&mut frames) && frames.is_empty());
    }

    #[test]
    fn frames_that_may_wait_wake_the_thread_only_while_it_sleeps_long() {
        let poll = Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        let links = Links::new(NodeId(1), Inbox::new(waker));
        let outbox = links.outbox(NodeId(2));
        outbox.open();
        let frame = |may_wait| {
            let frame = PeerFrame::new(QueueId(1), Bytes::from_static(b"said"));
            (NodeId(2), PeerFrame { may_wait, ..frame })
        };
        assert!(links.sleeps_long(), "nothing waits");
        assert!(links.post([frame(true)]), "nobody would see it");
        assert!(!links.sleeps_long(), "it waits");
        links.looks_soon();
        assert!(!links.post([frame(true)]));
        assert!(links.post([frame(true), frame(false)]));
        assert!(outbox.drain(&mut Vec::new()));
        assert!(links.sleeps_long());
    }
}
