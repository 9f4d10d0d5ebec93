//! Where log lines go.

use super::log_file::{LogFile, Rotated};
use super::log_lines::{Lines, Shared};
use crate::config::{Log, LogFormat, LogLevel, LogSink};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

/// How often sums of what was left out are looked for.
const SUM_UP_EVERY: Duration = Duration::from_secs(1);

/// The log of the process, as an operator changes it while the node runs.
#[derive(Clone)]
pub struct Logs {
    levels: Vec<reload::Handle<LevelFilter, Registry>>,
    file: Option<Arc<LogFile>>,
}

/// Starts logging. From then on every line of the process goes where the configuration says.
pub fn start(config: &Log) -> Result<Logs, String> {
    let mut layers: Vec<BoxedLayer> = Vec::new();
    let mut levels = Vec::new();
    let mut summed = Vec::new();
    let mut add = |sink: LogSink, writer| {
        let (layer, level, lines) = layer(sink, writer);
        summed.push(lines);
        layers.push(layer);
        levels.push(level);
    };
    if let Some(sink) = config.console {
        add(sink, BoxMakeWriter::new(io::stderr));
    }
    let mut file = None;
    if let Some((path, sink)) = &config.file {
        let opened = LogFile::open(path.clone(), config.rotation)
            .map_err(|error| format!("cannot open the log file {}: {error}", path.display()))?;
        let opened = file.insert(Arc::new(opened));
        add(*sink, BoxMakeWriter::new(Arc::clone(opened)));
    }
    tracing::subscriber::set_global_default(Registry::default().with(layers))
        .map_err(|error| format!("cannot start logging: {error}"))?;
    sum_up(summed)?;
    Ok(Logs { levels, file })
}

/// Has floods that have ended told of, also where no other line comes.
fn sum_up(sinks: Vec<Arc<Lines>>) -> Result<(), String> {
    let thread = std::thread::Builder::new().name("log-sums".to_owned());
    let looks = move || {
        loop {
            // By the clock: that no line comes any more is what ends a flood, and nothing tells of
            // that.
            std::thread::sleep(SUM_UP_EVERY);
            for lines in &sinks {
                // Where to say that the log cannot be written?
                let _ = lines.write_sums();
            }
        }
    };
    thread
        .spawn(looks)
        .map(drop)
        .map_err(|error| format!("cannot start a thread: {error}"))
}

impl Logs {
    /// Has every sink take lines of this level and graver ones; nothing where there is none.
    ///
    /// # Errors
    /// If the sinks are gone, which they are only with the process.
    pub fn set_level(&self, level: Option<LogLevel>) -> Result<(), String> {
        for handle in &self.levels {
            let filter = level.map_or(LevelFilter::OFF, filter);
            handle
                .reload(filter)
                .map_err(|error| format!("cannot change the log's level: {error}"))?;
        }
        Ok(())
    }

    /// Puts the log file away, or opens it anew where somebody has moved it; nothing where there is
    /// none: what standard error becomes is its reader's affair.
    ///
    /// # Errors
    /// If the file's folder does not let it be.
    pub fn rotate(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            tracing::info!("nothing to rotate: the log goes to standard error alone");
            return Ok(());
        };
        match file.rotate() {
            Ok(Rotated::OpenedAnew) => tracing::info!("the log goes on in a new file"),
            Ok(Rotated::Archived) => tracing::info!("the log was rotated"),
            Ok(Rotated::Emptied) => tracing::info!("the log was emptied: no archives are kept"),
            Err(error) => return Err(format!("cannot rotate the log file: {error}")),
        }
        Ok(())
    }

    /// Opens the log file anew where somebody has moved it.
    pub fn follow(&self) {
        match self.file.as_ref().map(|file| file.follow()) {
            None | Some(Ok(false)) => {}
            Some(Ok(true)) => tracing::info!("the log goes on in a new file"),
            Some(Err(error)) => tracing::error!(%error, "cannot open the log file anew"),
        }
    }
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

fn layer(
    sink: LogSink,
    writer: BoxMakeWriter,
) -> (
    BoxedLayer,
    reload::Handle<LevelFilter, Registry>,
    Arc<Lines>,
) {
    let (level, handle) = reload::Layer::new(filter(sink.level));
    let lines = Arc::new(Lines::new(writer, sink.format));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(Shared(Arc::clone(&lines)))
        .with_ansi(false);
    let layer = match sink.format {
        LogFormat::Plain => layer.with_target(false).with_filter(level).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(level).boxed(),
    };
    (layer, handle, lines)
}
