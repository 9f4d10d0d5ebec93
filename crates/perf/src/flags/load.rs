//! From PerfTest's flags to a load.

use std::collections::BTreeMap;

use super::LoadOptions;
use super::properties::{arguments, properties};
use crate::spec::{Ack, Load, Rate, RateStep, Size, has_number};

/// Deliveries that a stream's consumer may have in hand where nothing is said, as in PerfTest.
const STREAM_PREFETCH: u16 = 200;
/// Seconds of work that a consumer with a rate or a latency has in hand where nothing is said.
const IN_HAND_S: f64 = 0.1;
/// The least and the most deliveries of that.
const IN_HAND: (f64, f64) = (2.0, 1_000.0);
/// Queues' arguments that have messages dropped: for want of room, and for their age.
const DROP_FOR_ROOM: [&str; 2] = ["x-max-length", "x-max-length-bytes"];
const DROP_FOR_AGE: [&str; 2] = ["x-message-ttl", "x-max-age"];

/// Which queues the flags name.
struct Queues {
    /// A name, or a pattern.
    name: Option<String>,
    /// Several names.
    names: Vec<String>,
    /// Number of the first.
    first: u32,
    /// How many.
    count: u32,
}

/// What holds a consumer back: at most one of the two.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// Deliveries a second.
    rate: Option<f64>,
    /// Milliseconds for each.
    delay_ms: f64,
}

impl Pace {
    fn is_any(self) -> bool {
        self.rate.is_some() || self.delay_ms > 0.0
    }

    /// Deliveries that keep a consumer at work.
    fn in_hand(self) -> u16 {
        let per_second = self.rate.unwrap_or(1e3 / self.delay_ms);
        let (least, most) = IN_HAND;
        (per_second * IN_HAND_S).ceil().clamp(least, most) as u16
    }
}

/// Members of a kind: each has so many channels.
fn members(count: Option<u32>, channels: Option<u32>) -> u32 {
    let channels = channels.unwrap_or(1).max(1);
    count.unwrap_or(1).saturating_mul(channels)
}

impl LoadOptions {
    /// The names of the flags that were given.
    pub(super) fn is_given(&self) -> bool {
        format!("{self:?}") != format!("{:?}", Self::default())
    }

    /// The load, with PerfTest's defaults.
    ///
    /// # Errors
    /// A text that names the flag.
    pub fn load(&self) -> Result<Load, String> {
        let (is_persistent, is_mandatory) = self.flags()?;
        let queue_type = self.queue_type()?;
        let is_replicated = queue_type != "classic";
        let queues = self.queues()?;
        let pace = self.pace(&queues)?;
        let (exchange, exchange_type, routing_key) = self.route(&queues);
        let (properties, delivery_mode) = properties(self.message_properties.as_deref())?;
        let consumers = members(self.consumers, self.consumer_channel_count);
        let load = Load {
            name: "load".to_owned(),
            publishers: members(self.producers, self.producer_channel_count),
            // Each consumer is at each of several names.
            consumers: consumers.saturating_mul(queues.names.len().max(1) as u32),
            queue_type: queue_type.to_owned(),
            queue_arguments: self.queue_arguments()?,
            durable: is_persistent || is_replicated,
            auto_delete: !is_replicated && self.auto_delete.unwrap_or(self.consumers != Some(0)),
            predeclared: self.predeclared,
            exchange,
            exchange_type,
            routing_key,
            size: self.size(),
            persistent: delivery_mode.unwrap_or(is_persistent || is_replicated),
            mandatory: is_mandatory,
            properties,
            rate: self.rate()?,
            confirm_window: match self.confirm {
                // PerfTest's -1 is its default: none.
                None | Some(..=0) => 0,
                Some(window) => u32::try_from(window).map_err(|_| "-c is too large".to_owned())?,
            },
            prefetch: self.prefetch(queue_type, pace)?,
            ack: Ack {
                automatic: self.autoack,
                every: self.multi_ack_every.unwrap_or(1).max(1),
                delay_ms: 0.0,
            },
            consumer_delay_ms: pace.delay_ms,
            consumer_rate: pace.rate,
            consumer_arguments: self.consumer_arguments(queue_type, &queues)?,
            channels_per_connection: self.producer_channel_count.unwrap_or(1).max(1),
            consumer_channels_per_connection: Some(self.consumer_channel_count.unwrap_or(1).max(1)),
            queues: queues.count,
            queue_first: queues.first,
            queue_name: queues.name,
            queue_names: queues.names,
            ..Load::default()
        };
        let count = self.count(&load)?;
        // Nobody knows what others published, nor what is dropped.
        let verify = load.publishers > 0 && !drops(&load);
        Ok(Load {
            count,
            verify,
            ..load
        })
    }

    /// Whether messages are persistent, and whether they are mandatory.
    fn flags(&self) -> Result<(bool, bool), String> {
        let known = ["persistent", "mandatory"];
        if let Some(other) = self.flag.iter().find(|f| !known.contains(&f.as_str())) {
            return Err(format!(
                "-f takes `persistent` and `mandatory`, not `{other}`"
            ));
        }
        let has = |flag: &str| self.flag.iter().any(|f| f == flag);
        Ok((has("persistent"), has("mandatory")))
    }

    fn queue_type(&self) -> Result<&'static str, String> {
        match (self.quorum_queue, self.stream_queue) {
            (true, true) => Err("-qq and -sq are two types of one queue".to_owned()),
            (true, false) => Ok("quorum"),
            (false, true) => Ok("stream"),
            (false, false) => Ok("classic"),
        }
    }

    fn queue_arguments(&self) -> Result<BTreeMap<String, toml::Value>, String> {
        let mut all = BTreeMap::new();
        for list in &self.queue_args {
            all.extend(arguments("-qa", Some(list))?);
        }
        Ok(all)
    }

    /// Consumers of a stream of the run's own have all of it: without an offset they would have
    /// what comes after them.
    fn consumer_arguments(
        &self,
        queue_type: &str,
        queues: &Queues,
    ) -> Result<BTreeMap<String, toml::Value>, String> {
        let mut all = arguments("-ca", self.consumer_args.as_deref())?;
        let is_ours = queues.name.is_none() && queues.names.is_empty();
        if queue_type == "stream" && is_ours {
            let first = || toml::Value::String("first".to_owned());
            all.entry("x-stream-offset".to_owned())
                .or_insert_with(first);
        }
        Ok(all)
    }

    fn queues(&self) -> Result<Queues, String> {
        let range = (self.queue_pattern_from, self.queue_pattern_to);
        let (pattern, first, last) = match (&self.queue_pattern, range) {
            (None, (None, None)) => return self.listed_queues(),
            (Some(pattern), (Some(first), Some(last))) => (pattern, first, last),
            _ => {
                let said = "-qp, -qpf and -qpt go together: a pattern, its first number, its last";
                return Err(said.to_owned());
            }
        };
        if self.queue.is_some() {
            return Err("-u and -qp both name the queues: give one of them".to_owned());
        }
        if !has_number(pattern) {
            return Err(format!(
                "-qp takes a name with %d or %03d for the number, not `{pattern}`"
            ));
        }
        let steps = last
            .checked_sub(first)
            .ok_or_else(|| format!("-qpt {last} comes before -qpf {first}"))?;
        Ok(Queues {
            name: Some(pattern.clone()),
            names: Vec::new(),
            first,
            count: steps.saturating_add(1),
        })
    }

    fn listed_queues(&self) -> Result<Queues, String> {
        let names: Vec<String> = match &self.queue {
            None => Vec::new(),
            Some(list) => list.split(',').map(str::to_owned).collect(),
        };
        if names.iter().any(String::is_empty) {
            return Err("-u takes names by commas, none of them empty".to_owned());
        }
        // A percent sign that the user wrote here is meant as it is.
        let is_plain = names.len() == 1 && names.iter().all(|name| !name.contains('%'));
        Ok(Queues {
            first: 1,
            count: u32::try_from(names.len().max(1)).unwrap_or(u32::MAX),
            name: names.first().filter(|_| is_plain).cloned(),
            names: if is_plain { Vec::new() } else { names },
        })
    }

    /// Exchange, its type, and routing key. What needs bindings and names no exchange has the one
    /// that PerfTest would take.
    fn route(&self, queues: &Queues) -> (String, String, Option<String>) {
        let is_shared = queues.names.len() > 1;
        let kind = self.exchange_type.as_deref().unwrap_or("direct");
        let key = self.routing_key.clone();
        let key = key.or_else(|| is_shared.then(|| queues.names.join(",")));
        let (exchange, kind) = match self.exchange.as_deref() {
            Some("" | "amq.default") => ("", "direct"),
            Some(name) => (name, kind),
            None if kind == "direct" && key.is_some() => ("direct", kind),
            None => ("", kind),
        };
        (exchange.to_owned(), kind.to_owned(), key)
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
            None => Rate::Unlimited,
            Some(rate) if rate < 0.0 => Rate::Unlimited,
            Some(rate) => Rate::Fixed(rate),
        })
    }

    /// What holds consumers back: the slower of rate and latency, as one waits beside the other.
    fn pace(&self, queues: &Queues) -> Result<Pace, String> {
        let rate = self.consumer_rate.filter(|r| r.is_nan() || *r > 0.0);
        let delay_ms = self.consumer_latency.unwrap_or(0) as f64 / 1e3;
        let pace = match rate {
            Some(rate) if rate * delay_ms < 1e3 || rate.is_nan() => Pace {
                rate: Some(rate),
                delay_ms: 0.0,
            },
            _ => Pace {
                rate: None,
                delay_ms,
            },
        };
        if pace.is_any() && self.autoack {
            return Err("-R and -L hold acknowledgements back, and with -a there are none".into());
        }
        if pace.is_any() && queues.names.len() > 1 {
            return Err(
                "-R and -L go with one queue for each consumer, not with several -u".into(),
            );
        }
        Ok(pace)
    }

    fn prefetch(&self, queue_type: &str, pace: Pace) -> Result<u16, String> {
        let every = self.multi_ack_every.unwrap_or(0);
        match self.qos.filter(|qos| *qos > 0) {
            Some(qos) if every > u32::from(qos) => Err(format!(
                "-A {every} acknowledges more at once than -q {qos} lets in"
            )),
            Some(qos) => Ok(qos),
            None if queue_type == "stream" => Ok(STREAM_PREFETCH),
            None if pace.is_any() => {
                let every = u16::try_from(every).unwrap_or(u16::MAX);
                Ok(pace.in_hand().max(every))
            }
            None => Ok(0),
        }
    }

    /// Messages of each publisher. What consumers are to take must be what publishers send.
    fn count(&self, load: &Load) -> Result<Option<u64>, String> {
        // Zero is no limit, as in PerfTest.
        let sent = self.pmessages.filter(|count| *count > 0);
        let Some(taken) = self.cmessages.filter(|count| *count > 0) else {
            return Ok(sent);
        };
        let consumers = members(self.consumers, self.consumer_channel_count);
        let copies = if load.is_everywhere() { load.queues } else { 1 };
        let shares = u64::from(load.publishers) * u64::from(copies);
        if shares == 0 || consumers == 0 {
            let said = "-D needs publishers and consumers: a run ends when all that was sent came";
            return Err(said.to_owned());
        }
        let all = taken.checked_mul(u64::from(consumers));
        let all = all.ok_or_else(|| format!("-D {taken} is too large"))?;
        if all % shares != 0 {
            return Err(format!(
                "-D {taken}: {all} deliveries in all are no whole number of messages for each of \
                 {} publishers; -C gives that number",
                load.publishers
            ));
        }
        let each = all / shares;
        match sent {
            Some(sent) if sent != each => Err(format!(
                "-C {sent} and -D {taken} do not go together: every message that is sent is \
                 waited for"
            )),
            _ => Ok(Some(each)),
        }
    }
}

/// Whether messages that a broker took may be gone on purpose before they are consumed.
fn drops(load: &Load) -> bool {
    let has = |name: &&str| load.queue_arguments.contains_key(*name);
    // What is refused is not taken, where publishers are told of it.
    let overflow = load.queue_arguments.get("x-overflow");
    let overflow = overflow.and_then(toml::Value::as_str).unwrap_or("");
    let refuses = load.confirm_window > 0 && overflow.starts_with("reject-publish");
    let for_age = DROP_FOR_AGE.iter().any(has);
    let for_room = DROP_FOR_ROOM.iter().any(has) && !refuses;
    for_age || for_room || load.properties.contains_key("expiration")
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
