//! The options of RabbitMQ's tools. They may stand anywhere among the arguments.

use super::{Failure, Output};
use crate::cli::password::PasswordSource;
use crate::cli::target::{self, Address};
use crate::trust::Trust;
use std::time::Duration;

/// How a list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatter {
    /// The command's own form: tabs for most, boxes for some.
    Usual,
    /// Tabs between values.
    Table,
    /// Boxes.
    PrettyTable,
    /// JSON: one list.
    Json,
    /// JSON: an object a line.
    JsonStream,
    /// Comma-separated values.
    Csv,
}

/// Which queues of a virtual host are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that can be used.
    Online,
    /// Those that cannot, as their nodes are down.
    Offline,
    /// Those that the node that is asked leads.
    Local,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `-q`
    pub quiet: bool,
    /// `-s`: quiet, and no table headers either.
    pub silent: bool,
    /// `--no-table-headers`
    pub headers: bool,
    /// `--formatter`
    pub formatter: Formatter,
}

/// The options whose values are numbers, with the defaults of those that were not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// `--priority`
    pub priority: i64,
    /// `--limit`: how many at most; 0: all.
    pub limit: usize,
    /// `--per-connection-delay`, in milliseconds.
    pub delay: Duration,
    /// `--within`: how many of `--unit`.
    pub within: u32,
    /// `-N`, `--number`: how many lines of a log.
    pub lines: usize,
}

/// The options that were given, with the defaults of those that were not.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `-p`, `--vhost`
    pub vhost: String,
    /// Whether `-p` was given: some lists are of every virtual host without it.
    pub vhost_given: bool,
    /// How the result is shown.
    pub layout: Layout,
    /// The node that is asked, who asks, and how long that may take.
    pub address: Address,
    /// What is a number.
    pub numbers: Numbers,
    /// `--online`, `--offline`, `--local`: which queues are listed; all if it is none.
    pub which: Option<Which>,
    /// `--user` of `list_user_limits`: whose limits.
    pub limits_of: Option<String>,
    /// `--user`, until it is known what the command means by it.
    command_user: Option<String>,
    /// Options without values, each by its long name ([`FLAGS`]).
    flags: Vec<&'static str>,
    /// Options of one command or another, each with its value.
    named: Vec<(String, String)>,
    /// The names of all options that were given, as they were written.
    given: Vec<String>,
}

/// Options that every command takes.
const COMMON: &[&str] = &[
    "-p",
    "--vhost",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "--no-silent",
    "-h",
    "--help",
    "--table-headers",
    "--no-table-headers",
    "--formatter",
    "--json",
    "--printer",
    "-P",
    "-t",
    "--timeout",
    "-n",
    "--node",
    "-l",
    "--longnames",
    "--erlang-cookie",
    "--script-name",
    "--data-dir",
    "--url",
    "--user",
    "--username",
    "--password",
    "--password-file",
    "--ca-file",
    "--insecure",
];

/// Options with a short form of their own.
const SHORT: &[(&str, &str)] = &[
    ("-h", "--help"),
    ("-e", "--if-empty"),
    ("-u", "--if-unused"),
    ("-m", "--minimal"),
    ("-E", "--enabled"),
    ("-N", "--number"),
    ("-v", "--verbose"),
    ("-V", "--verbose"),
];

/// Options of one command or another that have no value.
const FLAGS: &[&str] = &[
    "--skip-unsupported",
    "--help",
    "--list-commands",
    "--global",
    "--if-empty",
    "--if-unused",
    "--pre-hashed-password",
    "--across-all-vhosts",
    "--minimal",
    "--all",
    "--offset",
    "--writer",
    "--tracking",
    "--create",
    "--verbose",
    "--by-source",
];

/// Options of one command or another, which are taken as they are.
const NAMED: &[&str] = &[
    "--apply-to",
    "--description",
    "--tags",
    "--vhost-pattern",
    "--queue-pattern",
    "--default-queue-type",
    "--unit",
    "--address-family",
    "--partitions",
    "--binding-keys",
    "--routing-keys",
    "--max-length-bytes",
    "--max-age",
    "--stream-max-segment-size-bytes",
    "--leader-locator",
    "--routing",
    "--initial-cluster-size",
    "--stream",
    "--reference",
    "--preferred-leader-node",
    "--timestamp",
    "--partition",
    "--count",
    "--filter",
    "--format",
];

/// Milliseconds that a node may take where `-t` says nothing.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest that `-t` and `--per-connection-delay` may be: a day.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

impl Options {
    /// What holds when no option is given.
    fn unset() -> Self {
        let variable = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
        Self {
            vhost: "/".to_owned(),
            vhost_given: false,
            layout: Layout {
                quiet: false,
                silent: false,
                headers: true,
                formatter: Formatter::Usual,
            },
            address: Address {
                node: None,
                data_dir: variable("LEVERET_DATA_DIR", "./leveret-data").into(),
                url: None,
                user: "guest".to_owned(),
                password: PasswordSource::default(),
                trust: Trust::System,
                timeout: TIMEOUT,
            },
            numbers: Numbers {
                priority: 0,
                limit: 0,
                delay: Duration::ZERO,
                within: 4,
                lines: 50,
            },
            which: None,
            limits_of: None,
            command_user: None,
            flags: Vec::new(),
            named: Vec::new(),
            given: Vec::new(),
        }
    }
}

impl Layout {
    /// Whether only the result is wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
            || self.silent
            || matches!(
                self.formatter,
                Formatter::Json | Formatter::JsonStream | Formatter::Csv
            )
    }

    /// A result in the form that was asked for.
    #[must_use]
    pub fn render(&self, output: Output) -> String {
        match (output, self.formatter) {
            (Output::Done, _) => String::new(),
            (Output::Text(text), Formatter::Json | Formatter::JsonStream) => {
                format!("{}\n", serde_json::json!({"result": "ok", "message": text}))
            }
            (Output::Object(object, _), Formatter::Json | Formatter::JsonStream) => {
                format!("{object}\n")
            }
            (Output::Text(text) | Output::Object(_, text), _) => format!("{}\n", text.trim_end()),
            (Output::Rows(rows) | Output::Boxed(rows), Formatter::PrettyTable) => rows.boxed(),
            (Output::Rows(rows) | Output::Boxed(rows), Formatter::Json) => rows.json(),
            (Output::Rows(rows) | Output::Boxed(rows), Formatter::JsonStream) => rows.json_lines(),
            (Output::Rows(rows) | Output::Boxed(rows), Formatter::Csv) => rows.csv(),
            (Output::Boxed(rows), Formatter::Usual) if !self.silent => rows.boxed(),
            (Output::Rows(rows) | Output::Boxed(rows), _) => {
                rows.tabbed(self.headers && !self.silent)
            }
        }
    }
}

impl Options {
    /// The options that were given and that a command does not take whose usage this is. One that
    /// had no effect could have been what kept something from being deleted.
    pub fn not_taken<'a>(&'a self, usage: &str) -> Vec<&'a str> {
        let words = usage.split(|c: char| !(c == '-' || c.is_ascii_alphanumeric()));
        let words: Vec<&str> = words.collect();
        let is_taken = |option: &str| {
            let long = long_form(option);
            words.contains(&option) || words.contains(&long) || COMMON.contains(&option)
        };
        let given = self.given.iter().map(String::as_str);
        given.filter(|option| !is_taken(option)).collect()
    }

    /// The value of an option of one command or another.
    #[must_use]
    pub fn named(&self, option: &str) -> Option<&str> {
        let mut given = self.named.iter().rev();
        given
            .find(|(name, _)| name == option)
            .map(|(_, value)| value.as_str())
    }

    /// Whether an option without a value was given, by its long name.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        debug_assert!(FLAGS.contains(&flag), "{flag} is in the list");
        self.flags.contains(&flag)
    }

    /// Takes an option without a value; false if it is none.
    fn take_flag(&mut self, name: &str) -> bool {
        match name {
            "-q" | "--quiet" => self.layout.quiet = true,
            "-s" | "--silent" => self.layout.silent = true,
            "--table-headers" => self.layout.headers = true,
            "--no-table-headers" => self.layout.headers = false,
            "--json" => self.layout.formatter = Formatter::Json,
            "--insecure" => self.address.trust = Trust::Anybody,
            "--online" => self.which = Some(Which::Online),
            "--offline" => self.which = Some(Which::Offline),
            "--local" => self.which = Some(Which::Local),
            // They choose among name forms, of which there is one, or all of something.
            "-l" | "--longnames" | "--no-silent" | "-E" | "--enabled" | "-v" => {}
            // A change of members is made or refused as a whole: there is no list to shorten. What
            // is imported again changes nothing; of deprecated features there is none.
            "--errors-only" | "--skip-if-unchanged" | "--used" => {}
            _ => {
                let long = long_form(name);
                let Some(flag) = FLAGS.iter().find(|flag| **flag == long) else {
                    return false;
                };
                self.flags.push(flag);
            }
        }
        true
    }

    /// Takes an option with its value; an error if it is none, or its value is not what it needs.
    fn take_value(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let bad = |what: &str| Failure::usage(format!("{name} needs {what}, not '{value}'"));
        match name {
            "-p" | "--vhost" => {
                self.vhost = value.to_owned();
                self.vhost_given = true;
            }
            "-t" | "--timeout" => {
                self.address.timeout = timeout(value).ok_or_else(|| bad("seconds"))?;
            }
            "--formatter" => {
                self.layout.formatter = match value {
                    "table" => Formatter::Table,
                    "pretty_table" => Formatter::PrettyTable,
                    "json" => Formatter::Json,
                    "json_stream" => Formatter::JsonStream,
                    "csv" => Formatter::Csv,
                    _ => return Err(bad("one of table, pretty_table, json, json_stream, csv")),
                }
            }
            "--priority" => {
                self.numbers.priority = value.parse().map_err(|_| bad("a whole number"))?;
            }
            "--limit" => self.numbers.limit = value.parse().map_err(|_| bad("a whole number"))?,
            "--per-connection-delay" => {
                let delay = value.parse().ok().map(Duration::from_millis);
                let delay = delay.filter(|d| *d <= TIMEOUT_MAX);
                self.numbers.delay = delay.ok_or_else(|| bad("milliseconds"))?;
            }
            // Every new member catches up first, and votes when it has.
            "--membership" if matches!(value, "promotable" | "voter") => {}
            "--membership" => return Err(bad("promotable or voter")),
            "--within" => self.numbers.within = value.parse().map_err(|_| bad("a whole number"))?,
            "-N" | "--number" => {
                self.numbers.lines = value.parse().map_err(|_| bad("a whole number"))?
            }
            "--data-dir" => self.address.data_dir = value.into(),
            "--url" => self.address.url = Some(value.to_owned()),
            "--user" => self.command_user = Some(value.to_owned()),
            "--username" => self.address.user = value.to_owned(),
            "--password" => self.address.password.given = Some(value.to_owned()),
            "--password-file" => self.address.password.file = Some(value.into()),
            "--ca-file" => self.address.trust = Trust::File(value.into()),
            // A queue that does not answer is found without waiting for it.
            "--queue-timeout" => {
                let _: u64 = value.parse().map_err(|_| bad("milliseconds"))?;
            }
            _ if NAMED.contains(&name) => self.named.push((name.to_owned(), value.to_owned())),
            "-n" | "--node" => self.address.node = Some(value.to_owned()),
            // The node trusts who may read its data folder: there is no cookie.
            "--erlang-cookie" | "--script-name" | "--printer" | "-P" | "--pid" => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

/// The long form of an option.
fn long_form(option: &str) -> &str {
    let long = SHORT.iter().find(|(short, _)| *short == option);
    long.map_or(option, |(_, long)| *long)
}

/// The failure of a command that does not take this option.
pub fn unknown(name: &str) -> Failure {
    Failure::usage(format!("Invalid options for this command:\n{name}"))
}

fn timeout(value: &str) -> Option<Duration> {
    if value == "infinity" {
        return Some(TIMEOUT_MAX);
    }
    let seconds: f64 = value.parse().ok()?;
    let timeout = Duration::try_from_secs_f64(seconds).ok()?;
    (Duration::from_millis(1)..=TIMEOUT_MAX)
        .contains(&timeout)
        .then_some(timeout)
}

/// An option and its value in one word: `--node=a`, `-n=a`, `-na`.
fn joined(word: &str) -> Option<(&str, &str)> {
    if word.starts_with("--") {
        return word.split_once('=');
    }
    // The first letter after the dash is one byte, as the options are.
    let (name, value) = word
        .split_at_checked(2)
        .filter(|(_, value)| !value.is_empty())?;
    Some((name, value.strip_prefix('=').unwrap_or(value)))
}

/// Takes the options out of a command line; what remains is the command and its arguments.
pub fn parse(words: &[String]) -> Result<(Options, Vec<String>), Failure> {
    let mut options = Options::unset();
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_option = word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err();
        if word == "--" {
            rest.extend(words.by_ref().cloned());
        } else if !is_option {
            rest.push(word.clone());
        } else if options.take_flag(word) {
            options.given.push(word.clone());
        } else if let Some((name, value)) = joined(word) {
            options.take_value(name, value)?;
            options.given.push(name.to_owned());
        } else {
            let value = words.next().ok_or_else(|| unknown(word))?;
            options.take_value(word, value)?;
            options.given.push(word.clone());
        }
    }
    if rest
        .first()
        .is_some_and(|command| command == "list_user_limits")
    {
        options.limits_of = options.command_user.take();
    } else if let Some(user) = options.command_user.take() {
        options.address.user = user;
    }
    let address = &mut options.address;
    address.node = target::meant(address.node.as_deref(), address.url.as_deref());
    Ok((options, rest))
}
