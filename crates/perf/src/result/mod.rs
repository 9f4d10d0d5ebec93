//! What a run found, as it is kept: the JSON of `leveret perf run --json`, and what reports read.
//!
//! A field that is added is optional, so that older files stay readable; [`VERSION`] rises when the
//! meaning of one changes.

mod checks;
mod load;
mod usage;

pub use checks::Checks;
pub(crate) use load::rate;
pub use load::{Breaks, Latency, LimitsSeen, LoadResult, Percentiles, Second, Totals};
pub use usage::{DriveUsage, FsyncSlot, GeneratorUsage, NodeSecond, NodeUsage};

use serde::{Deserialize, Serialize};

use crate::spec::Spec;
use crate::uri::without_passwords;

/// Version of this form.
pub const VERSION: u32 = 1;

/// Everything about one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`VERSION`] of who wrote it.
    pub version: u32,
    /// The specification's name.
    pub name: String,
    /// The command that runs it again.
    pub command: String,
    /// When it began: seconds since 1970.
    pub started_unix_s: u64,
    /// The broker.
    pub target: Target,
    /// The machine that the load came from, and local brokers ran on.
    pub machine: Machine,
    /// The device that was modelled (`hdd:1`); none where disks were what they are. A modelled run
    /// says so wherever it is shown.
    #[serde(default)]
    pub modelled_device: Option<String>,
    /// What was run.
    pub spec: Spec,
    /// The phases as they went.
    pub phases: Vec<PhaseResult>,
    /// Each load of the specification, in its order. The first is the one that the run is about;
    /// the others are beside it.
    pub loads: Vec<LoadResult>,
    /// Local brokers, where there are any.
    #[serde(default)]
    pub nodes: Vec<NodeUsage>,
    /// The load generator itself.
    pub generator: GeneratorUsage,
    /// What stands beside the figures that a reader must know: a cluster that was one node, a
    /// backlog that was not reached.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What a measured drive promised for this load, if it was asked.
    #[serde(default)]
    pub prediction: Option<Prediction>,
}

/// Who was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// As the broker names itself: `Leveret`, `RabbitMQ`, `LavinMQ`.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Addresses that were connected to, without passwords.
    pub uris: Vec<String>,
    /// Whether this run started it.
    pub started_here: bool,
}

/// Where the generator ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
}

/// One phase as it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// Its beginning, in seconds since the run's.
    pub from_s: f64,
    /// Its end, in seconds since the run's beginning.
    pub to_s: f64,
    /// Whether its figures count towards the totals.
    pub measured: bool,
}

/// What a measured drive promises.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The path that was measured.
    pub path: String,
    /// Confirmed messages per second.
    pub confirm_rate: f64,
    /// Median confirm latency in microseconds.
    pub confirm_p50_us: f64,
    /// 99th percentile of the confirm latency in microseconds.
    pub confirm_p99_us: f64,
    /// How it was reckoned, in words.
    pub reasoning: String,
}

/// What the progress view is given each second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Seconds since the run's beginning.
    pub at_s: f64,
    /// Seconds that the run takes in all, where that can be said.
    pub expected_s: Option<f64>,
    /// The phase's name; `drain` while the run waits for what is on its way.
    pub phase: String,
    /// Each load's name with its last second.
    pub loads: Vec<(String, Second)>,
    /// Each local broker's name with its last second.
    pub nodes: Vec<(String, NodeSecond)>,
}

impl RunResult {
    /// Whether the broker broke a promise in any load.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.loads.iter().any(|load| load.checks.failed())
    }

    /// Whether a connection of any load broke while it ran.
    #[must_use]
    pub fn has_breaks(&self) -> bool {
        self.loads.iter().any(|load| load.breaks.broken > 0)
    }

    /// The load that the run is about.
    ///
    /// # Panics
    /// If there is none, which no run and no file that was read has.
    #[must_use]
    pub fn main_load(&self) -> &LoadResult {
        self.loads.first().expect("a run has a load")
    }

    /// One line that says which promises were broken; nothing where none was.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let broken: Vec<String> = self
            .loads
            .iter()
            .filter(|load| load.checks.failed())
            .map(|load| format!("load `{}`: {}", load.name, load.checks.broken()))
            .collect();
        (!broken.is_empty()).then(|| broken.join("; "))
    }

    /// The same without passwords: a result is shown to others.
    #[must_use]
    pub fn without_passwords(mut self) -> Self {
        for uri in &mut self.spec.uris {
            *uri = without_passwords(uri);
        }
        let words = self.command.split(' ').map(without_passwords);
        self.command = words.collect::<Vec<_>>().join(" ");
        self
    }

    /// The result as JSON.
    ///
    /// # Panics
    /// Never: all that is in it has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result has a form in JSON")
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let result: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if result.version > VERSION {
            return Err(format!(
                "it is of version {}, and this leveret reads up to {VERSION}",
                result.version
            ));
        }
        if result.loads.is_empty() {
            return Err("it has no loads".to_owned());
        }
        // Older versions kept them.
        Ok(result.without_passwords())
    }
}
