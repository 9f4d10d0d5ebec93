//! `leveret perf …`: the command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
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
use crate::uri::{Uri, without_passwords};
use crate::{compare, flags, interrupt, machine, plan};

/// Exit code for a broken promise: a message lost, doubled, out of order, damaged.
const BROKEN: u8 = 1;
/// Exit code for a run that came to no result.
const FAILED: u8 = 2;
/// What a shell adds to a signal's number: the exit code of a run that a signal ended.
const SIGNALLED: u8 = 128;
/// Runs against each broker at most: a report is of both brokers' runs.
const ROUNDS_MAX: u32 = (report::RUNS_MAX / 2) as u32;

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
        leveret perf drive /mnt/a --json drive.json\n  \
        leveret perf plan --drive drive.json --rate 50000 --size 2000 --kind stream --retention 7d"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a load and report it; exit code 1 if a message was lost, duplicated, out of order or
    /// damaged, 2 if there is no result
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
    /// Say how many nodes, cores, drives and how much memory a load needs, from a measured drive
    Plan(Box<plan::Arguments>),
}

/// Runs the command line, without the words before `perf`'s own.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = arguments
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let safe: Vec<String> = words.iter().map(|word| without_passwords(word)).collect();
    let shown = format!("leveret perf {}", safe.join(" "));
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
        Command::Run { options, .. } => prepare().and_then(|()| run(&options, &shown)),
        Command::List => Ok(print(&preset::list())),
        Command::Show { name } => named(&name).map(|preset| print(preset.text)),
        Command::Report(arguments) => {
            let done = report::run(arguments, &mut std::io::stdout().lock());
            done.map(|()| ExitCode::SUCCESS)
                .map_err(|error| error.to_string())
        }
        Command::Drive(arguments) => prepare().and_then(|()| measure_drive(arguments, &shown)),
        Command::Plan(arguments) => prepare().and_then(|()| plan_fleet(&arguments, &shown)),
    };
    result.unwrap_or_else(|text| {
        complain(&text);
        ExitCode::from(interrupt::signal().map_or(FAILED, |signal| SIGNALLED + signal))
    })
}

/// What this process needs to be before it makes what must not be left behind, and connections.
fn prepare() -> Result<(), String> {
    machine::raise_file_limit();
    interrupt::watch().map_err(|error| format!("cannot watch for signals: {error}"))
}

/// Says what went wrong, to whoever is still there to read it.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "leveret perf: {text}");
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
    let mut runner = checking(shown, arguments.binary.clone());
    let done = drive::run(&arguments, &mut std::io::stdout().lock(), &mut runner);
    checked(done.map_err(|error| error.to_string())?)
}

fn plan_fleet(arguments: &plan::Arguments, shown: &str) -> Result<ExitCode, String> {
    let mut runner = checking(shown, arguments.binary.clone());
    let done = plan::run(arguments, &mut std::io::stdout().lock(), &mut runner);
    checked(done.map_err(|error| error.to_string())?)
}

/// Runs what a measurement or a plan is checked by, on nodes of its own.
fn checking(
    shown: &str,
    binary: Option<PathBuf>,
) -> impl FnMut(&Spec) -> Result<RunResult, String> {
    let engine = Engine {
        command: shown.to_owned(),
        binary,
        ..Engine::default()
    };
    move |spec| run_quietly(&engine, spec)
}

/// The exit code of what was checked by a run that broke promises, or none.
fn checked(broken: Option<String>) -> Result<ExitCode, String> {
    match broken {
        None => Ok(ExitCode::SUCCESS),
        Some(broken) => {
            complain(&format!("FAILED: {broken}"));
            Ok(ExitCode::from(BROKEN))
        }
    }
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
        binary: options.target.binary.clone(),
    };
    let (runs, error) = match &options.outcome.compare {
        None => (vec![run_once(&engine, &spec)?], None),
        Some(uri) => alternate(&engine, &spec, uri, options.outcome.rounds)?,
    };
    conclude(&runs, &outputs(&options.outcome), error)
}

/// Says which promises were broken, then writes what was found. That something was broken is what
/// counts, whatever else went wrong.
fn conclude(
    runs: &[RunResult],
    outputs: &Outputs,
    error: Option<String>,
) -> Result<ExitCode, String> {
    let broken: Vec<String> = runs.iter().filter_map(RunResult::failure).collect();
    if !broken.is_empty() {
        complain(&format!("FAILED: {}", broken.join("; ")));
    }
    let mut written = Vec::new();
    let done = match runs {
        [] => Ok(()),
        runs => report::write_all(runs, outputs, &mut written),
    };
    for path in written {
        let _ = writeln!(std::io::stderr().lock(), "wrote {}", path.display());
    }
    let unwritten = done.err().map(|error| error.to_string());
    let errors: Vec<String> = error.into_iter().chain(unwritten).collect();
    match (broken.is_empty(), errors.is_empty()) {
        (true, true) => Ok(ExitCode::SUCCESS),
        (true, false) => Err(errors.join("; ")),
        (false, _) => {
            errors.iter().for_each(|error| complain(error));
            Ok(ExitCode::from(BROKEN))
        }
    }
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
    let mut progress = Progress::stderr(spec);
    let result = engine.run(spec, &mut |live| progress.show(live));
    progress.finish();
    result.map_err(|error| error.to_string())
}

/// The same against another broker, in alternation; prints ratios. An error in one round leaves the
/// runs before it.
fn alternate(
    engine: &Engine,
    spec: &Spec,
    uri: &str,
    rounds: u32,
) -> Result<(Vec<RunResult>, Option<String>), String> {
    if !(1..=ROUNDS_MAX).contains(&rounds) {
        return Err(format!("--rounds takes 1 to {ROUNDS_MAX}, not {rounds}"));
    }
    // Before the first broker has been measured for as long as that takes.
    Uri::parse(uri).map_err(|error| error.to_string())?;
    let mut other = spec.clone();
    other.uris = vec![uri.to_owned()];
    let mut places = BTreeSet::new();
    for load in &mut other.loads {
        for list in [
            &mut load.publish_to,
            &mut load.consume_from,
            &mut load.declare_at,
        ] {
            places.extend(list.drain(..));
        }
    }
    if places.len() > 1 {
        return Err(format!(
            "--compare has one broker, and this load has clients at {}: the same load cannot be run \
             there",
            places.len()
        ));
    }
    let mut run = |second: bool| run_quietly(engine, if second { &other } else { spec });
    let (first, second, error) = in_turn(rounds, &mut run);
    // A round that only the first has run compares nothing.
    print(&compare::table(&first[..second.len()], &second));
    let runs = first.into_iter().chain(second).collect();
    Ok((runs, error))
}

/// Runs the first and the second in turn: what each came to, and what ended it early.
fn in_turn<R>(
    rounds: u32,
    run: &mut dyn FnMut(bool) -> Result<R, String>,
) -> (Vec<R>, Vec<R>, Option<String>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        for is_second in [false, true] {
            match run(is_second) {
                Ok(result) if is_second => second.push(result),
                Ok(result) => first.push(result),
                Err(error) => {
                    let error = format!("round {round} of {rounds}: {error}");
                    return (first, second, Some(error));
                }
            }
        }
    }
    (first, second, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{
        Breaks, Checks, GeneratorUsage, LimitsSeen, LoadResult, Machine, Target, Totals, VERSION,
    };

    #[test]
    fn an_error_in_one_round_leaves_the_rounds_before_it() {
        let mut runs = 0;
        let mut run = |_: bool| {
            runs += 1;
            if runs == 4 {
                Err("no broker".to_owned())
            } else {
                Ok(runs)
            }
        };
        let (first, second, error) = in_turn(3, &mut run);
        assert_eq!((first, second), (vec![1, 3], vec![2]));
        assert_eq!(error.as_deref(), Some("round 2 of 3: no broker"));
    }

    #[test]
    fn more_rounds_than_a_report_has_runs_are_refused_before_any_is_run() {
        let spec = Spec::default();
        for rounds in [0, ROUNDS_MAX + 1] {
            let error = alternate(&Engine::default(), &spec, "amqp://box", rounds).unwrap_err();
            assert!(error.starts_with("--rounds takes 1 to 32"), "{error}");
        }
        let error = alternate(&Engine::default(), &spec, "box", 1).unwrap_err();
        assert!(error.contains("no AMQP URI"), "{error}");
        let apart = Preset::find("mirrored-1-follower")
            .expect("a preset")
            .spec();
        let apart = apart.expect("it is one");
        let error = alternate(&Engine::default(), &apart, "amqp://box", 1).unwrap_err();
        assert!(error.contains("clients at 2"), "{error}");
    }

    /// A run that lost so many messages.
    fn result(lost: u64) -> RunResult {
        let checks = Checks {
            lost,
            ..Checks::default()
        };
        RunResult {
            version: VERSION,
            name: "test".to_owned(),
            command: String::new(),
            started_unix_s: 0,
            target: Target {
                product: "Leveret".to_owned(),
                version: String::new(),
                uris: Vec::new(),
                started_here: true,
            },
            machine: Machine::default(),
            modelled_device: None,
            spec: Spec::default(),
            phases: Vec::new(),
            loads: vec![LoadResult {
                name: "load".to_owned(),
                seconds: Vec::new(),
                totals: Totals::default(),
                confirm: None,
                end_to_end: None,
                checks,
                limits: LimitsSeen::default(),
                breaks: Breaks::default(),
            }],
            nodes: Vec::new(),
            generator: GeneratorUsage::default(),
            notes: Vec::new(),
            prediction: None,
        }
    }

    #[test]
    fn a_loss_is_the_outcome_whatever_else_went_wrong() {
        let unwritable = Outputs {
            json: Some("/dev/null/result.json".into()),
            ..Outputs::default()
        };
        let nothing = Outputs::default();
        let fails = || Some("round 2 of 3: no broker".to_owned());
        for (lost, outputs, error, expected) in [
            (0, &nothing, None, Ok(0)),
            (0, &nothing, fails(), Err("no broker")),
            (0, &unwritable, None, Err("/dev/null/result.json")),
            (0, &unwritable, fails(), Err("no broker; cannot write")),
            (3, &nothing, None, Ok(BROKEN)),
            (3, &unwritable, fails(), Ok(BROKEN)),
        ] {
            let found = conclude(&[result(lost)], outputs, error);
            match (found, expected) {
                (Ok(code), Ok(expected)) => assert_eq!(code, ExitCode::from(expected)),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, _) => panic!("{found:?} and not {expected:?}"),
            }
        }
    }
}
