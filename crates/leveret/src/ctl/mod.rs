//! `leveret ctl`, and the binary under the names `rabbitmqctl`, `rabbitmq-diagnostics`,
//! `rabbitmq-queues` and `rabbitmq-plugins`: RabbitMQ's commands, options, output and exit codes,
//! on the node's HTTP API.
//!
//! Invariant: a command prints its result on standard output and everything else on standard error.

mod cluster;
mod commands;
mod diagnostics;
mod lists;
mod node;
mod operate;
mod options;
mod users;

#[cfg(test)]
mod tests;

pub(crate) use cluster::even_voters;
pub use options::Options;

use crate::cli::table::Rows;
use crate::cli::target::{CallError, Target};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Exit codes of RabbitMQ's tools (those of sysexits.h).
pub mod code {
    /// The command was used wrongly.
    pub const USAGE: u8 = 64;
    /// An argument names or says something that cannot be.
    pub const DATA: u8 = 65;
    /// No such user.
    pub const NO_USER: u8 = 67;
    /// The node cannot be reached.
    pub const UNAVAILABLE: u8 = 69;
    /// The node refuses.
    pub const SOFTWARE: u8 = 70;
    /// The node did not do it in time.
    pub const TEMPORARY: u8 = 75;
}

/// What a command gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Nothing to say: it is done.
    Done,
    /// A line or more.
    Text(String),
    /// An object for machines, and how people read it.
    Object(serde_json::Value, String),
    /// A list, in whatever form is asked for.
    Rows(Rows),
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// What goes to standard error.
    pub text: String,
}

impl Failure {
    /// The command was used wrongly.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            code: code::USAGE,
            text: format!("Error (argument validation): {}", text.into()),
        }
    }

    /// The node, or something on it, is not as the command needs it.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: format!("Error:\n{}", text.into()),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Unreachable(_) | CallError::OtherNode(_) => code::UNAVAILABLE,
            CallError::Refused(400, _) => code::DATA,
            CallError::Refused(404, _) => code::DATA,
            CallError::Refused(503, _) => code::TEMPORARY,
            CallError::Refused(..) => code::SOFTWARE,
        };
        Self {
            code,
            text: format!("Error: {error}"),
        }
    }
}

/// What a command has to work with.
pub struct Context<'a> {
    /// The command's name.
    pub command: &'a str,
    /// The options that were given.
    pub options: &'a Options,
    /// The positional arguments.
    pub arguments: &'a [String],
    /// The node.
    pub target: &'a Target,
    /// Lines to show before the result, unless nobody wants them.
    banner: &'a dyn Fn(&str),
}

impl Context<'_> {
    /// Shows a line such as `Listing users ...`, unless `-q`, `-s` or a machine's format forbids
    /// it.
    pub fn banner(&self, line: impl AsRef<str>) {
        (self.banner)(line.as_ref());
    }

    /// The same without lines before the result.
    fn without_banner(&self) -> Context<'_> {
        Context {
            command: self.command,
            options: self.options,
            arguments: self.arguments,
            target: self.target,
            banner: &|_| {},
        }
    }

    /// Argument `index`; empty where it was not given (the command table has checked how many there
    /// are).
    #[must_use]
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// The virtual host that is meant.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.options.vhost
    }
}

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
            eprintln!("{}", failure.text.trim_end());
            ExitCode::from(failure.code)
        }
    }
}

/// Finds the node as soon as there is one: it may be about to start.
fn await_target(options: &Options) -> Result<Target, Failure> {
    let deadline = Instant::now() + options.timeout;
    loop {
        match Target::find(&options.address()) {
            Ok(target) => return Ok(target),
            Err(CallError::Unreachable(_)) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs a command line and hands what goes to standard output to `print`.
pub fn run(words: &[String], print: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let (options, rest) = options::parse(words)?;
    let Some((name, arguments)) = rest.split_first() else {
        return Err(Failure {
            code: code::USAGE,
            text: commands::help(None),
        });
    };
    if name == "help" {
        print(&commands::help(arguments.first().map(String::as_str)));
        return Ok(());
    }
    let command = commands::find(name)?;
    if options.help {
        print(&format!("Usage\n\nrabbitmqctl {}\n", command.usage));
        return Ok(());
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
    let quiet = options.is_quiet();
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
        false => Target::find(&options.address())?,
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
    print(&options.render(result?));
    Ok(())
}
