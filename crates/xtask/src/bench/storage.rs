//! The storage engine's figures: the WAL beside fio on the same folder, and what waiting messages
//! cost in memory, at the start, in CPU and in bytes written.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::block_writes::BlockWrites;
use super::report::{Measured, Options};
use super::{idle, load};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::numbers::table;
use crate::{procfs, run, tools};

const QUEUE: &str = "waiting";
const BODY_BYTES: usize = 1_000;

/// Runs all scenarios; every row carries its own limit or ratio.
pub fn run(options: &Options) -> Result<Measured> {
    let mut report = Report::default();
    let parts: [(&str, Part); 4] = [
        ("WAL beside fio", wal_beside_fio),
        ("waiting messages", waiting_messages),
        ("write amplification", write_amplification),
        ("fanout-backlog", fanout_backlog),
    ];
    for (name, part) in parts {
        if !options.wants(name) {
            continue;
        }
        // One that fails takes nothing from those that were measured; its row says so.
        if let Err(error) = part(options, &mut report) {
            report.add(name, format!("FAILED: {error:#}"), "");
        }
    }
    let head = ["figure", "measured", "aim"];
    Ok(Measured {
        text: table(&head, &report.rows),
        json: json!(report.records),
    })
}

type Part = fn(&Options, &mut Report) -> Result<()>;

#[derive(Default)]
struct Report {
    rows: Vec<Vec<String>>,
    records: Vec<Value>,
}

impl Report {
    fn add(&mut self, figure: &str, measured: String, aim: &str) {
        println!("{figure}: {measured}");
        self.records
            .push(json!({ "figure": figure, "measured": measured, "aim": aim }));
        self.rows
            .push(vec![figure.to_owned(), measured, aim.to_owned()]);
    }
}

/// The example `wal_rate` writes records from sixteen writers; fio then writes blocks of the size
/// that its batches had, with fdatasync after each, into a pre-written file beside it. Both take
/// turns, for the speed of a shared device changes from minute to minute.
fn wal_beside_fio(options: &Options, report: &mut Report) -> Result<()> {
    tools::ensure(tools::Tool::Fio)?;
    let (rounds, seconds) = if options.fast { (1, 2) } else { (7, 3) };
    for record_bytes in [1_000, 64_000] {
        let (mut ours, mut fio, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut block_bytes = 0;
        for _ in 0..rounds {
            let folder = run::fresh_folder("bench/wal")?;
            let (rate, batch_bytes) = wal_rate(&folder.join("ours"), record_bytes, seconds)?;
            // Whole sectors, as the batches were.
            block_bytes = ((batch_bytes / 512.0).ceil() as u64 * 512).max(512);
            let peer = fio_rate(&folder, block_bytes, seconds)?;
            ours.push(rate / 1e6);
            fio.push(peer / 1e6);
            ratios.push(rate / peer * 100.0);
        }
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        report.add(
            &format!("WAL, records of {record_bytes} B, 16 writers"),
            format!(
                "{:.0} MB/s; fio with the same writes ({block_bytes} B) {:.0} MB/s; \
                 {:.0} % (median of {rounds} pairs, lowest {lowest:.0} %)",
                median(&mut ours),
                median(&mut fio),
                median(&mut ratios)
            ),
            ">= 80 % of fio",
        );
    }
    run::fresh_folder("bench/wal").map(drop)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Bytes a second of the write-ahead log, and bytes of a write.
fn wal_rate(folder: &Path, record_bytes: u64, seconds: u64) -> Result<(f64, f64)> {
    let mut driver = Command::new("cargo");
    driver.args(["run", "--release", "--quiet", "--package", "leveret-shell"]);
    driver.args(["--example", "wal_rate", "--"]).arg(folder);
    driver
        .args([record_bytes.to_string(), seconds.to_string()])
        .current_dir(run::root());
    let answer = run::output(&mut driver).context("the example `wal_rate`")?;
    let ours: Value = serde_json::from_str(answer.lines().last().unwrap_or_default())?;
    let figure = |name: &str| {
        ours[name]
            .as_f64()
            .with_context(|| format!("wal_rate: {name}"))
    };
    let bytes = figure("bytes")?;
    Ok((bytes / figure("seconds")?, bytes / figure("writes")?))
}

/// fio's sequential writes of one size with fdatasync after each, into a file written before.
fn fio_rate(folder: &Path, block_bytes: u64, seconds: u64) -> Result<f64> {
    let file = folder.join("fio");
    let common = |rw: &str| {
        let mut command = Command::new("fio");
        command.args([
            "--name=wal",
            "--size=1536m",
            "--output-format=json",
            "--ioengine=psync",
        ]);
        command
            .arg(format!("--filename={}", file.display()))
            .arg(format!("--rw={rw}"));
        command
    };
    run::output(common("write").args(["--bs=1m", "--end_fsync=1"]))?;
    let mut measured = common("write");
    measured
        .arg(format!("--bs={block_bytes}"))
        .args(["--fdatasync=1", "--overwrite=1"]);
    measured.args(["--time_based", &format!("--runtime={seconds}")]);
    let answer: Value = serde_json::from_str(&run::output(&mut measured)?)?;
    answer["jobs"][0]["write"]["bw_bytes"]
        .as_f64()
        .context("fio reports no bandwidth")
}

/// Memory, start and CPU per message with many messages waiting.
fn waiting_messages(options: &Options, report: &mut Report) -> Result<()> {
    let (few, many) = if options.fast {
        (50_000, 200_000)
    } else {
        (500_000, 5_000_000)
    };
    let mut broker = Broker::start(Kind::Leveret, "storage", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare(QUEUE, true)?;
    broker.stop()?;
    let empty_start_ms = idle::timed_launch(&mut broker)?;
    let never_waited = cpu_of_kept_up(&broker, few, many / 2)?;
    load::fill(broker.amqp, "", QUEUE, BODY_BYTES, few)?;
    let rss_few = settled_rss(&broker)?;
    report.add(
        &format!("resident with {few} x 1 kB waiting"),
        format!("{:.1} MB", rss_few / 1e6),
        "< 40 MB",
    );
    let before = procfs::usage(broker.pid())?.cpu_s;
    load::fill(broker.amqp, "", QUEUE, BODY_BYTES, many - few)?;
    let rss_many = settled_rss(&broker)?;
    let cpu_s = procfs::usage(broker.pid())?.cpu_s - before;
    let published = cpu_s / (many - few) as f64 * 1e6;
    report.add(
        &format!("resident with {many} x 1 kB waiting"),
        format!(
            "{:.1} MB, {:+.0} %",
            rss_many / 1e6,
            (rss_many / rss_few - 1.0) * 100.0
        ),
        "within 10 %",
    );
    broker.stop()?;
    let full_start_ms = idle::timed_launch(&mut broker)?;
    report.add(
        &format!("start with {many} waiting"),
        format!("{full_start_ms:.0} ms; empty {empty_start_ms:.0} ms"),
        "< 150 ms more",
    );
    broker.kill()?;
    let crashed_start_ms = idle::timed_launch(&mut broker)?;
    report.add(
        &format!("start with {many} waiting, after kill -9"),
        format!("{crashed_start_ms:.0} ms"),
        "bounded by the WAL",
    );
    let before = procfs::usage(broker.pid())?.cpu_s;
    let started = Instant::now();
    load::drain(broker.amqp, QUEUE, many)?;
    let rate = many as f64 / started.elapsed().as_secs_f64();
    let drained = (procfs::usage(broker.pid())?.cpu_s - before) / many as f64 * 1e6;
    let waited = published + drained;
    report.add(
        &format!("draining {many}"),
        format!(
            "{rate:.0}/s, {drained:.2} CPU s a million, published for {published:.2}; \
             {waited:.2} together, {:.2}x the {never_waited:.2} of messages that never waited",
            waited / never_waited,
        ),
        "<= 1.3x",
    );
    broker.stop()
}

/// What messages cost a broker whose consumers keep up, in CPU seconds per million, published and
/// consumed. `few` were then published, and drained, before that which is measured next.
fn cpu_of_kept_up(broker: &Broker, few: u64, many: u64) -> Result<f64> {
    let address = broker.amqp;
    Client::connect(address)?.declare("kept-up", true)?;
    load::fill(address, "", "kept-up", BODY_BYTES, few)?;
    load::drain(address, "kept-up", few)?;
    let start = procfs::usage(broker.pid())?.cpu_s;
    keep_up(address, "kept-up", many)?;
    Ok((procfs::usage(broker.pid())?.cpu_s - start) / many as f64 * 1e6)
}

/// Publishes to a queue whose consumer keeps up.
fn keep_up(address: SocketAddr, queue: &'static str, count: u64) -> Result<()> {
    thread::scope(|scope| {
        let consuming = scope.spawn(move || load::drain(address, queue, count));
        load::fill(address, "", queue, BODY_BYTES, count)?;
        consuming.join().expect("a consumer does not panic")
    })
}

/// Resident memory after the segment writer had time to catch up.
fn settled_rss(broker: &Broker) -> Result<f64> {
    thread::sleep(Duration::from_secs(3));
    Ok(procfs::usage(broker.pid())?.rss_bytes as f64)
}

/// Bytes that reach the disk for each byte of message.
fn write_amplification(options: &Options, report: &mut Report) -> Result<()> {
    let count = if options.fast { 100_000 } else { 1_000_000 };
    // Files of the log are prepared once, and used again and again from then on: a backlog that
    // grows fast needs more of them, and prepares these while it grows for the first time.
    let first = (false, "a backlog that begins to grow", "");
    let growing = (false, "a growing backlog", "<= 2.2");
    let keeping_up = (true, "consumers keeping up", "<= 1.15");
    for steps in [&[keeping_up][..], &[first, growing]] {
        let mut broker = Broker::start(Kind::Leveret, "storage", &[])?;
        let address = broker.amqp;
        Client::connect(address)?.declare(QUEUE, true)?;
        // Several files of the log.
        keep_up(address, QUEUE, 300_000)?;
        for (consuming, name, aim) in steps {
            let (written, method) = bytes_written(&broker, *consuming, count)?;
            let amplification = written as f64 / (count as f64 * BODY_BYTES as f64);
            let figure = format!("write amplification with {name}");
            report.add(&figure, format!("{amplification:.2} ({method})"), aim);
        }
        broker.stop()?;
    }
    Ok(())
}

/// Bytes that reach the disk for so many messages, and how that was measured.
fn bytes_written(broker: &Broker, consuming: bool, count: u64) -> Result<(u64, &'static str)> {
    let address = broker.amqp;
    let writes = BlockWrites::begin(broker.pid(), &broker.folder)?;
    let method = writes.method();
    thread::scope(|scope| {
        let consumer = consuming.then(|| scope.spawn(move || load::drain(address, QUEUE, count)));
        load::fill(address, "", QUEUE, BODY_BYTES, count)?;
        match consumer {
            Some(consumer) => consumer.join().expect("a consumer does not panic"),
            None => Ok(()),
        }
    })?;
    // What was written last is on its way to segments.
    thread::sleep(Duration::from_secs(5));
    Ok((writes.end()?, method))
}

/// Three queues of one fan-out, consumers that stop and come back: the backlog must clear and
/// memory must flatten.
fn fanout_backlog(options: &Options, report: &mut Report) -> Result<()> {
    let divisor = if options.fast { 20 } else { 1 };
    let (warm, backlog) = (Duration::from_secs(120 / divisor), 500_000 / divisor);
    // In a hurry the rates rise as the sizes fall, or the backlog would not fit into the time.
    let rate = if options.fast { 3_000.0 } else { 600.0 };
    let consumers: u64 = 20;
    let delay = Duration::from_secs_f64(3.0 * consumers as f64 / (6.0 * rate));
    let mut broker = Broker::start(Kind::Leveret, "storage", &[])?;
    let address = broker.amqp;
    let mut client = Client::connect(address)?;
    for queue in 0..3 {
        client.declare(&format!("fan-{queue}"), true)?;
        client.bind(&format!("fan-{queue}"), "amq.fanout", "")?;
    }
    let publishing = AtomicBool::new(true);
    let consuming = AtomicBool::new(true);
    let published = AtomicU64::new(0);
    let outcome = thread::scope(|scope| -> Result<(f64, f64, f64)> {
        let publisher = scope.spawn(|| {
            load::steady(address, "amq.fanout", 200, rate, |sent| {
                published.store(sent, Ordering::Relaxed);
                publishing.load(Ordering::Relaxed)
            })
        });
        let start_consumers = || {
            (0..3 * consumers)
                .map(|number| {
                    let consuming = &consuming;
                    scope.spawn(move || {
                        let queue = format!("fan-{}", number % 3);
                        let on = || consuming.load(Ordering::Relaxed);
                        load::slow_consumer(address, &queue, delay, on)
                    })
                })
                .collect::<Vec<_>>()
        };
        let first = start_consumers();
        thread::sleep(warm);
        consuming.store(false, Ordering::Relaxed);
        for consumer in first {
            consumer.join().expect("a consumer does not panic")?;
        }
        let mut half = 0.0;
        loop {
            let waiting = total_ready(&mut client)?;
            if half == 0.0 && waiting >= backlog / 2 {
                half = procfs::usage(broker.pid())?.rss_bytes as f64;
            }
            if waiting >= backlog {
                break;
            }
            thread::sleep(Duration::from_millis(200));
        }
        let full = procfs::usage(broker.pid())?.rss_bytes as f64;
        consuming.store(true, Ordering::Relaxed);
        let resumed = Instant::now();
        let second = start_consumers();
        while total_ready(&mut client)? > 100 {
            thread::sleep(Duration::from_millis(200));
        }
        let cleared_s = resumed.elapsed().as_secs_f64();
        publishing.store(false, Ordering::Relaxed);
        consuming.store(false, Ordering::Relaxed);
        publisher.join().expect("a publisher does not panic")?;
        for consumer in second {
            consumer.join().expect("a consumer does not panic")?;
        }
        Ok((half, full, cleared_s))
    })?;
    let (half, full, cleared_s) = outcome;
    report.add(
        &format!("fanout-backlog of {backlog}"),
        format!(
            "cleared in {cleared_s:.0} s; resident {:.1} MB at half, {:.1} MB at full",
            half / 1e6,
            full / 1e6
        ),
        "clears; memory flattens",
    );
    broker.stop()
}

fn total_ready(client: &mut Client) -> Result<u64> {
    let mut total = 0;
    for queue in 0..3 {
        total += u64::from(client.ready_count(&format!("fan-{queue}"))?);
    }
    Ok(total)
}
