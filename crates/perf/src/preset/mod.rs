//! The experiments of the source documents, by name, as specifications that a user can copy and
//! change: `leveret perf list`, `show NAME`, `run NAME`.
//!
//! Each is a file of `presets/`, embedded as it is: its comment says which document it is from, and
//! what that reports.

mod fast;
mod reported;

pub use fast::fast;
pub use reported::{Measure, Reported, reported};

use crate::spec::{Spec, SpecError};

/// A specification that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name by which it is run.
    pub name: &'static str,
    /// The file, comments included.
    pub text: &'static str,
}

/// Names and files, in the order of the documents.
macro_rules! presets {
    ($($name:literal,)*) => {
        [$(Preset { name: $name, text: include_str!(concat!("../../presets/", $name, ".toml")) },)*]
    };
}

/// All presets, in the order of the documents.
pub static PRESETS: [Preset; 35] = presets![
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
    "fanout-backlog",
    "mirrored-1",
    "mirrored-10",
    "mirrored-20",
    "mirrored-30",
    "mirrored-10-backlog",
    "mirrored-1-follower",
    "mirrored-10-follower",
    "mirrored-30-spread",
    "store-write",
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
    "view-1-1",
    "view-2",
];

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The name that is most like this one, for who mistyped it.
    #[must_use]
    pub fn nearest(name: &str) -> &'static str {
        let like = |preset: &&Preset| (strsim::jaro_winkler(preset.name, name) * 1e6) as u64;
        PRESETS
            .iter()
            .max_by_key(like)
            .map_or("", |preset| preset.name)
    }

    /// Its specification.
    ///
    /// # Errors
    /// Never for what comes with the program, whose tests read each.
    pub fn spec(&self) -> Result<Spec, SpecError> {
        Spec::parse(self.text)
    }
}

/// What `leveret perf list` prints: each preset with what it does.
#[must_use]
pub fn list() -> String {
    let width = PRESETS
        .iter()
        .map(|preset| preset.name.len())
        .max()
        .unwrap_or(0);
    let lines = PRESETS.iter().map(|preset| {
        let about = preset.spec().map(|spec| spec.about).unwrap_or_default();
        format!("{:width$}  {}\n", preset.name, wrapped(&about, width + 2))
    });
    lines.collect()
}

/// Columns of a line of [`list`].
const COLUMNS: usize = 100;

/// Text broken at spaces, its further lines indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column + 1 + length > COLUMNS && column > indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_documents_belong_to_presets() {
        for name in reported::names() {
            assert!(Preset::find(&name).is_some(), "{name}");
        }
    }
}
