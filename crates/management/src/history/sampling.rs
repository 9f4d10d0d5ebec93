//! Takes the samples: every five seconds a thread of its own looks at what has changed.
//!
//! Queues in which nothing happened are not looked at. Only where a queue is new to the samples, or
//! one was deleted, are the queues' lengths summed up anew.

use crate::api::MessageCounters;
use crate::app::App;
use crate::exchanges;
use crate::history::latencies;
use crate::history::rates::{MESSAGE_FIELDS, NODE_FIELDS, Subject};
use crate::history::sums::{Sums, add};
use crate::http::reply::fingerprint;
use crate::message_stats::{fields, node_fields};
use leveret_types::limits::{SAMPLED_CONNECTIONS_MAX, SAMPLED_EXCHANGES_MAX, SAMPLED_PAIRS_MAX};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a queue is sampled by: its messages' counters, then its depths.
pub(crate) const QUEUE_VALUES: usize = MESSAGE_FIELDS + 3;

/// The thread that takes samples; ends when this is dropped.
#[derive(Debug)]
pub struct Sampling {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampling {
    /// Begins to take samples.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(app: &Arc<App>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let app = Arc::downgrade(app);
        let thread = std::thread::Builder::new().name("samples".to_owned());
        let thread = thread.spawn(move || {
            loop {
                let Some(app) = app.upgrade() else {
                    return;
                };
                app.take_samples();
                let wait_ms = app.samples().wait_ms(app.moment().monotonic_ms);
                drop(app);
                let wait = Duration::from_millis(wait_ms);
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// By how much counters grew; one that went back is a new object under an old name.
fn grown<const N: usize>(new: &[u64], old: &[u64]) -> [u64; N] {
    let mut grown = [0; N];
    for (grown, (new, old)) in grown.iter_mut().zip(new.iter().zip(old)) {
        *grown = new.checked_sub(*old).unwrap_or(*new);
    }
    grown
}

pub(crate) fn message_values(counters: &MessageCounters) -> [u64; MESSAGE_FIELDS] {
    fields(counters).map(|(_, count)| count)
}

impl App {
    /// Takes samples, if it is time for them.
    pub fn take_samples(&self) {
        let now = self.moment();
        if !self.samples().begin(now.monotonic_ms) {
            return;
        }
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let broker = self.node().broker_stats();
        let deleted = broker.churn.queues_deleted != sums.queues_deleted;
        sums.queues_deleted = broker.churn.queues_deleted;
        let is_new = self.sample_queues(&mut sums);
        if is_new || deleted || !sums.is_begun {
            self.sum_up_depths(&mut sums);
        }
        if broker.open.connections <= SAMPLED_CONNECTIONS_MAX {
            self.sample_connections(&mut sums, broker.open.connections > 0);
        }
        let published = broker.all_messages().published;
        if published != sums.published {
            sums.published = published;
            self.sample_exchanges();
            self.sample_flows();
        }
        self.sample_vhosts(&mut sums);
        let mut values = message_values(&broker.all_messages()).to_vec();
        values.extend(sums.depths());
        let node = self.node().node_stats();
        let measured = latencies::of_clients(&broker);
        let p99_ms = self.lately().note(now.monotonic_ms, measured);
        let own: [_; NODE_FIELDS] = node_fields(&node, &broker, p99_ms);
        values.extend(own.map(|(_, count)| count));
        self.samples().note(Subject::Node, &values, None);
        sums.is_begun = true;
    }

    /// Notes the queues in which something happened. Answers whether one of them was not known.
    fn sample_queues(&self, sums: &mut Sums) -> bool {
        let mut is_new = false;
        let active = self.node().active_queues();
        let mut samples = self.samples();
        for (vhost, queue) in active.iter().filter(|(_, queue)| !queue.follows) {
            let mut values = [0; QUEUE_VALUES];
            values[..MESSAGE_FIELDS].copy_from_slice(&message_values(&queue.messages));
            let depths = [queue.depth(), queue.ready, queue.unacknowledged];
            values[MESSAGE_FIELDS..].copy_from_slice(&depths);
            let subject = Subject::Queue(queue.id.0);
            let sum = sums.vhost(vhost);
            match samples.newest(subject) {
                Some(old) => {
                    let messages = grown(&values[..MESSAGE_FIELDS], &old[..MESSAGE_FIELDS]);
                    add(&mut sum.messages, &messages);
                    let old = &old[MESSAGE_FIELDS..];
                    for (sum, (new, old)) in sum.depths.iter_mut().zip(depths.iter().zip(old)) {
                        *sum = sum.wrapping_add(*new).wrapping_sub(*old);
                    }
                }
                None => {
                    is_new = true;
                    if samples.remembers_all() {
                        let messages = grown(&values[..MESSAGE_FIELDS], &[0; MESSAGE_FIELDS]);
                        add(&mut sum.messages, &messages);
                    }
                }
            }
            // Counters count from the node's start, so that a queue of which nothing was ever heard
            // stood at nothing; what waits in it may have survived a restart.
            let mut since = [0; QUEUE_VALUES];
            let came = queue.messages.published;
            since[MESSAGE_FIELDS..]
                .copy_from_slice(&depths.map(|depth| depth.saturating_sub(came)));
            let since = samples.remembers_all().then_some(&since[..]);
            samples.note(subject, &values, since);
        }
        is_new
    }

    fn sum_up_depths(&self, sums: &mut Sums) {
        for vhost in sums.vhosts.values_mut() {
            vhost.depths = [0; 3];
        }
        self.node().depths(&mut |vhost, depths| {
            add(&mut sums.vhost(vhost).depths, &depths);
        });
        if sums.vhosts.len() > self.counts().vhosts as usize {
            sums.vhosts
                .retain(|name, _| self.node().vhost(name).is_some());
        }
    }

    fn sample_connections(&self, sums: &mut Sums, are_there: bool) {
        if !are_there {
            return;
        }
        let mut room = SAMPLED_PAIRS_MAX;
        self.node().each_connection(&mut |content| {
            self.sample_pairs_in(&content, &mut room);
            // Not for longer: whoever shows samples need not wait for all threads to tell.
            let mut samples = self.samples();
            let connection = &content.connection;
            let bytes = [connection.received_bytes, connection.sent_bytes];
            let subject = Subject::Connection(connection.id.0);
            let old = samples
                .newest(subject)
                .map_or([0; 2], |old| [old[0], old[1]]);
            add(
                &mut sums.vhost(&connection.vhost).traffic,
                &grown(&bytes, &old),
            );
            samples.note(subject, &bytes, None);
            for channel in &content.channels {
                let subject = Subject::Channel(channel.connection.0, channel.number);
                samples.note(subject, &message_values(&channel.messages), None);
            }
        });
    }

    fn sample_exchanges(&self) {
        if self.counts().exchanges as usize > SAMPLED_EXCHANGES_MAX {
            return;
        }
        let mut all = Vec::new();
        self.node().each_traffic(&mut |traffic| {
            let subject = exchanges::subject(traffic.vhost, traffic.exchange);
            all.push((subject, traffic.published));
        });
        let mut samples = self.samples();
        for (subject, values) in all {
            if values != [0; 2] || samples.newest(subject).is_some() {
                let since = samples.remembers_all().then_some(&[0; 2][..]);
                samples.note(subject, &values, since);
            }
        }
    }

    fn sample_vhosts(&self, sums: &mut Sums) {
        let mut samples = self.samples();
        for (name, vhost) in &sums.vhosts {
            let mut values = vhost.messages.to_vec();
            values.extend(vhost.depths);
            values.extend(vhost.traffic);
            let subject = Subject::Vhost(fingerprint(name.as_bytes()));
            let since = vec![0; values.len()];
            samples.note(subject, &values, sums.is_begun.then_some(&since[..]));
        }
    }
}
