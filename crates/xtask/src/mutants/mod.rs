//! `cargo xtask mutants`: would the tests notice a wrong program?
//!
//! A seeded sample of small changes (negated conditions, dropped clauses, moved boundaries, deleted
//! statements, constant results) is put into a copy of the workspace, each behind a switch that is
//! asked at run time, so that one build holds all of them. A first run of the tests without a
//! change notes which test comes to which change; then each change is switched on by itself, and
//! the tests that come there run until one fails. What a crate's own tests miss is tried with those
//! of the crates that stand on it, or with those that are named, for a bounded time each.
//!
//! Invariant: the working tree is only read. The copy lies in the target folder.

mod find;
mod rewrite;
mod trial;
mod workspace;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::modules::Sources;
use crate::numbers::{Random, table};
use crate::run;
use find::{Candidate, candidates};
use rewrite::Switched;
use trial::{Baseline, Verdict};
use workspace::{Copy, Mutant, TestProgram};

/// A crate whose changes are tried.
struct Subject {
    package: &'static str,
    /// Only files below `src` whose path begins so.
    below: &'static str,
    /// Which tests are tried on what the crate's own miss: `CRATE`, or one program of its tests as
    /// `CRATE:PROGRAM`.
    beside: &'static [&'static str],
}

/// The crates that decide what becomes of messages, and the crates that stand on them.
const SUBJECTS: &[Subject] = &[
    subject("queue", "", &["queue-host", "node"]),
    subject("auth", "", &["session", "node"]),
    subject("client", "", &["session", "node"]),
    subject("session", "", &["node"]),
    subject("replication", "", &["queue-host", "node"]),
    subject("storage", "", &["sim"]),
    // What the simulator's other programs try knows no queues.
    subject("queue-host", "quorum/", &["node", "sim:lib", "sim:cluster"]),
];

const fn subject(
    package: &'static str,
    below: &'static str,
    beside: &'static [&'static str],
) -> Subject {
    Subject {
        package,
        below,
        beside,
    }
}

/// How many changes are put in for each that is asked for: not all of them compile.
const SPARE: (usize, usize) = (5, 4);
/// How many changes are tried at a time.
const LANES: usize = 2;
/// Changes in a run, if nothing else is said.
const COUNT: usize = 300;

/// What is tried.
#[derive(clap::Args)]
pub struct Options {
    /// Of the sample's dice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Changes in the sample, over all crates [default: 300, none with --at]
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Only in this crate; may be given again
    #[arg(long = "crate", value_name = "NAME")]
    packages: Vec<String>,
    /// All changes on this line, the file by its path or its end; may be given again
    #[arg(long, value_name = "FILE:LINE", value_parser = line_of_a_file)]
    at: Vec<(String, usize)>,
    /// Ask a crate's own tests only, not those of the crates that stand on it
    #[arg(long = "own")]
    own_only: bool,
    /// Ask these tests of what a crate's own miss, instead of those of the crates that stand on
    /// it; a program is `lib` or the name of one in `tests`; may be given again
    #[arg(long, value_name = "CRATE[:PROGRAM]", conflicts_with = "own_only")]
    beside: Vec<String>,
    /// Longest that a program of tests which are not the crate's own is asked about a change
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

fn line_of_a_file(text: &str) -> Result<(String, usize)> {
    let (file, line) = text.rsplit_once(':').context("it is FILE:LINE")?;
    Ok((file.to_owned(), line.parse()?))
}

impl Options {
    fn subjects(&self) -> Result<Vec<&'static Subject>> {
        let known = |name: &String| SUBJECTS.iter().any(|subject| subject.package == name);
        if let Some(other) = self.packages.iter().find(|name| !known(name)) {
            let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.package).collect();
            bail!("no crate `{other}` among {}", names.join(", "));
        }
        let chosen = SUBJECTS.iter().filter(|subject| {
            self.packages.is_empty() || self.packages.iter().any(|name| name == subject.package)
        });
        Ok(chosen.collect())
    }

    /// Which tests are asked of what a crate's own miss.
    fn beside<'a>(&'a self, subject: &'a Subject) -> Vec<&'a str> {
        match (self.own_only, self.beside.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => subject.beside.to_vec(),
            (false, false) => self.beside.iter().map(String::as_str).collect(),
        }
    }

    fn names(&self, file: &str, candidate: &Candidate) -> bool {
        let mut named = self.at.iter();
        named.any(|(end, line)| file.ends_with(end.as_str()) && *line == candidate.line)
    }
}

/// Runs a sample; `false` if something was missed.
pub fn run(options: &Options) -> Result<bool> {
    let subjects = options.subjects()?;
    let copy = Copy::make()?;
    let (sampled, wanted) = sample(&subjects, options)?;
    println!("{} changes to compile", sampled.len());
    let packages: Vec<&str> = subjects.iter().map(|subject| subject.package).collect();
    let compiled = copy.write(&packages, sampled)?;
    let mutants = first_of_each(compiled, wanted);
    println!("{} changes to try; building the tests", mutants.len());
    let mut asked = packages.clone();
    asked.extend(subjects.iter().flat_map(|subject| options.beside(subject)));
    let programs = copy.build_tests(&asked)?;
    let programs = baselines(programs)?;
    let verdicts = try_all(&mutants, options, &programs)?;
    Ok(report(&subjects, &mutants, &verdicts))
}

/// All changes that are asked for by their lines, then a sample of each crate's others, in the
/// order of the dice, and how many of each crate are wanted of the sample.
fn sample(subjects: &[&Subject], options: &Options) -> Result<(Vec<Mutant>, usize)> {
    let count = match options.at.is_empty() {
        true => options.count.unwrap_or(COUNT),
        false => options.count.unwrap_or(0),
    };
    let each = count.div_ceil(subjects.len());
    let mut random = Random::new(options.seed);
    let mut sampled = Vec::new();
    for subject in subjects {
        let all = all_of(subject)?;
        println!("{}: {} possible changes", subject.package, all.len());
        let is_named = |(file, candidate): &(String, Candidate)| options.names(file, candidate);
        let (named, mut all): (Vec<_>, Vec<_>) = all.into_iter().partition(is_named);
        for at in (1..all.len()).rev() {
            all.swap(at, random.between(0, at as u64 + 1) as usize);
        }
        all.truncate(each.saturating_mul(SPARE.0) / SPARE.1);
        let named = named.into_iter().map(|of| (of, true));
        for ((file, candidate), is_named) in named.chain(all.into_iter().map(|of| (of, false))) {
            let number = sampled.len() as u32 + 1;
            sampled.push(Mutant {
                package: subject.package,
                file,
                is_named,
                switched: Switched { number, candidate },
            });
        }
    }
    Ok((sampled, each))
}

/// All changes of a crate.
fn all_of(subject: &Subject) -> Result<Vec<(String, Candidate)>> {
    let folder = format!("crates/{}/src", subject.package);
    let sources = Sources::read(&run::root().join(&folder).join("lib.rs"))?;
    let mut files = sources.files;
    // What drives a fuzz target is a test, whatever it is compiled with.
    files.retain(|file| file.starts_with(subject.below) && !file.ends_with("fuzz.rs"));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let path = format!("{folder}/{file}");
        let text = fs::read_to_string(run::root().join(&path))?;
        let found = candidates(&text).with_context(|| format!("parse {path}"))?;
        let found = found.into_iter();
        all.extend(found.map(|candidate| (path.clone(), candidate)));
    }
    Ok(all)
}

/// Those that are asked for by their lines, and the first so many others of each crate: what did
/// not compile has been replaced by the spare ones.
fn first_of_each(compiled: Vec<Mutant>, wanted: usize) -> Vec<Mutant> {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut is_taken = |mutant: &Mutant| {
        if mutant.is_named {
            return true;
        }
        let count = taken.entry(mutant.package).or_default();
        *count += 1;
        *count <= wanted
    };
    let mutants = compiled.into_iter();
    mutants.filter(|mutant| is_taken(mutant)).collect()
}

type Tested = (TestProgram, Baseline);

fn baselines(programs: Vec<TestProgram>) -> Result<Vec<Tested>> {
    let with_baseline = programs.into_iter().map(|program| {
        let Some(baseline) = trial::baseline(&program)? else {
            let TestProgram { package, name, .. } = &program;
            println!("{package} {name}: fails without a change, and is LEFT OUT");
            return Ok(None);
        };
        println!(
            "{} {}: {:.1} s, comes to {} changes",
            program.package,
            program.name,
            baseline.took.as_secs_f64(),
            baseline.coverage.len()
        );
        Ok(Some((program, baseline)))
    });
    let all: Vec<Option<Tested>> = with_baseline.collect::<Result<_>>()?;
    let mut all: Vec<Tested> = all.into_iter().flatten().collect();
    // What is over soon is tried first.
    all.sort_by_key(|(_, baseline)| baseline.took);
    Ok(all)
}

/// What the own tests and those beside made of each change.
type Verdicts = (Verdict, Verdict);

fn try_all(mutants: &[Mutant], options: &Options, programs: &[Tested]) -> Result<Vec<Verdicts>> {
    let log = run::target_folder("mutants")?.join("verdicts.txt");
    let _ = fs::remove_file(&log);
    let verdicts = Mutex::new(vec![None; mutants.len()]);
    let next = AtomicUsize::new(0);
    let lane = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(at) else {
                return Ok(());
            };
            let (verdict, by) = try_one(mutant, options, programs)?;
            note(&log, mutant, verdict, &by)?;
            verdicts.lock().expect("no lane panics")[at] = Some(verdict);
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let mut ended = lanes
            .into_iter()
            .map(|lane| lane.join().expect("no lane panics"));
        ended.try_for_each(|result| result)
    })?;
    let verdicts = verdicts.into_inner().expect("no lane panics");
    Ok(verdicts.into_iter().flatten().collect())
}

/// Also says which program noticed the change, if one did.
fn try_one(mutant: &Mutant, options: &Options, programs: &[Tested]) -> Result<(Verdicts, String)> {
    let number = mutant.switched.number;
    let by = |asked: &[&str], longest: Duration| -> Result<(Verdict, String)> {
        let mut worst = Verdict::NotReached;
        let chosen = programs
            .iter()
            .filter(|(program, _)| asked.iter().any(|asked| program.is_asked(asked)));
        for (program, baseline) in chosen {
            let verdict = trial::tried(program, baseline, number, longest)?;
            if verdict.is_noticed() {
                return Ok((verdict, format!("{}:{}", program.package, program.name)));
            }
            worst = worst.min(verdict);
        }
        Ok((worst, "nobody".to_owned()))
    };
    let (own, noticed) = by(&[mutant.package], Duration::MAX)?;
    if own.is_noticed() {
        return Ok(((own, own), noticed));
    }
    let mut subjects = SUBJECTS.iter();
    let subject = subjects.find(|subject| subject.package == mutant.package);
    let beside = options.beside(subject.context("a subject")?);
    let longest = options.seconds.map_or(Duration::MAX, Duration::from_secs);
    let (beside, noticed) = by(&beside, longest)?;
    Ok(((own, own.min(beside)), noticed))
}

/// Says it, and keeps it in a file that a run which is broken off leaves behind.
fn note(log: &Path, mutant: &Mutant, (own, all): Verdicts, by: &str) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(log)?;
    writeln!(file, "{own:?} {all:?} by {by}: {}", place(mutant))?;
    if !all.is_noticed() {
        println!("{all:?}: {}", place(mutant));
    }
    Ok(())
}

fn place(mutant: &Mutant) -> String {
    let Candidate { line, words, .. } = &mutant.switched.candidate;
    format!("{}:{line} {words}", mutant.file)
}

/// Prints the table and what was missed; whether nothing was.
fn report(subjects: &[&Subject], mutants: &[Mutant], verdicts: &[Verdicts]) -> bool {
    let mut rows = Vec::new();
    for subject in subjects {
        let of_it: Vec<Verdicts> = mutants
            .iter()
            .zip(verdicts)
            .filter(|(mutant, _)| mutant.package == subject.package)
            .map(|(_, verdict)| *verdict)
            .collect();
        let own = |wanted| of_it.iter().filter(|(own, _)| *own == wanted).count();
        let all = |wanted| of_it.iter().filter(|(_, all)| *all == wanted).count();
        let beside = own(Verdict::Missed) + own(Verdict::NotReached)
            - all(Verdict::Missed)
            - all(Verdict::NotReached);
        let counts = [
            of_it.len(),
            own(Verdict::Caught),
            own(Verdict::TimeOut),
            beside,
            all(Verdict::Missed),
            all(Verdict::NotReached),
        ];
        let mut row = vec![subject.package.to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        rows.push(row);
    }
    let head = [
        "crate",
        "tried",
        "caught",
        "time-outs",
        "caught by others",
        "missed",
        "not reached",
    ];
    println!("\n{}", table(&head, &rows));
    let missed: Vec<_> = mutants
        .iter()
        .zip(verdicts)
        .filter(|(_, (_, all))| !all.is_noticed())
        .collect();
    for (mutant, (_, all)) in &missed {
        println!("{all:?}: {}", place(mutant));
    }
    missed.is_empty()
}
