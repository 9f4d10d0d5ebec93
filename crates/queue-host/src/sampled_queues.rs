//! Queues that something happened to, for whoever samples their figures: the others need not be
//! looked at.

use leveret_types::QueueId;
use leveret_types::limits::SAMPLED_OBJECTS_MAX;

/// The queues of one kind in a shard that something happened to since they were taken last; no more
/// than are sampled.
#[derive(Debug, Default)]
pub(crate) struct ActiveQueues {
    queues: Vec<QueueId>,
}

impl ActiveQueues {
    /// Something happens to a queue, which remembers in `is_noted` that it is in the list.
    pub(crate) fn note(&mut self, queue: QueueId, is_noted: &mut bool) {
        if !*is_noted && self.queues.len() < SAMPLED_OBJECTS_MAX {
            *is_noted = true;
            self.queues.push(queue);
        }
    }

    /// Takes the list; who takes it clears what its queues remember.
    pub(crate) fn take(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_noted_once_and_no_more_of_them_than_are_sampled() {
        let mut active = ActiveQueues::default();
        let mut noted = false;
        active.note(QueueId(1), &mut noted);
        active.note(QueueId(1), &mut noted);
        assert_eq!(active.take(), [QueueId(1)]);
        for id in 0..SAMPLED_OBJECTS_MAX as u64 {
            active.note(QueueId(id), &mut false);
        }
        let mut one_more = false;
        active.note(QueueId(u64::MAX), &mut one_more);
        assert!(!one_more, "it is noted when there is room again");
        assert_eq!(active.take().len(), SAMPLED_OBJECTS_MAX);
        active.note(QueueId(u64::MAX), &mut one_more);
        assert!(one_more);
    }
}
