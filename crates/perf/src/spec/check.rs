//! What a specification must hold that its types do not say.

use std::collections::BTreeSet;

use super::{
    CONFIRM_WINDOW_MAX, LOADS_MAX, Load, MEMBERS_MAX, NAME_BYTES_MAX, PHASES_MAX, QUEUE_FIRST_MAX,
    RATE_MAX, RATE_MIN, Rate, SECONDS_MAX, SIZE_BYTES_MAX, Size, Spec, THREADS_MAX,
};
use crate::stamp::{self, SEQUENCE_MAX};
use crate::uri::Protocol;

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// It is not TOML, or has a field that there is not.
    #[error("{0}")]
    Toml(String),
    /// A value is out of its bounds.
    #[error("{what} is {value}: {must}")]
    Value {
        /// Which, as in the file.
        what: String,
        /// What was given.
        value: String,
        /// What it must be.
        must: String,
    },
}

impl Spec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    /// [`SpecError`] that names the field.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let spec: Self =
            toml::from_str(text).map_err(|error| SpecError::Toml(error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`SpecError::Value`] for the first value out of its bounds.
    pub fn check(&self) -> Result<(), SpecError> {
        let loads = self.loads.len();
        bound(
            "load",
            loads,
            "1 to 64 of them",
            (1..=LOADS_MAX).contains(&loads),
        )?;
        let phases = self.phases.len();
        bound("phase", phases, "64 of them at most", phases <= PHASES_MAX)?;
        bound(
            "threads",
            self.threads,
            "256 at most",
            self.threads <= THREADS_MAX,
        )?;
        seconds("duration_s", self.duration_s)?;
        seconds("warm_up_s", self.warm_up_s)?;
        seconds("drain_s", self.drain_s)?;
        seconds("reconnect_s", self.reconnect_s)?;
        for phase in &self.phases {
            seconds("phase.duration_s", phase.duration_s)?;
        }
        let nodes = self.broker.nodes;
        bound("broker.nodes", nodes, "1 or 3", nodes == 1 || nodes == 3)?;
        self.loads.iter().try_for_each(Load::check)?;
        if self.protocol == Protocol::Stream {
            self.loads.iter().try_for_each(Load::check_stream)?;
        }
        self.check_members()
    }

    /// Checks what there is of a kind in all loads together.
    fn check_members(&self) -> Result<(), SpecError> {
        type Count = fn(&Load) -> u32;
        let kinds: [(&str, Count); 3] = [
            ("publishers", |load| load.publishers),
            ("consumers", |load| load.consumers),
            ("queues", |load| load.queues),
        ];
        for (what, count) in kinds {
            let all: u64 = self.loads.iter().map(|load| u64::from(count(load))).sum();
            let must = "65535 in all loads together at most";
            bound(what, all, must, all <= u64::from(MEMBERS_MAX))?;
        }
        Ok(())
    }

    /// Seconds that the run takes without draining, at most.
    #[must_use]
    pub fn expected_s(&self) -> f64 {
        let phases: f64 = self.phases.iter().map(|phase| phase.duration_s).sum();
        let measured = if self.phases.is_empty() {
            self.duration_s
        } else {
            phases
        };
        self.warm_up_s + measured
    }
}

impl Load {
    fn check(&self) -> Result<(), SpecError> {
        for (what, count) in [
            ("publishers", self.publishers),
            ("consumers", self.consumers),
        ] {
            bound(what, count, "65535 at most", count <= MEMBERS_MAX)?;
        }
        self.check_queues()?;
        self.check_views()?;
        self.check_routes()?;
        self.check_consumers()?;
        let window = self.confirm_window;
        bound(
            "confirm_window",
            window,
            "16000000 at most",
            window <= CONFIRM_WINDOW_MAX,
        )?;
        if let Some(count) = self.count {
            let fits = (1..=u64::from(SEQUENCE_MAX)).contains(&count);
            bound("count", count, "1 to 4294967295", fits)?;
        }
        let shared = self.channels_per_connection;
        for shared in [Some(shared), self.consumer_channels_per_connection] {
            let shared = shared.unwrap_or(1);
            let fits = (1..=2047).contains(&shared);
            bound("channels_per_connection", shared, "1 to 2047", fits)?;
        }
        self.size.check()?;
        self.rate.check()
    }

    fn check_queues(&self) -> Result<(), SpecError> {
        let (queues, first) = (self.queues, self.queue_first);
        let fits = (1..=MEMBERS_MAX).contains(&queues);
        bound("queues", queues, "1 to 65535", fits)?;
        let must = "1000000000 at most";
        bound("queue_first", first, must, first <= QUEUE_FIRST_MAX)?;
        let listed = &self.queue_names;
        if !listed.is_empty() {
            let must = format!("{}, as many as `queue_names`", listed.len());
            bound("queues", queues, &must, queues as usize == listed.len())?;
            let must = "absent beside `queue_names`";
            let name = self.queue_name.as_deref();
            bound("queue_name", name.unwrap_or(""), must, name.is_none())?;
            let distinct: BTreeSet<&String> = listed.iter().collect();
            let must = "names that differ";
            let differ = distinct.len() == listed.len();
            bound("queue_names", listed.join(","), must, differ)?;
        }
        let pattern = self.queue_name.as_deref().unwrap_or("own");
        let must = "1 to 255 octets";
        let fits = pattern.len() <= NAME_BYTES_MAX;
        bound("queue_name", pattern, must, fits)?;
        // Of a pattern, the last has the longest number.
        let last = self.last_queue("own");
        for name in listed.iter().chain(&last) {
            let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
            bound("queue_name", name, must, fits)?;
        }
        Ok(())
    }

    /// Checks that nothing else says where the messages of views come from.
    fn check_views(&self) -> Result<(), SpecError> {
        let stream = &self.stream_arguments;
        let must = "absent where `views` is false";
        let holds = stream.is_empty() || self.views;
        bound("stream_arguments", stream.len(), must, holds)?;
        if !self.views {
            return Ok(());
        }
        let kind = &self.queue_type;
        let holds = ["classic", "quorum"].contains(&kind.as_str());
        bound(
            "queue_type",
            kind,
            "`classic` or `quorum` of `views`",
            holds,
        )?;
        let must = "absent beside `views`, which have a stream of the run's own";
        let exchange = &self.exchange;
        bound("exchange", exchange, must, self.is_in_default_exchange())?;
        let key = self.routing_key.as_deref();
        bound("routing_key", key.unwrap_or(""), must, key.is_none())?;
        bound("queue_name", "given", must, !self.names_queues())?;
        bound("predeclared", true, must, !self.predeclared)?;
        bound("durable", false, "true of `views`", self.durable)
    }

    /// Checks that nothing is asked for that streams do not have.
    fn check_stream(&self) -> Result<(), SpecError> {
        let kind = &self.queue_type;
        let holds = ["stream", "classic"].contains(&kind.as_str());
        bound("queue_type", kind, "`stream` in the stream protocol", holds)?;
        let must = "false in the stream protocol, whose clients use no queues";
        bound("views", self.views, must, !self.views)?;
        let must = "absent in the stream protocol, which has no exchanges";
        bound(
            "exchange",
            &self.exchange,
            must,
            self.is_in_default_exchange(),
        )?;
        let key = self.routing_key.as_deref();
        bound("routing_key", key.unwrap_or(""), must, key.is_none())?;
        let must = "as it is by default in the stream protocol, which settles nothing";
        let ack = self.ack == Default::default() || self.ack.automatic;
        let is_paced = self.consumer_delay_ms > 0.0 || self.consumer_rate.is_some();
        bound("ack", "something else", must, ack)?;
        bound("consumer_rate", "given", must, !is_paced)?;
        let must =
            "at most `queues` where `verify` is true: each consumer of a stream has all of it";
        let fits = self.consumers <= self.queues || !self.verify;
        bound("consumers", self.consumers, must, fits)?;
        let must = "1 to 65535";
        let fits = (1..=u32::from(u16::MAX)).contains(&self.batch);
        bound("batch", self.batch, must, fits)?;
        let must = "256 at most in the stream protocol";
        let shared = self.consumer_channels_per_connection.unwrap_or(1);
        let shared = shared.max(self.channels_per_connection);
        bound("channels_per_connection", shared, must, shared <= 256)?;
        let must = "16 at least in the stream protocol, where the body holds the run's stamp";
        let least = match self.size {
            Size::Fixed(size) | Size::Range { min: size, .. } => size,
            Size::Files { .. } => 0,
        };
        bound("size", least, must, least >= stamp::BYTES as u64)
    }

    /// Checks that messages get to the queues.
    fn check_routes(&self) -> Result<(), SpecError> {
        let exchange = &self.exchange;
        let fits = exchange.len() <= NAME_BYTES_MAX;
        bound("exchange", exchange, "255 octets at most", fits)?;
        if let Some(key) = &self.routing_key {
            let fits = key.len() <= NAME_BYTES_MAX;
            bound("routing_key", key, "255 octets at most", fits)?;
            let must = "the name of the only queue where the exchange is the default one: name \
                        an `exchange`, in which queues are bound under it";
            let is_one = self.names_queues() && self.queues == 1;
            let arrives = || is_one && self.named_queues("own") == [key.as_str()];
            let holds = !self.is_in_default_exchange() || arrives();
            bound("routing_key", key, must, holds)?;
        }
        if self.predeclared {
            let must = "false where exchange and queues have no names";
            let is_ours = exchange.is_empty() && !self.is_in_default_exchange();
            let queues = self.names_queues() || (self.consumers == 0 && !exchange.is_empty());
            bound("predeclared", true, must, !is_ours && queues)?;
            let must = "given where `predeclared` queues have no names, unless the exchange is a \
                        `fanout`";
            let is_known = self.routing_key.is_some() || self.exchange_type == "fanout";
            let holds = self.names_queues() || is_known;
            bound("routing_key", "absent", must, holds)?;
        }
        Ok(())
    }

    /// Checks that consumers can do what is asked of them.
    fn check_consumers(&self) -> Result<(), SpecError> {
        let every = self.ack.every;
        bound("ack.every", every, "1 at least", every >= 1)?;
        milliseconds("ack.delay_ms", self.ack.delay_ms)?;
        milliseconds("consumer_delay_ms", self.consumer_delay_ms)?;
        if let Some(rate) = self.consumer_rate {
            let sane = (RATE_MIN..=RATE_MAX).contains(&rate);
            let must = "0.000001 to 100000000 a second";
            bound("consumer_rate", rate, must, sane)?;
            let must = "absent beside `consumer_delay_ms`";
            bound("consumer_rate", rate, must, self.consumer_delay_ms == 0.0)?;
        }
        let must = "as many as `queues` at most where `queue_type` is `stream` and `verify` is \
                    true: each consumer of a stream has every message";
        let is_shared = self.verify && self.consumers > self.queues;
        let holds = self.queue_type != "stream" || !is_shared;
        bound("consumers", self.consumers, must, holds)?;
        let is_paced = self.consumer_rate.is_some() || self.consumer_delay_ms > 0.0;
        let must = "1 at least beside `consumer_rate` or `consumer_delay_ms`: without a bound the \
                    broker sends all at once";
        let is_bounded = !is_paced || self.prefetch > 0;
        let settles = !self.ack.automatic || (!is_paced && self.ack.delay_ms == 0.0);
        let never = "false beside `consumer_rate`, `consumer_delay_ms` and `ack.delay_ms`: they \
                     hold acknowledgements back";
        bound("ack.automatic", true, never, settles)?;
        bound("prefetch", self.prefetch, must, is_bounded)
    }
}

impl Size {
    /// The greatest size; 0 where files decide.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { max, .. } => *max,
            Self::Files { .. } => 0,
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let max = self.max();
        bound("size", max, "512 MiB at most", max <= SIZE_BYTES_MAX)?;
        match self {
            Self::Range { min, max } => bound("size.min", min, "at most size.max", min <= max),
            Self::Files { files } => bound("size.files", 0, "one at least", !files.is_empty()),
            Self::Fixed(_) => Ok(()),
        }
    }
}

impl Rate {
    fn check(&self) -> Result<(), SpecError> {
        let rates: Vec<f64> = match self {
            Self::Unlimited => vec![],
            Self::Fixed(rate) => vec![*rate],
            Self::Ramp { from, to, over_s } => {
                seconds("rate.over_s", *over_s)?;
                vec![*from, *to]
            }
            Self::Burst { burst, every_s } => {
                bound("rate.burst", burst, "1 at least", *burst >= 1)?;
                let sane = (RATE_MIN..=SECONDS_MAX).contains(every_s);
                let must = "0.000001 to 1000000 seconds";
                return bound("rate.every_s", every_s, must, sane);
            }
            Self::Steps { steps } => {
                let time: f64 = steps.iter().map(|step| step.seconds).sum();
                bound("rate.steps", time, "more than 0 seconds in all", time > 0.0)?;
                steps
                    .iter()
                    .try_for_each(|step| seconds("rate.steps", step.seconds))?;
                steps.iter().map(|step| step.rate).collect()
            }
        };
        rates.iter().try_for_each(|rate| {
            let sane = (0.0..=RATE_MAX).contains(rate);
            bound("rate", rate, "0 to 100000000 a second", sane)
        })
    }
}

fn bound(
    what: &str,
    value: impl std::fmt::Display,
    must: &str,
    holds: bool,
) -> Result<(), SpecError> {
    if holds {
        return Ok(());
    }
    Err(SpecError::Value {
        what: what.to_owned(),
        value: value.to_string(),
        must: format!("it must be {must}"),
    })
}

fn seconds(what: &str, value: f64) -> Result<(), SpecError> {
    bound(
        what,
        value,
        "0 to 1000000 seconds",
        (0.0..=SECONDS_MAX).contains(&value),
    )
}

fn milliseconds(what: &str, value: f64) -> Result<(), SpecError> {
    bound(
        what,
        value,
        "0 to 1000000000 ms",
        (0.0..=1e9).contains(&value),
    )
}
