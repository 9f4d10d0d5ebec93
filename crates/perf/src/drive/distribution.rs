//! Latencies of one kind, as quantiles from which others can be computed.

use serde::{Deserialize, Serialize};

/// Percentiles that are kept. Between them, values are interpolated.
const GRID: [f64; 25] = [
    0.0, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0,
    90.0, 92.5, 95.0, 97.5, 99.0, 99.5, 99.9, 99.99, 100.0,
];
/// Strips by which a mean over quantiles is summed.
const STRIPS: u32 = 2_000;

/// Microseconds: a mean and a grid of percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many were timed.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Percentile (0 to 100) and microseconds, ascending in both.
    pub quantiles: Vec<(f64, f64)>,
}

impl Distribution {
    /// Of samples in any order.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.retain(|sample| sample.is_finite());
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        let mean = samples.iter().sum::<f64>() / count.max(1) as f64;
        let at = |percent: f64| {
            // The least sample that is no less than this share of all.
            let rank = (percent / 100.0 * count as f64).ceil() as usize;
            samples
                .get(rank.clamp(1, count.max(1)) - 1)
                .map(|value| (percent, *value))
        };
        Self {
            count: count as u64,
            mean,
            quantiles: GRID.into_iter().filter_map(at).collect(),
        }
    }

    /// The value that so many percent do not exceed; 0 of nothing.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let above = self.quantiles.partition_point(|(at, _)| *at < percent);
        let high = self.quantiles.get(above).or(self.quantiles.last());
        let low = above
            .checked_sub(1)
            .and_then(|below| self.quantiles.get(below))
            .or(high);
        match (low, high) {
            (Some(&(from, low)), Some(&(to, high))) if to > from => {
                low + (high - low) * ((percent - from) / (to - from)).clamp(0.0, 1.0)
            }
            (_, Some(&(_, high))) => high,
            _ => 0.0,
        }
    }

    /// The second fastest of three drives like this one, at a percentile.
    ///
    /// With `q` the chance that one drive is done, two of three are with `3q² - 2q³`: whoever waits
    /// for a majority waits for the median, whose tail is shorter than that of one drive.
    #[must_use]
    pub fn median_of_three(&self, percent: f64) -> f64 {
        self.percentile(100.0 * share_for_median(percent / 100.0))
    }

    /// The mean of [`Self::median_of_three`].
    #[must_use]
    pub fn median_of_three_mean(&self) -> f64 {
        let strip = |at: u32| (f64::from(at) + 0.5) / f64::from(STRIPS);
        let sum: f64 = (0..STRIPS)
            .map(|at| self.median_of_three(100.0 * strip(at)))
            .sum();
        sum / f64::from(STRIPS)
    }
}

/// `q` with `3q² - 2q³ = wanted`, by halving: the left side rises with `q` between 0 and 1.
fn share_for_median(wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if middle * middle * (3.0 - 2.0 * middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundred() -> Distribution {
        Distribution::of((1..=100).rev().map(f64::from).collect())
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        for (percent, value) in [
            (1.0, 1.0),
            (50.0, 50.0),
            (75.0, 75.0),
            (99.0, 99.0),
            (100.0, 100.0),
        ] {
            assert_eq!(hundred().percentile(percent), value, "p{percent}");
        }
        assert_eq!(hundred().mean, 50.5);
    }

    #[test]
    fn nothing_measured_is_zero_and_not_a_panic() {
        let nothing = Distribution::of(vec![f64::NAN]);
        assert_eq!(
            (nothing.count, nothing.percentile(99.0), nothing.mean),
            (0, 0.0, 0.0)
        );
        assert_eq!(nothing.median_of_three_mean(), 0.0);
    }

    /// Against all triples of a small set of samples, counted out.
    #[test]
    fn two_of_three_are_as_fast_as_counting_says() {
        let samples: Vec<f64> = (1..=20).map(|at| f64::from(at * at)).collect();
        let mut medians = Vec::new();
        for one in &samples {
            for two in &samples {
                for three in &samples {
                    let mut triple = [*one, *two, *three];
                    triple.sort_by(f64::total_cmp);
                    medians.push(triple[1]);
                }
            }
        }
        let counted = Distribution::of(medians);
        let computed = Distribution::of(samples);
        for percent in [25.0, 50.0, 75.0, 90.0] {
            let (counted, computed) = (
                counted.percentile(percent),
                computed.median_of_three(percent),
            );
            assert!(
                (counted - computed).abs() <= counted * 0.15,
                "{counted} and {computed}"
            );
        }
        assert!((counted.mean - computed.median_of_three_mean()).abs() < counted.mean * 0.08);
    }

    #[test]
    fn a_majority_has_a_shorter_tail_and_the_same_middle() {
        let one = hundred();
        assert!(one.median_of_three(99.0) < one.percentile(99.0));
        assert!((one.median_of_three(50.0) - one.percentile(50.0)).abs() < 1e-6);
    }
}
