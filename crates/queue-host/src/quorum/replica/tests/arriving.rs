//! What comes behind a header goes into the queue's logs once, and to its place.

use super::super::entry_payload::{put_gone, put_message};
use super::super::header::{Came, Header};
use super::super::priority_logs::PriorityLogs;
use super::*;
use crate::{shard::log_of, stored};

const OTHER: QueueId = QueueId(512);
const PRIORITY_LOG: u8 = 4;

/// Gives a header that names this range, with these messages behind it, to the logs of a queue;
/// nothing in a message's place is one that has left.
fn arrive(world: &mut World, range: std::ops::Range<u64>, numbers: &[Option<u64>]) {
    let mut header = Header::default();
    header.came.push(Came {
        priority_log: PRIORITY_LOG,
        range,
    });
    let mut bodies = Vec::new();
    for number in numbers {
        match number {
            None => put_gone(&mut bodies),
            Some(number) => {
                let message = message(*number, 8, None, 0);
                let summary = stored::header(&message);
                put_message(&mut bodies, &stored::pieces(&summary, &message));
            }
        }
    }
    world.with(0, |shard, now| {
        shard.with_replicas(now, |_, context| {
            let mut all = PriorityLogs::new(OTHER);
            all.append_arrived(context.logs, &header, &bodies.into());
        });
    });
}

/// What lives, and the index that comes next.
fn state(world: &mut World) -> (Vec<std::ops::Range<u64>>, u64) {
    world.sync(0);
    let running = world.nodes[0].running.as_ref().expect("it runs");
    let (logs, log) = (&running.shard.logs, log_of(OTHER, PRIORITY_LOG));
    let live = logs.live(log).iter().collect();
    (live, logs.log_stats(log).expect("it is there").next_index)
}

#[test]
fn what_is_there_already_is_not_appended_again() {
    let mut world = World::new(1, 1, spec(1));
    let whole = |end| std::iter::once(0..end).collect::<Vec<_>>();
    let first = [Some(0), Some(1), Some(2)];
    arrive(&mut world, 0..3, &first);
    assert_eq!(state(&mut world), (whole(3), 3));
    arrive(&mut world, 0..3, &first);
    assert_eq!(state(&mut world), (whole(3), 3), "the same again");
    arrive(&mut world, 1..5, &[Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(state(&mut world), (whole(5), 5), "a part of it again");
}

#[test]
fn what_comes_goes_to_its_place_behind_what_does_not_come() {
    let mut world = World::new(1, 1, spec(1));
    arrive(&mut world, 0..1, &[Some(0)]);
    arrive(&mut world, 7..9, &[Some(7), Some(8)]);
    assert_eq!(state(&mut world), (vec![0..1, 7..9], 9));
    // What has left on its way keeps its place.
    arrive(&mut world, 9..12, &[Some(9), None, Some(11)]);
    assert_eq!(state(&mut world), (vec![0..1, 7..10, 11..12], 12));
    arrive(&mut world, 12..14, &[None, None]);
    assert_eq!(state(&mut world), (vec![0..1, 7..10, 11..12], 14));
}
