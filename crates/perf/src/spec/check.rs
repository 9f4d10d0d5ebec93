//! What a specification must hold that its types do not say.

use super::{
    CONFIRM_WINDOW_MAX, LOADS_MAX, Load, MEMBERS_MAX, PHASES_MAX, Rate, SIZE_BYTES_MAX, Size, Spec,
    THREADS_MAX,
};

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
        let publishers: u64 = self.loads.iter().map(|l| u64::from(l.publishers)).sum();
        let must = "65535 in all loads together at most";
        bound(
            "publishers",
            publishers,
            must,
            publishers <= u64::from(MEMBERS_MAX),
        )
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
        let queues = self.queues;
        bound(
            "queues",
            queues,
            "1 to 65535",
            (1..=MEMBERS_MAX).contains(&queues),
        )?;
        let window = self.confirm_window;
        bound(
            "confirm_window",
            window,
            "16000000 at most",
            window <= CONFIRM_WINDOW_MAX,
        )?;
        bound(
            "ack.every",
            self.ack.every,
            "1 at least",
            self.ack.every >= 1,
        )?;
        let shared = self.channels_per_connection;
        bound(
            "channels_per_connection",
            shared,
            "1 to 2047",
            (1..=2047).contains(&shared),
        )?;
        milliseconds("ack.delay_ms", self.ack.delay_ms)?;
        milliseconds("consumer_delay_ms", self.consumer_delay_ms)?;
        self.size.check()?;
        self.rate.check()
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
            Self::Burst { every_s, .. } => {
                let must = "more than 0";
                return bound(
                    "rate.every_s",
                    every_s,
                    must,
                    *every_s > 0.0 && *every_s <= 1e6,
                );
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
            let sane = (0.0..=1e8).contains(rate);
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
        (0.0..=1e6).contains(&value),
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
