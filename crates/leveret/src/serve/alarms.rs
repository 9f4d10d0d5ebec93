//! Nodes know each other's alarms: a node asks the others for theirs, for a message published here
//! may have to be kept there. `leveret_cluster` says who waits for what.

use super::reports;
use leveret_cluster::Env;
use leveret_management::question::ALARMS;
use leveret_node::Alarms;
use leveret_shell::broker::Broker;
use leveret_types::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the others are asked.
const EVERY: Duration = Duration::from_millis(500);
/// How long an alarm holds that its node does not confirm though it is up.
const CONFIRMED_FOR: Duration = Duration::from_secs(30);

/// Starts the thread that asks; none outside clusters.
///
/// # Errors
/// If the system has no thread left.
pub fn follow_others(broker: &Arc<Broker>) -> io::Result<()> {
    if broker.cluster().is_none() {
        return Ok(());
    }
    let broker = Arc::downgrade(broker);
    let thread = std::thread::Builder::new().name("alarms".to_owned());
    thread.spawn(move || follow(&broker)).map(drop)
}

/// What another node is answered that asks for this one's alarms: the list of the resources.
pub fn answer(alarms: Alarms) -> String {
    let resources = [
        (alarms.memory, "\"memory\""),
        (alarms.disk, "\"disk\""),
        (alarms.memory_full, "\"memory_full\""),
    ];
    let set = resources.iter().filter(|(is_set, _)| *is_set);
    let set: Vec<&str> = set.map(|(_, resource)| *resource).collect();
    format!("[{}]", set.join(","))
}

fn follow(broker: &Weak<Broker>) {
    let mut known = Known::new();
    // The node's end takes this thread along.
    while let Some(broker) = broker.upgrade() {
        let answers = reports::ask_others(&broker, ALARMS);
        let answers = answers
            .iter()
            .filter_map(|(node, bytes)| Some((*node, parse(bytes)?)));
        let is_up = |node| broker.peers().is_up(node);
        for (node, change) in update(&mut known, Instant::now(), answers, is_up) {
            let name = broker.catalogue().node_label(node).unwrap_or_default();
            match change.reason() {
                Some(reason) => tracing::warn!(node = name, "another node has an alarm: {reason}"),
                None => tracing::info!(node = name, "another node has no alarm any more"),
            }
        }
        let now: Vec<(NodeId, Alarms)> = broker
            .peers()
            .up()
            .into_iter()
            .map(|node| (node, of(&known, node)))
            .collect();
        broker.set_alarms_of(&now);
        drop(broker);
        // By the clock, though nodes could tell of a change: an alarm that its node does not
        // confirm any more must be seen as well, and a node that has just come has told nobody.
        std::thread::sleep(EVERY);
    }
}

/// The alarms of other nodes, and when each was last confirmed.
type Known = BTreeMap<NodeId, (Alarms, Instant)>;

/// The alarms that a node is known to have.
fn of(known: &Known, node: NodeId) -> Alarms {
    let known = known.get(&node);
    known.map(|(alarms, _)| *alarms).unwrap_or_default()
}

/// Takes over what nodes have answered, and gives what has changed. Who is up and has not answered
/// in time is as it was, for a while; who is gone has no alarm, as in RabbitMQ.
fn update(
    known: &mut Known,
    now: Instant,
    answers: impl Iterator<Item = (NodeId, Alarms)>,
    is_up: impl Fn(NodeId) -> bool,
) -> Vec<(NodeId, Alarms)> {
    let before = known.clone();
    known.retain(|node, (_, at)| is_up(*node) && now.duration_since(*at) < CONFIRMED_FOR);
    known.extend(answers.map(|(node, alarms)| (node, (alarms, now))));
    let mut nodes: Vec<NodeId> = before.keys().chain(known.keys()).copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let changes = nodes.into_iter().map(|node| (node, of(known, node)));
    changes
        .filter(|(node, now)| of(&before, *node) != *now)
        .collect()
}

fn parse(bytes: &[u8]) -> Option<Alarms> {
    let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let resources = json.as_array()?;
    let has = |name: &str| resources.iter().any(|resource| resource == name);
    Some(Alarms {
        memory: has("memory"),
        disk: has("disk"),
        memory_full: has("memory_full"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_alarm_until_it_says_otherwise_or_is_gone() {
        let (memory, disk, none) = (parse(b"[\"memory\"]"), parse(b"[\"disk\"]"), parse(b"[]"));
        let (memory, disk, none) = (memory.unwrap(), disk.unwrap(), none.unwrap());
        assert!(memory.memory && disk.disk && none == Alarms::default());
        assert_eq!(parse(b"{}"), None);
        let (a, b) = (NodeId(1), NodeId(2));
        let mut known = Known::new();
        let mut now = Instant::now();
        let mut step = |answers: &[(NodeId, Alarms)], up: &[NodeId]| {
            now += CONFIRMED_FOR / 3;
            update(&mut known, now, answers.iter().copied(), |node| {
                up.contains(&node)
            })
        };
        assert_eq!(step(&[(a, memory), (b, none)], &[a, b]), [(a, memory)]);
        assert_eq!(step(&[], &[a, b]), []);
        assert_eq!(step(&[(b, disk)], &[a, b]), [(b, disk)]);
        assert_eq!(step(&[(a, none)], &[a]), [(a, none), (b, none)]);
        assert_eq!(step(&[(a, none)], &[a]), []);
        assert_eq!(step(&[(a, disk)], &[a]), [(a, disk)]);
        for _ in 0..2 {
            assert_eq!(step(&[], &[a]), [], "it may be late");
        }
        assert_eq!(step(&[], &[a]), [(a, none)], "not for ever");
    }

    #[test]
    fn what_is_answered_is_read_as_it_was_meant() {
        for bits in 0..8 {
            let alarms = Alarms {
                memory: bits & 1 != 0,
                disk: bits & 2 != 0,
                memory_full: bits & 4 != 0,
            };
            assert_eq!(parse(answer(alarms).as_bytes()), Some(alarms));
        }
    }
}
