//! The flags of `leveret perf run`: PerfTest's, with PerfTest's meaning, and our own.

use std::path::PathBuf;

use clap::Args;

use crate::spec::{BrokerSpec, SECONDS_MAX, Spec, Tls};
use crate::uri::Protocol;

mod load;
mod properties;
#[cfg(test)]
mod tests;
mod unsupported;
mod words;

pub use words::translate;

/// What is run, and what is done with what it finds.
#[derive(Args, Clone, Debug, Default)]
pub struct RunOptions {
    /// A preset (`leveret perf list`) or a file of that form; without one, the flags say the load
    #[arg(value_name = "NAME|FILE")]
    pub what: Option<String>,
    /// A flag of PerfTest's that there is not here, found by [`translate`] to be refused.
    #[arg(long = unsupported::LONG, hide = true)]
    pub unsupported: Option<String>,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Where it goes.
    #[command(flatten)]
    pub target: TargetOptions,
    /// What is done with what was found.
    #[command(flatten)]
    pub outcome: OutcomeOptions,
}

/// The load, in PerfTest's flags.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Load (PerfTest's flags)")]
pub struct LoadOptions {
    /// Publishers
    #[arg(short = 'x', long, value_name = "N")]
    pub producers: Option<u32>,
    /// Consumers
    #[arg(short = 'y', long, value_name = "N")]
    pub consumers: Option<u32>,
    /// Channels of each publisher's connection, each a publisher
    #[arg(short = 'X', long, value_name = "N")]
    pub producer_channel_count: Option<u32>,
    /// Channels of each consumer's connection, each a consumer
    #[arg(short = 'Y', long, value_name = "N")]
    pub consumer_channel_count: Option<u32>,
    /// Queue, or several by commas, each of which has every message and every consumer; one of
    /// the run's own where not given
    #[arg(short = 'u', long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Several queues by a pattern with %d or %03d [-qp]
    #[arg(long, value_name = "PATTERN")]
    pub queue_pattern: Option<String>,
    /// First number of the pattern [-qpf]
    #[arg(long, value_name = "N")]
    pub queue_pattern_from: Option<u32>,
    /// Last number of the pattern [-qpt]
    #[arg(long, value_name = "N")]
    pub queue_pattern_to: Option<u32>,
    /// Arguments of queues, key=value,... [-qa]
    #[arg(long, value_name = "LIST")]
    pub queue_args: Vec<String>,
    /// Quorum queues, with persistent messages [-qq]
    #[arg(long)]
    pub quorum_queue: bool,
    /// Streams, with persistent messages and 200 for -q [-sq]
    #[arg(long)]
    pub stream_queue: bool,
    /// Queues go with their last consumer [-ad]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub auto_delete: Option<bool>,
    /// Exchange, queues and bindings are there already: nothing is declared
    #[arg(short = 'p', long)]
    pub predeclared: bool,
    /// Exchange; the default one where not given, and `direct` with -k
    #[arg(short = 'e', long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub exchange: Option<String>,
    /// Type of the exchange
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub exchange_type: Option<String>,
    /// Routing key
    #[arg(short = 'k', long, value_name = "KEY")]
    pub routing_key: Option<String>,
    /// Bytes of a message; several, by commas, are taken as a range from least to greatest
    #[arg(short = 's', long, value_name = "BYTES", value_delimiter = ',')]
    pub size: Vec<u64>,
    /// Files with payloads, by commas
    #[arg(short = 'B', long, value_name = "FILES", value_delimiter = ',')]
    pub body: Vec<PathBuf>,
    /// `persistent`, `mandatory`; also by commas
    #[arg(short = 'f', long, value_name = "FLAG", value_delimiter = ',')]
    pub flag: Vec<String>,
    /// Properties of messages, key=value,...; what is no property is a header [-mp]
    #[arg(long, value_name = "LIST")]
    pub message_properties: Option<String>,
    /// Messages per second of each publisher; -1 is no bound
    #[arg(short = 'r', long, value_name = "RATE", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Rate for some seconds, RATE:SECONDS; several follow each other, over and over [-vr]
    #[arg(long, value_name = "RATE:SECONDS")]
    pub variable_rate: Vec<String>,
    /// Seconds between messages of each publisher
    #[arg(short = 'P', long, value_name = "SECONDS")]
    pub publishing_interval: Option<f64>,
    /// Messages per second of each consumer; without -q, as many in hand as it takes in 0.1 s
    #[arg(short = 'R', long, value_name = "RATE", allow_negative_numbers = true)]
    pub consumer_rate: Option<f64>,
    /// Messages that may wait for a confirm
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    pub confirm: Option<i64>,
    /// Deliveries that may wait for an acknowledgement
    #[arg(short = 'q', long, value_name = "N")]
    pub qos: Option<u16>,
    /// The broker settles deliveries as it sends them
    #[arg(short = 'a', long)]
    pub autoack: bool,
    /// One acknowledgement for so many deliveries
    #[arg(short = 'A', long, value_name = "N")]
    pub multi_ack_every: Option<u32>,
    /// Microseconds that a consumer takes for each delivery; without -q, likewise
    #[arg(short = 'L', long, value_name = "MICROSECONDS")]
    pub consumer_latency: Option<u64>,
    /// Arguments of consumers, key=value,... [-ca]
    #[arg(long, value_name = "LIST")]
    pub consumer_args: Option<String>,
    /// Messages of each publisher: without -z the run takes as long as they need
    #[arg(short = 'C', long, value_name = "N")]
    pub pmessages: Option<u64>,
    /// Messages of each consumer, as -C; must be what publishers send, as the run ends when all
    /// came
    #[arg(short = 'D', long, value_name = "N")]
    pub cmessages: Option<u64>,
}

/// Where the load goes, and for how long.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Place and time")]
pub struct TargetOptions {
    /// Broker, amqp:// or rabbitmq-stream://user:password@host:port/vhost; a node of our own where
    /// not given [-h]
    #[arg(long, value_name = "URI", conflicts_with = "uris")]
    pub uri: Option<String>,
    /// What is spoken: `amqp`, or `stream` with rabbitmq-stream:// URIs; that of the URI where not
    /// given
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Several brokers, by commas, connected to in turn [-H]
    #[arg(long, value_name = "URIS", value_delimiter = ',')]
    pub uris: Vec<String>,
    /// Seconds to measure
    #[arg(short = 'z', long, value_name = "SECONDS")]
    pub time: Option<f64>,
    /// Seconds before those
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: Option<f64>,
    /// Seconds for which a connection that broke is opened again, at the next broker in turn
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_reconnect")]
    pub reconnect: Option<f64>,
    /// The run ends with the first connection that breaks [-dcr]
    #[arg(long, alias = "disable-connection-recovery")]
    pub no_reconnect: bool,
    /// Threads that drive connections
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Seed of sizes and bytes
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Nodes of our own: 1 or 3
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Drives for the folders of nodes of our own: wal=/mnt/a,segment=/mnt/b,data=…,logs=…
    #[arg(long, value_name = "LIST")]
    pub drives: Option<String>,
    /// Device to model for nodes of our own: hdd:1, hdd:2, hdd:3, ssd:1, ssd:2, ssd:3
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Program whose `serve` is started for nodes of our own; this one where not given
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// File of the authorities that may have signed the broker's certificate, or of that one
    /// (amqps://)
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Take any certificate, as PerfTest does
    #[arg(long)]
    pub insecure_tls: bool,
}

/// What is done with what was found.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Outcome")]
pub struct OutcomeOptions {
    /// The same in a few seconds
    #[arg(long)]
    pub fast: bool,
    /// Run the same against this broker too, in alternation, and print ratios
    #[arg(long, value_name = "URI")]
    pub compare: Option<String>,
    /// Runs against each broker, with --compare
    #[arg(long, value_name = "N", default_value_t = 3, requires = "compare")]
    pub rounds: u32,
    /// Write the result here
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots here
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the seconds here, with those of nodes and the latency curves beside it
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write each picture into this folder, as SVG
    #[arg(long, value_name = "FOLDER")]
    pub figures: Option<PathBuf>,
    /// Processes of a broker of -h or --compare on this machine, to be sampled, by commas
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Print the specification and run nothing
    #[arg(long)]
    pub show: bool,
}

impl RunOptions {
    /// The specification: a named one, or that of the flags. `find` gives a preset's.
    ///
    /// # Errors
    /// A text that says what does not go, and what would.
    pub fn spec(
        &self,
        find: impl FnOnce(&str) -> Result<Spec, String>,
        fast: impl FnOnce(&Spec) -> Spec,
    ) -> Result<Spec, String> {
        if let Some(flag) = &self.unsupported {
            return Err(unsupported::answer(flag));
        }
        let mut spec = match &self.what {
            Some(_) if self.load.is_given() => {
                return Err(
                    "a preset or a file says its load itself: copy it (`leveret perf show \
                            NAME > FILE`) and change that"
                        .to_owned(),
                );
            }
            Some(what) => find(what)?,
            None => self.load_of_flags()?,
        };
        if self.outcome.fast {
            spec = fast(&spec);
        }
        self.target.apply(&mut spec)?;
        let is_elsewhere = !spec.uris.is_empty() || self.outcome.compare.is_some();
        if !is_elsewhere && !self.outcome.pid.is_empty() {
            return Err(
                "--pid is for a broker of -h: nodes of our own are sampled anyway".to_owned(),
            );
        }
        spec.check().map_err(|error| error.to_string())?;
        Ok(spec)
    }

    fn load_of_flags(&self) -> Result<Spec, String> {
        let load = self.load.load()?;
        let mut spec = Spec {
            name: "flags".to_owned(),
            ..Spec::default()
        };
        if load.count.is_some() {
            // The run ends with the count; without -z nothing else ends it.
            spec.duration_s = SECONDS_MAX;
        }
        spec.loads = vec![load];
        Ok(spec)
    }
}

impl TargetOptions {
    fn apply(&self, spec: &mut Spec) -> Result<(), String> {
        let uris = self.uri.iter().chain(&self.uris);
        let uris: Vec<String> = uris.map(|uri| uri.trim().to_owned()).collect();
        if !uris.is_empty() {
            spec.uris = uris;
        }
        if !spec.uris.is_empty() {
            check_places(spec)?;
            self.check_external()?;
        }
        self.apply_protocol(spec)?;
        self.apply_time(spec)?;
        spec.warm_up_s = self.warm_up.unwrap_or(spec.warm_up_s);
        spec.reconnect_s = match self.no_reconnect {
            true => 0.0,
            false => self.reconnect.unwrap_or(spec.reconnect_s),
        };
        spec.threads = self.threads.unwrap_or(spec.threads);
        spec.seed = self.seed.unwrap_or(spec.seed);
        let broker: &mut BrokerSpec = &mut spec.broker;
        broker.nodes = self.nodes.unwrap_or(broker.nodes);
        broker.model = self.model.clone().or(broker.model.take());
        for pair in self.drives.iter().flat_map(|list| list.split(',')) {
            let (folder, path) = pair
                .split_once('=')
                .ok_or_else(|| format!("--drives takes folder=path,…, not `{pair}`"))?;
            broker.drives.insert(folder.to_owned(), PathBuf::from(path));
        }
        if self.insecure_tls || self.ca_file.is_some() {
            spec.tls = Tls {
                ca_file: self.ca_file.clone(),
                insecure: self.insecure_tls,
            };
        }
        Ok(())
    }

    /// The protocol that is asked for; without a word, and in a run of flags, that of the URIs.
    fn apply_protocol(&self, spec: &mut Spec) -> Result<(), String> {
        spec.protocol = match self.protocol.as_deref() {
            Some("amqp") => Protocol::Amqp,
            Some("stream") => Protocol::Stream,
            Some(other) => {
                return Err(format!(
                    "--protocol takes `amqp` or `stream`, not `{other}`"
                ));
            }
            None => {
                let speaks = |uri: &String| uri.trim().starts_with("rabbitmq-stream");
                match spec.uris.first().is_some_and(speaks) {
                    true => Protocol::Stream,
                    false => spec.protocol,
                }
            }
        };
        Ok(())
    }

    fn apply_time(&self, spec: &mut Spec) -> Result<(), String> {
        let Some(time) = self.time else {
            return Ok(());
        };
        if !spec.phases.is_empty() {
            return Err("-z does not go with phases, which have times of their own".to_owned());
        }
        let counted = spec.loads.iter().all(|load| load.count.is_some());
        spec.duration_s = match counted {
            _ if time != 0.0 => time,
            true => SECONDS_MAX,
            false => return Err("-z 0 is a run without end: say for how many seconds".to_owned()),
        };
        Ok(())
    }

    /// An error for what only nodes of our own could do.
    fn check_external(&self) -> Result<(), String> {
        let own = [
            ("--nodes", self.nodes.is_some()),
            ("--drives", self.drives.is_some()),
            ("--model", self.model.is_some()),
            ("--binary", self.binary.is_some()),
        ];
        match own.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => Err(format!(
                "{flag} is for nodes of our own, and this run goes to a broker that is there \
                 already (-h)"
            )),
        }
    }
}

/// An error for a load that names brokers by their numbers, where there are fewer.
fn check_places(spec: &Spec) -> Result<(), String> {
    let given = spec.uris.len();
    for load in &spec.loads {
        let lists = [&load.publish_to, &load.consume_from, &load.declare_at];
        let last = lists.into_iter().flatten().max();
        let needed = last.map_or(0, |last| last.saturating_add(1));
        if needed > given {
            return Err(format!(
                "load `{}` goes to some of {needed} brokers and not to others: it needs the URIs \
                 of {needed}, by commas (-H), not of {given}",
                load.name
            ));
        }
    }
    Ok(())
}
