//! The failure detector: which nodes have been silent for too long.
//!
//! Nodes send each other something at least every [`PEER_HEARTBEAT_MS`]. Whoever has not been heard
//! of for [`PEER_SILENCE_MS_MAX`] is down. A node that was itself stopped for a while (by a signal,
//! a debugger, a machine that slept) has heard of nobody either: such a pause is not counted
//! against the others. If it was longer than they bear, they have taken this node for down and go
//! on without it: then all of them are down for it too, until they are connected again.

use leveret_types::NodeId;
use leveret_types::limits::{PEER_HEARTBEAT_MS, PEER_SILENCE_MS_MAX};
use std::collections::BTreeMap;

/// A pause between two looks that is longer than this is the detector's own, not its peers'.
const OWN_PAUSE_MS: u64 = 3 * PEER_HEARTBEAT_MS;

/// Watches over the nodes that are up.
#[derive(Debug, Default)]
pub struct Detector {
    last_frame_ms: BTreeMap<NodeId, u64>,
    /// Nothing before the first look.
    last_check_ms: Option<u64>,
}

impl Detector {
    /// Watches over a node from now on; it counts as heard of.
    pub fn watch(&mut self, node: NodeId, now_ms: u64) {
        self.last_frame_ms.insert(node, now_ms);
    }

    /// Watches over a node no more.
    pub fn forget(&mut self, node: NodeId) {
        self.last_frame_ms.remove(&node);
    }

    /// Something has come from a node; nothing happens if it is not watched over.
    pub fn note_alive(&mut self, node: NodeId, now_ms: u64) {
        if let Some(last_ms) = self.last_frame_ms.get_mut(&node) {
            *last_ms = now_ms.max(*last_ms);
        }
    }

    /// Whether the last look was so long ago that the others have taken this node for down. What
    /// they sent before they did is not to be taken in: [`Self::newly_down`] comes first.
    #[must_use]
    pub fn was_stopped(&self, now_ms: u64) -> bool {
        self.since(now_ms) > PEER_SILENCE_MS_MAX
    }

    fn since(&self, now_ms: u64) -> u64 {
        self.last_check_ms.map_or(0, |at| now_ms.saturating_sub(at))
    }

    /// The nodes that are down; they are watched over no more. To be called about every
    /// [`PEER_HEARTBEAT_MS`], after what has come has been taken note of.
    pub fn newly_down(&mut self, now_ms: u64) -> Vec<NodeId> {
        let since = self.since(now_ms);
        self.last_check_ms = Some(now_ms);
        if since > PEER_SILENCE_MS_MAX {
            return std::mem::take(&mut self.last_frame_ms)
                .into_keys()
                .collect();
        }
        if since > OWN_PAUSE_MS {
            for last_ms in self.last_frame_ms.values_mut() {
                *last_ms = (*last_ms + since).min(now_ms);
            }
        }
        let silent: Vec<NodeId> = self
            .last_frame_ms
            .iter()
            .filter(|(_, last_ms)| now_ms.saturating_sub(**last_ms) > PEER_SILENCE_MS_MAX)
            .map(|(node, _)| *node)
            .collect();
        for node in &silent {
            self.last_frame_ms.remove(node);
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    /// Looks every heartbeat from `from` to `to`; answers when each node was found down.
    fn down_between(
        detector: &mut Detector,
        from: u64,
        to: u64,
        alive: &[NodeId],
    ) -> Vec<(u64, NodeId)> {
        let mut down = Vec::new();
        let mut now = from;
        while now <= to {
            for node in alive {
                detector.note_alive(*node, now);
            }
            down.extend(detector.newly_down(now).into_iter().map(|node| (now, node)));
            now += PEER_HEARTBEAT_MS;
        }
        down
    }

    #[test]
    fn who_is_silent_is_down_once_and_who_is_heard_of_is_not() {
        let mut detector = Detector::default();
        detector.watch(A, 0);
        detector.watch(B, 0);
        let down = down_between(&mut detector, 0, 3 * PEER_SILENCE_MS_MAX, &[B]);
        assert_eq!(down.len(), 1, "{down:?}");
        assert_eq!(down[0].1, A);
        let least = PEER_SILENCE_MS_MAX + 1..=PEER_SILENCE_MS_MAX + PEER_HEARTBEAT_MS;
        assert!(least.contains(&down[0].0), "{down:?}");
    }

    #[test]
    fn silence_is_borne_up_to_the_bound_and_no_further() {
        let mut detector = Detector::default();
        detector.watch(A, 0);
        assert_eq!(down_between(&mut detector, 0, PEER_SILENCE_MS_MAX, &[]), []);
        assert_eq!(detector.newly_down(PEER_SILENCE_MS_MAX + 1), [A]);
    }

    #[test]
    fn a_pause_of_our_own_is_not_counted_against_others() {
        let mut detector = Detector::default();
        detector.watch(A, 0);
        detector.newly_down(0);
        let stopped = PEER_SILENCE_MS_MAX;
        assert!(!detector.was_stopped(stopped));
        assert_eq!(detector.newly_down(stopped), []);
        let down = down_between(&mut detector, stopped, 10 * stopped, &[]);
        assert_eq!(down.len(), 1, "silence after the pause counts");
    }

    #[test]
    fn after_a_pause_that_others_do_not_bear_all_are_down() {
        let mut detector = Detector::default();
        detector.watch(A, 0);
        detector.watch(B, 0);
        detector.newly_down(0);
        let woken = PEER_SILENCE_MS_MAX + 1;
        // What lay in the socket from before the pause says nothing.
        detector.note_alive(A, woken);
        assert!(detector.was_stopped(woken));
        assert_eq!(detector.newly_down(woken), [A, B]);
        assert!(!detector.was_stopped(woken));
        detector.watch(A, woken);
        assert_eq!(detector.newly_down(woken + PEER_SILENCE_MS_MAX), []);
    }

    #[test]
    fn the_first_look_ends_no_pause() {
        let mut detector = Detector::default();
        detector.watch(A, 60_000);
        assert_eq!(detector.newly_down(60_000), []);
    }

    #[test]
    fn who_is_forgotten_is_never_reported() {
        let mut detector = Detector::default();
        detector.watch(A, 0);
        detector.forget(A);
        detector.note_alive(A, 5);
        assert_eq!(
            down_between(&mut detector, 0, 5 * PEER_SILENCE_MS_MAX, &[]),
            []
        );
    }
}
