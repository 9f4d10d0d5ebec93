//! The options of RabbitMQ's tools. They may stand anywhere among the arguments.

use super::{Failure, Output};
use crate::cli::password::PasswordSource;
use crate::cli::target::{self, Address};
use crate::trust::Trust;
use std::path::PathBuf;
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

/// The options that were given, with the defaults of those that were not.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `-p`, `--vhost`
    pub vhost: String,
    /// Whether `-p` was given: some lists are of every virtual host without it.
    pub vhost_given: bool,
    /// `-q`
    pub quiet: bool,
    /// `-s`: quiet, and no table headers either.
    pub silent: bool,
    /// `--no-table-headers`
    pub headers: bool,
    /// `--formatter`
    pub formatter: Formatter,
    /// `--help`
    pub help: bool,
    /// `--global`
    pub global: bool,
    /// `--if-empty`
    pub if_empty: bool,
    /// `--if-unused`
    pub if_unused: bool,
    /// `--pre-hashed-password`
    pub pre_hashed: bool,
    /// `--apply-to`
    pub apply_to: String,
    /// `--priority`
    pub priority: i64,
    /// `--description`
    pub description: Option<String>,
    /// `--tags`
    pub tags: Option<String>,
    /// `--default-queue-type`
    pub default_queue_type: Option<String>,
    /// `--vhost-pattern`
    pub vhost_pattern: String,
    /// `--queue-pattern`
    pub queue_pattern: String,
    /// `--limit`: how many at most; 0: all.
    pub limit: usize,
    /// `--per-connection-delay`, in milliseconds.
    pub delay: Duration,
    /// `-t`: how long the node may take.
    pub timeout: Duration,
    /// `--within`: how many of `unit`.
    pub within: u32,
    /// `--unit`: days, weeks, months, years; or of sizes.
    pub unit: Option<String>,
    /// `--list-commands`
    pub list_commands: bool,
    /// `-N`, `--number`: how many lines of a log.
    pub lines: usize,
    /// `--across-all-vhosts`
    pub everywhere: bool,
    /// `-m`, `--minimal`
    pub minimal: bool,
    /// `--all`
    pub all: bool,
    /// `--offset`: of what a stream keeps by name, the offsets of consumers.
    pub offset: bool,
    /// `--writer`: of the same, the publishing ids of publishers.
    pub writer: bool,
    /// `--tracking`: what a stream keeps by name, not how it stands.
    pub tracking: bool,
    /// `--create`: a group that is not there is made.
    pub create: bool,
    /// `--verbose`: every column, where none is named.
    pub verbose: bool,
    /// Options of one command or another, each with its value.
    named: Vec<(String, String)>,
    /// The names of all options that were given, as they were written.
    given: Vec<String>,
    /// `--online`, `--offline`, `--local`: which queues are listed; all if it is none.
    pub which: Option<Which>,
    /// `-n`, `--node`: the node that is meant, where the command says it.
    pub node: Option<String>,
    /// `--data-dir`
    pub data_dir: PathBuf,
    /// `--url`
    pub url: Option<String>,
    /// `--user` of `list_user_limits`: whose limits.
    pub limits_of: Option<String>,
    /// `--user`, until it is known what the command means by it.
    command_user: Option<String>,
    /// `--user`, or `--username`: who asks.
    pub user: String,
    /// `--password`, `--password-file`
    pub password: PasswordSource,
    /// `--ca-file`, `--insecure`
    pub trust: Trust,
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
    ("-e", "--if-empty"),
    ("-u", "--if-unused"),
    ("-m", "--minimal"),
    ("-E", "--enabled"),
    ("-N", "--number"),
    ("-v", "--verbose"),
    ("-V", "--verbose"),
];

/// Options of one command or another, which are taken as they are.
const NAMED: &[&str] = &[
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
            quiet: false,
            silent: false,
            headers: true,
            formatter: Formatter::Usual,
            help: false,
            global: false,
            if_empty: false,
            if_unused: false,
            pre_hashed: false,
            apply_to: "all".to_owned(),
            priority: 0,
            description: None,
            tags: None,
            default_queue_type: None,
            vhost_pattern: ".*".to_owned(),
            queue_pattern: ".*".to_owned(),
            limit: 0,
            delay: Duration::ZERO,
            timeout: TIMEOUT,
            within: 4,
            unit: None,
            list_commands: false,
            lines: 50,
            everywhere: false,
            minimal: false,
            all: false,
            offset: false,
            writer: false,
            tracking: false,
            create: false,
            verbose: false,
            named: Vec::new(),
            given: Vec::new(),
            which: None,
            node: None,
            data_dir: variable("LEVERET_DATA_DIR", "./leveret-data").into(),
            url: None,
            limits_of: None,
            command_user: None,
            user: "guest".to_owned(),
            password: PasswordSource::default(),
            trust: Trust::System,
        }
    }
}

impl Options {
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

    /// The options that were given and that a command does not take whose usage this is. One that
    /// had no effect could have been what kept something from being deleted.
    pub fn not_taken<'a>(&'a self, usage: &str) -> Vec<&'a str> {
        let words = usage.split(|c: char| !(c == '-' || c.is_ascii_alphanumeric()));
        let words: Vec<&str> = words.collect();
        let is_taken = |option: &str| {
            let long = SHORT.iter().find(|(short, _)| *short == option);
            let long = long.map_or(option, |(_, long)| *long);
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

    /// Which node is meant.
    #[must_use]
    pub fn address(&self) -> Address {
        Address {
            node: target::meant(self.node.as_deref(), self.url.as_deref()),
            data_dir: self.data_dir.clone(),
            url: self.url.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            trust: self.trust.clone(),
            timeout: self.timeout,
        }
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

    /// Takes an option without a value; false if it is none.
    fn take_flag(&mut self, name: &str) -> bool {
        match name {
            "-q" | "--quiet" => self.quiet = true,
            "-s" | "--silent" => self.silent = true,
            "-h" | "--help" => self.help = true,
            "--table-headers" => self.headers = true,
            "--no-table-headers" => self.headers = false,
            "--global" => self.global = true,
            "-e" | "--if-empty" => self.if_empty = true,
            "-u" | "--if-unused" => self.if_unused = true,
            "--pre-hashed-password" => self.pre_hashed = true,
            "--across-all-vhosts" => self.everywhere = true,
            "-m" | "--minimal" => self.minimal = true,
            "--insecure" => self.trust = Trust::Anybody,
            "--online" => self.which = Some(Which::Online),
            "--offline" => self.which = Some(Which::Offline),
            "--local" => self.which = Some(Which::Local),
            // They choose among name forms, of which there is one, or all of something.
            "-l" | "--longnames" | "--no-silent" | "-E" | "--enabled" | "-v" => {}
            "--all" => self.all = true,
            "--offset" => self.offset = true,
            "--writer" => self.writer = true,
            "--tracking" => self.tracking = true,
            "--create" => self.create = true,
            "-V" | "--verbose" => self.verbose = true,
            "--json" => self.formatter = Formatter::Json,
            // A change of members is made or refused as a whole: there is no list to shorten. What
            // is imported again changes nothing; of deprecated features there is none.
            "--errors-only" | "--skip-if-unchanged" | "--used" => {}
            "--list-commands" => self.list_commands = true,
            _ => return false,
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
            "-t" | "--timeout" => self.timeout = timeout(value).ok_or_else(|| bad("seconds"))?,
            "--formatter" => {
                self.formatter = match value {
                    "table" => Formatter::Table,
                    "pretty_table" => Formatter::PrettyTable,
                    "json" => Formatter::Json,
                    "json_stream" => Formatter::JsonStream,
                    "csv" => Formatter::Csv,
                    _ => return Err(bad("one of table, pretty_table, json, json_stream, csv")),
                }
            }
            "--apply-to" => self.apply_to = value.to_owned(),
            "--priority" => {
                self.priority = value.parse().map_err(|_| bad("a whole number"))?;
            }
            "--description" => self.description = Some(value.to_owned()),
            "--tags" => self.tags = Some(value.to_owned()),
            "--vhost-pattern" => self.vhost_pattern = value.to_owned(),
            "--queue-pattern" => self.queue_pattern = value.to_owned(),
            "--default-queue-type" => self.default_queue_type = Some(value.to_owned()),
            "--limit" => self.limit = value.parse().map_err(|_| bad("a whole number"))?,
            "--per-connection-delay" => {
                let delay = value.parse().ok().map(Duration::from_millis);
                let delay = delay.filter(|d| *d <= TIMEOUT_MAX);
                self.delay = delay.ok_or_else(|| bad("milliseconds"))?;
            }
            // Every new member catches up first, and votes when it has.
            "--membership" if matches!(value, "promotable" | "voter") => {}
            "--membership" => return Err(bad("promotable or voter")),
            "--within" => self.within = value.parse().map_err(|_| bad("a whole number"))?,
            "--unit" => self.unit = Some(value.to_owned()),
            "-N" | "--number" => self.lines = value.parse().map_err(|_| bad("a whole number"))?,
            "--data-dir" => self.data_dir = value.into(),
            "--url" => self.url = Some(value.to_owned()),
            "--user" => self.command_user = Some(value.to_owned()),
            "--username" => self.user = value.to_owned(),
            "--password" => self.password.given = Some(value.to_owned()),
            "--password-file" => self.password.file = Some(value.into()),
            "--ca-file" => self.trust = Trust::File(value.into()),
            // A queue that does not answer is found without waiting for it.
            "--queue-timeout" => {
                let _: u64 = value.parse().map_err(|_| bad("milliseconds"))?;
            }
            _ if NAMED.contains(&name) => self.named.push((name.to_owned(), value.to_owned())),
            "-n" | "--node" => self.node = Some(value.to_owned()),
            // The node trusts who may read its data folder: there is no cookie.
            "--erlang-cookie" | "--script-name" | "--printer" | "-P" | "--pid" => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
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
        options.user = user;
    }
    Ok((options, rest))
}
