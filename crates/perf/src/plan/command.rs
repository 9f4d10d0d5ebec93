//! The command line of `leveret perf plan`, and the run that checks a plan.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::{Demand, Fleet, Flush, Keep, Kind, describe, parse_keep, plan};
use crate::drive::{DRIVE_VERSION, DriveResult, Runner};
use crate::plot::Unit;
use crate::report::{self, ReportError, Table};
use crate::result::RunResult;
use crate::spec::{CONFIRM_WINDOW_MAX, Load, MEMBERS_MAX, Rate, Size, Spec};
use crate::uri::Protocol;

/// The command line of `leveret perf plan`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The drive, as `leveret perf drive PATH --json FILE` wrote it.
    #[arg(long, value_name = "FILE")]
    pub drive: PathBuf,
    /// Messages a second, of all queues together.
    #[arg(long, short = 'r', value_name = "RATE", value_parser = positive)]
    pub rate: f64,
    /// Bytes of a message.
    #[arg(long, short = 's', value_name = "BYTES", default_value = "1000", value_parser = positive)]
    pub size: f64,
    /// Which queue.
    #[arg(long, short = 'k', value_enum, default_value = "quorum")]
    pub kind: Kind,
    /// When a stream's messages are on the drive.
    #[arg(long, value_enum, default_value = "sync")]
    pub flush: Flush,
    /// Copies of each message: 1, 3, 5 or 7; 3 where not given, of a classic queue 1.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=7))]
    pub copies: Option<u32>,
    /// Queues or streams.
    #[arg(long, short = 'q', value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MEMBERS_MAX)))]
    pub queues: u32,
    /// Readers of each message of a stream.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub readers: u32,
    /// How much is kept: a time (12h, 7d), or a size of one copy (500GB). Of a queue: the longest
    /// that consumers may be away.
    #[arg(long, value_name = "TIME|SIZE", default_value = "0s", value_parser = parse_keep)]
    pub retention: Keep,
    /// Messages that may be unconfirmed, of all publishers together.
    #[arg(long, short = 'c', value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONFIRM_WINDOW_MAX)))]
    pub confirm: u32,
    /// Cores that a node may have.
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub cores: u32,
    /// Drives that a node may have.
    #[arg(long, value_name = "COUNT", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub drives: u32,
    /// Bytes of a drive (4TB), where it is larger or smaller than the measured file system.
    #[arg(long, value_name = "SIZE")]
    pub drive_size: Option<String>,
    /// Microseconds from one node of a cluster to another and back.
    #[arg(long, value_name = "MICROS", default_value_t = 200.0)]
    pub round_trip: f64,
    /// Run the load here, on one node or on three of this machine, and show what came beside what
    /// was planned.
    #[arg(long)]
    pub check: bool,
    /// With --check: what to start; this program where not given.
    #[arg(long, value_name = "PATH", requires = "check")]
    pub binary: Option<PathBuf>,
    /// Seconds of that run.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive)]
    pub check_time: f64,
    /// Write the plan here.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    let value: Result<f64, _> = text.parse();
    match value {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 1e12 => Ok(value),
        _ => Err(format!("`{text}` is no number above 0")),
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The drive's file cannot be read.
    #[error("{path}: {what}; `leveret perf drive PATH --json FILE` writes one", path = path.display())]
    Drive {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// A file could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The run that was to check the plan came to nothing.
    #[error("the run that checks the plan: {0}")]
    Run(String),
}

/// The demand of a command line.
fn demand(arguments: &Arguments) -> Result<Demand, CommandError> {
    let asked = |text: String| Err(CommandError::Asked(text));
    let copies = match (arguments.kind, arguments.copies) {
        (Kind::Classic, None | Some(1)) => 1,
        (Kind::Classic, Some(_)) => {
            return asked("a classic queue has one copy: --kind quorum has more".to_owned());
        }
        (_, Some(even)) if even % 2 == 0 => {
            return asked(format!(
                "{even} copies outlive no more than {} do: give an odd number",
                even - 1
            ));
        }
        (_, copies) => copies.unwrap_or(3),
    };
    if arguments.kind != Kind::Stream && arguments.readers != 1 {
        return asked("each message of a queue is read once: --readers is for streams".to_owned());
    }
    let drive_bytes = match arguments.drive_size.as_deref().map(parse_keep) {
        None => None,
        Some(Ok(Keep::Bytes(bytes))) => Some(bytes),
        Some(_) => return asked("--drive-size takes a size such as 4TB".to_owned()),
    };
    Ok(Demand {
        kind: arguments.kind,
        flush: arguments.flush,
        rate: arguments.rate,
        message_bytes: arguments.size,
        copies,
        queues: arguments.queues,
        readers: arguments.readers,
        keep: arguments.retention,
        window: f64::from(arguments.confirm),
        cores_max: arguments.cores,
        drives_max: arguments.drives,
        drive_bytes,
        round_trip_us: arguments.round_trip.max(0.0),
    })
}

/// Reads the drive, plans, shows the plan on `out`, and checks it where that is asked. Answers
/// which promises the broker broke in the run that checks.
///
/// # Errors
/// When the drive's file cannot be read, what is asked for makes no sense, a file cannot be written
/// or the checking run fails.
pub fn run(
    arguments: &Arguments,
    out: &mut dyn Write,
    runner: &mut Runner<'_>,
) -> Result<Option<String>, CommandError> {
    let demand = demand(arguments)?;
    let drive = read(&arguments.drive)?;
    let fleet = plan(&demand, &drive);
    // Whoever closed the other end of the pipe has read enough, here and below.
    let _ = out.write_all(describe(&demand, &fleet).as_bytes());
    let mut record = serde_json::json!({ "asked": demand, "plan": fleet });
    let mut failure = None;
    if arguments.check {
        let spec = check_spec(arguments, &demand, &drive);
        let here = Demand {
            queues: fleet.queues,
            ..demand.clone()
        };
        let planned = plan_on(&here, &drive, spec.broker.nodes);
        let ran = runner(&spec).map_err(CommandError::Run)?;
        failure = ran.failure();
        let rows = beside(&planned, &ran, demand.is_synced());
        let _ = write!(out, "\n{}", check_table(&rows).text());
        record["check"] = rows
            .iter()
            .map(|row| {
                (
                    row.name.to_owned(),
                    serde_json::json!([row.planned, row.came]),
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&record).unwrap_or_default();
        report::save(path, text + "\n", &mut Vec::new())?;
        let _ = writeln!(out, "wrote {}", path.display());
    }
    Ok(failure)
}

fn read(path: &PathBuf) -> Result<DriveResult, CommandError> {
    let failed = |what: String| CommandError::Drive {
        path: path.clone(),
        what,
    };
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let drive: DriveResult =
        serde_json::from_str(&text).map_err(|error| failed(format!("not a drive: {error}")))?;
    if drive.version > DRIVE_VERSION {
        return Err(failed(format!(
            "of version {}, which is newer",
            drive.version
        )));
    }
    Ok(drive)
}

/// The plan of this load on so many nodes, whatever they need.
fn plan_on(demand: &Demand, drive: &DriveResult, nodes: usize) -> Fleet {
    let nodes = u32::try_from(nodes).unwrap_or(1);
    let fleet = plan(demand, drive);
    let (p50, p99) = super::confirm(demand, drive, nodes, &mut Vec::new());
    Fleet {
        nodes,
        node: super::node_load(demand, nodes),
        confirm_p50_us: p50,
        confirm_p99_us: p99,
        ..fleet
    }
}

/// The load as a run: a publisher and a consumer for each queue.
fn check_spec(arguments: &Arguments, demand: &Demand, drive: &DriveResult) -> Spec {
    let queues = plan(demand, drive).queues;
    let mut spec = Spec {
        name: "plan-check".to_owned(),
        duration_s: arguments.check_time,
        ..Spec::default()
    };
    spec.about = "What was planned, as a run.".to_owned();
    spec.broker.nodes = if demand.copies > 1 { 3 } else { 1 };
    let place = PathBuf::from(&drive.path);
    if place.is_dir() {
        let folders = ["data", "segment", "wal", "logs"];
        spec.broker.drives = folders
            .map(|folder| (folder.to_owned(), place.clone()))
            .into();
    }
    let mut load = Load {
        publishers: queues,
        consumers: queues * demand.readers,
        queues,
        size: Size::Fixed(demand.message_bytes as u64),
        confirm_window: (demand.window / f64::from(queues)).ceil().max(1.0) as u32,
        rate: Rate::Fixed(demand.rate / f64::from(queues)),
        queue_type: demand.kind.queue_type().to_owned(),
        verify: demand.readers == 1,
        ..Load::default()
    };
    if demand.kind == Kind::Stream {
        spec.protocol = Protocol::Stream;
        let flush = match demand.flush {
            Flush::Sync => "sync",
            Flush::Interval => "interval",
            Flush::Os => "os",
        };
        load.queue_arguments = [("flush".to_owned(), flush.into())].into();
    } else {
        load.prefetch = u16::MAX;
    }
    spec.loads = vec![load];
    spec
}

/// A figure that was planned, and what came.
struct Row {
    name: &'static str,
    unit: Unit,
    planned: f64,
    came: f64,
}

fn beside(planned: &Fleet, ran: &RunResult, synced: bool) -> Vec<Row> {
    let totals = &ran.main_load().totals;
    let seconds = totals.measured_s.max(f64::MIN_POSITIVE);
    let most = |of: &dyn Fn(&crate::result::NodeUsage) -> f64| {
        ran.nodes.iter().map(of).fold(0.0, f64::max)
    };
    let confirm = ran
        .main_load()
        .confirm
        .as_ref()
        .map(|found| found.percentiles);
    let row = |name, unit, planned, came| Row {
        name,
        unit,
        planned,
        came,
    };
    let node = &planned.node;
    let mut rows = vec![
        row(
            "cores, busiest node",
            Unit::Cores,
            node.cores,
            most(&|node| node.cpu_s / seconds),
        ),
        row(
            "resident, largest node",
            Unit::Bytes,
            node.resident_bytes,
            most(&|node| node.rss_bytes_max as f64),
        ),
        row(
            "written, busiest node",
            Unit::BytesPerSecond,
            node.written_bytes_per_s,
            most(&|node| node.disk_written_bytes as f64 / seconds),
        ),
    ];
    if let (true, Some(confirm)) = (synced, confirm) {
        rows.push(row(
            "confirm p50",
            Unit::Micros,
            planned.confirm_p50_us,
            confirm.p50_us as f64,
        ));
        rows.push(row(
            "confirm p99",
            Unit::Micros,
            planned.confirm_p99_us,
            confirm.p99_us as f64,
        ));
    }
    rows
}

fn check_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["of the plan", "planned", "came", "came/planned"]);
    for row in rows {
        let ratio = row.came / row.planned.max(f64::MIN_POSITIVE);
        table.row([
            row.name.to_owned(),
            row.unit.write(row.planned),
            row.unit.write(row.came),
            format!("{ratio:.2}"),
        ]);
    }
    table
}
