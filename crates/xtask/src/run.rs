//! Running other programs: where things are, logs beside the work, and deadlines.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::procfs;

/// How long a poll of a child process waits between looks.
const POLL: Duration = Duration::from_millis(20);

/// The workspace's root folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .expect("crates/xtask lies two folders below the root")
        .to_owned()
}

/// The folder that cargo builds into; everything fetched or written goes below it.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A folder below the target folder, made if it is not there.
pub fn target_folder(name: &str) -> Result<PathBuf> {
    let folder = target().join(name);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// A folder below the target folder that is empty: what was in it before is removed.
pub fn fresh_folder(name: &str) -> Result<PathBuf> {
    let folder = target().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    target_folder(name)
}

/// Copies a folder with everything below it, and makes the copy writable: package caches are not.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &copy)?;
        } else {
            // Written anew rather than copied, so that a read-only original gives a writable file.
            fs::write(&copy, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Runs a command with its output on ours; an error if it fails.
pub fn check(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Runs a command and gives its standard output; an error, with what it said, if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, last_lines(&said, 20));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with both outputs into one file, within a deadline. Gives whether it succeeded.
/// What it started itself ends with it where it is not done in time: brokers, browsers.
pub fn logged(command: &mut Command, log: &Path, deadline: Duration) -> Result<bool> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command
        .spawn()
        .with_context(|| format!("start {command:?}"))?;
    match wait(&mut child, deadline)? {
        Some(success) => Ok(success),
        None => {
            kill_family(&mut child)?;
            bail!(
                "not finished after {} s: see {}",
                deadline.as_secs(),
                log.display()
            );
        }
    }
}

/// Waits for a child within a deadline: whether it succeeded, or `None` if it still runs.
pub fn wait(child: &mut Child, deadline: Duration) -> Result<Option<bool>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if started.elapsed() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Kills a child and all that it started, and waits for the child.
pub fn kill_family(child: &mut Child) -> Result<()> {
    // Looked up before the child is gone: its children are then nobody's.
    let descendants = procfs::descendants(child.id());
    child.kill()?;
    child.wait()?;
    for descendant in descendants {
        // One that ended by itself is no error.
        let _ = signal(descendant, "KILL");
    }
    Ok(())
}

/// Sends a signal, by name, to one process.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    check(
        Command::new("kill")
            .arg(format!("-{name}"))
            .arg(pid.to_string()),
    )
}

/// The end of a text, for a message that must stay short.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_started_ends_with_it_at_the_deadline() {
        let folder = fresh_folder("run-tests").expect("a folder");
        let told = folder.join("pid");
        // Renamed once it is whole, so that nobody reads half a number.
        let script = format!(
            "sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait",
            told.display()
        );
        let log = folder.join("log");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]);
        let ended = thread::spawn(move || logged(&mut shell, &log, Duration::from_secs(5)));
        while !told.exists() {
            assert!(!ended.is_finished(), "the shell starts its child");
            thread::sleep(POLL);
        }
        let pid = fs::read_to_string(&told).expect("the child's id");
        let stat = format!("/proc/{}/stat", pid.trim());
        ended
            .join()
            .expect("no panic")
            .expect_err("it is not done in time");
        // A zombie of a parent that does not wait for it is gone as well.
        let runs = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let since = Instant::now();
        while runs() {
            assert!(since.elapsed() < Duration::from_secs(10), "it still runs");
            thread::sleep(POLL);
        }
    }
}
