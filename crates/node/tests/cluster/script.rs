//! Runs scripts.
//!
//! A line is `what happens => what clients hear of it`. `a@2` connects client a to node 2; `a
//! WORDS` is said by it ([`crate::client::say`]; `line a@2` connects one of the line protocol,
//! whose words are those of [`crate::line_session`]), and everything happens that needs no time.
//! `run 100` lets milliseconds pass, `kill 1` ends a node's process, `kill leader q` the one that
//! leads
//! a queue, `start 1` starts it again on its disk, `isolate 1` cuts it off, `heal` ends that,
//! `blink 1 2` breaks the connection between two nodes, `drop a` is the end of a client's socket,
//! `stall 1` lets a node write no more to its disk and `unstall 1` again; `mirror MODE [N]` sets a
//! policy for queues whose names begin with "ha", `mirror` takes it away, and `reconcile` gives all
//! queues the members that are due to them; `found q 1` makes a queue of node 1
//! alone a group of that node, `grow q 2` adds a node to a queue's members, and `shrink q 2` takes
//! it out.

use crate::world::World;
use leveret_types::NodeId;

/// Holds a conversation with a cluster of three nodes.
pub fn check(script: &str) {
    play(World::new(3), script);
}

/// Plays a script in a world of its own kind.
pub fn play(mut world: World, script: &str) {
    play_on(&mut world, script);
}

/// The same in a world that goes on behind it.
pub fn play_on(world: &mut World, script: &str) {
    let mut killed = Vec::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (said, expected) = line.split_once("=>").unwrap_or((line, ""));
        act(world, said.trim(), &mut killed);
        world.rest();
        assert_eq!(
            world.heard(),
            expected.trim(),
            "after {said:?} in\n{script}"
        );
    }
}

fn node(word: &str) -> NodeId {
    NodeId(word.parse().unwrap_or_else(|_| panic!("{word} is no node")))
}

fn act(world: &mut World, said: &str, killed: &mut Vec<NodeId>) {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words[..] {
        ["run", milliseconds] => world.pass(milliseconds.parse().expect("milliseconds")),
        ["kill", "leader", queue] => {
            let leader = world.leader(queue).expect("the queue is led");
            world.kill(leader);
            killed.push(leader);
        }
        ["kill", of] => {
            world.kill(node(of));
            killed.push(node(of));
        }
        ["start"] => killed.drain(..).for_each(|node| world.start(node)),
        ["start", of] => {
            killed.retain(|killed| *killed != node(of));
            world.start(node(of));
        }
        ["isolate", of] => world.isolate(node(of)),
        ["heal"] => world.heal(),
        ["blink", a, b] => world.blink(node(a), node(b)),
        ["drop", name] => world.drop_client(name),
        ["stall", of] => {
            world.syncing.remove(&node(of));
        }
        ["mirror"] => world.mirror(None, None),
        ["mirror", mode] => world.mirror(Some(mode), None),
        ["mirror", mode, count] => {
            world.mirror(Some(mode), Some(count.parse().expect("a number")));
        }
        ["reconcile"] => world.reconcile(),
        ["found", queue, of] => world.found_group(queue, node(of)),
        ["grow", queue, of] => world.grow(queue, node(of)),
        ["shrink", queue, of] => world.shrink(queue, node(of)),
        ["unstall", of] => {
            world.syncing.insert(node(of));
        }
        ["line", at] if at.contains('@') => {
            let (name, of) = at.split_once('@').expect("looked at above");
            world.connect_line(name, node(of));
            world.rest();
            let client = world.clients.get_mut(name).expect("connected above");
            let opened = client.heard.drain(..).collect::<Vec<_>>();
            assert_eq!(opened, ["hello"]);
        }
        ["disk-alarm", of, on] => {
            let now = world.now;
            let node = world.nodes.get_mut(&node(of)).expect("it is up");
            node.set_disk_alarm(on == "on", now);
        }
        [at] if at.contains('@') => {
            let (name, of) = at.split_once('@').expect("looked at above");
            world.connect(name, node(of));
            world.rest();
            let client = world.clients.get_mut(name).expect("connected above");
            let opened = client.heard.drain(..).collect::<Vec<_>>();
            assert_eq!(opened, ["start", "tune", "open-ok", "open-ok"]);
        }
        ["fill-streams", of] => world.nodes[&node(of)].env.fill_streams(true),
        ["empty-streams", of] => world.nodes[&node(of)].env.fill_streams(false),
        // What stands between `&` comes with one read.
        [name, ref words @ ..] => world.say_all(name, words),
        [] => panic!("nothing is said"),
    }
}
