//! From PerfTest's flags to a load.

use std::collections::BTreeMap;

use super::LoadOptions;
use crate::spec::{Ack, Load, Rate, RateStep, Size};

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
