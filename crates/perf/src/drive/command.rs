//! `leveret perf drive`: measures, predicts, and, where it is asked to, runs the load that it
//! predicted.

use std::io::Write;
use std::path::PathBuf;

use super::{
    Assumptions, DriveError, DriveResult, Plan, Prediction, QueueKind, Rehearsed, describe,
    describe_prediction, figures, measure, page, predict,
};
use crate::machine;
use crate::plot::Figure;
use crate::report::{self, Outputs, ReportError};
use crate::result::RunResult;
use crate::spec::{CONFIRM_WINDOW_MAX, Load, Rate, Size, Spec};

const WINDOW_MAX: i64 = CONFIRM_WINDOW_MAX as i64;

/// The command line of `leveret perf drive`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// A folder on the drive. A folder of our own is made in it, and removed again.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// A few seconds instead of half a minute: rougher tails.
    #[arg(long)]
    pub fast: bool,
    /// Bytes of a message to predict for.
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = 1_000)]
    pub size: u64,
    /// Messages that may be unconfirmed, of all publishers together.
    #[arg(long, short = 'c', value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=WINDOW_MAX))]
    pub confirm: u32,
    /// Messages a second; as fast as it goes where not given.
    #[arg(long, short = 'r', value_name = "RATE")]
    pub rate: Option<f64>,
    /// Microseconds from one node of a cluster to another and back.
    #[arg(long, value_name = "MICROS", default_value_t = 200.0)]
    pub round_trip: f64,
    /// Run the load on a node of its own with its folders on the drive, and show what came beside
    /// what was predicted.
    #[arg(long)]
    pub check: bool,
    /// With --check: what to start; this program where not given.
    #[arg(long, value_name = "PATH", requires = "check")]
    pub binary: Option<PathBuf>,
    /// Write the drive's page here.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write what was measured here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write each picture into this folder, as SVG.
    #[arg(long, value_name = "FOLDER")]
    pub figures: Option<PathBuf>,
    /// With --check: write the page of the run here.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub check_html: Option<PathBuf>,
    /// With --check: write the run's result here.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub check_json: Option<PathBuf>,
}

/// Why a drive's command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The drive could not be measured.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// A file could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The run that was to check the prediction came to nothing.
    #[error("the run that checks the prediction: {0}")]
    Run(String),
}

/// Runs a specification, and says in words why it could not.
pub type Runner<'a> = dyn FnMut(&Spec) -> Result<RunResult, String> + 'a;

/// Measures, predicts, checks, and shows it all on `out`. Answers which promises the broker broke
/// in the run that checks; then a file of that run that could not be written is no error.
///
/// # Errors
/// When the drive cannot be measured, a file not be written, or the checking run fails.
pub fn run(
    arguments: &Arguments,
    out: &mut dyn Write,
    runner: &mut Runner<'_>,
) -> Result<Option<String>, CommandError> {
    let mut plan = if arguments.fast {
        Plan::FAST
    } else {
        Plan::FULL
    };
    plan.log_bytes = arguments
        .size
        .saturating_mul(u64::from(arguments.confirm) / 2);
    plan.rehearsed = Rehearsed::of(arguments.confirm, arguments.size);
    // Whoever closed the other end of the pipe has read enough, here and below.
    let drive = measure(&arguments.path, &plan, &mut |step| {
        let _ = writeln!(out, "measuring: {step}");
    })?;
    let _ = write!(out, "\n{}", describe(&drive));
    let predicted = predictions(&drive, arguments);
    for (load, found) in &predicted {
        let _ = write!(out, "\n{}", describe_prediction(load, found));
    }
    let mut written = Vec::new();
    save(arguments, &drive, &predicted, &mut written)?;
    let (mut failure, mut done) = (None, Ok(()));
    if arguments.check {
        let checked = check(&drive, &plan, arguments, out, runner)?;
        let _ = write!(out, "\n{}", report::summary(&checked));
        failure = checked.failure();
        let outputs = Outputs {
            html: arguments.check_html.clone(),
            json: arguments.check_json.clone(),
            ..Outputs::default()
        };
        done = report::write_all(&[checked], &outputs, &mut written);
    }
    for path in written {
        let _ = writeln!(out, "wrote {}", path.display());
    }
    match done {
        // That a promise was broken is what counts.
        Err(error) if failure.is_some() => {
            let _ = writeln!(out, "{error}");
        }
        done => done?,
    }
    Ok(failure)
}

fn predictions(drive: &DriveResult, arguments: &Arguments) -> Vec<(Assumptions, Prediction)> {
    let kinds = [QueueKind::Classic, QueueKind::Quorum];
    let of = |kind| {
        let load = assumptions(kind, arguments);
        let found = predict(drive, &load);
        (load, found)
    };
    kinds.into_iter().map(of).collect()
}

fn assumptions(kind: QueueKind, arguments: &Arguments) -> Assumptions {
    let processor = Rehearsed::of(arguments.confirm, arguments.size);
    Assumptions {
        kind,
        message_bytes: arguments.size as f64,
        window: f64::from(arguments.confirm),
        rate: arguments.rate.filter(|rate| *rate > 0.0),
        processor_us: Some(processor.broker_us + processor.client_us)
            .map(|micros| micros / machine::cores().max(1) as f64),
        round_trip_us: arguments.round_trip.max(0.0),
    }
}

fn save(
    arguments: &Arguments,
    drive: &DriveResult,
    predicted: &[(Assumptions, Prediction)],
    written: &mut Vec<PathBuf>,
) -> Result<(), ReportError> {
    if let Some(path) = &arguments.html {
        report::save(path, page(drive, predicted), written)?;
    }
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(drive).unwrap_or_default();
        report::save(path, json + "\n", written)?;
    }
    if let Some(folder) = &arguments.figures {
        let figures: Vec<Figure> = figures(drive);
        report::save_figures(folder, &figures, written)?;
    }
    Ok(())
}

/// Seconds of the run that checks.
const CHECK_S: f64 = 15.0;
const CHECK_FAST_S: f64 = 5.0;

/// The run that the prediction for one node is about: one publisher, one consumer that keeps up.
#[must_use]
pub fn check_spec(arguments: &Arguments) -> Spec {
    let mut spec = Spec {
        name: "drive-check".to_owned(),
        ..Spec::default()
    };
    spec.about = "What was predicted from the drive's latencies, as a run.".to_owned();
    spec.duration_s = if arguments.fast {
        CHECK_FAST_S
    } else {
        CHECK_S
    };
    let folders = ["data", "segment", "wal", "logs"];
    spec.broker.drives = folders
        .map(|folder| (folder.to_owned(), arguments.path.clone()))
        .into();
    spec.loads = vec![Load {
        size: Size::Fixed(arguments.size),
        confirm_window: arguments.confirm,
        prefetch: u16::MAX,
        rate: arguments
            .rate
            .filter(|rate| *rate > 0.0)
            .map_or(Rate::Unlimited, Rate::Fixed),
        ..Load::default()
    }];
    spec
}

/// The run, with the prediction beside it. What a message costs the processors is taken from the
/// run itself, since no drive can know it: so the drive is not blamed for what they hold back. And
/// the drive is measured again after the run, since a shared one is another from one minute to the
/// next: the prediction is halfway between the two.
fn check(
    drive: &DriveResult,
    plan: &Plan,
    arguments: &Arguments,
    out: &mut dyn Write,
    runner: &mut Runner<'_>,
) -> Result<RunResult, CommandError> {
    let mut run = runner(&check_spec(arguments)).map_err(CommandError::Run)?;
    let mut load = assumptions(QueueKind::Classic, arguments);
    load.processor_us = processor_us(&run);
    let after = measure(&arguments.path, plan, &mut |step| {
        let _ = writeln!(out, "measuring again: {step}");
    })?;
    let [before, after] = [drive, &after].map(|drive| predict(drive, &load));
    let found = before.between(&after);
    run.prediction = Some(found.for_run(drive, &load));
    let spread = |one: f64, two: f64| 100.0 * (two / one.max(f64::MIN_POSITIVE) - 1.0);
    run.notes.push(format!(
        "the drive promised {:.0}/s before the run and {:.0}/s after it ({:+.0} %); what is \
         predicted is halfway between",
        before.rate,
        after.rate,
        spread(before.rate, after.rate)
    ));
    Ok(run)
}

/// Microseconds that a message took of all cores together, generator included, as it has them from
/// the same machine.
fn processor_us(run: &RunResult) -> Option<f64> {
    let confirmed = run.main_load().totals.confirmed;
    let broker: f64 = run.nodes.iter().map(|node| node.cpu_s).sum();
    let cores = run.machine.cores.max(1) as f64;
    (confirmed > 0)
        .then(|| (broker + run.generator.cpu_s) * 1e6 / cores / confirmed as f64)
        .filter(|micros| *micros > 0.0)
}
