//! `leveret ctl`, and the binary under the names `rabbitmqctl`, `rabbitmq-diagnostics`,
//! `rabbitmq-queues`, `rabbitmq-streams` and `rabbitmq-plugins`: RabbitMQ's commands, options,
//! output and exit codes, on the node's HTTP API.
//!
//! Invariant: a command prints its result on standard output and everything else on standard error.

mod cluster;
mod cluster_status;
mod commands;
mod complete;
mod context;
mod diagnostics;
mod help;
mod instead;
mod lists;
mod node;
mod operate;
mod options;
mod status;
mod stream_groups;
mod streams;
mod users;

#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;

pub(crate) use cluster::{even_voters, in_short};
pub use context::{Context, Failure, Output, code};
pub(crate) use node::own_listeners;
pub use options::Options;

use crate::cli::target::{CallError, Target};
use crate::plain_text;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs a command line (without the program's name) and prints what comes of it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.into_string() {
            Ok(word) => words.push(word),
            Err(word) => {
                eprintln!("Error: {} is not UTF-8", word.to_string_lossy());
                return ExitCode::from(code::USAGE);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    let mut print = |text: &str| {
        // Whoever closed our output (`| head`) has seen enough.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    };
    match run(&words, &mut print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", plain_text::lines(failure.text.trim_end()));
            ExitCode::from(failure.code)
        }
    }
}

/// Finds the node as soon as there is one: it may be about to start.
fn await_target(options: &Options) -> Result<Target, Failure> {
    let deadline = Instant::now() + options.address.timeout;
    loop {
        match Target::find(&options.address) {
            Ok(target) => return Ok(target),
            Err(CallError::Unreachable(_)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs a command line and hands what goes to standard output to `print`, as plain text.
pub fn run(words: &[String], print: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let print = &mut |text: &str| print(&plain_text::lines(text));
    let (options, rest) = options::parse(words)?;
    let Some((name, arguments)) = rest.split_first() else {
        if options.has("--help") {
            print(&commands::usage(None));
            return Ok(());
        }
        return Err(Failure {
            code: code::USAGE,
            text: commands::usage(None),
        });
    };
    if name == "help" && options.has("--list-commands") {
        let names: Vec<&str> = commands::names().collect();
        print(&(names.join("\n") + "\n"));
        return Ok(());
    }
    if name == "help" {
        print(&commands::usage(arguments.first().map(String::as_str)));
        return Ok(());
    }
    let command = commands::find(name)?;
    if options.has("--help") {
        print(&help::of(command));
        return Ok(());
    }
    let not_taken = match command.is_refused {
        true => Vec::new(),
        false => options.not_taken(command.usage),
    };
    if !not_taken.is_empty() {
        return Err(options::unknown(&not_taken.join("\n")));
    }
    let count = arguments.len();
    if !command.arguments.contains(&count) {
        let few = count < *command.arguments.start();
        let what = if few { "not enough" } else { "too many" };
        return Err(Failure::usage(format!(
            "{what} arguments.\nArguments given:\n\t{}\n\nUsage\n\nrabbitmqctl {}",
            words.join(" "),
            command.usage
        )));
    }
    let quiet = options.layout.is_quiet();
    let lines = std::cell::RefCell::new(String::new());
    let banner = |line: &str| {
        if !quiet {
            let mut lines = lines.borrow_mut();
            lines.push_str(line);
            lines.push('\n');
        }
    };
    let target = match command.offline {
        true => Target::nowhere(),
        false if command.waits => await_target(&options)?,
        false => Target::find(&options.address)?,
    };
    let context = Context {
        command: command.name,
        options: &options,
        arguments,
        target: &target,
        banner: &banner,
    };
    let result = (command.run)(&context);
    print(&lines.borrow());
    let output = result.map_err(|failure| failure.of_command(command.name))?;
    print(&options.layout.render(output));
    Ok(())
}
