//! Messages that a new leader reads from disk, for the sake of times to live.

use super::*;

const TTL_MS: u64 = 60_000;

impl World {
    /// kill -9 of all nodes, and a start: bytes that they read until the queue is led and rests.
    pub(super) fn restart_all(&mut self) -> u64 {
        (0..self.count()).for_each(|at| self.crash(at));
        (0..self.count()).for_each(|at| self.start(at));
        let read = |world: &Self| -> u64 {
            let disks = world.nodes.iter().map(|node| node.disk.counts().read_bytes);
            disks.sum()
        };
        let before = read(self);
        self.rest(100);
        assert!(self.leader().is_some(), "it is led again");
        read(self) - before
    }

    fn publish_with(&mut self, expiration_ms: Option<u64>, count: usize) {
        self.expiration_ms = expiration_ms;
        let leader = self.leader().expect("it is led");
        for _ in 0..count {
            self.publish(leader);
            self.rest(1);
        }
        self.rest(20);
    }

    fn ready(&mut self) -> u64 {
        let leader = self.leader().expect("it is led");
        let stats = self.with(leader, |shard, now| shard.local_stats(now, QUEUE));
        stats.expect("it leads").counts.ready
    }

    /// The state of the only priority log, at each node.
    fn priority_log_states(&self) -> Vec<Vec<u8>> {
        let running = self.nodes.iter().flat_map(|node| &node.running);
        let states = running.map(|running| {
            let logs = &running.shard.logs;
            let is_priority_log = |log: &leveret_types::LogId| {
                queue_of(*log).0 == QUEUE && queue_of(*log).1 != HEADER_LOG
            };
            let priority_log = logs
                .log_ids()
                .find(is_priority_log)
                .expect("it has messages");
            logs.state(priority_log).to_vec()
        });
        states.collect()
    }

    fn filled_with(seed: u64, expiration_ms: Option<u64>) -> Self {
        let mut world = Self::new(seed, 3, spec(3));
        // More than the caches take, so that what is read counts.
        world.body_bytes = 30_000;
        world.rest(100);
        world.publish_with(expiration_ms, 20);
        world
    }
}

#[test]
fn nothing_is_read_after_a_restart_where_no_message_has_a_time_to_live() {
    let mut world = World::filled_with(1, None);
    assert_eq!(world.restart_all(), 0);
    assert_eq!(world.ready(), 20);
    world.heal_and_drain();
    world.check();
}

#[test]
fn what_has_a_time_to_live_is_looked_at_after_a_restart_and_expires() {
    for before in [0, 3] {
        let mut world = World::filled_with(2, None);
        world.publish_with(Some(TTL_MS), 1);
        world.publish_with(None, before);
        assert!(world.restart_all() > 0, "the head is looked at");
    }
    let mut world = World::filled_with(3, Some(TTL_MS));
    assert!(world.restart_all() > 0);
    assert_eq!(world.ready(), 20);
    world.tick(TTL_MS);
    world.rest(50);
    assert_eq!(world.ready(), 0);
}

#[test]
fn that_nothing_expires_is_written_down_once() {
    let mut world = World::filled_with(4, None);
    let first = world.priority_log_states();
    assert!(first.iter().all(|state| !state.is_empty()));
    world.publish_with(None, 3);
    assert_eq!(world.priority_log_states(), first);
    world.publish_with(Some(TTL_MS), 1);
    let expiring = world.priority_log_states();
    assert!(expiring.iter().zip(&first).all(|(now, first)| now != first));
    world.publish_with(Some(TTL_MS), 1);
    world.publish_with(None, 1);
    assert_eq!(world.priority_log_states(), expiring);
}

#[test]
fn what_an_earlier_version_has_written_is_looked_at() {
    let mut world = World::filled_with(5, None);
    for at in 0..3 {
        let running = world.nodes[at].running.as_mut().expect("it runs");
        let logs = &mut running.shard.logs;
        let ids: Vec<_> = logs.log_ids().collect();
        for log in ids.into_iter().filter(|log| queue_of(*log).1 != HEADER_LOG) {
            logs.set_state(log, &[]);
        }
    }
    world.rest(1);
    assert!(world.restart_all() > 0);
    // Once it was empty, it is known.
    let leader = world.leader().expect("it is led");
    world.consume(leader, 0);
    world.rest(20);
    while world.settle(leader, Outcome::Accept) {}
    world.rest(20);
    assert_eq!(world.ready(), 0);
    world.publish_with(None, 1);
    assert!(
        world
            .priority_log_states()
            .iter()
            .all(|state| !state.is_empty())
    );
}

#[test]
fn the_segments_of_a_quorum_queue_are_placed_apart() {
    let check = |world: &World| {
        for running in world.nodes.iter().flat_map(|node| &node.running) {
            let logs = &running.shard.logs;
            let of_queue: Vec<_> = logs
                .log_ids()
                .filter(|log| queue_of(*log).0 == QUEUE)
                .collect();
            assert_eq!(of_queue.len(), 2, "messages and headers");
            assert!(of_queue.into_iter().all(|log| logs.is_apart(log)));
        }
    };
    let mut world = World::filled_with(6, None);
    check(&world);
    world.restart_all();
    check(&world);
}
