//! The answer: one or several runs as a page, as tables, as pictures, as data.
//!
//! A page is one file that needs nothing else: styles and pictures are within, nothing is fetched,
//! and no script runs. It follows the reader's light or dark, and prints in light.
//!
//! Invariant: everything made of a modelled run says so, in its pictures as well.

mod command;
mod compare;
mod csv;
mod curve;
mod figures;
mod html;
mod label;
mod setups;
mod table;
mod tables;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use command::{Arguments, run};
pub use compare::comparison;
pub(crate) use html::of_parts as page_of_parts;
pub(crate) use label::{banner, banner_of};
pub use table::Table;
pub use tables::{summary, summary_table};

use crate::plot::{Figure, Paint};
use crate::result::RunResult;

/// Runs that one report compares.
pub const RUNS_MAX: usize = 64;
/// Bytes of a result's file that are read.
pub const RESULT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Why a report was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file could not be read or written.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file is no result.
    #[error("{path} is not the result of a run: {reason}", path = path.display())]
    NotAResult {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to report, or too much.
    #[error("a report is of 1 to {RUNS_MAX} runs, and these are {0}")]
    Count(usize),
}

/// Where to write what; nothing is written that has no path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The page.
    pub html: Option<PathBuf>,
    /// The result of a single run, or a list of all.
    pub json: Option<PathBuf>,
    /// The seconds of the loads; those of nodes and the latency curves lie beside it, as
    /// `NAME-nodes.csv` and `NAME-percentiles.csv`.
    pub csv: Option<PathBuf>,
    /// A folder for each picture, as SVG.
    pub figures: Option<PathBuf>,
    /// Tables in Markdown, which refer to the pictures in `figures` where that is given.
    pub markdown: Option<PathBuf>,
}

/// Writes a report of one run, or of several side by side, and says which files it wrote.
///
/// # Errors
/// When there are no runs or too many, or a file cannot be written.
pub fn write(runs: &[RunResult], outputs: &Outputs) -> Result<Vec<PathBuf>, ReportError> {
    let mut written = Vec::new();
    write_all(runs, outputs, &mut written)?;
    Ok(written)
}

/// The same, adding what it wrote to `written`. The result itself comes first, pictures last; one
/// that cannot be written keeps no other from being so.
///
/// # Errors
/// The first of what [`write()`] may fail with.
pub fn write_all(
    runs: &[RunResult],
    outputs: &Outputs,
    written: &mut Vec<PathBuf>,
) -> Result<(), ReportError> {
    if runs.is_empty() || runs.len() > RUNS_MAX {
        return Err(ReportError::Count(runs.len()));
    }
    let mut done = Ok(());
    if let Some(path) = &outputs.json {
        done = done.and(save(path, json(runs), written));
    }
    if let Some(path) = &outputs.csv {
        done = done.and(save_csv(path, runs, written));
    }
    if let Some(path) = &outputs.html {
        done = done.and(save(path, page(runs), written));
    }
    if let Some(path) = &outputs.markdown {
        let text = tables::markdown(runs, outputs.figures.as_deref(), &pictures(runs));
        done = done.and(save(path, text, written));
    }
    if let Some(folder) = &outputs.figures {
        done = done.and(save_figures(folder, &pictures(runs), written));
    }
    done
}

/// The page of a run, or the one that compares several.
#[must_use]
pub fn page(runs: &[RunResult]) -> String {
    match runs {
        [run] => html::of_run(run),
        runs => html::of_runs(runs),
    }
}

/// The pictures of a run, or those that compare several.
#[must_use]
pub fn pictures(runs: &[RunResult]) -> Vec<Figure> {
    match runs {
        [run] => figures::of_run(run),
        runs => compare::figures(runs),
    }
}

fn json(runs: &[RunResult]) -> String {
    match runs {
        [run] => run.to_json() + "\n",
        runs => {
            let all: Vec<String> = runs.iter().map(RunResult::to_json).collect();
            format!("[\n{}\n]\n", all.join(",\n"))
        }
    }
}

fn save_csv(
    path: &Path,
    runs: &[RunResult],
    written: &mut Vec<PathBuf>,
) -> Result<(), ReportError> {
    let all: Vec<&RunResult> = runs.iter().collect();
    let labelled: Vec<(String, &RunResult)> = label::labels(&all)
        .into_iter()
        .zip(all.iter().copied())
        .collect();
    save(path, csv::loads(&labelled), written)?;
    save(&beside(path, "nodes"), csv::nodes(&labelled), written)?;
    save(
        &beside(path, "percentiles"),
        csv::percentile_curves(&labelled),
        written,
    )
}

/// `run.csv` and `nodes` give `run-nodes.csv`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path
        .extension()
        .map_or("csv".into(), |ending| ending.to_string_lossy());
    path.with_file_name(format!("{stem}-{what}.{ending}"))
}

/// Each picture as SVG.
///
/// # Errors
/// When a file cannot be written.
pub fn save_figures(
    folder: &Path,
    figures: &[Figure],
    written: &mut Vec<PathBuf>,
) -> Result<(), ReportError> {
    for figure in figures {
        let svg = folder.join(format!("{}.svg", figure.name));
        save(&svg, figure.svg(Paint::Light), written)?;
    }
    Ok(())
}

/// Writes a file, and the folders that lead to it.
///
/// # Errors
/// When the system refuses.
pub fn save(
    path: &Path,
    contents: impl AsRef<[u8]>,
    written: &mut Vec<PathBuf>,
) -> Result<(), ReportError> {
    let failed = |source| ReportError::Io {
        what: "write",
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, contents).map_err(failed)?;
    written.push(path.to_owned());
    Ok(())
}

/// Reads results: files with one, or with a list of them.
///
/// # Errors
/// When a file cannot be read, is too large, or is no result, or there are too many.
pub fn read(paths: &[PathBuf]) -> Result<Vec<RunResult>, ReportError> {
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(read_one(path)?);
        if runs.len() > RUNS_MAX {
            return Err(ReportError::Count(runs.len()));
        }
    }
    Ok(runs)
}

fn read_one(path: &Path) -> Result<Vec<RunResult>, ReportError> {
    let failed = |source| ReportError::Io {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let wrong = |reason: String| ReportError::NotAResult {
        path: path.to_owned(),
        reason,
    };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > RESULT_BYTES_MAX {
        return Err(wrong(format!(
            "it has {bytes} bytes, of {RESULT_BYTES_MAX} at most"
        )));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    if !text.trim_start().starts_with('[') {
        return Ok(vec![RunResult::from_json(&text).map_err(wrong)?]);
    }
    let list: Vec<serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    list.iter()
        .map(|one| RunResult::from_json(&one.to_string()).map_err(wrong))
        .collect()
}
