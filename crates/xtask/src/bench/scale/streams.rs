//! Many streams, large ones and many readers: what they take of the node, and whether one of them
//! is noticed by the clients of another.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::measure::{Figure, IDLE_AFTER, figure};
use crate::bench::idle;
use crate::bench::report::metric;
use crate::broker::{Broker, Kind, leveret_binary};
use crate::client::{Client, Table};
use crate::{procfs, run};

/// How the streams of a load are declared, and what is published to them.
const SYNCED: &str = "queue_arguments = { flush = \"sync\" }";
const INTERVAL: &str = "queue_arguments = { flush = \"interval\", flush-interval-ms = 100 }";

/// Runs a load of `leveret perf` against a broker's streams; its record.
fn perf(broker: &Broker, load: &str) -> Result<Value> {
    perf_as("load", broker, load)
}

/// The same, beside a load of another name.
fn perf_as(name: &str, broker: &Broker, load: &str) -> Result<Value> {
    let folder = run::target_folder("bench/streams")?;
    let file = folder.join(format!("{name}.toml"));
    let record = folder.join(format!("{name}.json"));
    fs::write(
        &file,
        format!("protocol = \"stream\"\nabout = \"\"\n{load}"),
    )?;
    let uri = format!("rabbitmq-stream://guest:guest@{}", broker.stream);
    let mut command = Command::new(leveret_binary());
    command.args(["perf", "run"]).arg(&file);
    command.args(["--uri", &uri, "--pid", &broker.pid().to_string()]);
    run::output(command.arg("--json").arg(&record))?;
    Ok(serde_json::from_str(&fs::read_to_string(&record)?)?)
}

/// A figure of one of the loads of a record.
fn of_load(record: &Value, load: usize, path: &str) -> Result<f64> {
    let at = format!("/loads/{load}{path}");
    let value = record.pointer(&at).and_then(Value::as_f64);
    value.with_context(|| format!("the record has no {at}"))
}

fn p99_ms(record: &Value, load: usize, of: &str) -> Result<f64> {
    let us = of_load(record, load, &format!("/{of}/percentiles/p99_us"))?;
    Ok(us / 1_000.0)
}

fn resident_mb(broker: &Broker) -> Result<f64> {
    Ok(procfs::usage(broker.pid())?.rss_bytes as f64 / 1e6)
}

/// Streams in which nothing happens.
pub fn idle_streams(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 500 } else { 10_000 };
    let mut broker = Broker::start(kind, "scale-streams", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    let mut table = Table::default();
    table.text("x-queue-type", "stream");
    let before = procfs::usage(broker.pid())?;
    for number in 0..count {
        client.declare_as(&format!("idle-{number}"), &table)?;
    }
    thread::sleep(IDLE_AFTER);
    let first = procfs::usage(broker.pid())?;
    thread::sleep(2 * IDLE_AFTER);
    let idle = procfs::usage(broker.pid())?;
    drop(client);
    broker.kill()?;
    let ready_ms = idle::timed_launch(&mut broker)?;
    let each = (idle.rss_bytes - before.rss_bytes) as f64 / f64::from(count);
    let cpu = (idle.cpu_s - first.cpu_s) / (2 * IDLE_AFTER).as_secs_f64() * 100.0;
    let what = |of: &str| format!("{count} idle streams: {of}");
    Ok(vec![
        figure(what("resident, each"), each, "B"),
        figure(what("CPU"), cpu, "% of a core"),
        figure(what("first client after a kill -9"), ready_ms, "ms"),
    ])
}

/// Many streams with little each, confirmed after a sync.
pub fn many(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let (count, seconds) = if fast { (10, 2) } else { (100, 15) };
    let broker = Broker::start(kind, "scale-streams-many", &[])?;
    let load = format!(
        "name = \"many\"\nduration_s = {seconds}.0\nwarm_up_s = 2.0\n[[load]]\nname = \"many\"\n\
         queue_type = \"stream\"\npublishers = {count}\nconsumers = {count}\nqueues = {count}\n\
         size = 128\nrate = 100.0\nconfirm_window = 100\n{SYNCED}\n"
    );
    let syncs = || metric(&broker, "rabbitmq_io_sync_ops_total");
    let before = syncs()?;
    let record = perf(&broker, &load)?;
    let confirmed = of_load(&record, 0, "/totals/confirmed")?;
    let each = (syncs()? - before) / f64::from(seconds + 2);
    let what = |of: &str| format!("{count} synced streams, 100 messages a second each: {of}");
    Ok(vec![
        figure(
            what("confirmed"),
            confirmed / f64::from(seconds),
            "a second",
        ),
        figure(what("confirm p99"), p99_ms(&record, 0, "confirm")?, "ms"),
        figure(what("syncs"), each, "a second"),
    ])
}

/// A stream of many gigabytes: what it takes of memory, and of a start after a kill -9.
pub fn retained(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    const BODY_BYTES: u64 = 65_536;
    let gigabytes = if fast { 1 } else { 20 };
    let mut broker = Broker::start(kind, "scale-streams-retained", &[])?;
    broker.kill()?;
    let empty_ms = idle::timed_launch(&mut broker)?;
    let load = |messages: u64, is_there: bool| {
        format!(
            "name = \"retained\"\nwarm_up_s = 0.0\n[[load]]\nname = \"retained\"\n\
             queue_type = \"stream\"\nqueue_name = \"retained\"\npublishers = 1\n\
             consumers = 0\nqueues = 1\npredeclared = {is_there}\nsize = {BODY_BYTES}\n\
             confirm_window = 64\nverify = false\n{INTERVAL}\n\
             [[phase]]\nname = \"fill\"\nduration_s = 900.0\nuntil_backlog = {messages}\n"
        )
    };
    let messages = gigabytes * 1_000_000_000 / BODY_BYTES;
    perf(&broker, &load(messages / 10, false))?;
    let tenth = resident_mb(&broker)?;
    perf(&broker, &load(messages - messages / 10, true))?;
    let whole = resident_mb(&broker)?;
    let bytes = bytes_below(&broker.folder)?;
    broker.kill()?;
    let ready_ms = idle::timed_launch(&mut broker)?;
    let what = |of: &str| format!("a stream of {gigabytes} GB: {of}");
    Ok(vec![
        figure(what("on disk"), bytes as f64 / 1e9, "GB"),
        figure(what("resident with a tenth of it"), tenth, "MB"),
        figure(what("resident with all of it"), whole, "MB"),
        figure(what("first client after a kill -9"), ready_ms, "ms"),
        figure(what("the same of an empty node"), empty_ms, "ms"),
    ])
}

/// Bytes that the files below a folder take.
fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Many readers at the end of one stream.
pub fn readers(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let (count, seconds) = if fast { (50, 2) } else { (1_000, 15) };
    let broker = Broker::start(kind, "scale-streams-readers", &[])?;
    let load = format!(
        "name = \"readers\"\nduration_s = {seconds}.0\nwarm_up_s = 4.0\n[[load]]\n\
         name = \"readers\"\nqueue_type = \"stream\"\npublishers = 1\nconsumers = {count}\n\
         queues = 1\nsize = 1024\nrate = 1000.0\nconfirm_window = 1000\nverify = false\n{INTERVAL}\n"
    );
    let before = resident_mb(&broker)?;
    let record = perf(&broker, &load)?;
    let consumed = of_load(&record, 0, "/totals/consume_rate")?;
    let peak = procfs::usage(broker.pid())?.rss_bytes_max as f64 / 1e6;
    let cpu = record.pointer("/nodes/0/cpu_s").and_then(Value::as_f64);
    let delivered = of_load(&record, 0, "/totals/consumed")?;
    let what = |of: &str| format!("{count} readers at a stream's end: {of}");
    Ok(vec![
        figure(what("delivered"), consumed * 1_024.0 / 1e6, "MB a second"),
        figure(
            what("CPU"),
            cpu.unwrap_or(0.0) / delivered * 1e6,
            "s a million",
        ),
        figure(what("most resident beyond before"), peak - before, "MB"),
    ])
}

/// A reader of a long backlog beside the clients of another stream.
pub fn catch_up(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let (backlog, seconds) = if fast { (100_000, 2) } else { (5_000_000, 4) };
    let broker = Broker::start(kind, "scale-streams-catch-up", &[])?;
    let tail = "[[load]]\nname = \"tail\"\nqueue_type = \"stream\"\npublishers = 1\nconsumers = 1\n\
                queues = 1\nsize = 128\nrate = 1000.0\nconfirm_window = 1000\n";
    let alone =
        format!("name = \"alone\"\nduration_s = {seconds}.0\nwarm_up_s = 1.0\n{tail}{INTERVAL}\n");
    let alone = perf(&broker, &alone)?;
    let fill = format!(
        "name = \"fill\"\nwarm_up_s = 0.0\n[[load]]\nname = \"backlog\"\nqueue_type = \"stream\"\n\
         queue_name = \"backlog\"\npublishers = 1\nconsumers = 0\nqueues = 1\nsize = 1024\n\
         confirm_window = 10000\nverify = false\n{INTERVAL}\n[[phase]]\nname = \"fill\"\n\
         duration_s = 600.0\nuntil_backlog = {backlog}\n"
    );
    perf(&broker, &fill)?;
    thread::sleep(Duration::from_secs(2));
    // Another process: the clients of the one stream wait for none of the other's.
    let reader = format!(
        "name = \"backlog\"\nduration_s = 2.0\nwarm_up_s = 0.0\n[[load]]\nname = \"backlog\"\n\
         queue_type = \"stream\"\nqueue_name = \"backlog\"\npublishers = 0\nconsumers = 1\n\
         queues = 1\npredeclared = true\nsize = 1024\nverify = false\n{INTERVAL}\n"
    );
    let beside =
        format!("name = \"beside\"\nduration_s = 1.0\nwarm_up_s = 0.0\n{tail}{INTERVAL}\n");
    let (beside, caught) = thread::scope(|scope| {
        let caught = scope.spawn(|| perf_as("backlog", &broker, &reader));
        thread::sleep(Duration::from_millis(300));
        (perf(&broker, &beside), caught.join())
    });
    let beside = beside?;
    let caught = caught.map_err(|_| anyhow!("the reader's thread has ended"))??;
    let what = |of: &str| format!("the end of a stream, 1,000 messages a second: {of}");
    let caught = of_load(&caught, 0, "/totals/consume_rate")?;
    Ok(vec![
        figure(
            what("end to end p99"),
            p99_ms(&alone, 0, "end_to_end")?,
            "ms",
        ),
        figure(
            what("end to end p99 beside a reader of another stream's backlog"),
            p99_ms(&beside, 0, "end_to_end")?,
            "ms",
        ),
        figure(what("what that one reads"), caught, "a second"),
    ])
}
