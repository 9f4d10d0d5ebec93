//! When each message is due: a function of its number and of nothing that the broker does.

use crate::spec::{Rate, RateStep};

/// A publisher's timetable. Times are microseconds since the run began.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: Rate,
    start_us: u64,
    number: u64,
    next_us: u64,
}

impl Schedule {
    /// A timetable at `rate` from `start_us` on.
    #[must_use]
    pub fn new(rate: Rate, start_us: u64) -> Self {
        let mut schedule = Self {
            rate,
            start_us,
            number: 0,
            next_us: 0,
        };
        schedule.next_us = schedule.due_us(0);
        schedule
    }

    /// Begins again at `start_us`, after a pause that was meant.
    pub fn restart(&mut self, start_us: u64) {
        *self = Self::new(std::mem::take(&mut self.rate), start_us);
    }

    /// When the next message is due; `None` where messages are due as soon as they can be sent.
    #[must_use]
    #[inline]
    pub fn next_us(&self) -> Option<u64> {
        match self.rate {
            Rate::Unlimited => None,
            _ => Some(self.next_us),
        }
    }

    /// The next message was taken.
    #[inline]
    pub fn advance(&mut self) {
        if !matches!(self.rate, Rate::Unlimited) {
            self.number += 1;
            self.next_us = self.due_us(self.number);
        }
    }

    /// The time between messages at the beginning, by which publishers are set apart.
    #[must_use]
    pub fn interval_us(rate: &Rate) -> f64 {
        let per_second = match rate {
            Rate::Unlimited | Rate::Burst { .. } => return 0.0,
            Rate::Fixed(rate) => *rate,
            Rate::Ramp { from, to, .. } => from.max(to / 2.0),
            Rate::Steps { steps } => steps.first().map_or(0.0, |step| step.rate),
        };
        if per_second > 0.0 {
            (1e6 / per_second).min(1e6)
        } else {
            0.0
        }
    }

    fn due_us(&self, number: u64) -> u64 {
        let number = number as f64;
        let after_s = match &self.rate {
            Rate::Unlimited => 0.0,
            Rate::Fixed(rate) => number / rate,
            Rate::Ramp { from, to, over_s } => ramp_s(number, *from, *to, *over_s),
            Rate::Burst { burst, every_s } => (number / f64::from(*burst)).floor() * every_s,
            Rate::Steps { steps } => steps_s(number, steps),
        };
        if !after_s.is_finite() {
            return u64::MAX;
        }
        self.start_us.saturating_add((after_s * 1e6) as u64)
    }
}

/// When message `number` is due on a ramp: where the rate's integral reaches it.
fn ramp_s(number: f64, from: f64, to: f64, over_s: f64) -> f64 {
    let ramped = (from + to) / 2.0 * over_s;
    if number >= ramped {
        return over_s + (number - ramped) / to;
    }
    let slope = (to - from) / over_s;
    if slope.abs() < f64::EPSILON {
        return number / from;
    }
    // slope/2 t^2 + from t = number
    ((from * from + 2.0 * slope * number).sqrt() - from) / slope
}

/// When message `number` is due on steps that begin anew after the last.
fn steps_s(number: f64, steps: &[RateStep]) -> f64 {
    let round: f64 = steps.iter().map(|step| step.rate * step.seconds).sum();
    let round_s: f64 = steps.iter().map(|step| step.seconds).sum();
    if round <= 0.0 {
        return f64::INFINITY;
    }
    let rounds = (number / round).floor();
    let mut left = number - rounds * round;
    let mut at_s = rounds * round_s;
    for step in steps {
        let count = step.rate * step.seconds;
        if left < count {
            return at_s + left / step.rate;
        }
        left -= count;
        at_s += step.seconds;
    }
    at_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(rate: Rate, numbers: &[u64]) -> Vec<u64> {
        let schedule = Schedule::new(rate, 1_000);
        numbers.iter().map(|n| schedule.due_us(*n)).collect()
    }

    #[test]
    fn rates_become_times() {
        let fixed = due(Rate::Fixed(1_000.0), &[0, 1, 10]);
        assert_eq!(fixed, [1_000, 2_000, 11_000]);
        assert_eq!(due(Rate::Fixed(0.0), &[1]), [u64::MAX]);
        let burst = Rate::Burst {
            burst: 10,
            every_s: 0.5,
        };
        assert_eq!(
            due(burst, &[0, 9, 10, 25]),
            [1_000, 1_000, 501_000, 1_001_000]
        );
        let step = |rate, seconds| RateStep { rate, seconds };
        let steps = Rate::Steps {
            steps: vec![step(10.0, 1.0), step(0.0, 1.0), step(20.0, 0.5)],
        };
        let times = due(steps, &[0, 9, 10, 19, 20]);
        assert_eq!(times, [1_000, 901_000, 2_001_000, 2_451_000, 2_501_000]);
    }

    #[test]
    fn a_ramp_reaches_its_rates() {
        let ramp = Rate::Ramp {
            from: 100.0,
            to: 300.0,
            over_s: 2.0,
        };
        // The ramp holds 400 messages; after it, 300 come a second.
        let times = due(ramp, &[0, 150, 400, 700]);
        assert_eq!(times, [1_000, 1_001_000, 2_001_000, 3_001_000]);
        let flat = Rate::Ramp {
            from: 10.0,
            to: 10.0,
            over_s: 5.0,
        };
        assert_eq!(due(flat, &[1]), [101_000]);
    }

    #[test]
    fn time_goes_on_whether_messages_are_sent_or_not() {
        let mut schedule = Schedule::new(Rate::Fixed(1_000.0), 0);
        let mut times = Vec::new();
        for _ in 0..3 {
            times.extend(schedule.next_us());
            schedule.advance();
        }
        assert_eq!(times, [0, 1_000, 2_000]);
        schedule.restart(50_000);
        assert_eq!(schedule.next_us(), Some(50_000));
        assert_eq!(Schedule::new(Rate::Unlimited, 0).next_us(), None);
    }
}
