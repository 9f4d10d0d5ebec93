//! Own scripts with clients that Debian packages, for the languages that no suite of a registry's
//! client speaks for. Each is one program that prints TAP.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::bench::{Bench, Report, controlled, lock, stop};
use super::tap;
use crate::run;

const DEADLINE: Duration = Duration::from_secs(300);

/// Bunny (Ruby).
pub fn ruby(bench: &Bench) -> Result<Report> {
    tests(bench, &["ruby", "main.rb"])
}

/// php-amqplib (PHP).
pub fn php(bench: &Bench) -> Result<Report> {
    tests(bench, &["php", "main.php"])
}

/// `AnyEvent::RabbitMQ` (Perl).
pub fn perl(bench: &Bench) -> Result<Report> {
    tests(bench, &["perl", "main.pl"])
}

/// librabbitmq (C), by its command-line tools.
pub fn c(bench: &Bench) -> Result<Report> {
    tests(bench, &["bash", "main.sh"])
}

/// Runs the suite's program against a broker of its own, which the program may stop and start.
fn tests(bench: &Bench, program: &[&str]) -> Result<Report> {
    let (broker, control) = controlled(bench.broker(&[])?)?;
    // The virtual host in full: some clients take a path of `/` for a name that is empty.
    let url = format!("{}%2f", lock(&broker).url());
    let log = bench.log("tap")?;
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .current_dir(run::root().join("tests/interop").join(bench.name))
        .env("AMQP_URL", url)
        .env("CONTROL", control);
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let text = fs::read_to_string(&log)?;
    let mut report = tap::parse(&text).ended(program[0], success, &log, &text);
    stop(&mut lock(&broker), &mut report)?;
    Ok(report)
}
