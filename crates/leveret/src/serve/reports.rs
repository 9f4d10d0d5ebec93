//! What the nodes of a cluster tell each other for operators: asked from the HTTP API's threads,
//! answered by one thread of its own, so that neither clients nor replication wait for a listing.

use bytes::Bytes;
use leveret_cluster::Env as _;
use leveret_cluster::reports::{self, Ask, Report};
use leveret_management::api::Answers;
use leveret_management::question::ALARMS;
use leveret_management::{App, answers};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::NodeId;
use leveret_types::limits::{CLUSTER_NODES_MAX, REPORT_MS_MAX, REPORTS_WAITING_MAX};
use std::io;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(REPORT_MS_MAX);

/// A question to other nodes. Who drops it waits no longer for their answers.
struct Asked<B: Deref<Target = Broker>> {
    broker: B,
    number: u64,
    count: usize,
    answers: Receiver<Report>,
    deadline: Instant,
}

impl<B: Deref<Target = Broker>> Asked<B> {
    /// Asks all of them, or some.
    fn begin(broker: B, only: Option<&[NodeId]>, what: &str) -> Option<Self> {
        let (to, answers) = sync_channel(CLUSTER_NODES_MAX);
        let (number, count) = leveret_cluster::ask(&*broker, what.as_bytes(), only, to)?;
        let deadline = Instant::now() + PATIENCE;
        Some(Self {
            broker,
            number,
            count,
            answers,
            deadline,
        })
    }

    fn wait(&self) -> Vec<(NodeId, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < self.count {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(report) => all.push((report.from, report.bytes)),
                Err(_) => break,
            }
        }
        all
    }
}

impl<B: Deref<Target = Broker>> Drop for Asked<B> {
    fn drop(&mut self) {
        if let Some(cluster) = self.broker.cluster() {
            cluster.reports().forget(self.number);
        }
    }
}

/// Asks all other nodes; who has not answered after three seconds is left out.
pub fn ask_others(broker: &Broker, what: &str) -> Vec<(NodeId, Vec<u8>)> {
    let asked = Asked::begin(broker, None, what);
    asked.map_or_else(Vec::new, |asked| asked.wait())
}

/// The same, or some of them, without waiting: who calls what is returned does.
pub fn begin_asking(broker: &Arc<Broker>, only: Option<&[NodeId]>, what: &str) -> Answers {
    match Asked::begin(Arc::clone(broker), only, what) {
        Some(asked) => Box::new(move || asked.wait()),
        None => Box::new(Vec::new),
    }
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
        leveret_management::let_clients_go_first();
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
