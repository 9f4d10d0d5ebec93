//! Limits of users and virtual hosts hold for the cluster: a node asks the others what they have
//! open of what is limited, and counts it as well.

use super::reports;
use leveret_cluster::Env as _;
use leveret_cluster::events::ClusterEvent;
use leveret_management::question::Question;
use leveret_node::Env as _;
use leveret_node::registry::LimitedCounts;
use leveret_shell::broker::Broker;
use leveret_types::NodeId;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the others are asked, unless somebody waits for it.
const EVERY: Duration = Duration::from_millis(500);
/// How long they are left in peace in any case: many may wait, one after the other.
const APART: Duration = Duration::from_millis(50);
/// How long what a node told counts that says nothing more though it is up.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// Starts the thread that asks; none outside clusters.
///
/// # Errors
/// If the system has no thread left.
pub fn follow_others(broker: &Arc<Broker>) -> io::Result<()> {
    if broker.cluster().is_none() {
        return Ok(());
    }
    let broker = Arc::downgrade(broker);
    let thread = std::thread::Builder::new().name("limits".to_owned());
    thread.spawn(move || follow(&broker)).map(drop)
}

fn follow(broker: &Weak<Broker>) {
    leveret_management::let_clients_go_first();
    let question = Question::LimitedCounts.encode();
    let mut known = Known::default();
    // The node's end takes this thread along.
    while let Some(broker) = broker.upgrade() {
        let awaiting = broker.registry().awaiting_counts(EVERY);
        let answers = reports::ask_others(&broker, &question);
        let is_up = |node| broker.peers().is_up(node);
        known.update(Instant::now(), answers, is_up);
        broker.registry().set_elsewhere(known.sum());
        for connection in awaiting {
            broker.tell(connection, ClusterEvent::CountsRenewed);
        }
        drop(broker);
        std::thread::sleep(APART);
    }
}

/// What another node is answered.
pub fn answer(broker: &Broker) -> Value {
    encode(&broker.registry().limited(&broker.catalogue()))
}

fn encode(counts: &LimitedCounts) -> Value {
    json!({
        "connections_of_user": counts.connections_of_user,
        "channels_of_user": counts.channels_of_user,
        "connections_of_vhost": counts.connections_of_vhost,
    })
}

fn decode(bytes: &[u8]) -> Option<LimitedCounts> {
    let told: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    // What is empty is left out of answers.
    let counts = |of: &str| -> Option<HashMap<String, usize>> {
        let Some(told) = told.get(of) else {
            return Some(HashMap::new());
        };
        let counts = told.as_object()?.iter();
        let counts = counts.map(|(name, count)| {
            let count = usize::try_from(count.as_u64()?).ok()?;
            Some((name.clone(), count))
        });
        counts.collect()
    };
    Some(LimitedCounts {
        connections_of_user: counts("connections_of_user")?,
        channels_of_user: counts("channels_of_user")?,
        connections_of_vhost: counts("connections_of_vhost")?,
    })
}

/// What other nodes have told, and when.
#[derive(Default)]
struct Known(BTreeMap<NodeId, (LimitedCounts, Instant)>);

impl Known {
    /// Takes over what nodes have answered. Who is up and has not answered in time has what it had,
    /// for a while; clients of one that is gone have gone with it.
    fn update(
        &mut self,
        now: Instant,
        answers: Vec<(NodeId, Vec<u8>)>,
        is_up: impl Fn(NodeId) -> bool,
    ) {
        let known = &mut self.0;
        known.retain(|node, (_, at)| is_up(*node) && now.duration_since(*at) < TOLD_FOR);
        let told = answers.iter();
        let told = told.filter_map(|(node, bytes)| Some((*node, (decode(bytes)?, now))));
        known.extend(told);
    }

    fn sum(&self) -> LimitedCounts {
        let mut sum = LimitedCounts::default();
        self.0.values().for_each(|(counts, _)| sum.add(counts));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(connections: usize) -> LimitedCounts {
        let mut counts = LimitedCounts::default();
        let of_user = &mut counts.connections_of_user;
        of_user.insert("a \"b\"\n".to_owned(), connections);
        counts.channels_of_user.insert("c".to_owned(), 1);
        counts.connections_of_vhost.insert("/".to_owned(), 7);
        counts
    }

    #[test]
    fn what_is_answered_is_read_as_it_was_meant() {
        let (none, some) = (LimitedCounts::default(), counts(3));
        for counts in [none, some] {
            let told = encode(&counts).to_string();
            assert_eq!(decode(told.as_bytes()), Some(counts));
        }
        assert_eq!(decode(b"{}"), Some(LimitedCounts::default()));
        for bytes in [
            "",
            "null",
            "[]",
            r#"{"connections_of_user":[]}"#,
            r#"{"connections_of_user":{"a":-1}}"#,
        ] {
            assert_eq!(decode(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn what_a_node_had_counts_until_it_says_otherwise_or_is_gone() {
        let (mut known, mut now) = (Known::default(), Instant::now());
        let (one, other) = (NodeId(1), NodeId(2));
        let mut step = |answers: &[(NodeId, usize)], up: &[NodeId]| {
            now += TOLD_FOR / 3;
            let told = |(node, connections): &(NodeId, usize)| {
                (
                    *node,
                    encode(&counts(*connections)).to_string().into_bytes(),
                )
            };
            let answers = answers.iter().map(told).collect();
            known.update(now, answers, |node| up.contains(&node));
            known.sum().connections_of_user.values().sum::<usize>()
        };
        assert_eq!(step(&[(one, 2), (other, 3)], &[one, other]), 5);
        assert_eq!(step(&[(one, 1)], &[one, other]), 4);
        assert_eq!(step(&[(one, 1)], &[one]), 1);
        for _ in 0..2 {
            assert_eq!(step(&[], &[one]), 1, "it may be late");
        }
        assert_eq!(step(&[], &[one]), 0, "not for ever");
    }
}
