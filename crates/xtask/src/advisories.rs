//! Known weaknesses of what goes into the broker, by cargo-deny and `deny.toml`, wherever that tool
//! and its database can be had. Where they cannot, nothing was checked, and nothing has failed.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::run;

/// How long the database may take to come.
const FETCH_PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Whether no advisory was found that `deny.toml` gives no reason for.
pub fn run() -> Result<bool> {
    if let Err(why) = fetch() {
        println!("advisories were not checked: {why}");
        return Ok(true);
    }
    let mut check = Command::new("cargo-deny");
    check.args(["--offline", "check", "advisories"]);
    Ok(check.current_dir(run::root()).status()?.success())
}

/// Gets the newest database of advisories; why not, where that is. All locked crates come as well,
/// those of other platforms too, as the check after it reaches for nothing.
fn fetch() -> Result<(), String> {
    let mut command = Command::new("cargo-deny");
    command
        .args(["fetch", "db", "index"])
        .current_dir(run::root())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    within(&mut command, FETCH_PATIENCE)
}

fn within(command: &mut Command, patience: Duration) -> Result<(), String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("cargo-deny cannot be started: {error}"))?;
    let deadline = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err("its database cannot be had".to_owned()),
            Err(error) => return Err(error.to_string()),
            Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
            Ok(None) => {
                // It has ended by itself if it cannot be ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("its database does not come in {patience:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_told_and_waited_for_no_longer() {
        let command = |name: &str, arguments: &[&str], patience: Duration| {
            within(Command::new(name).args(arguments), patience)
        };
        let long = Duration::from_secs(600);
        assert_eq!(command("true", &[], long), Ok(()));
        let refused = command("false", &[], long).expect_err("it fails");
        assert!(refused.contains("cannot be had"), "{refused}");
        let absent = command("no-such-tool-anywhere", &[], long).expect_err("it is absent");
        assert!(absent.contains("cannot be started"), "{absent}");
        let slow = command("sleep", &["600"], Duration::from_millis(1)).expect_err("it is slow");
        assert!(slow.contains("does not come"), "{slow}");
    }
}
