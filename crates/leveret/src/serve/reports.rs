//! What the nodes of a cluster tell each other for operators: asked from the HTTP API's threads,
//! answered by one thread of its own, so that neither clients nor replication wait for a listing.

use bytes::Bytes;
use leveret_cluster::Env as _;
use leveret_cluster::reports::{self, Ask};
use leveret_management::question::ALARMS;
use leveret_management::{App, answers};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::NodeId;
use leveret_types::limits::{CLUSTER_NODES_MAX, REPORT_MS_MAX, REPORTS_WAITING_MAX};
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(REPORT_MS_MAX);

/// Asks all other nodes; who has not answered after three seconds is left out.
pub fn ask_others(broker: &Broker, what: &str) -> Vec<(NodeId, Vec<u8>)> {
    ask(broker, what, None)
}

/// Asks some of the other nodes; who has not answered after three seconds is left out.
pub fn ask_these(broker: &Broker, nodes: &[NodeId], what: &str) -> Vec<(NodeId, Vec<u8>)> {
    ask(broker, what, Some(nodes))
}

fn ask(broker: &Broker, what: &str, only: Option<&[NodeId]>) -> Vec<(NodeId, Vec<u8>)> {
    let (to, answers) = sync_channel(CLUSTER_NODES_MAX);
    let asked = leveret_cluster::ask(broker, what.as_bytes(), only, to);
    let Some((number, asked)) = asked else {
        return Vec::new();
    };
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < asked {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left) {
            Ok(report) => all.push((report.from, report.bytes)),
            Err(_) => break,
        }
    }
    if let Some(cluster) = broker.cluster() {
        cluster.reports().forget(number);
    }
    all
}

/// Starts the thread that answers other nodes; none outside clusters.
///
/// # Errors
/// If the system has no thread left.
pub fn answer_others(broker: &Arc<Broker>, app: &Arc<App>) -> io::Result<()> {
    let Some(cluster) = broker.cluster() else {
        return Ok(());
    };
    let (queue, asked) = sync_channel::<Ask>(REPORTS_WAITING_MAX);
    let alarmed = Arc::downgrade(broker);
    cluster.reports().set_answerer(Box::new(move |ask| {
        if ask.what == ALARMS.as_bytes() {
            if let Some(broker) = alarmed.upgrade() {
                let answer = super::alarms::answer(broker.own_alarms());
                let mut frames = reports::answer(&ask, Bytes::from(answer));
                frames
                    .by_ref()
                    .for_each(|frame| broker.post_peer(ask.from, frame));
            }
            return;
        }
        // With so many waiting, who asks would not hear in time anyway.
        let _ = queue.try_send(ask);
    }));
    let (broker, app) = (Arc::downgrade(broker), Arc::downgrade(app));
    let answer = move || {
        while let Ok(ask) = asked.recv() {
            if answer_one(&broker, &app, &ask).is_none() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("reports".to_owned());
    thread.spawn(answer).map(drop)
}

/// Answers one question; nothing when the node is gone.
fn answer_one(broker: &Weak<Broker>, app: &Weak<App>, ask: &Ask) -> Option<()> {
    let deadline = Instant::now() + PATIENCE;
    let (broker, app) = (broker.upgrade()?, app.upgrade()?);
    let answer = answers::answer(&app, &ask.what);
    for frame in reports::answer(ask, Bytes::from(answer)) {
        let has_room = || (!broker.peer_congested(ask.from)).then_some(());
        if broker.wait_until(deadline, has_room).is_none() {
            return Some(());
        }
        broker.post_peer(ask.from, frame);
    }
    Some(())
}
