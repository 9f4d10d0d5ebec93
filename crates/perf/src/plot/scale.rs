//! Axes: from values to places between 0 and 1, and where the ticks stand.

use super::Unit;

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In proportion, from zero.
    Linear,
    /// In proportion, from the least value: a run's time.
    Time,
    /// By orders of magnitude.
    Log,
    /// Percentiles, each further nine taking as much room as the one before.
    Percentile,
}

/// Ticks that an axis aims at.
const TICKS: f64 = 5.0;
/// Decades that one axis may span; values below are drawn at its foot.
const DECADES_MAX: f64 = 9.0;
/// The last percentile that has a place: six nines.
const PERCENTILE_MAX: f64 = 99.9999;
/// Steps in seconds between which a reader can count.
const TIME_STEPS: [f64; 14] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0,
];

/// An axis with its range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FittedAxis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Place, label; labels of ticks without one are empty.
    pub ticks: Vec<(f64, String)>,
}

impl FittedAxis {
    /// The axis that shows all of `values`.
    pub fn fit(scale: Scale, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let shown =
            values.filter(|value| value.is_finite() && (scale != Scale::Log || *value > 0.0));
        let range = shown.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = range.unwrap_or((1.0, 10.0));
        match scale {
            Scale::Linear => Self::linear(unit, low.min(0.0), high.max(0.0)),
            Scale::Time => Self::time(unit, low, high),
            Scale::Log => Self::log(unit, low, high),
            Scale::Percentile => Self::percentile(unit, high),
        }
    }

    fn linear(unit: Unit, low: f64, high: f64) -> Self {
        let step = nice_step((high - low) / TICKS);
        let low = (low / step).floor() * step;
        // Head room for a label above the highest mark.
        let high = ((high * 1.04 / step).ceil() * step).max(low + step);
        Self::with_ticks(Scale::Linear, unit, low, high, steps(low, high, step))
    }

    fn time(unit: Unit, low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let want = (high - low) / 8.0;
        let known = TIME_STEPS.iter().copied().find(|&step| step >= want);
        let step = known.unwrap_or_else(|| nice_step(want));
        let first = (low / step).ceil() * step;
        Self::with_ticks(Scale::Time, unit, low, high, steps(first, high, step))
    }

    fn log(unit: Unit, low: f64, high: f64) -> Self {
        let low = nice_below(low.max(high / 10f64.powf(DECADES_MAX)));
        let high = nice_above(high).max(low * 2.0);
        let decades = (high / low).log10();
        let factors: &[f64] = match decades {
            _ if decades <= 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let ticks = (first..=last)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001);
        Self::with_ticks(Scale::Log, unit, low, high, ticks.collect())
    }

    fn percentile(unit: Unit, high: f64) -> Self {
        let high = high.clamp(90.0, PERCENTILE_MAX);
        // What lies between the median and 90 % has no room for its name.
        let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let shown = ticks.into_iter().filter(|tick| *tick <= high * 1.000_001);
        Self::with_ticks(Scale::Percentile, unit, 0.0, high, shown.collect())
    }

    fn with_ticks(scale: Scale, unit: Unit, low: f64, high: f64, ticks: Vec<f64>) -> Self {
        let mut placed = Self {
            scale,
            low,
            high,
            ticks: Vec::new(),
        };
        let ticks = ticks.into_iter();
        placed.ticks = ticks
            .filter_map(|tick| Some((placed.place(tick)?, unit.tick(tick))))
            .collect();
        placed
    }

    /// Where a value stands, from 0 at the axis' foot to 1 at its end; `None` without a place.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.scale == Scale::Log && value <= 0.0) {
            return None;
        }
        let (low, high, value) = (self.bend(self.low), self.bend(self.high), self.bend(value));
        Some(((value - low) / (high - low)).clamp(0.0, 1.0))
    }

    fn bend(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Time => value,
            Scale::Log => value.log10(),
            Scale::Percentile => -(1.0 - value.min(PERCENTILE_MAX) / 100.0).log10(),
        }
    }
}

/// Most ticks that any axis gets, whatever its range.
const TICKS_MAX: usize = 64;

fn steps(low: f64, high: f64, step: f64) -> Vec<f64> {
    let places = (0..TICKS_MAX).map(|at| low + step * at as f64);
    places
        .take_while(|place| *place <= high + step * 0.001)
        .collect()
}

fn nice_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    nice_above(least)
}

/// The least of 1, 2, 5 times a power of ten that is no less.
fn nice_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fitting = factors
        .into_iter()
        .find(|factor| factor * power >= value * 0.999_999);
    fitting.unwrap_or(10.0) * power
}

/// The greatest of 1, 2, 5 times a power of ten that is no greater.
fn nice_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factors = [5.0, 2.0, 1.0];
    let fitting = factors
        .into_iter()
        .find(|factor| factor * power <= value * 1.000_001);
    fitting.unwrap_or(1.0) * power
}
