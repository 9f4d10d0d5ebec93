//! `leveret perf …`: the command line.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::drive;
use crate::engine::Engine;
use crate::flags::{RunOptions, translate};
use crate::preset::{self, Preset};
use crate::progress::Progress;
use crate::report::{self, Outputs};
use crate::result::RunResult;
use crate::spec::Spec;
use crate::{compare, flags};

/// Exit code for a broken promise: a message lost, doubled, out of order, damaged.
const BROKEN: u8 = 1;
/// Exit code for a run that came to no result.
const FAILED: u8 = 2;

#[derive(Parser)]
#[command(
    name = "leveret perf",
    about = "Will this hardware carry this load?",
    after_help = "Examples:\n  \
        leveret perf list\n  \
        leveret perf run quorum-1 --fast\n  \
        leveret perf run mixed-medium-1 --model hdd:1 --html hdd.html --json hdd.json\n  \
        leveret perf run mixed-medium-1 --drives wal=/mnt/a,segment=/mnt/b\n  \
        leveret perf run -h amqp://guest:guest@broker/ -x 4 -y 4 -u orders -s 1000 -f persistent \
-c 1000 -q 500 -z 60\n  \
        leveret perf run quorum-1 -h amqp://ours/ --compare amqp://theirs/\n  \
        leveret perf show quorum-1 > mine.toml && leveret perf run mine.toml\n  \
        leveret perf drive /mnt/a"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a load and say what was found; 1 where a message was lost, doubled, out of order or
    /// damaged, 2 where there is no result
    #[command(
        disable_help_flag = true,
        after_help = "Every message carries a sequence, the time at which it was due, and a checksum. \
            Latency counts from the due time: a broker that stalls shows it. -h is the broker, as \
            in PerfTest; --help is this."
    )]
    Run {
        /// Print this
        #[arg(long, action = clap::ArgAction::HelpLong)]
        help: Option<bool>,
        #[command(flatten)]
        options: Box<RunOptions>,
    },
    /// List the experiments that come with the program
    List,
    /// Print one, to be copied and changed
    Show {
        /// Its name
        name: String,
    },
    /// Show results again, or compare them
    Report(report::Arguments),
    /// Measure a drive as a write-ahead log would use it, and predict what it carries
    Drive(drive::Arguments),
}

/// Runs the command line, without the words before `perf`'s own.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = arguments
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let shown = format!("leveret perf {}", words.join(" "));
    let words = match words.split_first() {
        Some((first, rest)) if first == "run" => {
            let rest = translate(rest.iter().cloned());
            std::iter::once(first.clone()).chain(rest).collect()
        }
        _ => words,
    };
    let words = std::iter::once("leveret perf".to_owned()).chain(words);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { FAILED } else { 0 };
            // Whoever closed the other end of the pipe has read enough.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match cli.command {
        Command::Run { options, .. } => run(&options, &shown),
        Command::List => Ok(print(&preset::list())),
        Command::Show { name } => named(&name).map(|preset| print(preset.text)),
        Command::Report(arguments) => {
            let done = report::run(arguments, &mut std::io::stdout().lock());
            done.map(|()| ExitCode::SUCCESS)
                .map_err(|error| error.to_string())
        }
        Command::Drive(arguments) => measure_drive(arguments, &shown),
    };
    result.unwrap_or_else(|text| {
        eprintln!("leveret perf: {text}");
        ExitCode::from(FAILED)
    })
}

fn print(text: &str) -> ExitCode {
    // Whoever closed the other end of the pipe has read enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn named(name: &str) -> Result<&'static Preset, String> {
    Preset::find(name).ok_or_else(|| {
        let nearest = Preset::nearest(name);
        format!("there is no preset `{name}`; the nearest is `{nearest}` (leveret perf list)")
    })
}

fn measure_drive(arguments: drive::Arguments, shown: &str) -> Result<ExitCode, String> {
    let engine = Engine {
        command: shown.to_owned(),
        ..Engine::default()
    };
    let mut runner = |spec: &Spec| run_quietly(&engine, spec);
    let done = drive::run(&arguments, &mut std::io::stdout().lock(), &mut runner);
    done.map(|()| ExitCode::SUCCESS)
        .map_err(|error| error.to_string())
}

/// A preset's specification, or a file's.
fn find(what: &str) -> Result<Spec, String> {
    if let Some(preset) = Preset::find(what) {
        return preset.spec().map_err(|error| error.to_string());
    }
    if !Path::new(what).exists() {
        return named(what).and_then(|preset| preset.spec().map_err(|error| error.to_string()));
    }
    let text = std::fs::read_to_string(what).map_err(|error| format!("{what}: {error}"))?;
    Spec::parse(&text).map_err(|error| format!("{what}: {error}"))
}

fn run(options: &RunOptions, shown: &str) -> Result<ExitCode, String> {
    let spec = options.spec(find, preset::fast)?;
    if options.outcome.show {
        let text = toml::to_string(&spec).map_err(|error| error.to_string())?;
        return Ok(print(&text));
    }
    let engine = Engine {
        command: shown.to_owned(),
        pids: options.outcome.pid.clone(),
        binary: options.place.binary.clone(),
    };
    let runs = match &options.outcome.compare {
        None => vec![run_once(&engine, &spec)?],
        Some(uri) => alternate(&engine, &spec, uri, options.outcome.rounds)?,
    };
    let written = report::write(&runs, &outputs(&options.outcome));
    for path in written.map_err(|error| error.to_string())? {
        eprintln!("wrote {}", path.display());
    }
    let broken: Vec<String> = runs.iter().filter_map(RunResult::failure).collect();
    if broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("leveret perf: FAILED: {}", broken.join("; "));
    Ok(ExitCode::from(BROKEN))
}

fn outputs(options: &flags::OutcomeOptions) -> Outputs {
    Outputs {
        html: options.html.clone(),
        json: options.json.clone(),
        csv: options.csv.clone(),
        figures: options.figures.clone(),
        ..Outputs::default()
    }
}

/// Runs once with progress, and prints what was found.
fn run_once(engine: &Engine, spec: &Spec) -> Result<RunResult, String> {
    let result = run_quietly(engine, spec)?;
    print(&report::summary(&result));
    Ok(result)
}

fn run_quietly(engine: &Engine, spec: &Spec) -> Result<RunResult, String> {
    let mut progress = Progress::stderr(&spec.name);
    let result = engine.run(spec, &mut |live| progress.show(live));
    progress.finish();
    result.map_err(|error| error.to_string())
}

/// The same against another broker, in alternation; prints ratios.
fn alternate(
    engine: &Engine,
    spec: &Spec,
    uri: &str,
    rounds: u32,
) -> Result<Vec<RunResult>, String> {
    let mut other = spec.clone();
    other.uris = vec![uri.to_owned()];
    for load in &mut other.loads {
        for list in [
            &mut load.publish_to,
            &mut load.consume_from,
            &mut load.declare_at,
        ] {
            list.clear();
        }
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        first.push(run_quietly(engine, spec)?);
        second.push(run_quietly(engine, &other)?);
    }
    print(&compare::table(&first, &second));
    first.extend(second);
    Ok(first)
}
