//! What is asked for.

use serde::{Deserialize, Serialize};

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A classic queue: one copy.
    Classic,
    /// A quorum queue.
    Quorum,
    /// A stream.
    Stream,
}

/// When a stream's messages are on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// Before their confirm.
    Sync,
    /// Some time after it.
    Interval,
    /// When the operating system likes.
    Os,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// All of so many seconds.
    Seconds(f64),
    /// So many bytes, of all queues together, once.
    Bytes(f64),
}

/// The load, and what nodes may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Which queue.
    pub kind: Kind,
    /// When it is on the drive; queues are synced whatever this says.
    pub flush: Flush,
    /// Messages a second, of all queues together.
    pub rate: f64,
    /// Bytes of a message's body.
    pub message_bytes: f64,
    /// Copies of each message.
    pub copies: u32,
    /// Queues or streams.
    pub queues: u32,
    /// Readers of each message: 1 for a queue.
    pub readers: u32,
    /// How much is kept.
    pub keep: Keep,
    /// Messages of all publishers together that may wait for their confirm.
    pub window: f64,
    /// Cores of a node at most.
    pub cores_max: u32,
    /// Drives of a node at most.
    pub drives_max: u32,
    /// Bytes of a drive, where it is another than the measured one.
    pub drive_bytes: Option<f64>,
    /// Microseconds from one node to another and back.
    pub round_trip_us: f64,
}

/// Bytes beside its body that a kept message takes.
const KEPT_OVERHEAD_BYTES: f64 = 48.0;
/// What a queue keeps for less than this is gone before it is moved to segments.
const SEGMENT_S: f64 = 10.0;

impl Kind {
    /// As a sentence names it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Classic => "classic queue",
            Self::Quorum => "quorum queue",
            Self::Stream => "stream",
        }
    }

    /// As a declaration names it.
    #[must_use]
    pub fn queue_type(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

impl Demand {
    /// Whether a confirm waits for a sync.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.kind != Kind::Stream || self.flush == Flush::Sync
    }

    /// Bytes of one copy of all that is kept.
    #[must_use]
    pub fn kept_bytes(&self) -> f64 {
        match self.keep {
            Keep::Seconds(seconds) => {
                self.rate * seconds * (self.message_bytes + KEPT_OVERHEAD_BYTES)
            }
            Keep::Bytes(bytes) => bytes,
        }
    }

    /// Whether a queue keeps messages for so long that they are written again, into segments.
    #[must_use]
    pub fn keeps_in_segments(&self) -> bool {
        let each_s = self.rate * self.message_bytes.max(1.0);
        let seconds = match self.keep {
            Keep::Seconds(seconds) => seconds,
            Keep::Bytes(bytes) => bytes / each_s.max(f64::MIN_POSITIVE),
        };
        self.kind != Kind::Stream && seconds >= SEGMENT_S
    }
}

/// `30s`, `12h`, `7d`; `500MB`, `2TB`.
///
/// # Errors
/// For everything else, saying what it takes.
pub fn parse_keep(text: &str) -> Result<Keep, String> {
    const SECONDS: [(&str, f64); 4] = [("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    const BYTES: [(&str, f64); 8] = [
        ("kib", 1_024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("tib", 1_099_511_627_776.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
    ];
    let lower = text.trim().to_lowercase();
    let number = |unit: &str| {
        let value: f64 = lower.strip_suffix(unit)?.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let bytes = BYTES
        .iter()
        .find_map(|(unit, each)| number(unit).map(|value| Keep::Bytes(value * each)));
    let seconds = SECONDS
        .iter()
        .find_map(|(unit, each)| number(unit).map(|value| Keep::Seconds(value * each)));
    bytes
        .or(seconds)
        .ok_or_else(|| format!("`{text}` is no time such as 12h or 7d, and no size such as 500GB"))
}
