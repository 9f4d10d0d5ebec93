//! Where log lines go.

use crate::config::{Log, LogFormat, LogLevel, LogSink};
use std::fs::OpenOptions;
use std::io;
use std::sync::Mutex;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

/// Starts logging. From then on every line of the process goes where the configuration says.
pub fn start(config: &Log) -> Result<(), String> {
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
    if let Some(sink) = config.console {
        layers.push(layer(sink, BoxMakeWriter::new(io::stderr)));
    }
    if let Some((path, sink)) = &config.file {
        let opened = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(path));
        let file = opened
            .map_err(|error| format!("cannot open the log file {}: {error}", path.display()))?;
        layers.push(layer(*sink, BoxMakeWriter::new(Mutex::new(file))));
    }
    tracing::subscriber::set_global_default(Registry::default().with(layers))
        .map_err(|error| format!("cannot start logging: {error}"))
}

fn layer(sink: LogSink, writer: BoxMakeWriter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let level = match sink.level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false);
    match sink.format {
        LogFormat::Plain => layer.with_target(false).with_filter(level).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(level).boxed(),
    }
}
