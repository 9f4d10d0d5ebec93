//! The flags of `leveret perf run`: PerfTest's, with PerfTest's meaning, and our own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::spec::{Ack, BrokerSpec, Load, Rate, RateStep, Size, Spec, Tls};

/// PerfTest's short flags of several letters, by the long ones that the parser knows. Java's
/// parser takes them with one hyphen.
const SHORT: [(&str, &str); 27] = [
    ("-ad", "--auto-delete"),
    ("-b", "--heartbeat"),
    ("-bc", "--body-count"),
    ("-ca", "--consumer-args"),
    ("-dcr", "--disable-connection-recovery"),
    ("-h", "--uri"),
    ("-H", "--uris"),
    ("-hst", "--heartbeat-sender-threads"),
    ("-mf", "--metrics-format"),
    ("-mp", "--message-properties"),
    ("-ms", "--use-millis"),
    ("-na", "--nack"),
    ("-niot", "--nio-threads"),
    ("-qa", "--queue-args"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-rkcs", "--routing-key-cache-size"),
    ("-sb", "--skip-binding-queues"),
    ("-se", "--sasl-external"),
    ("-sq", "--stream-queue"),
    ("-st", "--shutdown-timeout"),
    ("-udsc", "--use-default-ssl-context"),
    ("-vl", "--variable-latency"),
    ("-vr", "--variable-rate"),
    ("-vs", "--variable-size"),
];

/// PerfTest's flags that change nothing here, by whether they take a value.
const IGNORED: [(&str, bool); 7] = [
    ("--heartbeat", true),
    ("--heartbeat-sender-threads", true),
    ("--metrics-format", true),
    ("--use-millis", false),
    ("--nio-threads", true),
    ("--routing-key-cache-size", true),
    ("--use-default-ssl-context", false),
];

/// Words as PerfTest takes them, as the parser does.
#[must_use]
pub fn translate(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut translated = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let known = SHORT.iter().find(|(short, _)| *short == word);
        let word = known.map_or(word, |(_, long)| (*long).to_owned());
        match IGNORED.iter().find(|(name, _)| *name == word) {
            None => translated.push(word),
            Some((_, takes_value)) => {
                if *takes_value {
                    words.next();
                }
            }
        }
    }
    translated
}

/// What is run, and what is done with what it finds.
#[derive(Args, Clone, Debug, Default)]
pub struct RunOptions {
    /// A preset (`leveret perf list`) or a file of that form; without one, the flags say the load
    #[arg(value_name = "NAME|FILE")]
    pub what: Option<String>,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Where it goes.
    #[command(flatten)]
    pub place: PlaceOptions,
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
    /// Channels of each publisher's connection: as many publishers again
    #[arg(short = 'X', long, value_name = "N")]
    pub producer_channel_count: Option<u32>,
    /// Channels of each consumer's connection: as many consumers again
    #[arg(short = 'Y', long, value_name = "N")]
    pub consumer_channel_count: Option<u32>,
    /// Queue; one of the run's own where not given
    #[arg(short = 'u', long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Several queues by a pattern with %d [-qp]
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
    pub queue_args: Option<String>,
    /// Quorum queues [-qq]
    #[arg(long)]
    pub quorum_queue: bool,
    /// Streams [-sq]
    #[arg(long)]
    pub stream_queue: bool,
    /// Queues go with their last consumer [-ad]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub auto_delete: Option<bool>,
    /// Queues and exchange are there already
    #[arg(short = 'p', long)]
    pub predeclared: bool,
    /// Exchange
    #[arg(short = 'e', long, value_name = "NAME")]
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
    /// Properties of messages, key=value,... [-mp]
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
    /// Messages per second of each consumer
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
    /// Microseconds that a consumer takes for each delivery
    #[arg(short = 'L', long, value_name = "MICROSECONDS")]
    pub consumer_latency: Option<u64>,
    /// Arguments of consumers, key=value,... [-ca]
    #[arg(long, value_name = "LIST")]
    pub consumer_args: Option<String>,
    /// Messages of each publisher
    #[arg(short = 'C', long, value_name = "N")]
    pub pmessages: Option<u64>,
    /// Messages of each consumer; must be what publishers send, as the run ends when all came
    #[arg(short = 'D', long, value_name = "N")]
    pub cmessages: Option<u64>,
}

/// Where the load goes, and for how long.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Place and time")]
pub struct PlaceOptions {
    /// Broker, amqp://user:password@host:port/vhost; a node of our own where not given [-h]
    #[arg(long, value_name = "URI")]
    pub uri: Option<String>,
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
    /// File of the authorities that may have signed the broker's certificate (amqps://)
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
    #[arg(long, value_name = "N", default_value_t = 3)]
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
    /// Write each picture into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    pub figures: Option<PathBuf>,
    /// Broker processes on this machine to sample, by commas
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Print the specification and run nothing
    #[arg(long)]
    pub show: bool,
}

impl LoadOptions {
    /// The names of the flags that were given.
    fn is_given(&self) -> bool {
        format!("{self:?}") != format!("{:?}", Self::default())
    }

    /// The load, with PerfTest's defaults.
    ///
    /// # Errors
    /// A text that names the flag.
    pub fn load(&self) -> Result<Load, String> {
        let has = |flag: &str| self.flag.iter().any(|f| f == flag);
        if let Some(other) = self
            .flag
            .iter()
            .find(|f| !["persistent", "mandatory"].contains(&f.as_str()))
        {
            return Err(format!(
                "-f takes `persistent` and `mandatory`, not `{other}`"
            ));
        }
        let queue_type = match (self.quorum_queue, self.stream_queue) {
            (true, true) => return Err("-qq and -sq are two types of one queue".to_owned()),
            (true, false) => "quorum",
            (false, true) => "stream",
            (false, false) => "classic",
        };
        let replicated = queue_type != "classic";
        let channels = self.producer_channel_count.max(self.consumer_channel_count);
        let members = |count: Option<u32>, channels: Option<u32>| {
            count
                .unwrap_or(1)
                .saturating_mul(channels.unwrap_or(1).max(1))
        };
        let (queue_name, queues) = self.queues()?;
        Ok(Load {
            name: "load".to_owned(),
            publishers: members(self.producers, self.producer_channel_count),
            consumers: members(self.consumers, self.consumer_channel_count),
            queues,
            queue_name,
            queue_type: queue_type.to_owned(),
            queue_arguments: arguments("-qa", self.queue_args.as_deref())?,
            durable: has("persistent") || replicated,
            auto_delete: self
                .auto_delete
                .unwrap_or(!replicated && self.consumers != Some(0)),
            predeclared: self.predeclared,
            exchange: self.exchange.clone().unwrap_or_default(),
            exchange_type: self
                .exchange_type
                .clone()
                .unwrap_or_else(|| "direct".to_owned()),
            routing_key: self.routing_key.clone(),
            size: self.size(),
            persistent: has("persistent"),
            mandatory: has("mandatory"),
            properties: arguments("-mp", self.message_properties.as_deref())?,
            rate: self.rate()?,
            count: self.count()?,
            confirm_window: match self.confirm {
                // PerfTest's -1 is its default: none.
                None | Some(..=0) => 0,
                Some(window) => u32::try_from(window).map_err(|_| "-c is too large".to_owned())?,
            },
            prefetch: self.qos.unwrap_or(0),
            ack: Ack {
                automatic: self.autoack,
                every: self.multi_ack_every.unwrap_or(1),
                delay_ms: 0.0,
            },
            consumer_delay_ms: self.consumer_latency.unwrap_or(0) as f64 / 1e3,
            consumer_rate: self.consumer_rate.filter(|rate| *rate > 0.0),
            consumer_arguments: arguments("-ca", self.consumer_args.as_deref())?,
            channels_per_connection: channels.unwrap_or(1),
            ..Load::default()
        })
    }

    fn queues(&self) -> Result<(Option<String>, u32), String> {
        let Some(pattern) = &self.queue_pattern else {
            return Ok((self.queue.clone(), 1));
        };
        let (from, to) = (
            self.queue_pattern_from.unwrap_or(1),
            self.queue_pattern_to.unwrap_or(1),
        );
        if from != 1 || to < 1 {
            return Err("a queue pattern goes from 1 (-qpf) to 1 or more (-qpt)".to_owned());
        }
        Ok((Some(pattern.clone()), to))
    }

    fn size(&self) -> Size {
        if !self.body.is_empty() {
            let files = self.body.clone();
            return Size::Files { files };
        }
        match self.size.as_slice() {
            [] => Size::default(),
            [size] => Size::Fixed(*size),
            sizes => Size::Range {
                min: sizes.iter().copied().min().unwrap_or(0),
                max: sizes.iter().copied().max().unwrap_or(0),
            },
        }
    }

    fn rate(&self) -> Result<Rate, String> {
        if let Some(seconds) = self.publishing_interval {
            return Ok(Rate::Burst {
                burst: 1,
                every_s: seconds,
            });
        }
        if !self.variable_rate.is_empty() {
            let steps = self.variable_rate.iter().map(|text| step(text));
            return Ok(Rate::Steps {
                steps: steps.collect::<Result<_, _>>()?,
            });
        }
        Ok(match self.rate {
            Some(rate) if rate >= 0.0 => Rate::Fixed(rate),
            _ => Rate::Unlimited,
        })
    }

    /// Messages of each publisher. What consumers are to take must be what publishers send.
    fn count(&self) -> Result<Option<u64>, String> {
        let (Some(taken), publishers) = (self.cmessages, self.producers.unwrap_or(1)) else {
            return Ok(self.pmessages);
        };
        let taken = taken * u64::from(self.consumers.unwrap_or(1));
        let each = taken / u64::from(publishers.max(1));
        match self.pmessages {
            None => Ok(Some(each)),
            Some(sent) if sent == each => Ok(Some(sent)),
            Some(sent) => Err(format!(
                "-C {sent} and -D {} do not go together: every message that is sent is waited for",
                self.cmessages.unwrap_or(0)
            )),
        }
    }
}

fn step(text: &str) -> Result<RateStep, String> {
    let parts = text.split_once(':');
    let step = parts.and_then(|(rate, seconds)| {
        Some(RateStep {
            rate: rate.parse().ok()?,
            seconds: seconds.parse().ok()?,
        })
    });
    step.ok_or_else(|| format!("-vr takes RATE:SECONDS, not `{text}`"))
}

/// `key=value,…`, where what looks like a number or a truth is one.
fn arguments(flag: &str, text: Option<&str>) -> Result<BTreeMap<String, toml::Value>, String> {
    let pairs = text
        .unwrap_or_default()
        .split(',')
        .filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("{flag} takes key=value,…, not `{pair}`"))?;
        let value = match (value.parse::<i64>(), value) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, "true") => toml::Value::Boolean(true),
            (_, "false") => toml::Value::Boolean(false),
            _ => toml::Value::String(value.to_owned()),
        };
        Ok((key.to_owned(), value))
    });
    pairs.collect()
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
        let mut spec = match &self.what {
            Some(_) if self.load.is_given() => {
                return Err(
                    "a preset or a file says its load itself: copy it (`leveret perf show \
                            NAME > FILE`) and change that"
                        .to_owned(),
                );
            }
            Some(what) => find(what)?,
            None => Spec {
                name: "flags".to_owned(),
                loads: vec![self.load.load()?],
                ..Spec::default()
            },
        };
        if self.outcome.fast {
            spec = fast(&spec);
        }
        self.place.apply(&mut spec)?;
        spec.check().map_err(|error| error.to_string())?;
        Ok(spec)
    }
}

impl PlaceOptions {
    fn apply(&self, spec: &mut Spec) -> Result<(), String> {
        let uris: Vec<String> = self.uri.iter().chain(&self.uris).cloned().collect();
        if !uris.is_empty() {
            narrow(spec, uris.len());
            spec.uris = uris;
        }
        if let Some(time) = self.time {
            spec.duration_s = time;
            if !spec.phases.is_empty() {
                return Err("-z does not go with phases, which have times of their own".to_owned());
            }
        }
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
}

/// Loads that name brokers by their numbers name only such as there are.
fn narrow(spec: &mut Spec, uris: usize) {
    for load in &mut spec.loads {
        for list in [
            &mut load.publish_to,
            &mut load.consume_from,
            &mut load.declare_at,
        ] {
            list.iter_mut().for_each(|at| *at %= uris);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Command {
        #[command(flatten)]
        run: RunOptions,
    }

    fn spec(line: &str) -> Result<Spec, String> {
        let words = line.split_whitespace().map(str::to_owned);
        let words = std::iter::once("run".to_owned()).chain(translate(words));
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        let find = |name: &str| {
            assert_eq!(name, "known");
            Ok(Spec::default())
        };
        command.run.spec(find, Spec::clone)
    }

    #[test]
    fn perftests_flags_mean_what_they_mean_there() {
        let spec = spec(
            "-x 2 -y 3 -u q -s 1000 -c 100 -q 50 -z 20 -r 10.5 -C 7 -ad false -f persistent \
             -qa x-max-length=5,x-overflow=reject-publish -h amqp://box/%2f -e ex -k key -t topic \
             -ms -b 10 -A 4 -L 1500 -mp priority=5",
        )
        .unwrap();
        let load = &spec.loads[0];
        assert_eq!((load.publishers, load.consumers), (2, 3));
        assert_eq!(load.queue_name.as_deref(), Some("q"));
        assert_eq!(load.size, Size::Fixed(1000));
        assert_eq!((load.confirm_window, load.prefetch), (100, 50));
        assert_eq!(load.rate, Rate::Fixed(10.5));
        assert_eq!(load.count, Some(7));
        assert!(load.persistent && load.durable && !load.auto_delete);
        assert_eq!(
            load.queue_arguments["x-max-length"],
            toml::Value::Integer(5)
        );
        assert_eq!(
            (load.exchange.as_str(), load.exchange_type.as_str()),
            ("ex", "topic")
        );
        assert_eq!(load.routing_key.as_deref(), Some("key"));
        assert_eq!((load.ack.every, load.consumer_delay_ms), (4, 1.5));
        assert_eq!(spec.duration_s, 20.0);
        assert_eq!(spec.uris, ["amqp://box/%2f"]);
    }

    #[test]
    fn without_flags_messages_are_transient_and_queues_go() {
        let spec = spec("").unwrap();
        let load = &spec.loads[0];
        assert!(!load.persistent && !load.durable && load.auto_delete);
        assert_eq!(
            (load.confirm_window, load.queue_type.as_str()),
            (0, "classic")
        );
        let quorum = super::tests::spec("-qq -y 0").unwrap();
        assert!(quorum.loads[0].durable && !quorum.loads[0].auto_delete);
    }

    #[test]
    fn shapes_of_rates_sizes_and_queues() {
        let load = |line: &str| spec(line).unwrap().loads.remove(0);
        assert_eq!(load("-s 16,4000").size, Size::Range { min: 16, max: 4000 });
        assert!(
            matches!(load("-vr 100:60 -vr 5:1").rate, Rate::Steps { steps } if steps.len() == 2)
        );
        assert_eq!(load("-r -1").rate, Rate::Unlimited);
        let pattern = load("-qp perf-%d -qpf 1 -qpt 10 -X 5 -x 2");
        assert_eq!((pattern.queues, pattern.publishers), (10, 10));
        assert_eq!(pattern.channels_per_connection, 5);
        assert_eq!(load("-C 100 -D 100").count, Some(100));
    }

    #[test]
    fn what_does_not_go_is_said() {
        for (line, said) in [
            ("known -x 2", "leveret perf show"),
            ("-C 1 -D 2", "do not go together"),
            ("-f immediate", "not `immediate`"),
            ("-vr fast", "RATE:SECONDS"),
            ("-qa x", "key=value"),
            ("--drives wal", "folder=path"),
            ("-x 70000", "publishers is 70000"),
            ("--colour red", "--colour"),
        ] {
            let error = spec(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
        let reconnects = |line: &str| spec(line).unwrap().reconnect_s;
        assert_eq!((reconnects(""), reconnects("--reconnect 5")), (60.0, 5.0));
        assert_eq!(
            (reconnects("-dcr"), reconnects("known --no-reconnect")),
            (0.0, 0.0)
        );
        let named = spec("known -z 3 --model hdd:2 --drives wal=/a,segment=/b").unwrap();
        assert_eq!(named.broker.drives.len(), 2);
    }
}
