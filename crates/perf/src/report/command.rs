//! `leveret perf report`: results read back, shown and compared.

use std::io::Write;
use std::path::PathBuf;

use super::{Outputs, ReportError, comparison, read, summary, write};

/// The command line of `leveret perf report`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Results as `leveret perf run --json` wrote them; several are compared, with the first as
    /// the measure of the others.
    #[arg(required = true, value_name = "RESULT.json")]
    pub results: Vec<PathBuf>,
    /// Write the page here: one file that needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the seconds here, with those of nodes and the latency curves beside it.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write all results into one file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write each picture into this folder, as SVG.
    #[arg(long, value_name = "FOLDER")]
    pub figures: Option<PathBuf>,
    /// Write tables as Markdown, with links to the pictures.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// Shows the results on `out`, and writes what was asked for.
///
/// # Errors
/// When a result cannot be read or a file not be written.
pub fn run(arguments: Arguments, out: &mut dyn Write) -> Result<(), ReportError> {
    let runs = read(&arguments.results)?;
    let outputs = Outputs {
        html: arguments.html,
        json: arguments.json,
        csv: arguments.csv,
        figures: arguments.figures,
        markdown: arguments.markdown,
    };
    let shown = match runs.as_slice() {
        [run] => summary(run),
        runs => comparison(runs),
    };
    // Whoever closed the other end of the pipe has read enough.
    let _ = out.write_all(shown.as_bytes());
    for path in write(&runs, &outputs)? {
        let _ = writeln!(out, "wrote {}", path.display());
    }
    Ok(())
}
