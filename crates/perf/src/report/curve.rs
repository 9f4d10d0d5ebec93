//! From a histogram to the points of a percentile curve.

use crate::result::Latency;

/// Points for each further nine.
const POINTS_PER_DECADE: u32 = 20;
/// Nines at which every curve ends: p99.9999.
const DECADES_MAX: u32 = 6;

/// Percentile and microseconds, denser towards the tail; no further than there are samples to tell.
pub fn points(latency: &Latency) -> Vec<(f64, f64)> {
    let Ok(histogram) = latency.histogram() else {
        return usual_points(latency);
    };
    let count = histogram.count();
    let shares = (0..=POINTS_PER_DECADE * DECADES_MAX)
        .map(|at| 10f64.powf(-f64::from(at) / f64::from(POINTS_PER_DECADE)));
    // Beyond this a percentile would be one sample's chance.
    let told = shares.take_while(|above| above * count as f64 >= 1.0);
    told.map(|above| 1.0 - above)
        .map(|share| (100.0 * share, histogram.quantile_us(share) as f64))
        .collect()
}

/// The figures that stand beside the histogram, where it cannot be read.
fn usual_points(latency: &Latency) -> Vec<(f64, f64)> {
    let of = &latency.percentiles;
    let points = [
        (50.0, of.p50_us),
        (75.0, of.p75_us),
        (90.0, of.p90_us),
        (95.0, of.p95_us),
        (99.0, of.p99_us),
        (99.9, of.p99_9_us),
        (99.99, of.p99_99_us),
    ];
    let some = if of.count == 0 { 0 } else { points.len() };
    points
        .iter()
        .take(some)
        .map(|&(at, micros)| (at, micros as f64))
        .collect()
}
