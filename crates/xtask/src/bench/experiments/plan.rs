//! What the experiments ask of which drive and cluster, and the document's own figures beside it.
//! All of it is data.

use super::numbers::{milliseconds, rate, short};
use serde_json::Value;

/// What a run has beside its preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// Drives as they are.
    RealDrive,
    /// Modelled ones, as `--model` names them.
    Model(&'static str),
    /// Drives as they are, and one processor for nodes and generator together.
    OneCore,
}

impl On {
    pub(super) fn title(self) -> String {
        match self {
            On::RealDrive => "real drive".to_owned(),
            On::OneCore => "one core".to_owned(),
            On::Model(model) => model.replace(':', " \u{d7}").to_uppercase(),
        }
    }

    pub(super) fn file_suffix(self) -> String {
        match self {
            On::RealDrive => String::new(),
            On::OneCore => "-one-core".to_owned(),
            On::Model(model) => format!("-{}", model.replace(':', "")),
        }
    }
}

/// A figure of a run, with its place in the result's JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) title: &'static str,
    pub(super) read: fn(&Value) -> String,
}

/// A line of the document's own figures below those of a preset and figure.
type Document = (&'static str, &'static str, &'static [&'static str]);

/// Presets against drives, one run each.
pub(super) struct Grid {
    pub(super) part: &'static str,
    pub(super) presets: &'static [&'static str],
    pub(super) drives: &'static [On],
    pub(super) figures: &'static [Figure],
    pub(super) document: &'static [Document],
}

const ALL_DRIVES: &[On] = &[
    On::Model("hdd:1"),
    On::Model("hdd:2"),
    On::Model("hdd:3"),
    On::Model("ssd:1"),
    On::Model("ssd:2"),
    On::Model("ssd:3"),
    On::RealDrive,
];

const FOUR_DRIVES: &[On] = &[
    On::Model("hdd:1"),
    On::Model("hdd:3"),
    On::Model("ssd:1"),
    On::RealDrive,
];

const CONSUMED: Figure = Figure {
    title: "consumed/s",
    read: |run| short(rate(run, "consume_rate")),
};
const P75: Figure = Figure {
    title: "p75",
    read: |run| milliseconds(run, "end_to_end", "p75_us"),
};
const P99_9: Figure = Figure {
    title: "p99.9",
    read: |run| milliseconds(run, "end_to_end", "p99_9_us"),
};

pub(super) const GRIDS: &[Grid] = &[
    Grid {
        part: "drives-1",
        presets: &["quorum-1", "mixed-light-1", "mixed-medium-1"],
        drives: ALL_DRIVES,
        figures: &[CONSUMED],
        document: &[
            (
                "quorum-1",
                "consumed/s",
                &["13k", "17k", "17k", "19k", "19k", "19k"],
            ),
            ("mixed-light-1", "consumed/s", &["6k", "", "", "20k"]),
            (
                "mixed-medium-1",
                "consumed/s",
                &["300", "1.7k", "2.3k", "20k", "20k", "20k"],
            ),
        ],
    },
    Grid {
        part: "drives-4",
        presets: &["quorum-4", "mixed-light-4", "mixed-medium-4"],
        drives: ALL_DRIVES,
        figures: &[CONSUMED],
        document: &[(
            "mixed-medium-4",
            "consumed/s",
            &["\u{2248} 0", "2.3k", "2.3k"],
        )],
    },
    Grid {
        part: "drives-40-slow",
        presets: &[
            "quorum-40-slow",
            "mixed-light-40-slow",
            "mixed-medium-40-slow",
        ],
        drives: FOUR_DRIVES,
        figures: &[P75, P99_9],
        document: &[
            ("mixed-light-40-slow", "p75", &["50 ms", "as SSD"]),
            ("mixed-light-40-slow", "p99.9", &["300 ms", "25 ms"]),
            ("mixed-medium-40-slow", "p75", &["does not work"]),
        ],
    },
    Grid {
        part: "drives-40-fast",
        presets: &[
            "quorum-40-fast",
            "mixed-light-40-fast",
            "mixed-medium-40-fast",
        ],
        drives: FOUR_DRIVES,
        figures: &[P75, P99_9],
        document: &[
            ("quorum-40-fast", "p75", &["15 ms", "", "4 ms"]),
            ("quorum-40-fast", "p99.9", &["110 ms", "", "20 ms"]),
            ("mixed-medium-40-fast", "p75", &["nothing"]),
        ],
    },
];

/// Two or three runs that a statement compares, three times in turn.
pub(super) struct Comparison {
    pub(super) part: &'static str,
    pub(super) runs: &'static [(&'static str, On)],
    pub(super) figure: Figure,
}

pub(super) const COMPARISONS: &[Comparison] = &[
    Comparison {
        part: "rounds-hdd",
        runs: &[
            ("quorum-1", On::Model("hdd:1")),
            ("mixed-medium-1", On::Model("hdd:1")),
        ],
        figure: CONSUMED,
    },
    Comparison {
        part: "rounds-ssd",
        runs: &[
            ("mixed-medium-1", On::Model("ssd:3")),
            ("mixed-medium-1", On::Model("ssd:1")),
        ],
        figure: CONSUMED,
    },
    Comparison {
        part: "rounds-tail",
        runs: &[
            ("quorum-40-fast", On::Model("hdd:1")),
            ("mixed-medium-40-fast", On::Model("hdd:1")),
        ],
        figure: P99_9,
    },
    Comparison {
        part: "rounds-node-1",
        runs: &[
            ("mirrored-1", On::RealDrive),
            ("mirrored-1-follower", On::RealDrive),
        ],
        figure: CONSUMED,
    },
    Comparison {
        part: "rounds-node-10",
        runs: &[
            ("mirrored-10", On::RealDrive),
            ("mirrored-10-follower", On::RealDrive),
        ],
        figure: CONSUMED,
    },
    Comparison {
        part: "rounds-spread",
        runs: &[
            ("mirrored-30", On::RealDrive),
            ("mirrored-30-spread", On::RealDrive),
        ],
        figure: CONSUMED,
    },
    Comparison {
        part: "rounds-cores",
        runs: &[("mirrored-10", On::OneCore), ("mirrored-10", On::RealDrive)],
        figure: CONSUMED,
    },
];

pub(super) const ROUNDS: usize = 3;

pub(super) const CLUSTER: &[(&str, &str)] = &[
    ("mirrored-1", "5.5k to 6.8k"),
    ("mirrored-10", "8k to 9.5k"),
    ("mirrored-20", "8k to 9.5k"),
    ("mirrored-30", "8k to 9.5k"),
    ("mirrored-1-follower", "3k"),
    ("mirrored-10-follower", "5k"),
    ("mirrored-30-spread", "6k (7.5k on one)"),
    ("mirrored-10-backlog", "17k to 20k"),
];

/// The presets of a scenario, each once and as long as it says.
pub(super) struct Whole {
    pub(super) part: &'static str,
    pub(super) presets: &'static [&'static str],
}

/// Not among what is run where nothing is named: they take 40 minutes, and up to 45 GB of a drive.
pub(super) const WHOLE: &[Whole] = &[
    Whole {
        part: "whole-a",
        presets: &[
            "quorum-1",
            "quorum-4",
            "quorum-40-slow",
            "quorum-40-fast",
            "mixed-light-1",
            "mixed-light-4",
            "mixed-light-40-slow",
            "mixed-light-40-fast",
            "mixed-medium-1",
            "mixed-medium-4",
            "mixed-medium-40-slow",
            "mixed-medium-40-fast",
        ],
    },
    Whole {
        part: "whole-c",
        presets: &[
            "mirrored-1",
            "mirrored-10",
            "mirrored-20",
            "mirrored-30",
            "mirrored-1-follower",
            "mirrored-10-follower",
            "mirrored-30-spread",
        ],
    },
    // 20 GB for each of three nodes.
    Whole {
        part: "whole-backlog",
        presets: &["mirrored-10-backlog"],
    },
    Whole {
        part: "whole-d",
        presets: &[
            "stream-1-1",
            "stream-1-1-512",
            "stream-1-1-1024",
            "stream-1-1-2048",
            "stream-2-2",
            "stream-2-2-512",
            "stream-2-2-1024",
            "stream-2-2-2048",
            "stream-catch-up",
            "stream-sync",
            "stream-write",
            "store-write",
            "view-1-1",
            "view-2",
        ],
    },
];
