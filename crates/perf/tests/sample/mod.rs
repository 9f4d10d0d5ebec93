//! Results that no broker gave: for reports, whose subject is how they look.

use leveret_perf::histogram::Histogram;
use leveret_perf::preset::Preset;
use leveret_perf::result::{
    Checks, DriveUsage, FsyncSlot, GeneratorUsage, Latency, LimitsSeen, LoadResult, Machine,
    NodeSecond, NodeUsage, PhaseResult, RunResult, Second, Target, Totals, VERSION,
};

/// Measured seconds of each sample; one of warm-up is before them.
pub const SECONDS: u32 = 30;

/// A preset's run as it might have gone, at about this rate.
pub fn run(preset: &str, rate: f64, modelled: Option<&str>) -> RunResult {
    let spec = Preset::find(preset).unwrap().spec().unwrap();
    let loads = spec.loads.iter().enumerate();
    let loads = loads.map(|(at, load)| sample_load(&load.name, rate / (1.0 + 9.0 * at as f64)));
    RunResult {
        version: VERSION,
        name: preset.to_owned(),
        command: format!("leveret perf run {preset}"),
        started_unix_s: 1_735_689_599,
        target: Target {
            product: "Leveret".to_owned(),
            version: "0.1.0".to_owned(),
            uris: vec!["amqp://127.0.0.1:5672".to_owned()],
            started_here: true,
        },
        machine: Machine {
            cpu: "A processor".to_owned(),
            cores: 4,
            memory_bytes: 16_000_000_000,
            kernel: "Linux 6.1".to_owned(),
        },
        modelled_device: modelled.map(str::to_owned),
        loads: loads.collect(),
        spec,
        phases: vec![
            phase("warm-up", 0.0, 1.0, false),
            phase("run", 1.0, 31.0, true),
        ],
        nodes: (1..=3).map(node).collect(),
        generator: GeneratorUsage {
            threads: 2,
            cpu_s: 12.0,
            busiest_thread: 0.4,
        },
        notes: vec!["one node stands for three".to_owned()],
        prediction: None,
    }
}

fn phase(name: &str, from_s: f64, to_s: f64, measured: bool) -> PhaseResult {
    PhaseResult {
        name: name.to_owned(),
        from_s,
        to_s,
        measured,
    }
}

fn sample_load(name: &str, rate: f64) -> LoadResult {
    let mut latencies = Histogram::new();
    let mut seconds = Vec::new();
    for at in 0..=SECONDS {
        let mut of_second = Histogram::new();
        for step in 0..500u64 {
            // A body, a shoulder, and a tail that grows in one second of ten.
            let tail = if at % 10 == 7 { 40 } else { 4 };
            of_second.record(800 + (step * 7 + u64::from(at) * 13) % 900 + step / 490 * 900 * tail);
        }
        latencies.add(&of_second);
        let count = (rate * (1.0 + 0.1 * f64::from(at).sin())) as u64;
        seconds.push(Second {
            at_s: f64::from(at) + 1.0,
            length_s: 1.0,
            phase: usize::from(at > 0),
            measured: at > 0,
            published: count,
            confirmed: count - count / 100,
            consumed: count - count / 50,
            backlog: u64::from(at) * 100,
            confirm: Some(of_second.percentiles()),
            end_to_end: Some(of_second.percentiles()),
            ..Second::default()
        });
    }
    LoadResult {
        name: name.to_owned(),
        seconds,
        totals: Totals {
            measured_s: f64::from(SECONDS),
            published: (rate * f64::from(SECONDS)) as u64,
            confirmed: (rate * f64::from(SECONDS)) as u64,
            consumed: (rate * f64::from(SECONDS)) as u64,
            publish_rate: rate,
            confirm_rate: rate,
            consume_rate: rate * 0.98,
            publish_bytes_per_s: rate * 1_000.0,
            consume_bytes_per_s: rate * 1_000.0,
            backlog_max: 3_000,
        },
        confirm: Some(Latency::of(&latencies)),
        end_to_end: Some(Latency::of(&latencies)),
        checks: Checks {
            loss_checked: true,
            ..Checks::default()
        },
        limits: LimitsSeen {
            window_full: 0.8,
            ..LimitsSeen::default()
        },
        breaks: Default::default(),
    }
}

fn node(number: u32) -> NodeUsage {
    let second = |at: u32| NodeSecond {
        at_s: f64::from(at) + 1.0,
        cpu_cores: 0.6 + 0.1 * f64::from((at + number) % 5),
        rss_bytes: 30_000_000 + u64::from(at * number) * 100_000,
        disk_written_bytes_per_s: 2e7 + 1e6 * f64::from((at * number) % 7),
        disk_read_bytes_per_s: 0.0,
        fsyncs_per_s: Some(2_000.0 + 50.0 * f64::from((at + number) % 9)),
        fsync_mean_us: Some(350.0 + 20.0 * f64::from((at * number) % 11)),
        fsync_p50_us: Some(300.0),
        fsync_p99_us: Some(900.0 + 50.0 * f64::from((at * number) % 7)),
    };
    let drive = |folder: &str, written: u64| DriveUsage {
        folder: folder.to_owned(),
        device: Some("sda".to_owned()),
        place: Some("/var/tmp".to_owned()),
        written_bytes: written * 30,
        read_bytes: 0,
        busy: 0.4,
    };
    NodeUsage {
        name: format!("node-{number}"),
        cpu_s: 20.0,
        rss_bytes_max: 33_000_000,
        disk_written_bytes: 600_000_000,
        fsyncs: Some(60_000),
        fsync_mean_us: Some(400.0),
        written_by_broker: true,
        fsync_p50_us: Some(310.0),
        fsync_p99_us: Some(1_000.0),
        fsync_p99_9_us: Some(4_000.0),
        fsync_slots: [
            (182, 1_000),
            (273, 9_000),
            (409, 40_000),
            (613, 9_000),
            (919, 1_000),
        ]
        .map(|(to_us, count)| FsyncSlot {
            to_us: Some(f64::from(to_us)),
            count,
        })
        .to_vec(),
        seconds: (0..=SECONDS).map(second).collect(),
        drives: vec![
            drive("wal", 20_000_000),
            drive("segment", 4_000_000),
            drive("data", 1_000),
        ],
    }
}
