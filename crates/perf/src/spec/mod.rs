//! What a run is: the TOML that presets and users write, with every default.
//!
//! ```toml
//! name = "two-loads"
//! about = "Confirmed messages beside a background of small ones."
//! duration_s = 30
//! warm_up_s = 5
//!
//! [[load]]
//! name = "quorum"
//! publishers = 4
//! consumers = 4
//! queues = 4
//! queue_type = "quorum"
//! size = 1000
//! confirm_window = 1000
//!
//! [[load]]
//! name = "background"
//! publishers = 40
//! consumers = 40
//! queues = 40
//! size = 16
//! rate = 10.0
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::stamp;
use crate::uri::Protocol;

mod check;
mod names;
#[cfg(test)]
mod tests;

pub use check::SpecError;
pub use names::has_number;

/// Publishers of all loads together, and consumers, and queues.
pub const MEMBERS_MAX: u32 = 65_535;
/// Loads of one run.
pub const LOADS_MAX: usize = 64;
/// Phases of one run.
pub const PHASES_MAX: usize = 64;
/// Bytes of one message's body.
pub const SIZE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Threads that drive connections.
pub const THREADS_MAX: usize = 256;
/// Messages that may wait for a confirm on one channel.
pub const CONFIRM_WINDOW_MAX: u32 = 16_000_000;
/// Seconds of a run, of a phase, and of whatever else is given in seconds.
pub const SECONDS_MAX: f64 = 1e6;
/// Messages per second of one publisher or consumer.
pub const RATE_MAX: f64 = 1e8;
/// The least messages per second of a consumer, and seconds between bursts.
pub const RATE_MIN: f64 = 1e-6;
/// The greatest first number of queues' names.
pub const QUEUE_FIRST_MAX: u32 = 1_000_000_000;
/// Octets of a queue's name, an exchange's, a routing key.
pub const NAME_BYTES_MAX: usize = 255;

/// All that a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name, for reports.
    pub name: String,
    /// What it shows, in a sentence or more.
    #[serde(default)]
    pub about: String,
    /// Measured seconds, where there are no phases. Default 30. The run ends earlier when every
    /// load with a `count` has sent it.
    #[serde(default = "default_duration")]
    pub duration_s: f64,
    /// Seconds before the measured ones, under the same load. Default 2.
    #[serde(default = "default_warm_up")]
    pub warm_up_s: f64,
    /// Seconds to wait at the end for messages and confirms that are on their way, from the last
    /// one that came. Default 15.
    #[serde(default = "default_drain")]
    pub drain_s: f64,
    /// Seconds for which a connection that broke is opened again, at the next of its brokers in
    /// turn; 0: the run ends with the first that breaks. Default 60. A single node that the run
    /// started itself is not waited for: nobody starts it again.
    #[serde(default = "default_reconnect")]
    pub reconnect_s: f64,
    /// Seed of sizes, bytes and jitter. Default 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Threads that drive connections; 0, the default: half of the cores, one at least.
    #[serde(default)]
    pub threads: usize,
    /// Brokers to connect to: `amqp://user:password@host:port/vhost` or `amqps://…`. None, the
    /// default: a node of our own is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uris: Vec<String>,
    /// What is spoken with them: `amqp` (the default), or `stream`, RabbitMQ's stream protocol,
    /// whose URIs are `rabbitmq-stream://user:password@host:port/vhost`. `queues` are streams then,
    /// `queue_arguments` the stream's (such as `flush`), `prefetch` the chunks that
    /// may be on their way to a consumer (10 where 0), and nothing is settled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
    /// How TLS is checked (`amqps`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tls,
    /// The nodes to start where there are no `uris`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub broker: BrokerSpec,
    /// The loads, at least one. The first is the one that the run is about.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// Phases, one after another. None, the default: one of `duration_s` in which all loads run.
    /// The warm-up is before the first.
    #[serde(default, rename = "phase", skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

/// How TLS is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the authorities that may have signed the broker's certificate, or of that one.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Takes any certificate, as PerfTest does.
    #[serde(default)]
    pub insecure: bool,
}

/// The nodes to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerSpec {
    /// How many: 1 (the default) or 3.
    #[serde(default = "default_nodes")]
    pub nodes: usize,
    /// Folders of the node by their name in the configuration (`wal`, `segment`, `data`, `logs`)
    /// on the drives to use; what is not named lies in a folder of the run's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drives: BTreeMap<String, PathBuf>,
    /// The device to model, and over how many of it the folders are spread: `hdd:1`, `ssd:3`.
    #[serde(default)]
    pub model: Option<String>,
    /// Further keys of the node's configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// One load: publishers and consumers of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name, for reports. Default `load`.
    #[serde(default = "default_load_name")]
    pub name: String,
    /// Publishers. Default 1.
    #[serde(default = "one")]
    pub publishers: u32,
    /// Consumers. Default 1.
    #[serde(default = "one")]
    pub consumers: u32,
    /// Queues; publisher and consumer number n use queue n modulo this. Default 1.
    #[serde(default = "one")]
    pub queues: u32,
    /// The queues' name, with `%d` or `%03d` for the number. Default: a name of the run's own; only
    /// such queues are deleted at the end.
    #[serde(default)]
    pub queue_name: Option<String>,
    /// The first queue's number. Default 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub queue_first: u32,
    /// The names of the queues, as many as `queues`, instead of `queue_name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_names: Vec<String>,
    /// `classic` (the default), `quorum`, `stream`.
    #[serde(default = "default_queue_type")]
    pub queue_type: String,
    /// Further arguments of the queues.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_arguments: BTreeMap<String, toml::Value>,
    /// Whether the queues are views of one stream of the run's own, which the publishers publish to
    /// through a `fanout` exchange: each message comes to every queue of the load. Default false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub views: bool,
    /// Arguments of that stream.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stream_arguments: BTreeMap<String, toml::Value>,
    /// Whether queues are durable. Default true.
    #[serde(default = "yes")]
    pub durable: bool,
    /// Whether queues are deleted with their last consumer. Default false.
    #[serde(default)]
    pub auto_delete: bool,
    /// Whether exchange, queues and bindings are there already: then none is declared. Default
    /// false.
    #[serde(default)]
    pub predeclared: bool,
    /// The exchange; empty, the default: the default one, with the queue's name as routing key. In
    /// a `fanout` exchange, and in any under one `routing_key`, each message goes to every queue of
    /// the load. Empty with a type other than `direct`: an exchange of the run's own.
    #[serde(default)]
    pub exchange: String,
    /// Type of the exchange: `direct` (the default), `fanout`, `topic`.
    #[serde(default = "default_exchange_type")]
    pub exchange_type: String,
    /// Routing key; the queue's name where not given, and always in the default exchange.
    #[serde(default)]
    pub routing_key: Option<String>,
    /// Bytes of a body: a number, `{ min, max }` for any size between, or `{ files = [...] }` for
    /// payloads in turn. Default 16. Bodies under [`stamp::BYTES`], and files, carry the run's
    /// stamp in a header.
    #[serde(default)]
    pub size: Size,
    /// Whether messages are persistent. Default true.
    #[serde(default = "yes")]
    pub persistent: bool,
    /// Whether unroutable messages are asked back. Default false.
    #[serde(default)]
    pub mandatory: bool,
    /// Further message properties, by their name in AMQP (`expiration`, `priority`, …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, toml::Value>,
    /// Rate of each publisher; none, the default: as fast as it goes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate: Rate,
    /// Messages of each publisher in all; none: until the time is over.
    #[serde(default)]
    pub count: Option<u64>,
    /// Messages that may wait for a confirm; 0: no confirms. Default 0.
    #[serde(default)]
    pub confirm_window: u32,
    /// Messages of one frame at most, in the stream protocol. Default 100.
    #[serde(default = "default_batch", skip_serializing_if = "is_default_batch")]
    pub batch: u32,
    /// Deliveries that may wait for a settle (`basic.qos`); 0: no bound. Default 0.
    #[serde(default)]
    pub prefetch: u16,
    /// How deliveries are settled.
    #[serde(default)]
    pub ack: Ack,
    /// Milliseconds that a consumer takes for each delivery, one after another, before it settles
    /// it: it holds the broker back by its `prefetch`. Default 0.
    #[serde(default)]
    pub consumer_delay_ms: f64,
    /// Deliveries per second that each consumer takes at most, instead of `consumer_delay_ms`;
    /// none: as they come.
    #[serde(default)]
    pub consumer_rate: Option<f64>,
    /// Arguments of `basic.consume`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consumer_arguments: BTreeMap<String, toml::Value>,
    /// Channels that share a connection. Default 1: a connection for each publisher and consumer.
    #[serde(default = "one")]
    pub channels_per_connection: u32,
    /// The same of consumers, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_channels_per_connection: Option<u32>,
    /// Which of the `uris` publishers connect to, by index, in turn; empty, the default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publish_to: Vec<usize>,
    /// Which of the `uris` consumers connect to, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consume_from: Vec<usize>,
    /// Which of the `uris` queues are declared at, likewise: with it and the two above, clients
    /// meet the right node, the wrong one, or any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declare_at: Vec<usize>,
    /// Whether loss, duplicates, order and damage are checked. Default true; false for queues that
    /// drop messages on purpose.
    #[serde(default = "yes")]
    pub verify: bool,
}

/// Bytes of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a size is a number of bytes, { min = …, max = … } or { files = [\"…\"] }"
)]
pub enum Size {
    /// Always so many.
    Fixed(u64),
    /// Any number between, each as likely.
    Range {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// The contents of files, in turn.
    Files {
        /// Their paths.
        files: Vec<PathBuf>,
    },
}

/// Messages per second of one publisher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a rate is a number a second, { from = …, to = …, over_s = … }, \
                 { burst = …, every_s = … } or { steps = [{ rate = …, seconds = … }] }"
)]
pub enum Rate {
    /// As fast as it goes; latency then counts from when a message was made.
    #[default]
    Unlimited,
    /// Always so many.
    Fixed(f64),
    /// From one rate to another over some time, then the latter.
    Ramp {
        /// At the beginning.
        from: f64,
        /// At the end.
        to: f64,
        /// How long that takes, in seconds.
        over_s: f64,
    },
    /// So many messages at once, every so often.
    Burst {
        /// Messages of one burst.
        burst: u32,
        /// From one burst to the next, in seconds.
        every_s: f64,
    },
    /// One rate after another, over and over.
    Steps {
        /// The rates with their times.
        steps: Vec<RateStep>,
    },
}

/// A rate for some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Messages per second.
    pub rate: f64,
    /// For how many seconds.
    pub seconds: f64,
}

/// How deliveries are settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ack {
    /// The broker settles them as it sends them (`no-ack`). Default false.
    #[serde(default)]
    pub automatic: bool,
    /// One acknowledgement, with `multiple`, for so many. Default 1.
    #[serde(default = "one")]
    pub every: u32,
    /// Milliseconds between a delivery and its acknowledgement, while others come in. Default 0.
    #[serde(default)]
    pub delay_ms: f64,
}

/// A part of a run. It ends when any of its conditions is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Seconds after which it ends; a phase that ends by its backlog has this as its bound.
    pub duration_s: f64,
    /// Ends when so many messages wait in all queues of the first load together.
    #[serde(default)]
    pub until_backlog: Option<u64>,
    /// Ends when at most so many do.
    #[serde(default)]
    pub until_backlog_below: Option<u64>,
    /// Whether publishers publish. Default true.
    #[serde(default = "yes")]
    pub publish: bool,
    /// Whether consumers consume. Default true.
    #[serde(default = "yes")]
    pub consume: bool,
    /// Whether publishers of the first load ignore their rate, as when a backlog is made. Default
    /// false.
    #[serde(default)]
    pub publish_unlimited: bool,
    /// Whether its figures count towards the totals. Default true.
    #[serde(default = "yes")]
    pub measured: bool,
}

fn default_duration() -> f64 {
    30.0
}
fn default_warm_up() -> f64 {
    2.0
}
fn default_drain() -> f64 {
    15.0
}
fn default_reconnect() -> f64 {
    60.0
}
fn default_seed() -> u64 {
    1
}
fn default_nodes() -> usize {
    1
}
fn default_load_name() -> String {
    "load".to_owned()
}
fn default_queue_type() -> String {
    "classic".to_owned()
}
fn default_exchange_type() -> String {
    "direct".to_owned()
}
fn default_batch() -> u32 {
    100
}
fn is_default_batch(value: &u32) -> bool {
    *value == default_batch()
}
fn one() -> u32 {
    1
}
fn is_one(value: &u32) -> bool {
    *value == 1
}
fn yes() -> bool {
    true
}
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Size {
    fn default() -> Self {
        Self::Fixed(stamp::BYTES as u64)
    }
}

impl Default for Ack {
    fn default() -> Self {
        Self {
            automatic: false,
            every: 1,
            delay_ms: 0.0,
        }
    }
}

impl Default for BrokerSpec {
    fn default() -> Self {
        Self {
            nodes: default_nodes(),
            drives: BTreeMap::new(),
            model: None,
            settings: BTreeMap::new(),
        }
    }
}

impl Load {
    /// Whether each message goes to every queue of the load: in a `fanout` exchange, in any but the
    /// default one under one routing key, and where the queues are views.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        let has_one_key = !self.is_in_default_exchange() && self.routing_key.is_some();
        self.exchange_type == "fanout" || has_one_key || self.views
    }

    /// Whether its messages go to the default exchange.
    #[must_use]
    pub fn is_in_default_exchange(&self) -> bool {
        self.exchange.is_empty() && self.exchange_type == "direct"
    }
}

impl Default for Load {
    /// The load of a file that says nothing of it.
    fn default() -> Self {
        toml::from_str("").expect("every field of a load has a default")
    }
}

impl Default for Spec {
    /// One load with all defaults.
    fn default() -> Self {
        toml::from_str("name = \"run\"\n[[load]]\n").expect("every other field has a default")
    }
}
