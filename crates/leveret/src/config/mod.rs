//! Configuration in two stages: [`FileConfig`] is what was typed, [`Config`] is what holds.
//!
//! Invariant: a [`Config`] is valid as a whole, and says everything: no value in it means "as
//! elsewhere".
//! Invariant: building a [`Config`] reads no file, no clock and no environment; what it must know
//! of the machine is given as [`Machine`].

pub mod advanced;
pub mod aliases;
pub mod build;
pub mod cgroup;
pub mod erlang;
pub mod file;
pub mod keys;
pub mod machine;
pub mod migrate;
pub mod plugins;
pub mod reference;
pub mod rotation;
pub mod settled;
pub mod value;

#[cfg(test)]
mod tests;

pub use build::Machine;
pub use file::{FileConfig, Setting, Source};
pub use settled::{
    Admission, Cluster, ClusterTls, Config, DiskLimit, FirstBoot, Folders, Limits, Listeners, Log,
    LogFormat, LogLevel, LogSink, Login, MemoryWatermark, PasswordHashing, Rotation, Storage,
    Stream, Threads, Tls, TlsVersion, Traces,
};

use std::fmt;
use std::path::{Path, PathBuf};

/// Something in the configuration that cannot stand: where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    source: Option<Source>,
    what: String,
}

impl ConfigError {
    /// An error in what was typed at `source`.
    pub fn at(source: Source, what: impl Into<String>) -> Self {
        Self {
            source: Some(source),
            what: what.into(),
        }
    }

    /// An error of the configuration as a whole.
    pub fn whole(what: impl Into<String>) -> Self {
        Self {
            source: None,
            what: what.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Why a configuration does not hold, and what else its author should know of it.
#[derive(Clone, Debug)]
pub struct Refused {
    /// All that cannot stand.
    pub errors: Vec<ConfigError>,
    /// As in [`Loaded`].
    pub notices: Vec<String>,
}

impl Refused {
    /// A line for everything, the errors first.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let errors = self.errors.iter().map(ToString::to_string);
        errors.chain(self.notices.iter().cloned())
    }
}

/// Files that are not there or cannot be read though a key names them: a line each. Which of them a
/// node needs, its start alone tells.
#[must_use]
pub fn unreadable_files(typed: &FileConfig) -> Vec<String> {
    let typed = aliases::resolved(typed);
    let is_read = |name: &str| {
        let ends = [
            "certfile",
            "keyfile",
            "load_definitions",
            "definitions.local.path",
        ];
        ends.iter().any(|end| name.ends_with(end))
    };
    let failed = |(name, setting): (&str, &Setting)| {
        let error = std::fs::File::open(&setting.text).err()?;
        let (source, file) = (&setting.source, &setting.text);
        Some(format!("{source}: \"{name}\": cannot read {file}: {error}"))
    };
    let named = typed.iter().filter(|(name, _)| is_read(name));
    named.filter_map(failed).collect()
}

/// A configuration that holds, and what its author should know of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Keys that are accepted and change nothing: one line each.
    pub notices: Vec<String>,
    /// Every key that has an effect, as it was typed or by default, with its value in force;
    /// secrets are hidden.
    pub effective: Vec<(String, String)>,
    /// The files in which a password or a secret was typed.
    pub secret_files: Vec<PathBuf>,
}

/// Where the configuration file is, by option, then `LEVERET_CONFIG_FILE`, then
/// `RABBITMQ_CONFIG_FILE`; none if nobody names one.
#[must_use]
pub fn file_named(option: Option<&Path>) -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(Into::into)
    };
    option
        .map(Into::into)
        .or_else(|| variable("LEVERET_CONFIG_FILE"))
        .or_else(|| variable("RABBITMQ_CONFIG_FILE"))
}

/// Reads `file` (a file, or a folder whose `.conf` and `.toml` files are read in the order of their
/// names), what RabbitMQ keeps beside its `rabbitmq.conf` or in such a folder, and the environment.
/// RabbitMQ's tools name a file without its ending: `/etc/rabbitmq/rabbitmq` finds `rabbitmq.conf`.
pub fn read(file: Option<&Path>) -> Result<FileConfig, ConfigError> {
    let mut typed = match file {
        Some(file) => read_files(file)?,
        None => FileConfig::with_variables(variables()),
    };
    for (variable, name) in BESIDE {
        let named = std::env::var_os(variable).filter(|path| !path.is_empty());
        if let Some(path) = named.map(PathBuf::from) {
            read_beside(&mut typed, name, &path)?;
        }
    }
    typed.read_environment(variables())?;
    Ok(typed)
}

/// The environment; a variable that is no text is none of ours.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The same without the environment.
pub fn read_files(file: &Path) -> Result<FileConfig, ConfigError> {
    let mut typed = FileConfig::with_variables(variables());
    let with_ending = file.with_extension("conf");
    let file = if !file.exists() && with_ending.exists() {
        &with_ending
    } else {
        file
    };
    for part in parts_of(file)? {
        let text = content(&part)?;
        typed.read_text(&part.display().to_string(), &text)?;
    }
    let folder = match file.file_name() {
        Some(name) if name == "rabbitmq.conf" => file.parent(),
        _ => Some(file).filter(|file| file.is_dir()),
    };
    if let Some(folder) = folder {
        for (_, name) in BESIDE {
            let path = folder.join(name);
            if path.exists() {
                read_beside(&mut typed, name, &path)?;
            }
        }
    }
    Ok(typed)
}

/// What RabbitMQ reads beside its `rabbitmq.conf`, and the variables that name it elsewhere.
const BESIDE: [(&str, &str); 4] = [
    ("RABBITMQ_CONFIG_FILES", "conf.d"),
    ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
    ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
    ("RABBITMQ_CONF_ENV_FILE", ENVIRONMENT_SCRIPT),
];

/// A shell's script that RabbitMQ runs at its start.
const ENVIRONMENT_SCRIPT: &str = "rabbitmq-env.conf";

fn read_beside(typed: &mut FileConfig, name: &str, path: &Path) -> Result<(), ConfigError> {
    let shown = path.display().to_string();
    match name {
        "conf.d" => {
            for part in parts_of(path)? {
                let text = content(&part)?;
                typed.read_text(&part.display().to_string(), &text)?;
            }
            Ok(())
        }
        "enabled_plugins" => typed.read_plugins(&shown, &content(path)?),
        "advanced.config" => typed.read_erlang(&shown, &content(path)?),
        // A shell's script: who starts the node runs it, or gives what it sets.
        _ => {
            typed.set(ENVIRONMENT_SCRIPT, "", Source::Line(shown, 1));
            Ok(())
        }
    }
}

fn content(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| {
        ConfigError::whole(format!(
            "cannot read the configuration {}: {error}",
            file.display()
        ))
    })
}

fn parts_of(file: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if !file.is_dir() {
        return Ok(vec![file.to_owned()]);
    }
    let entries = std::fs::read_dir(file).map_err(|error| {
        ConfigError::whole(format!(
            "cannot read the folder {}: {error}",
            file.display()
        ))
    })?;
    let mut parts: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "conf" || e == "toml"))
        .filter(|path| {
            path.file_name()
                .is_none_or(|name| name != ENVIRONMENT_SCRIPT)
        })
        .collect();
    parts.sort();
    Ok(parts)
}
