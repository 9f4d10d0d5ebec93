//! Messages that a member has yet to send: their order, and what becomes of them.

use super::super::outgoing::Parked;
use super::led::PLAIN;
use super::*;
use crate::quorum::replica::header::Header;
use crate::quorum::replica::{Replica, ShardContext};
use leveret_replication::{Body, Entry, EntryKind, Message as GroupMessage};
use leveret_types::limits::{QUORUM_BATCH_BYTES, QUORUM_BATCH_ITEMS};

impl World {
    /// Does something with a node's replica; what it sends stays in the shard's effects.
    pub(super) fn with_replica<R>(
        &mut self,
        at: usize,
        run: impl FnOnce(&mut Replica, &mut ShardContext<'_>) -> R,
    ) -> R {
        self.with(at, |shard, now| {
            shard.with_replicas(now, |replicas, context| {
                let replica = replicas.map.get_mut(&QUEUE).expect("it is here");
                run(replica, context)
            })
        })
    }

    /// Cuts the way between two nodes.
    pub(super) fn cut_off(&mut self, a: usize, b: usize) {
        self.cut.insert((a.min(b), a.max(b)));
        self.part(a, b);
    }
}

/// An append of an entry without messages behind `index`.
fn append(replica: &Replica, to: ReplicaId, index: u64) -> GroupMessage {
    let (index, term) = (index + 1, 1);
    let entry = Entry {
        index,
        term,
        kind: EntryKind::Normal,
        data: Bytes::new(),
    };
    GroupMessage {
        to,
        from: replica.group.replica(),
        term,
        body: Body::Append {
            index: index - 1,
            log_term: term,
            commit: 0,
            entries: vec![entry],
        },
    }
}

/// A world with a leader, and the members on the two other nodes.
fn led() -> (World, usize, [ReplicaId; 2]) {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let others = [1, 2].map(|further| world.spec.members[(leader + further) % 3]);
    (world, leader, others)
}

#[test]
fn entries_do_not_overtake_those_that_wait_for_a_read() {
    let (mut world, leader, [one, other]) = led();
    world.with_replica(leader, |replica, context| {
        let waits = Parked::new(append(replica, one, 1));
        replica.outgoing.parked.push_back(waits);
        let before = context.effects.peer.len();
        let (behind, elsewhere) = (append(replica, one, 2), append(replica, other, 2));
        replica.send_message(context, behind);
        assert_eq!(context.effects.peer.len(), before, "it waits its turn");
        assert_eq!(replica.outgoing.parked.len(), 2);
        replica.send_message(context, elsewhere);
        assert_eq!(context.effects.peer.len(), before + 1, "others do not wait");
        // What has no entries may go at once: nobody takes an old word for a new one.
        let mut heartbeat = append(replica, one, 2);
        heartbeat.body = Body::Heartbeat { commit: 0 };
        replica.send_message(context, heartbeat);
        assert_eq!(context.effects.peer.len(), before + 2);
        replica.retry_outgoing(context);
        assert_eq!(context.effects.peer.len(), before + 4);
        assert!(replica.outgoing.parked.is_empty());
    });
}

#[test]
fn what_waits_behind_a_message_that_is_being_read_waits_on() {
    let (mut world, leader) = World::led_on_disk();
    let to = world.spec.members[(leader + 1) % 3];
    let mut header = Header::default();
    header.message(PLAIN, 0);
    world.with_replica(leader, |replica, context| {
        let (mut reads, mut behind) = (append(replica, to, 1), append(replica, to, 2));
        for (message, data) in [(&mut reads, header.encode()), (&mut behind, Bytes::new())] {
            if let Body::Append { entries, .. } = &mut message.body {
                entries[0].data = data;
            }
        }
        let before = context.effects.peer.len();
        replica.send_message(context, reads);
        replica.send_message(context, behind);
        replica.retry_outgoing(context);
        assert_eq!(context.effects.peer.len(), before);
        assert_eq!(replica.outgoing.parked.len(), 2);
    });
    world.read(leader);
    world.with_replica(leader, |replica, _| {
        assert!(replica.outgoing.parked.is_empty())
    });
}

#[test]
fn what_was_to_go_to_a_node_is_not_sent_once_it_was_gone() {
    let (mut world, leader, [one, other]) = led();
    world.with_replica(leader, |replica, _| {
        for to in [one, other] {
            let waits = Parked::new(append(replica, to, 1));
            replica.outgoing.parked.push_back(waits);
        }
    });
    let (own, gone) = (world.nodes[leader].id, one.node());
    assert_ne!(own, gone);
    world.with(leader, |shard, now| shard.peer_down(now, gone));
    world.with_replica(leader, |replica, context| {
        let before = context.effects.peer.len();
        replica.retry_outgoing(context);
        let sent = context.effects.peer.split_off(before);
        let to: Vec<NodeId> = sent.into_iter().map(|(to, _)| to).collect();
        assert_eq!(to, [other.node()]);
    });
}

#[test]
fn who_leads_no_more_has_nothing_left_to_send() {
    let (mut world, leader, [one, other]) = led();
    world.with_replica(leader, |replica, _| {
        let waits = Parked::new(append(replica, one, 1));
        replica.outgoing.parked.push_back(waits);
        replica.outgoing.lacking.push((other.node(), u64::MAX));
    });
    world.with(leader, |shard, now| {
        shard.transfer_leader(now, QUEUE, one.node());
    });
    world.rest(20);
    assert_ne!(world.leader(), Some(leader));
    world.with_replica(leader, |replica, _| {
        assert!(replica.outgoing.parked.is_empty());
        assert!(replica.outgoing.may_refer(other.node(), 1));
    });
}

#[test]
fn what_a_member_lacks_is_sent_again_at_once() {
    let mut world = World::new(4, 3, spec(3));
    world.body_bytes = 4_000;
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let (publisher, other) = ((leader + 1) % 3, (leader + 2) % 3);
    world.publish(publisher);
    world.rest(20);
    // From now on a commit takes the publisher's own member.
    world.cut_off(leader, other);
    world.cut_off(publisher, other);
    world.misreferring = 100;
    world.publish(publisher);
    // To the leader, to the member, back, again, and the answer: no heartbeat comes meanwhile.
    world.rest(6);
    assert_eq!(world.ledger.lacking, 1);
    assert_eq!(world.ledger.confirmed.len(), 2);
}

#[test]
fn a_stranger_is_told_that_it_is_one_and_a_member_is_not() {
    let (mut world, leader, [one, _]) = led();
    let stranger = ReplicaId::new(one.node(), 77);
    let answers = |world: &mut World, at: usize, from: ReplicaId| {
        world.with_replica(at, |replica, context| {
            let before = context.effects.peer.len();
            replica.answer_stranger(context, from);
            let said = context.effects.peer.split_off(before);
            said.iter()
                .map(|(to, frame)| (*to, frame.pieces[0][0]))
                .collect::<Vec<_>>()
        })
    };
    let gone = super::super::snapshot::GONE;
    assert_eq!(answers(&mut world, leader, one), []);
    assert_eq!(answers(&mut world, leader, stranger), [(one.node(), gone)]);
    let follower = (leader + 1) % 3;
    assert_eq!(answers(&mut world, follower, stranger), []);
    // One that the catalogue names, and the group does not have yet.
    world.with_replica(leader, |replica, _| replica.spec.members.push(stranger));
    assert_eq!(answers(&mut world, leader, stranger), []);
    // One that the catalogue does not name any more, and the group still has.
    world.with_replica(leader, |replica, _| {
        replica.spec.members.retain(|member| *member != one);
    });
    assert_eq!(answers(&mut world, leader, one), []);
}

impl World {
    /// Lets all happen, and loses what one of them says; how often that one was told that it is no
    /// member any more.
    fn rest_without_words_of(&mut self, silent: usize, rounds: usize) -> usize {
        let mut told = 0;
        for _ in 0..rounds {
            for at in 0..self.count() {
                self.sync(at);
                self.read(at);
            }
            loop {
                self.ways.retain(|(from, _), _| *from != silent);
                let ways = self.ways.iter();
                let mut full = ways.filter(|(_, frames)| !frames.is_empty());
                let Some((way, frames)) = full.next() else {
                    break;
                };
                let (way, kind) = (*way, frames[0].pieces[0][0]);
                told += usize::from(way.1 == silent && kind == super::super::snapshot::GONE);
                self.deliver(way);
            }
            self.tick(10);
        }
        told
    }
}

/// Who goes need not say anything to hear of it, nor have heard what the group agreed on last.
#[test]
fn those_who_are_members_no_more_are_told_so_at_once() {
    let (mut world, leader, [one, _]) = led();
    let goes = (leader + 1) % 3;
    assert!(world.voters(goes).contains(&one));
    world.update(|spec| spec.members.retain(|member| *member != one));
    assert_eq!(world.rest_without_words_of(goes, 100), 1);
    let left = world.spec.members.clone();
    assert_eq!(world.voters(leader), left);
    assert!(world.voters(goes).is_empty(), "it has gone");
}

#[test]
fn a_catalogue_that_names_no_members_takes_none_away() {
    let (mut world, leader, _) = led();
    let members = std::mem::take(&mut world.spec.members);
    world.update(|_| {});
    world.rest(100);
    assert_eq!(world.voters(leader), members);
    assert!(world.leader().is_some());
}

#[test]
fn an_entry_takes_as_many_messages_as_it_may_and_one_more_at_most() {
    let (mut world, leader, _) = led();
    world.body_bytes = QUORUM_BATCH_BYTES / 10;
    (0..35).for_each(|_| world.publish(leader));
    world.sync(leader);
    let weights: Vec<u64> = world.with_replica(leader, |replica, _| {
        let tail = replica.tail.iter();
        tail.map(|pending| pending.header.weight).collect()
    });
    assert!(weights.len() >= 3, "{weights:?}");
    let message = world.body_bytes as u64 + 200;
    let most = QUORUM_BATCH_BYTES as u64 + message;
    assert!(weights.iter().all(|weight| *weight < most), "{weights:?}");
    assert!(weights.iter().sum::<u64>() > 35 * world.body_bytes as u64);
}

#[test]
fn what_waits_for_a_member_that_lacks_something_is_void() {
    let (mut world, leader, [one, other]) = led();
    world.with_replica(leader, |replica, context| {
        for to in [one, other] {
            let waits = Parked::new(append(replica, to, 1));
            replica.outgoing.parked.push_back(waits);
        }
        let last = replica.group.last_index();
        replica.on_lacking(context, one.node(), last);
        let parked = replica.outgoing.parked.iter();
        let waits: Vec<ReplicaId> = parked.map(|parked| parked.message.to).collect();
        assert_eq!(waits, [other]);
    });
}

#[test]
fn who_leads_no_more_says_so_to_those_who_hear_of_nobody_else() {
    let (mut world, leader, [one, other]) = led();
    let at = |member: ReplicaId| member.node().0 as usize - 1;
    let believed = |world: &mut World| {
        world.with(at(other), |shard, _| {
            shard.remote_queues.known(QUEUE)?.leader()
        })
    };
    world.publish(at(other));
    world.rest(20);
    let was = world.nodes[leader].id;
    assert_eq!(believed(&mut world), Some(was));
    world.cut_off(at(one), at(other));
    world.with(leader, |shard, now| {
        shard.transfer_leader(now, QUEUE, one.node());
    });
    world.rest(5);
    assert_eq!(world.leader(), Some(at(one)));
    assert_ne!(believed(&mut world), Some(was));
}

#[test]
fn an_entry_names_as_many_ranges_as_it_may_and_no_more() {
    let (mut world, leader, _) = led();
    world.body_bytes = 8;
    // Of what two get in turn, no two messages of one of them lie beside each other.
    world.consume(leader, 0);
    world.consume((leader + 1) % 3, 0);
    world.rest(10);
    for _ in 0..2 * QUORUM_BATCH_ITEMS {
        world.publish(leader);
    }
    world.rest(50);
    let running = world.nodes[leader].running.as_mut().expect("it runs");
    let (consumer, held) = (running.consumer.expect("it is there"), &running.held);
    let places: Vec<(u8, u64)> = held.iter().map(|held| (held.0, held.1)).collect();
    assert_eq!(places.len(), QUORUM_BATCH_ITEMS);
    for (priority_log, index) in places {
        world.with(leader, |shard, now| {
            let settle = Settle {
                subscription: consumer,
                priority_log,
                range: index..index + 1,
                outcome: Outcome::Accept,
            };
            shard.settle(now, QUEUE, settle);
        });
    }
    let items: Vec<usize> = world.with_replica(leader, |replica, _| {
        let tail = replica.tail.iter();
        tail.map(|pending| pending.header.items()).collect()
    });
    assert_eq!(items, [QUORUM_BATCH_ITEMS]);
}

#[test]
fn who_was_taken_out_while_it_was_down_hears_of_it_and_goes() {
    let (mut world, leader, [one, _]) = led();
    let gone = one.node().0 as usize - 1;
    world.publish(leader);
    world.rest(20);
    world.crash(gone);
    world.update(|spec| spec.members.retain(|member| *member != one));
    world.rest(200);
    assert!(!world.voters(leader).contains(&one));
    world.start(gone);
    let is_here = |world: &mut World| {
        world.with(gone, |shard, now| {
            shard.with_replicas(now, |replicas, _| replicas.has(QUEUE))
        })
    };
    assert!(is_here(&mut world), "it knows of nothing yet");
    world.rest(500);
    assert!(!is_here(&mut world));
}

#[test]
fn what_a_node_says_in_the_name_of_another_nodes_member_means_nothing() {
    let (mut world, leader, [one, other]) = led();
    let term = world.with_replica(leader, |replica, _| replica.group.term());
    for (from, is_taken) in [(other, false), (one, true)] {
        let message = GroupMessage {
            to: world.spec.members[leader],
            from: one,
            term: term + 7,
            body: Body::AppendReply {
                refused: None,
                index: 0,
                commit: 0,
            },
        };
        let frame = super::super::entry_payload::frame(QUEUE, &message, None, std::iter::empty());
        let bytes = Bytes::from(frame.pieces.concat());
        world.with(leader, |shard, now| {
            shard.receive_peer(now, from.node(), QUEUE, bytes);
        });
        let knows = world.with_replica(leader, |replica, _| replica.group.term());
        assert_eq!(knows > term, is_taken, "{from}");
    }
}

#[test]
fn what_a_member_lacks_is_kept_until_it_is_applied_and_of_each_node_by_itself() {
    let mut outgoing = super::super::outgoing::Outgoing::default();
    let [one, other] = [NodeId(1), NodeId(2)];
    outgoing.lacking.extend([(one, 5), (other, 7)]);
    let refers = |outgoing: &super::super::outgoing::Outgoing| {
        [one, other].map(|node| [5, 7, 8].map(|index| outgoing.may_refer(node, index)))
    };
    assert_eq!(
        refers(&outgoing),
        [[false, true, true], [false, false, true]]
    );
    outgoing.applied(4);
    assert_eq!(
        refers(&outgoing),
        [[false, true, true], [false, false, true]]
    );
    outgoing.applied(5);
    assert_eq!(outgoing.lacking[..], [(other, 7)]);
    outgoing.applied(8);
    assert_eq!(outgoing.lacking[..], []);
}

#[test]
fn a_node_that_lacks_something_again_counts_once() {
    let (mut world, leader, [one, other]) = led();
    world.publish(leader);
    world.sync(leader);
    world.with_replica(leader, |replica, context| {
        let last = replica.group.last_index();
        replica
            .outgoing
            .lacking
            .extend([(one.node(), 1), (other.node(), last)]);
        replica.on_lacking(context, one.node(), last);
        // The one that was told of first does for all.
        replica.on_lacking(context, one.node(), last);
        let expected = [(other.node(), last), (one.node(), last)];
        assert_eq!(replica.outgoing.lacking[..], expected);
    });
}

#[test]
fn a_member_goes_by_a_word_to_itself_alone_and_by_the_catalogues() {
    let (mut world, leader, [one, other]) = led();
    let me = world.spec.members[leader];
    world.with_replica(leader, |replica, _| {
        let told = |replica: &mut Replica, of: ReplicaId| {
            let frame = Bytes::copy_from_slice(&of.0.to_le_bytes());
            replica.on_gone(&frame).expect("it is a replica");
            std::mem::take(&mut replica.is_gone)
        };
        assert!(!told(replica, me), "the catalogue says that it is one");
        replica.spec.members.retain(|member| *member != me);
        assert!(!told(replica, one) && !told(replica, other));
        assert!(told(replica, me));
        replica.spec.members.push(me);
    });
}

#[test]
fn each_queue_tells_how_its_group_stands() {
    let (mut world, leader, _) = led();
    let all = world.with(leader, |shard, now| {
        shard.with_replicas(now, |replicas, _| replicas.all())
    });
    let queues: Vec<_> = all.iter().map(|of| (of.queue, of.is_serving)).collect();
    assert_eq!(queues, [(QUEUE, true)]);
}

#[test]
fn who_has_lost_what_it_had_acknowledged_is_given_up_and_the_operator_is_told() {
    let (mut world, leader, [one, _]) = led();
    let at = one.node().0 as usize - 1;
    let (from, term, last) = world.with_replica(at, |replica, _| {
        let leader = replica.group.leader().expect("it follows");
        (leader, replica.group.term(), replica.group.last_index())
    });
    assert_eq!(from.node(), world.nodes[leader].id);
    world.corrupt.insert(at);
    for (commit, is_here) in [(last, true), (last + 1, false)] {
        let message = GroupMessage {
            to: one,
            from,
            term,
            body: Body::Heartbeat { commit },
        };
        let frame = super::super::entry_payload::frame(QUEUE, &message, None, std::iter::empty());
        let bytes = Bytes::from(frame.pieces.concat());
        world.with(at, |shard, now| {
            shard.receive_peer(now, from.node(), QUEUE, bytes);
        });
        let found = world.with(at, |shard, now| {
            shard.with_replicas(now, |replicas, _| {
                (replicas.has(QUEUE), replicas.is_quarantined(QUEUE))
            })
        });
        assert_eq!(found, (is_here, !is_here));
        let told = world.reported_damage.iter();
        let told = told.filter(|(of, what)| *of == at && what.contains("is given up: "));
        assert_eq!(told.count(), usize::from(!is_here));
    }
}
