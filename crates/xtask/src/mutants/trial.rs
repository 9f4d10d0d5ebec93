//! Running tests with one change switched on: only those that reach it, until one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::workspace::TestProgram;
use crate::run;

/// Which tests of a program reach a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// These.
    Tests(BTreeSet<String>),
    /// Somebody who is not a test's own thread, so that any of them may.
    All,
}

/// What a program does when no change is on.
pub struct Baseline {
    /// How long all of its tests take.
    pub took: Duration,
    /// Who reaches which change.
    pub coverage: BTreeMap<u32, Coverage>,
}

/// What the tests made of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A test failed, or the process ended.
    Caught,
    /// They did not end in time.
    TimeOut,
    /// They passed, or had not failed when their time was up.
    Missed,
    /// There is no test that comes there.
    NotReached,
}

impl Verdict {
    /// Whether the tests do not pass with the change.
    pub const fn is_noticed(self) -> bool {
        matches!(self, Verdict::Caught | Verdict::TimeOut)
    }
}

/// Longest that a program without a change may take.
const BASELINE_MAX: Duration = Duration::from_secs(900);
/// What a run has beyond a multiple of the baseline: a busy machine is late.
const GRACE: Duration = Duration::from_secs(15);
/// How many times the baseline a run may take.
const PATIENCE: u32 = 3;
/// What a changed program may have of memory (KiB) and write to a file (blocks of 512 bytes): some
/// changes never end what they fill.
const BOUNDS: &str = "ulimit -v 12000000; ulimit -f 4000000; exec \"$@\"";

/// Runs all tests of a program, and notes who reaches what. Nothing if they fail: what counts
/// allocations counts those of the notes as well.
pub fn baseline(program: &TestProgram) -> Result<Option<Baseline>> {
    let notes = run::target_folder("mutants")?.join("reached.txt");
    let _ = fs::remove_file(&notes);
    let mut command = bounded(program)?;
    command.env("XTASK_MUTANTS_REACHED", &notes);
    let started = Instant::now();
    let verdict = watch(command, BASELINE_MAX)?;
    if verdict != Verdict::Missed {
        return Ok(None);
    }
    Ok(Some(Baseline {
        took: started.elapsed(),
        coverage: read_notes(&notes, &tests_of(program)?)?,
    }))
}

/// Runs those tests of a program that reach a change, with the change on. Tests that have not
/// failed after `longest`, and are not late yet, have missed it.
pub fn tried(
    program: &TestProgram,
    baseline: &Baseline,
    number: u32,
    longest: Duration,
) -> Result<Verdict> {
    let Some(coverage) = baseline.coverage.get(&number) else {
        return Ok(Verdict::NotReached);
    };
    let mut command = bounded(program)?;
    if let Coverage::Tests(names) = coverage {
        command.arg("--exact").args(names);
    }
    command.env("XTASK_MUTANT", number.to_string());
    let late = baseline.took * PATIENCE + GRACE;
    let verdict = watch(command, late.min(longest))?;
    Ok(match verdict {
        Verdict::TimeOut if longest < late => Verdict::Missed,
        verdict => verdict,
    })
}

/// A program's tests within bounds, with a folder of their own for what they write.
fn bounded(program: &TestProgram) -> Result<Command> {
    let scratch = run::fresh_folder(&format!("mutants/tmp-{:?}", thread::current().id()))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", BOUNDS, "sh"])
        .arg(&program.path)
        .args(["--test-threads", "2"])
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("TMPDIR", std::path::absolute(scratch)?)
        .env("RUST_BACKTRACE", "0");
    Ok(command)
}

/// The names of a program's tests.
fn tests_of(program: &TestProgram) -> Result<BTreeSet<String>> {
    let mut list = Command::new(&program.path);
    list.args(["--list", "--format", "terse"]);
    let names = run::output(list.current_dir(&program.folder))?;
    let tests = names.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// Lines `NUMBER THREAD`.
fn read_notes(path: &Path, tests: &BTreeSet<String>) -> Result<BTreeMap<u32, Coverage>> {
    // Without a change that is reached there is no file.
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut coverage = BTreeMap::new();
    for line in text.lines() {
        let (number, thread) = line.split_once(' ').context("a note has two words")?;
        let reached = coverage
            .entry(number.parse()?)
            .or_insert_with(|| Coverage::Tests(BTreeSet::new()));
        match reached {
            Coverage::Tests(names) if tests.contains(thread) => {
                names.insert(thread.to_owned());
            }
            other => *other = Coverage::All,
        }
    }
    Ok(coverage)
}

/// Runs tests until one fails, all have passed, or it is too late.
fn watch(mut command: Command, deadline: Duration) -> Result<Verdict> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mut child = command.spawn().context("start a program of tests")?;
    let output = child.stdout.take().context("its output is a pipe")?;
    let (say, said) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let is_failure = line.starts_with("test ") && line.ends_with(" ... FAILED");
            if is_failure && say.send(()).is_err() {
                return;
            }
        }
    });
    let verdict = match said.recv_timeout(deadline) {
        Ok(()) => Verdict::Caught,
        Err(RecvTimeoutError::Timeout) => Verdict::TimeOut,
        // Its output has ended, and so will it.
        Err(RecvTimeoutError::Disconnected) => match run::wait(&mut child, deadline)? {
            Some(true) => Verdict::Missed,
            Some(false) => Verdict::Caught,
            None => Verdict::TimeOut,
        },
    };
    end(&mut child)?;
    let _ = reader.join();
    Ok(verdict)
}

/// Kills the program with what it has started.
fn end(child: &mut Child) -> Result<()> {
    if child.try_wait()?.is_none() {
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        child.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_failure_ends_a_run() {
        let started = Instant::now();
        let script = "echo 'test a ... ok'; echo 'test b ... FAILED'; exec sleep 60";
        let verdict = watch(shell(script), Duration::from_secs(50)).expect("it ran");
        assert_eq!(verdict, Verdict::Caught);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn ends_are_told_apart() {
        for (script, late, expected) in [
            ("echo 'test a ... ok'", 30, Verdict::Missed),
            ("exit 134", 30, Verdict::Caught),
            ("exec sleep 60", 0, Verdict::TimeOut),
        ] {
            let verdict = watch(shell(script), Duration::from_secs(late)).expect("it ran");
            assert_eq!(verdict, expected, "{script}");
        }
    }

    #[test]
    fn who_is_asked_for_a_shorter_time_has_missed_a_change_and_is_not_late() {
        let program = TestProgram {
            package: "xtask".to_owned(),
            name: "lib".to_owned(),
            path: "sleep".into(),
            folder: ".".into(),
        };
        let baseline = Baseline {
            took: Duration::ZERO,
            coverage: [(1, Coverage::Tests(BTreeSet::new()))].into(),
        };
        let verdict = tried(&program, &baseline, 2, Duration::MAX).expect("it ran");
        assert_eq!(verdict, Verdict::NotReached);
        // `sleep --test-threads` would end at once, with an error.
        let verdict = tried(&program, &baseline, 1, Duration::MAX).expect("it ran");
        assert_eq!(verdict, Verdict::Caught);
        let verdict = tried(&program, &baseline, 1, Duration::ZERO).expect("it ran");
        assert_eq!(verdict, Verdict::Missed);
    }

    #[test]
    fn another_thread_than_a_tests_own_means_all_tests() {
        let path = std::env::temp_dir().join(format!("xtask-reach-{}", std::process::id()));
        fs::write(&path, "1 a::b\n2 a::b\n2 wal\n1 c\n").expect("it is written");
        let tests = ["a::b", "c"].map(str::to_owned).into();
        let coverage = read_notes(&path, &tests).expect("it is read");
        assert_eq!(coverage[&1], Coverage::Tests(tests));
        assert_eq!(coverage[&2], Coverage::All);
        fs::remove_file(path).expect("it is removed");
    }
}
