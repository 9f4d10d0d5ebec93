//! Replicated queues as a kind of queue of a shard.

use super::Replicas;
use crate::around::Around;
use crate::host_kind::{CountersByType, HostKind};
use crate::peeked;
use crate::queue_spec::LocalQueueStats;
use crate::quorum::link::{Answer, Command};
use crate::serving::serve;
use leveret_queue::{Counters, Counts, Oldest};
use leveret_replication::settle_durable;
use leveret_storage::ShardLogs;
use leveret_types::limits::GROUP_TICK_MS;
use leveret_types::{NodeId, Now, QueueId};
use std::ops::Range;

impl HostKind for Replicas {
    fn receive(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    ) {
        if !self.has(queue) {
            around
                .answers
                .extend(Answer::not_here(from, queue, &command));
            return;
        }
        self.with(around, queue, |replica, around| {
            serve(replica, around, from, session, command);
        });
    }

    fn dead_lettered(
        &mut self,
        around: &mut Around<'_>,
        queue: QueueId,
        priority_log: u8,
        range: Range<u64>,
    ) {
        self.with(around, queue, |replica, around| {
            replica.dead_lettered(around, priority_log, range);
        });
    }

    fn not_dead_lettered(
        &mut self,
        around: &mut Around<'_>,
        queue: QueueId,
        priority_log: u8,
        index: u64,
    ) {
        self.with(around, queue, |replica, around| {
            if let Some(leader) = &mut replica.leader {
                leader.not_dead_lettered(around, priority_log, index);
            }
        });
    }

    fn loaded(&mut self, around: &mut Around<'_>, queue: QueueId) {
        self.with(around, queue, |replica, around| {
            replica.loaded(around);
            replica.send_parts(around);
        });
    }

    fn remove(&mut self, around: &mut Around<'_>, id: QueueId) -> Option<Counts> {
        let Some(mut replica) = self.map.remove(&id) else {
            self.delete_retired_replica(around.logs, id);
            return None;
        };
        self.deadlines.remove(&(replica.deadline_ms, id));
        replica.priority_logs.delete(around.logs);
        around.logs.delete_log(replica.header_log());
        let leader = replica.take_leader(around)?;
        Some(leader.counts(around.now))
    }

    fn on_durable(&mut self, around: &mut Around<'_>) {
        for id in std::mem::take(&mut self.unsynced) {
            self.with(around, id, |replica, around| {
                replica.listed.unsynced = false;
                if settle_durable(replica, around) {
                    replica.drive(around);
                }
            });
        }
        let waits = self.waits_for_log();
        self.standstill.ended(around.now, waits);
    }

    fn peer_up(&mut self, around: &mut Around<'_>, peer: NodeId) {
        self.for_each(around, |replica, around| {
            replica.group.peer_up(peer);
            replica.forget_outgoing(peer);
            replica.drive(around);
            if let Some(leader) = &mut replica.leader {
                leader.peer_up(around, peer);
            }
        });
    }

    fn peer_down(&mut self, around: &mut Around<'_>, peer: NodeId) {
        self.for_each(around, |replica, around| {
            if replica
                .sending
                .as_ref()
                .is_some_and(|sending| sending.node() == peer)
            {
                replica.sending = None;
            }
            replica.forget_outgoing(peer);
            replica.group.peer_down(peer);
            replica.drive(around);
            if let Some(leader) = &mut replica.leader {
                leader.peer_down(around, peer);
            }
        });
    }

    fn tick(&mut self, around: &mut Around<'_>) {
        // What a leader does at its deadline it does in `finish`: until then, it stays due.
        let now = around.now.monotonic_ms;
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        for (at, id) in due.copied().collect::<Vec<_>>() {
            self.deadlines.remove(&(at, id));
            self.with(around, id, |replica, _| {
                replica.deadline_ms = 0;
                if let Some(leader) = &mut replica.leader {
                    leader.dirty = true;
                }
            });
        }
        self.give_way(around);
        if self.ticking.is_empty() || self.next_tick_ms > around.now.monotonic_ms {
            return;
        }
        self.next_tick_ms = around.now.monotonic_ms + GROUP_TICK_MS;
        for id in std::mem::take(&mut self.ticking) {
            self.with(around, id, |replica, around| {
                replica.listed.ticking = false;
                replica.group.tick();
                replica.report_stuck();
                replica.retry_outgoing(around);
                replica.give_up_silent(around);
                if !replica.has_wanted_members() {
                    replica.reconcile(around);
                }
                replica.drive(around);
            });
        }
    }

    fn finish(&mut self, around: &mut Around<'_>) {
        while let Some(id) = self.gone.pop() {
            self.retire_if_corrupt(around, id);
            self.leave_if_gone(around, id);
        }
        let mut held = Vec::new();
        while let Some(id) = self.dirty.pop() {
            let replica = self.map.get(&id);
            if around.may_be_deposed
                && replica.is_some_and(|replica| replica.group.can_be_deposed())
            {
                held.push(id);
                continue;
            }
            if let Some(replica) = self.map.get_mut(&id) {
                self.active.note(id, &mut replica.listed.active);
            }
            self.with(around, id, |replica, around| {
                replica.listed.dirty = false;
                replica.pump(around);
            });
        }
        self.is_held = !held.is_empty();
        self.dirty = held;
    }

    fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let groups = (!self.ticking.is_empty()).then_some(self.next_tick_ms);
        let is_held = self.is_held && !self.map.is_empty();
        let held = is_held.then_some(now.monotonic_ms + GROUP_TICK_MS);
        // What is due already and held is looked at with the rest of that.
        let is_open = |at: &u64| held.is_none() || *at > now.monotonic_ms;
        let leaders = self.deadlines.iter().map(|(at, _)| *at).find(is_open);
        let stuck = self.standstill.deadline_ms();
        [leaders, held, groups, stuck].into_iter().flatten().min()
    }

    fn led_counts(&self, now: Now, queue: QueueId) -> Option<Counts> {
        let leader = self.map.get(&queue)?.leader.as_ref()?;
        leader.is_acting().then(|| leader.counts(now))
    }

    fn local_stats(&self, now: Now, logs: &ShardLogs, queue: QueueId) -> Option<LocalQueueStats> {
        let replica = self.map.get(&queue)?;
        let published = |at| peeked::published_ms(logs, queue, at);
        let (counts, oldest, counters) = match &replica.leader {
            Some(leader) => {
                let led = leader.queue();
                (leader.counts(now), led.oldest(published), *led.counters())
            }
            None => (replica.live_counts(logs), Oldest::None, Counters::default()),
        };
        Some(LocalQueueStats {
            id: queue,
            counts,
            oldest,
            counters,
            consumers: Vec::new(),
            durable: true,
        })
    }

    fn take_active(&mut self, out: &mut Vec<QueueId>) {
        for id in self.active.take() {
            if let Some(replica) = self.map.get_mut(&id) {
                replica.listed.active = false;
                out.push(id);
            }
        }
    }

    fn depths(&self) -> Vec<(QueueId, [u64; 3])> {
        let led = self.map.values();
        let led = led.filter_map(|replica| Some((replica.id, replica.leader.as_ref()?)));
        let depths = led.map(|(id, leader)| {
            let [ready, unsettled, leaving] = leader.depths();
            (id, [ready + unsettled + leaving, ready, unsettled])
        });
        depths.filter(|(_, depths)| *depths != [0; 3]).collect()
    }

    fn counters(&mut self) -> CountersByType {
        let leaders = self
            .map
            .values()
            .filter_map(|replica| replica.leader.as_ref());
        CountersByType::of(leaders.map(|leader| leader.queue()))
    }

    fn queues(&self) -> Vec<QueueId> {
        self.map.keys().copied().collect()
    }
}
