//! The model against drives whose answer can be reckoned by hand, and against a simulated log.

use super::*;
use crate::drive::{DRIVE_VERSION, Mixed};

/// A drive that always takes `base_us`, and `us_per_kib` more for each KiB.
pub(crate) fn drive(base_us: f64, us_per_kib: f64) -> DriveResult {
    let row = |bytes: u64| SyncRow {
        bytes,
        micros: Distribution::of(vec![base_us + us_per_kib * bytes as f64 / 1024.0; 100]),
    };
    let rows: Vec<SyncRow> = [4 << 10, 64 << 10, 1 << 20, 4 << 20].map(row).into();
    DriveResult {
        version: DRIVE_VERSION,
        path: "/drive".to_owned(),
        growing: rows.clone(),
        recycled: rows,
        write_bytes_per_second: 1e9,
        read_bytes_per_second: 1e9,
        mixed: Mixed {
            log: row(64 << 10),
            segment_bytes_per_second: 1e8,
        },
        turnaround: Distribution::default(),
        rehearsal: None,
        capacity_bytes: None,
    }
}

fn load(kind: QueueKind, window: f64, rate: Option<f64>) -> Assumptions {
    Assumptions {
        kind,
        message_bytes: 1_000.0,
        window,
        rate,
        processor_us: None,
        round_trip_us: 0.0,
    }
}

fn near(found: f64, wanted: f64, part: f64) {
    assert!(
        (found - wanted).abs() <= wanted * part,
        "{found}, not near {wanted}"
    );
}

#[test]
fn full_speed_is_half_the_window_for_each_sync() {
    for (window, batch) in [(2.0, 1.0), (200.0, 100.0), (2_000.0, 1_000.0)] {
        let found = predict(
            &drive(1_000.0, 0.0),
            &load(QueueKind::Classic, window, None),
        );
        near(found.rate, batch * 1_000.0, 1e-6);
        near(found.p50_us, 2_000.0, 1e-6);
        // Little's law: messages under way are rate times latency.
        near(found.rate * found.p50_us / 1e6, window, 1e-6);
        assert_eq!(found.bound, Bound::SyncLatency);
    }
}

#[test]
fn a_window_of_one_waits_for_its_own_sync_alone() {
    let found = predict(&drive(1_000.0, 0.0), &load(QueueKind::Classic, 1.0, None));
    near(found.rate, 1_000.0, 1e-6);
    near(found.p50_us, 1_000.0, 1e-6);
}

#[test]
fn the_way_round_is_waited_for_where_it_takes_longer_than_the_sync() {
    for (round_us, cycle_us) in [(400.0, 1_000.0), (3_000.0, 3_000.0)] {
        let mut drive = drive(1_000.0, 0.0);
        drive.turnaround = Distribution::of(vec![round_us; 10]);
        let found = predict(&drive, &load(QueueKind::Classic, 200.0, None));
        near(found.rate, 100.0 * 1e6 / cycle_us, 1e-6);
        near(found.rate * found.p50_us / 1e6, 200.0, 1e-6);
        let alone = predict(&drive, &load(QueueKind::Classic, 1.0, None));
        near(alone.p50_us, 1_000.0 + round_us, 1e-6);
        near(alone.rate * alone.p50_us / 1e6, 1.0, 1e-6);
    }
}

/// A drive of 1 ms a sync, on which the loop of a window of 1,000 gave `rate`.
fn rehearsed(rate: f64) -> DriveResult {
    let mut drive = drive(1_000.0, 0.0);
    drive.rehearsal = Some(Rehearsal {
        load: crate::drive::Rehearsed::of(1_000, 1_000),
        rate,
        batch: 500.0,
        sync: Distribution::default(),
        confirm: Distribution::default(),
    });
    drive
}

#[test]
fn what_the_loop_gave_is_promised_and_other_windows_in_proportion() {
    // The parts alone promise 500,000/s; the loop gave less than half of it.
    let drive = rehearsed(200_000.0);
    let found = predict(&drive, &load(QueueKind::Classic, 1_000.0, None));
    near(found.rate, 200_000.0, 1e-6);
    near(found.rate * found.p50_us / 1e6, 1_000.0, 1e-6);
    let wider = predict(&drive, &load(QueueKind::Classic, 2_000.0, None));
    near(wider.rate, 400_000.0, 1e-6);
    let quorum = predict(&drive, &load(QueueKind::Quorum, 1_000.0, None));
    near(quorum.rate, 200_000.0, 1e-3);
}

#[test]
fn a_loop_that_gave_nothing_or_everything_corrects_within_bounds() {
    for (rate, promised) in [(0.0, 500_000.0 / 20.0), (1e12, 500_000.0 / 0.2)] {
        let found = predict(&rehearsed(rate), &load(QueueKind::Classic, 1_000.0, None));
        near(found.rate, promised, 1e-6);
    }
}

#[test]
fn large_batches_are_bound_by_the_bytes() {
    let found = predict(
        &drive(10.0, 10.0),
        &load(QueueKind::Classic, 10_000.0, None),
    );
    assert_eq!(found.bound, Bound::Bandwidth);
    near(found.rate * 1_048.0, 1024.0 * 1e6 / 10.0, 0.02);
}

#[test]
fn the_processor_bounds_and_stretches() {
    let mut load = load(QueueKind::Classic, 1_000.0, None);
    load.processor_us = Some(10.0);
    let found = predict(&drive(1_000.0, 0.0), &load);
    assert_eq!(found.bound, Bound::Processor);
    near(found.rate, 100_000.0, 1e-6);
    near(found.rate * found.p50_us / 1e6, 1_000.0, 1e-6);
}

#[test]
fn a_gentle_rate_waits_for_one_sync_and_a_brisk_one_for_more() {
    let drive = drive(1_000.0, 0.0);
    let gentle = predict(&drive, &load(QueueKind::Classic, 1_000.0, Some(1.0)));
    near(gentle.p50_us, 1_000.0, 0.01);
    let brisk = predict(&drive, &load(QueueKind::Classic, 1_000.0, Some(20_000.0)));
    near(brisk.p50_us, 1_500.0, 0.05);
    near(brisk.p99_us, 2_000.0, 0.05);
    near(brisk.batch, 20.0, 0.05);
    assert_eq!((gentle.bound, brisk.bound), (Bound::Load, Bound::Load));
}

#[test]
fn a_rate_beyond_the_drive_is_full_speed() {
    let drive = drive(1_000.0, 0.0);
    let asked = predict(&drive, &load(QueueKind::Classic, 100.0, Some(1e9)));
    assert_eq!(
        asked,
        predict(&drive, &load(QueueKind::Classic, 100.0, None))
    );
}

#[test]
fn a_majority_adds_its_round_trip() {
    let mut quorum = load(QueueKind::Quorum, 100.0, None);
    quorum.round_trip_us = 500.0;
    let found = predict(&drive(1_000.0, 0.0), &quorum);
    near(found.p50_us, 3_000.0, 1e-6);
}

/// The same log, played through message by message: arrivals by a fixed rate, one sync after
/// another, whatever waits is the next batch.
#[test]
fn a_log_played_through_agrees() {
    let (sync_us, rate) = (800.0, 10_000.0);
    let gap_us = 1e6 / rate;
    let mut latencies = Vec::new();
    let (mut now, mut next) = (0.0f64, 0u32);
    while latencies.len() < 20_000 {
        now = now.max(f64::from(next) * gap_us);
        let first = next;
        while f64::from(next) * gap_us <= now {
            next += 1;
        }
        now += sync_us;
        latencies.extend((first..next).map(|at| now - f64::from(at) * gap_us));
    }
    let played = Distribution::of(latencies);
    let found = predict(
        &drive(sync_us, 0.0),
        &load(QueueKind::Classic, 1e6, Some(rate)),
    );
    near(found.p50_us, played.percentile(50.0), 0.1);
    near(found.p99_us, played.percentile(99.0), 0.1);
}

#[test]
fn a_drive_without_rows_gives_figures_and_no_panic() {
    let mut nothing = drive(1.0, 0.0);
    nothing.recycled.clear();
    let found = predict(&nothing, &load(QueueKind::Quorum, 10.0, Some(10.0)));
    assert!(found.p50_us >= 0.0);
}
