//! A copy of the workspace with the changes in it: written, checked until it compiles, built once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::rewrite::{SWITCHES, Switched, rewrite};
use crate::run;

/// One change and the file that it is in, below the workspace's root.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The crate's name without `leveret-`.
    pub package: &'static str,
    /// The file, below the root.
    pub file: String,
    /// Whether it is asked for by its line, and not drawn.
    pub is_named: bool,
    /// The change with its number.
    pub switched: Switched,
}

/// A program of tests.
#[derive(Clone, Debug)]
pub struct TestProgram {
    /// The crate's name without `leveret-`.
    pub package: String,
    /// `lib` or the name of the file in `tests`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Where cargo would start it.
    pub folder: PathBuf,
}

impl TestProgram {
    /// Whether `CRATE` or `CRATE:PROGRAM` means this one.
    pub fn is_asked(&self, asked: &str) -> bool {
        match asked.split_once(':') {
            Some((package, name)) => package == self.package && name == self.name,
            None => asked == self.package,
        }
    }
}

/// The copy. It stays in the target folder, so that the next run compiles what changed.
pub struct Copy {
    root: PathBuf,
    /// Where it is built. Not where the workspace itself is: cargo knows packages by their paths
    /// below the workspace's root, and would take the one's programs for the other's.
    built: PathBuf,
}

/// After so many rounds something else is wrong than a change that does not compile.
const ROUNDS_MAX: usize = 25;

impl Copy {
    /// Copies what git tracks, and what is new beside it.
    pub fn make() -> Result<Copy> {
        let root = run::target_folder("mutants/workspace")?;
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let files = run::output(list.current_dir(run::root()))?;
        let kept: BTreeSet<PathBuf> = files.lines().map(PathBuf::from).collect();
        for file in &kept {
            let from = run::root().join(file);
            // One that is deleted and not committed yet is listed and not there.
            if from.is_file() {
                write_if_new(&root.join(file), &fs::read(&from)?)?;
            }
        }
        remove_others(&root, &root, &kept)?;
        let built = std::path::absolute(run::target_folder("mutants/target")?)?;
        Ok(Copy { root, built })
    }

    /// Writes the changes, and drops those that do not compile: gives the others.
    pub fn write(&self, packages: &[&str], mutants: Vec<Mutant>) -> Result<Vec<Mutant>> {
        let mut mutants = mutants;
        // A file whose last change is dropped has to be written once more, as it was.
        let files: BTreeSet<String> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
        for _ in 0..ROUNDS_MAX {
            let places = self.write_all(&files, &mutants)?;
            let errors = self.check(packages)?;
            if errors.is_empty() {
                return Ok(mutants);
            }
            let guilty = guilty(&errors, &places);
            if guilty.is_empty() {
                bail!("the copy does not compile: {errors:?}");
            }
            println!("{} changes do not compile", guilty.len());
            mutants.retain(|mutant| !guilty.contains(&mutant.switched.number));
        }
        bail!("the copy does not compile after {ROUNDS_MAX} rounds");
    }

    /// Writes these files with the changes that are left.
    fn write_all(&self, files: &BTreeSet<String>, mutants: &[Mutant]) -> Result<MutantSpans> {
        let unchanged = files.iter().map(|file| (file.as_str(), Vec::new()));
        let mut by_file: BTreeMap<&str, Vec<Switched>> = unchanged.collect();
        let mut roots = BTreeSet::new();
        for mutant in mutants {
            let changes = by_file.entry(&mutant.file).or_default();
            changes.push(mutant.switched.clone());
            roots.insert(format!("crates/{}/src/lib.rs", mutant.package));
        }
        for root in &roots {
            by_file.entry(root).or_default();
        }
        let mut places = MutantSpans::new();
        for (file, changes) in by_file {
            let text = fs::read_to_string(run::root().join(file))?;
            let mut rewritten = rewrite(&text, &changes);
            if roots.contains(file) {
                rewritten.text.push_str(SWITCHES);
            }
            write_if_new(&self.root.join(file), rewritten.text.as_bytes())?;
            places.insert(file.to_owned(), rewritten.places);
        }
        Ok(places)
    }

    /// Compiles the crates: where the errors are.
    fn check(&self, packages: &[&str]) -> Result<Vec<Vec<Spot>>> {
        let mut command = self.cargo(&["check", "--lib", "--keep-going"], packages);
        let output = command.output().context("start cargo check")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors: Vec<Vec<Spot>> = said
            .lines()
            .filter_map(|line| error_spots(line, &self.root))
            .collect();
        if !output.status.success() && errors.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("cargo check: {}", run::last_lines(&said, 20));
        }
        Ok(errors)
    }

    /// Builds tests: all of a crate for `CRATE`, or one program for `CRATE:PROGRAM`.
    pub fn build_tests(&self, asked: &[&str]) -> Result<Vec<TestProgram>> {
        let (packages, targets) = self.targets(asked)?;
        let mut arguments = vec!["test", "--no-run", "--lib"];
        arguments.extend(targets.iter().flat_map(|name| ["--test", name]));
        let packages: Vec<&str> = packages.into_iter().collect();
        let mut command = self.cargo(&arguments, &packages);
        let output = command.output().context("start cargo test")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("the tests do not compile: {}", run::last_lines(&said, 20));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let built = said.lines().filter_map(test_program);
        let programs: Vec<TestProgram> = built
            .filter(|program| asked.iter().any(|asked| program.is_asked(asked)))
            .collect();
        let is_built = |asked: &&&str| programs.iter().any(|program| program.is_asked(asked));
        if let Some(other) = asked.iter().find(|asked| !is_built(asked)) {
            bail!("there are no tests `{other}`");
        }
        Ok(programs)
    }

    /// The crates of these tests, and the names of their programs beside `lib`.
    fn targets<'a>(&self, asked: &[&'a str]) -> Result<(BTreeSet<&'a str>, BTreeSet<String>)> {
        let mut packages = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for asked in asked {
            let (package, program) = match asked.split_once(':') {
                Some((package, program)) => (package, Some(program)),
                None => (*asked, None),
            };
            packages.insert(package);
            match program {
                Some("lib") => {}
                Some(name) => drop(targets.insert(name.to_owned())),
                None => targets.extend(tests_in(&self.root.join("crates").join(package))?),
            }
        }
        Ok((packages, targets))
    }

    fn cargo(&self, arguments: &[&str], packages: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(arguments).args(["--message-format", "json"]);
        for package in packages {
            command.args(["--package", &format!("leveret-{package}")]);
        }
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.built)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

/// Where each change is in the copy's files.
type MutantSpans = BTreeMap<String, Vec<(u32, Range<usize>)>>;

/// A part of a file that the compiler names.
type Spot = (String, Range<usize>);

/// The changes at the spots of each error; the nearest ones in the file, where none is there.
fn guilty(errors: &[Vec<Spot>], places: &MutantSpans) -> BTreeSet<u32> {
    let mut guilty = BTreeSet::new();
    for spots in errors {
        let touched = spots.iter().flat_map(|(file, spot)| {
            let changes = places.get(file).into_iter().flatten();
            changes.filter(move |(_, place)| place.start < spot.end && spot.start < place.end)
        });
        // The innermost of those that lie in each other, and all of the same size.
        let touched: Vec<_> = touched.collect();
        let smallest = touched.iter().map(|(_, place)| place.len()).min();
        if let Some(smallest) = smallest {
            let chosen = touched
                .iter()
                .filter(|(_, place)| place.len() <= smallest * 2);
            guilty.extend(chosen.map(|(number, _)| *number));
        } else if let Some((file, spot)) = spots.first() {
            let changes = places.get(file).into_iter().flatten();
            let nearest = changes.min_by_key(|(_, place)| place.start.abs_diff(spot.start));
            guilty.extend(nearest.map(|(number, _)| *number));
        }
    }
    guilty
}

/// The places that an error of the compiler names, if a line of cargo's tells of one.
fn error_spots(line: &str, root: &Path) -> Option<Vec<Spot>> {
    let message: Value = serde_json::from_str(line).ok()?;
    let message = message.get("message")?;
    if message["level"] != "error" {
        return None;
    }
    let spans = message["spans"].as_array()?;
    let spots: Vec<Spot> = spans.iter().filter_map(|span| spot(span, root)).collect();
    // "aborting due to 2 previous errors" has none.
    (!spots.is_empty()).then_some(spots)
}

fn spot(span: &Value, root: &Path) -> Option<Spot> {
    let file = span["file_name"].as_str()?;
    let file = file.strip_prefix(root.to_str()?).unwrap_or(file);
    let start = span["byte_start"].as_u64()? as usize;
    let end = span["byte_end"].as_u64()? as usize;
    Some((
        file.trim_start_matches('/').to_owned(),
        start..end.max(start + 1),
    ))
}

/// The programs in a crate's folder of tests: files, and folders with a `main.rs`.
fn tests_in(folder: &Path) -> Result<Vec<String>> {
    let tests = folder.join("tests");
    if !tests.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&tests)? {
        let path = entry?.path();
        let is_program = match path.extension() {
            Some(kind) => kind == "rs",
            None => path.join("main.rs").is_file(),
        };
        let name = path.file_stem().and_then(|name| name.to_str());
        names.extend(name.filter(|_| is_program).map(str::to_owned));
    }
    Ok(names)
}

/// The program that a line of cargo's names.
fn test_program(line: &str) -> Option<TestProgram> {
    let artifact: Value = serde_json::from_str(line).ok()?;
    if artifact["reason"] != "compiler-artifact" || artifact["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(artifact["manifest_path"].as_str()?).parent()?;
    let is_lib = artifact["target"]["kind"][0] == "lib";
    let name = artifact["target"]["name"].as_str()?;
    Some(TestProgram {
        package: folder.file_name()?.to_str()?.to_owned(),
        name: if is_lib { "lib" } else { name }.to_owned(),
        path: PathBuf::from(artifact["executable"].as_str()?),
        folder: folder.to_owned(),
    })
}

/// Writes a file unless it has this content: cargo compiles again what was written again.
fn write_if_new(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

/// Removes sources that the workspace does not have any more: a folder of tests is read as a whole.
fn remove_others(root: &Path, folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let below = path.strip_prefix(root)?;
        if path.is_dir() {
            remove_others(root, &path, kept)?;
        } else if below.extension().is_some_and(|kind| kind == "rs") && !kept.contains(below) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_asked_for_by_crate_or_program() {
        let program = TestProgram {
            package: "sim".to_owned(),
            name: "cluster".to_owned(),
            path: PathBuf::new(),
            folder: PathBuf::new(),
        };
        for (asked, expected) in [
            ("sim", true),
            ("sim:cluster", true),
            ("sim:lib", false),
            ("node:cluster", false),
            ("cluster", false),
        ] {
            assert_eq!(program.is_asked(asked), expected, "{asked}");
        }
    }

    #[test]
    fn programs_of_a_crate_are_files_and_folders() {
        let mut names = tests_in(&run::root().join("crates/node")).expect("they are listed");
        names.sort_unstable();
        assert_eq!(names, ["cluster"]);
        let names = tests_in(&run::root().join("crates/shell")).expect("they are listed");
        assert!(names.iter().any(|name| name == "it"), "{names:?}");
        assert!(
            names.iter().any(|name| name == "few_descriptors"),
            "{names:?}"
        );
        let mut names = tests_in(&run::root().join("crates/metadata")).expect("they are listed");
        names.sort_unstable();
        assert_eq!(names, ["freed", "it"], "a folder of data is no program");
        assert_eq!(
            tests_in(Path::new("crates/none")).expect("nothing"),
            [""; 0]
        );
    }

    #[test]
    fn an_error_drops_the_innermost_change_at_it() {
        let file = "crates/x/src/lib.rs".to_owned();
        let places =
            MutantSpans::from([(file.clone(), vec![(1, 0..100), (2, 10..20), (3, 200..210)])]);
        let error = |place: Range<usize>| vec![vec![(file.clone(), place)]];
        assert_eq!(guilty(&error(12..15), &places), [2].into());
        assert_eq!(guilty(&error(50..55), &places), [1].into());
        assert_eq!(guilty(&error(190..195), &places), [3].into());
    }
}
