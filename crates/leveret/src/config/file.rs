//! The configuration as typed: settings by name, each with the place it came from. Nothing is
//! judged here but syntax.

use super::{ConfigError, keys};
use std::collections::BTreeMap;
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Where a setting was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line (from 1) of a file.
    Line(String, usize),
    /// An environment variable.
    Variable(String),
    /// An option of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "option {name}"),
        }
    }
}

/// One setting as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its value as text.
    pub text: String,
    /// The environment variable of which a file took it, or a part of it.
    pub variable: Option<String>,
    /// Where it was typed.
    pub source: Source,
}

/// Everything that was typed, by key name. A later source replaces an earlier one's setting of the
/// same name.
#[derive(Clone, Debug, Default)]
pub struct FileConfig {
    settings: BTreeMap<String, Setting>,
    /// What `$(NAME)` in a file in rabbitmq.conf's form stands for.
    variables: BTreeMap<String, String>,
}

impl FileConfig {
    /// Nothing typed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, where files name environment variables: `$(NAME)`.
    #[must_use]
    pub fn with_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            settings: BTreeMap::new(),
            variables: variables.into_iter().collect(),
        }
    }

    /// All settings, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The setting of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// The settings below `prefix.`, with the rest of their names.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Setting)> {
        self.iter()
            .filter_map(move |(name, s)| Some((name.strip_prefix(prefix)?.strip_prefix('.')?, s)))
    }

    /// Sets `name`, whatever an earlier source said.
    pub fn set(&mut self, name: &str, text: impl Into<String>, source: Source) {
        let setting = Setting {
            text: text.into(),
            variable: None,
            source,
        };
        self.put(name.to_owned(), setting);
    }

    /// The same with all that is known of the setting.
    pub fn put(&mut self, name: String, setting: Setting) {
        self.settings.insert(name, setting);
    }

    /// Forgets `prefix` and every setting below it: an option of the command line that stands for a
    /// whole family does so.
    pub fn forget(&mut self, prefix: &str) {
        self.settings.retain(|name, _| {
            name.strip_prefix(prefix)
                .is_none_or(|rest| !rest.is_empty() && !rest.starts_with('.'))
        });
    }

    /// Reads a file's text: rabbitmq.conf's form if its name ends in `.conf`, Erlang's if it ends
    /// in `.config`, TOML otherwise.
    pub fn read_text(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        match file.rsplit_once('.') {
            Some((_, "conf")) => self.read_conf(file, text),
            Some((_, "config")) => self.read_erlang(file, text),
            _ => self.read_toml(file, text),
        }
    }

    fn read_toml(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().replace('\n', " ");
            ConfigError::at(Source::Line(file.to_owned(), line_of(text, at)), what)
        })?;
        self.read_table(file, text, "", table.get_ref())
    }

    fn read_table(
        &mut self,
        file: &str,
        text: &str,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = match prefix {
                "" => key.get_ref().to_string(),
                _ => format!("{prefix}.{}", key.get_ref()),
            };
            let source = Source::Line(file.to_owned(), line_of(text, key.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => self.read_table(file, text, &name, inner)?,
                DeValue::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        let item = scalar(item.get_ref()).ok_or_else(|| {
                            ConfigError::at(
                                source.clone(),
                                format!("\"{name}\" must be a list of plain values"),
                            )
                        })?;
                        let (name, item) = list_item(&name, index, item);
                        self.set(&name, item, source.clone());
                    }
                }
                other => {
                    let value = scalar(other).ok_or_else(|| {
                        ConfigError::at(
                            source.clone(),
                            format!("\"{name}\" must not be a date or time"),
                        )
                    })?;
                    self.set(&name, value, source);
                }
            }
        }
        Ok(())
    }

    /// rabbitmq.conf: `key = value` lines, `#` comments, values bare or in single or double quotes,
    /// `$(NAME)` in them for an environment variable.
    fn read_conf(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        for (index, line) in text.lines().enumerate() {
            let source = Source::Line(file.to_owned(), index + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(ConfigError::at(
                    source,
                    "this line is not of the form `key = value`",
                ));
            };
            let (text, variable) = self.with_its_variables(conf_value(value), &source)?;
            let name = name.trim().to_owned();
            let setting = Setting {
                text,
                variable,
                source,
            };
            self.put(name, setting);
        }
        Ok(())
    }

    /// A value with what the environment variables hold that it names, and the last one's name.
    fn with_its_variables(
        &self,
        value: String,
        source: &Source,
    ) -> Result<(String, Option<String>), ConfigError> {
        let (mut text, mut last) = (String::new(), None);
        let mut rest = value.as_str();
        while let Some((before, behind)) = rest.split_once("$(")
            && let Some((name, after)) = behind.split_once(')')
        {
            let name = name.trim();
            let Some(held) = self.variables.get(name) else {
                let what =
                    format!("the environment variable {name}, which is named here, is not set");
                return Err(ConfigError::at(source.clone(), what));
            };
            text.push_str(before);
            text.push_str(held);
            last = Some(name.to_owned());
            rest = after;
        }
        text.push_str(rest);
        Ok((text, last))
    }

    /// Takes what the environment says: `LEVERET_*` for every key (dots and capitals as in
    /// `LEVERET_DISK_FREE_LIMIT_ABSOLUTE`) and those of RabbitMQ's variables that its images are
    /// configured with.
    pub fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort();
        for (variable, value) in &variables {
            self.read_rabbitmq_variable(variable, value);
        }
        self.read_listener_variables(&variables);
        // After RabbitMQ's, so that Leveret's own go before them.
        for (variable, value) in variables {
            let Some(rest) = variable.strip_prefix("LEVERET_") else {
                continue;
            };
            // Kubernetes puts these into every container beside a service of the name `leveret`.
            let of_kubernetes = ["SERVICE_HOST", "SERVICE_PORT", "PORT"];
            if OWN_VARIABLES.contains(&variable.as_str())
                || of_kubernetes.iter().any(|p| rest.starts_with(p))
            {
                continue;
            }
            let source = Source::Variable(variable.clone());
            match key_of_variable(rest) {
                Some(name) => self.set(&name, value, source),
                None => {
                    let guess = keys::KEYS
                        .iter()
                        .map(|k| variable_of(k.name))
                        .min_by_key(|k| strsim::damerau_levenshtein(k, &variable));
                    let guess =
                        guess.filter(|g| strsim::damerau_levenshtein(g, &variable) < g.len() / 3);
                    let hint = guess.map(|g| format!("; did you mean {g}?"));
                    return Err(ConfigError::at(
                        source,
                        format!("unknown key{}", hint.unwrap_or_default()),
                    ));
                }
            }
        }
        Ok(())
    }

    fn read_rabbitmq_variable(&mut self, variable: &str, value: &str) {
        let source = Source::Variable(variable.to_owned());
        let name = match variable {
            "RABBITMQ_DEFAULT_USER" => "default_user",
            "RABBITMQ_DEFAULT_PASS" => "default_pass",
            "RABBITMQ_DEFAULT_VHOST" => "default_vhost",
            "RABBITMQ_NODENAME" => "node_name",
            "RABBITMQ_VM_MEMORY_HIGH_WATERMARK" => {
                let relative = value.parse::<f64>().is_ok_and(|f| f <= 1.0);
                let name = if relative { "relative" } else { "absolute" };
                return self.set(
                    &format!("vm_memory_high_watermark.{name}"),
                    value.trim_start_matches("absolute:"),
                    source,
                );
            }
            _ if UNREAD_VARIABLES.contains(&variable) => variable,
            _ => return,
        };
        self.set(name, value, source);
    }

    /// Port and address of the AMQP listener, which are one key here: where only the address is
    /// given, at RabbitMQ's port, and where only the port is, on every interface.
    fn read_listener_variables(&mut self, variables: &[(String, String)]) {
        let given = |name| {
            let mut all = variables.iter();
            all.find(|(variable, _)| variable == name)
                .map(|(_, value)| value.as_str())
        };
        let (text, last) = match (
            given("RABBITMQ_NODE_IP_ADDRESS"),
            given("RABBITMQ_NODE_PORT"),
        ) {
            (None, None) => return,
            (None, Some(port)) => (port.to_owned(), "RABBITMQ_NODE_PORT"),
            (Some(ip), port) => {
                let port = port.unwrap_or("5672");
                let text = match ip.contains(':') {
                    true => format!("[{ip}]:{port}"),
                    false => format!("{ip}:{port}"),
                };
                (text, "RABBITMQ_NODE_IP_ADDRESS")
            }
        };
        self.forget("listeners.tcp");
        self.set(
            "listeners.tcp.default",
            text,
            Source::Variable(last.to_owned()),
        );
    }
}

/// Variables of RabbitMQ's that would change a node and are not read: each is told of.
const UNREAD_VARIABLES: &[&str] = &[
    "RABBITMQ_ADVANCED_CONFIG_FILES",
    "RABBITMQ_BASE",
    "RABBITMQ_CTL_ERL_ARGS",
    "RABBITMQ_DEFAULT_PASS_FILE",
    "RABBITMQ_DEFAULT_USER_FILE",
    "RABBITMQ_DIST_PORT",
    "RABBITMQ_ENABLED_PLUGINS",
    "RABBITMQ_ERLANG_COOKIE",
    "RABBITMQ_FEATURE_FLAGS",
    "RABBITMQ_LOGS",
    "RABBITMQ_LOG_BASE",
    "RABBITMQ_MNESIA_BASE",
    "RABBITMQ_MNESIA_DIR",
    "RABBITMQ_PLUGINS_DIR",
    "RABBITMQ_QUORUM_DIR",
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
    "RABBITMQ_SERVER_ERL_ARGS",
    "RABBITMQ_SERVER_START_ARGS",
    "RABBITMQ_STREAM_DIR",
];

/// Variables of Leveret's that are no keys.
pub const OWN_VARIABLES: &[&str] = &["LEVERET_CONFIG_FILE", "LEVERET_TRIAL_DEVICE"];

/// The variable that sets the key `name`.
#[must_use]
pub fn variable_of(name: &str) -> String {
    format!("LEVERET_{}", variable_words(name))
}

fn variable_words(name: &str) -> String {
    name.replace('.', "_")
        .replace("$name", "NAME")
        .to_ascii_uppercase()
}

/// The key that the variable `LEVERET_` + `rest` sets.
fn key_of_variable(rest: &str) -> Option<String> {
    if let Some(key) = keys::KEYS
        .iter()
        .find(|k| !k.name.ends_with("$name") && variable_words(k.name) == rest)
    {
        return Some(key.name.to_owned());
    }
    keys::KEYS.iter().find_map(|k| {
        let family = k.name.strip_suffix("$name")?;
        let word = rest.strip_prefix(&variable_words(family))?;
        (!word.is_empty()).then(|| format!("{family}{}", word.to_ascii_lowercase()))
    })
}

/// The setting that item `index` of the list `name` stands for: `loopback_users = ["guest"]` says
/// `loopback_users.guest = true`, and `auth_mechanisms = ["PLAIN"]` says `auth_mechanisms.1 =
/// "PLAIN"`.
fn list_item(name: &str, index: usize, item: String) -> (String, String) {
    let is_flag = keys::KEYS
        .iter()
        .any(|k| k.kind == keys::Kind::Bool && k.name.strip_suffix(".$name") == Some(name));
    if is_flag {
        (format!("{name}.{item}"), "true".to_owned())
    } else {
        (format!("{name}.{}", index + 1), item)
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

fn conf_value(value: &str) -> String {
    let value = value.trim();
    for quote in ['\'', '"'] {
        if let Some(inner) = value.strip_prefix(quote)
            && let Some(end) = inner.find(quote)
        {
            return inner[..end].to_owned();
        }
    }
    let end = value.find(" #").unwrap_or(value.len());
    value[..end].trim_end().to_owned()
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}
