//! Short stories of one group, and how it stands at their end.

use crate::world::{Planted, World, replica};
use leveret_replication::{Group, MembershipChange};
use leveret_types::{NodeId, RaftCounts, ReplicaId};

/// Plays `script` on a group of nodes 1 to 3 and compares the lines that its `show`, `sent`, and
/// refused commands give.
///
/// - `campaign N`, `greet N M` (N says to M that it is there), `tick N` (one tick on each node that
///   wants one, N times), `run` (deliver and sync all), `lose` (all that is on its way),
///   `propose N data`
/// - `crash N`, `start N`, `cut N M`, `heal`, `detect` (all detectors say what is true), `up N`
///   (a new connection to N is made everywhere)
/// - `join N` (a new replica on node N), `add N`, `promote N`, `remove N`, `replace N M`,
///   `transfer N`: on whoever leads; `compact` on all
/// - `show`, `members`, `sent` (messages since the last time), `wants`
fn check(script: &str, expected: &[&str]) {
    let mut world = World::new(3, Planted::Nothing);
    let mut lines = Vec::new();
    let mut sent = 0;
    for command in script.split(';').map(str::trim).filter(|c| !c.is_empty()) {
        let mut words = command.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let arguments: Vec<&str> = words.collect();
        let number = |place: usize| arguments[place].parse::<u32>().expect("a number");
        match verb {
            "sent" => {
                lines.push(format!("sent {}", world.sent - sent));
                sent = world.sent;
            }
            "show" => lines.push(show(&world)),
            "members" => lines.push(members(&world)),
            "wants" => lines.push(wants(&world)),
            "propose" => {
                let at = at(&world, number(0));
                if !world.propose(at, arguments[1].as_bytes()).expect("sound") {
                    lines.push(format!("node {} refuses", number(0)));
                }
            }
            "add" | "promote" | "remove" | "replace" | "transfer" => {
                let numbers: Vec<u32> = (0..arguments.len()).map(number).collect();
                lines.extend(change(&mut world, verb, &numbers));
            }
            _ => {
                let numbers: Vec<u32> = (0..arguments.len()).map(number).collect();
                play(&mut world, verb, &numbers);
            }
        }
    }
    assert_eq!(lines, expected, "{}", world.describe());
}

fn at(world: &World, node: u32) -> usize {
    world.at(NodeId(node)).expect("a node of this number")
}

fn play(world: &mut World, verb: &str, numbers: &[u32]) {
    let sound = "no promise is broken";
    match verb {
        "campaign" => {
            let at = at(world, numbers[0]);
            world.group(at).campaign();
            world.drain(at).expect(sound);
        }
        "tick" => {
            for _ in 0..numbers[0] {
                for at in 0..world.nodes.len() {
                    world.tick(at).expect(sound);
                }
                world.run().expect(sound);
            }
        }
        "greet" => {
            let at = at(world, numbers[0]);
            world.group(at).greet(replica(numbers[1]));
            world.drain(at).expect(sound);
        }
        "run" => world.run().expect(sound),
        "lose" => world.flying.clear(),
        "crash" => world.crash(at(world, numbers[0]), 0),
        "start" => {
            let at = at(world, numbers[0]);
            world.start(at);
        }
        "cut" => {
            world.cut.insert((NodeId(numbers[0]), NodeId(numbers[1])));
        }
        "heal" => world.cut.clear(),
        "detect" => {
            for at in 0..world.nodes.len() {
                world.detect(at).expect(sound);
            }
        }
        "up" => {
            for at in 0..world.nodes.len() {
                if world.nodes[at].group.is_some() && world.nodes[at].id.0 != numbers[0] {
                    world.group(at).peer_up(NodeId(numbers[0]));
                    world.drain(at).expect(sound);
                }
            }
        }
        "join" => world.add_node(replica(numbers[0])),
        "compact" => {
            for at in 0..world.nodes.len() {
                let applied = world.nodes[at].applied;
                let node = &mut world.nodes[at];
                let Some(group) = node.group.as_mut() else {
                    continue;
                };
                let mark = group.mark(applied).expect("what is applied has a mark");
                node.disk.compact(mark, world.checker.state(applied));
                group.compacted(applied);
            }
        }
        _ => panic!("there is no command {verb}"),
    }
}

fn change(world: &mut World, verb: &str, numbers: &[u32]) -> Option<String> {
    let leader = *world.leaders().first().expect("somebody leads");
    let group = world.group(leader);
    let one = replica(numbers[0]);
    let refused = match verb {
        "transfer" => group.transfer_leader(one).err(),
        _ => {
            let change = match verb {
                "add" => MembershipChange::add(one),
                "promote" => MembershipChange::promote(one),
                "remove" => MembershipChange::remove(one),
                _ => MembershipChange::replace(one, replica(numbers[1])),
            };
            group.propose_membership(&change).err()
        }
    };
    world.drain(leader).expect("no promise is broken");
    refused.map(|why| format!("refused: {why}"))
}

fn show(world: &World) -> String {
    let one = |group: &Group| {
        let status = group.status();
        let leader = status.leader.map_or(0, |leader| leader.node().0);
        format!(
            "{}{} t{} c{}",
            if group.is_leader() { "*" } else { "" },
            leader,
            status.term,
            status.commit
        )
    };
    let node =
        |node: &crate::world::Node| node.group.as_ref().map_or("-".into(), |group| one(group));
    world.nodes.iter().map(node).collect::<Vec<_>>().join(" | ")
}

fn wants(world: &World) -> String {
    let wants =
        |node: &&crate::world::Node| node.group.as_ref().is_some_and(|group| group.wants_tick());
    let ids = world
        .nodes
        .iter()
        .filter(wants)
        .map(|node| node.id.to_string());
    format!("ticks {}", ids.collect::<Vec<_>>().join(" "))
}

fn members(world: &World) -> String {
    let leader = world.leaders()[0];
    let group = world.nodes[leader].group.as_ref().expect("it leads");
    let list = |replicas: &[ReplicaId]| {
        let nodes = replicas.iter().map(|replica| replica.node().to_string());
        nodes.collect::<Vec<_>>().join(" ")
    };
    let membership = group.membership();
    let mut all = list(&membership.voters);
    for (name, replicas) in [
        (" outgoing ", &membership.voters_outgoing),
        (" learners ", &membership.learners),
    ] {
        if !replicas.is_empty() {
            all += name;
            all += &list(replicas);
        }
    }
    all
}

#[test]
fn a_group_is_founded_and_a_proposal_commits() {
    check(
        "campaign 1; run; tick 2; show; propose 1 x; run; tick 2; show; propose 2 x",
        &[
            "*1 t2 c2 | 1 t2 c2 | 1 t2 c2",
            "*1 t2 c3 | 1 t2 c3 | 1 t2 c3",
            "node 2 refuses",
        ],
    );
}

#[test]
fn what_each_member_does_is_counted() {
    let mut world = World::new(3, Planted::Nothing);
    play(&mut world, "campaign", &[1]);
    play(&mut world, "tick", &[2]);
    let leader = at(&world, 1);
    assert!(world.propose(leader, b"x").expect("sound"));
    play(&mut world, "tick", &[2]);
    let counts = |world: &World, node: u32| {
        let group = world.nodes[at(world, node)].group.as_ref();
        *group.expect("it is up").counts()
    };
    let [one, two, three] = [1, 2, 3].map(|node| counts(&world, node));
    let stood = |of: RaftCounts| (of.trials, of.elections, of.commands);
    assert_eq!(stood(one), (1, 1, 1));
    assert_eq!([two, three].map(stood), [(0, 0, 0); 2]);
    for follower in [two, three] {
        assert!(follower.appends > follower.empty_appends, "{follower:?}");
        // A message without an answer to it may be a question of a group that begins.
        assert!(follower.messages_sent >= follower.appends, "{follower:?}");
        assert!(
            follower.writes >= 2 && follower.hard_states >= 1,
            "{follower:?}"
        );
    }
    let answered = one.appends_taken + one.appends_refused;
    assert_eq!(answered, two.appends + three.appends, "nothing was lost");
    assert!(
        one.requests_sent >= two.appends + three.appends + 2 * 2,
        "votes too"
    );
    let sent = [one, two, three]
        .map(|of| of.messages_sent)
        .iter()
        .sum::<u64>();
    assert_eq!(sent, world.sent);
    assert_eq!(one.messages_lost, 0);
    play(&mut world, "crash", &[3]);
    play(&mut world, "detect", &[]);
    assert!(world.propose(leader, b"y").expect("sound"));
    play(&mut world, "tick", &[2]);
    assert!(
        counts(&world, 1).messages_lost > 0,
        "{:?}",
        counts(&world, 1)
    );
}

#[test]
fn who_stood_before_the_others_were_there_stands_again_when_one_is() {
    check(
        "campaign 1; lose; run; show; greet 2 1; run; show; propose 1 x; run; show; greet 3 1; run; show",
        &[
            "0 t1 c1 | 0 t1 c1 | 0 t1 c1",
            "*1 t2 c2 | 1 t2 c1 | 1 t2 c2",
            "*1 t2 c3 | 1 t2 c2 | 1 t2 c2",
            "*1 t2 c3 | 1 t2 c2 | 1 t2 c3",
        ],
    );
}

#[test]
fn nobody_has_to_be_told_to_stand() {
    // Which one it is, is the seed's; that it is one and the same everywhere is not.
    check("tick 60; show", &["3 t2 c2 | 3 t2 c2 | *3 t2 c2"]);
}

#[test]
fn an_idle_group_says_and_wants_nothing() {
    check(
        "campaign 1; run; propose 1 x; run; tick 3; sent; wants; tick 1000; sent; wants; show",
        &[
            "sent 22",
            "ticks ",
            "sent 0",
            "ticks ",
            "*1 t2 c3 | 1 t2 c3 | 1 t2 c3",
        ],
    );
}

#[test]
fn a_dead_member_does_not_keep_a_group_awake() {
    check(
        "campaign 1; run; tick 2; crash 3; detect; propose 1 x; run; tick 3; sent; wants; \
         tick 100; sent; start 3; detect; up 3; run; tick 3; show; wants",
        &[
            "sent 21",
            "ticks ",
            "sent 0",
            "*1 t2 c3 | 1 t2 c3 | 1 t2 c3",
            "ticks ",
        ],
    );
}

#[test]
fn a_lost_append_is_sent_again() {
    check(
        "campaign 1; run; tick 2; propose 1 x; lose; show; wants; tick 30; show; wants",
        &[
            "*1 t2 c2 | 1 t2 c2 | 1 t2 c2",
            "ticks 1",
            "*1 t2 c3 | 1 t2 c3 | 1 t2 c3",
            "ticks ",
        ],
    );
}

#[test]
fn followers_stand_when_the_leaders_node_is_down_and_not_before() {
    check(
        "campaign 1; run; tick 2; crash 1; tick 500; show; wants; \
         detect; wants; tick 20; show; wants",
        &[
            "- | 1 t2 c2 | 1 t2 c2",
            "ticks ",
            "ticks 2 3",
            "- | 3 t3 c3 | *3 t3 c3",
            "ticks ",
        ],
    );
}

#[test]
fn a_leader_that_restarts_unnoticed_is_missed_at_the_next_connection() {
    check(
        "campaign 1; run; tick 2; crash 1; start 1; up 1; wants; tick 60; show; wants",
        &["ticks 1 2 3", "3 t3 c3 | 3 t3 c3 | *3 t3 c3", "ticks "],
    );
}

#[test]
fn a_new_connection_alone_unseats_nobody() {
    check(
        "campaign 1; run; tick 2; up 1; up 2; up 3; tick 60; show; wants",
        &["*1 t2 c2 | 1 t2 c2 | 1 t2 c2", "ticks "],
    );
}

#[test]
fn a_leader_without_a_majority_steps_down_and_comes_back() {
    check(
        "campaign 1; run; tick 2; cut 2 1; cut 1 2; cut 3 1; cut 1 3; detect; show; tick 30; \
         show; propose 1 x; wants; heal; detect; tick 30; show; wants",
        &[
            "0 t2 c2 | 0 t2 c2 | 0 t2 c2",
            "0 t2 c2 | 3 t3 c3 | *3 t3 c3",
            "node 1 refuses",
            "ticks ",
            "3 t3 c3 | 3 t3 c3 | *3 t3 c3",
            "ticks ",
        ],
    );
}

#[test]
fn who_hears_nobody_but_is_heard_unseats_nobody() {
    // 3 hears nothing; it stands in trial only, and 1 and 2 trust in their leader.
    check(
        "campaign 1; run; tick 2; cut 1 3; cut 2 3; detect; tick 60; propose 1 x; tick 5; show",
        &["*1 t2 c3 | 1 t2 c3 | 0 t2 c2"],
    );
}

#[test]
fn leadership_is_handed_over() {
    check(
        "campaign 1; run; tick 2; transfer 2; run; tick 2; show; transfer 2; transfer 9; \
         crash 3; detect; transfer 3",
        &[
            "2 t3 c3 | *2 t3 c3 | 2 t3 c3",
            "refused: it leads already",
            "refused: it is no voter",
            "refused: its node is down",
        ],
    );
}

#[test]
fn a_transfer_that_fails_ends() {
    check(
        "campaign 1; run; tick 2; transfer 2; lose; propose 1 x; wants; tick 10; propose 1 y; \
         tick 10; show; wants",
        &[
            "node 1 refuses",
            "ticks 1",
            "*1 t2 c3 | 1 t2 c3 | 1 t2 c3",
            "ticks ",
        ],
    );
}

#[test]
fn a_member_comes_as_a_learner_and_is_made_a_voter() {
    check(
        "campaign 1; run; propose 1 x; run; join 4; promote 4; add 4; run; tick 3; members; \
         promote 4; run; tick 3; members; show; wants",
        &[
            "refused: only a learner becomes a voter",
            "1 2 3 learners 4",
            "1 2 3 4",
            "*1 t2 c5 | 1 t2 c5 | 1 t2 c5 | 1 t2 c5",
            "ticks ",
        ],
    );
}

#[test]
fn a_member_takes_anothers_place_in_one_step() {
    check(
        "campaign 1; run; tick 2; join 4; add 4; run; tick 3; replace 3 4; run; tick 5; members; \
         show; wants",
        &["1 2 4", "*1 t2 c5 | 1 t2 c5 | 1 t2 c5 | 1 t2 c5", "ticks "],
    );
}

#[test]
fn a_leader_that_is_removed_hands_over() {
    check(
        "campaign 1; run; tick 2; remove 1; run; tick 5; members; show; wants",
        &["2 3", "0 t3 c3 | *2 t3 c4 | 2 t3 c4", "ticks "],
    );
}

#[test]
fn changes_that_cannot_be_are_refused() {
    check(
        "campaign 1; run; tick 2; add 1; remove 4; crash 3; detect; remove 2; join 4; add 4; \
         remove 3; run; tick 2; members; remove 3; run; tick 2; remove 2; run; tick 2; remove 1",
        &[
            "refused: it is a member already",
            "refused: it is no member",
            "refused: a majority would be down",
            "refused: a membership change is under way",
            "1 2 3 learners 4",
            "refused: no voter would be left",
        ],
    );
}

#[test]
fn who_is_too_far_behind_gets_a_snapshot() {
    check(
        "campaign 1; run; tick 2; crash 3; detect; propose 1 x; propose 1 y; run; compact; \
         start 3; detect; up 3; tick 10; show; wants; crash 3; start 3; up 3; tick 10; show",
        &[
            "*1 t2 c4 | 1 t2 c4 | 1 t2 c4",
            "ticks ",
            "*1 t2 c4 | 1 t2 c4 | 1 t2 c4",
        ],
    );
}

#[test]
fn all_restart_and_lose_nothing() {
    check(
        "campaign 1; run; propose 1 x; run; tick 2; crash 1; crash 2; crash 3; start 1; start 2; \
         start 3; tick 40; show",
        &["3 t3 c4 | 3 t3 c4 | *3 t3 c4"],
    );
}
