use super::*;

const WALL_MS: u64 = 1_700_000_000_000;
const QUEUE: Subject = Subject::Queue(7);

fn moment(monotonic_ms: u64) -> Moment {
    Moment {
        monotonic_ms,
        wall_ms: WALL_MS + monotonic_ms,
    }
}

/// Ticks from one second to another, both of them multiples of five, with what stands at each.
fn run(samples: &mut Samples, seconds: std::ops::RangeInclusive<u64>, value: impl Fn(u64) -> u64) {
    for second in seconds.step_by(5) {
        assert!(samples.begin(second * 1_000), "a tick at {second} s");
        samples.note(QUEUE, &[value(second)], None);
    }
}

fn values(samples: &Samples, at_s: u64, age_s: u64, step_s: u64) -> Vec<(u64, u64)> {
    let range = Range {
        age_ms: age_s * 1_000,
        step_ms: step_s * 1_000,
    };
    let series = samples.series(QUEUE, range, moment(at_s * 1_000));
    let series = series.expect("it is known").into_iter();
    series
        .map(|(wall_ms, values)| ((wall_ms - WALL_MS) / 1_000, values[0]))
        .collect()
}

#[test]
fn values_are_shown_newest_first_at_the_asked_distance() {
    let mut samples = Samples::default();
    run(&mut samples, 0..=60, |second| second);
    let expected = [(60, 60), (50, 50), (40, 40), (30, 30)];
    assert_eq!(values(&samples, 62, 30, 10), expected);
    // Just before a tick is taken its values are those of the one before.
    assert_eq!(values(&samples, 65, 0, 5), [(65, 60)]);
}

#[test]
fn a_time_at_which_nobody_looked_is_a_gap() {
    let mut samples = Samples::default();
    run(&mut samples, 0..=20, |second| second);
    run(&mut samples, 40..=50, |second| second);
    let expected = [(50, 50), (45, 45), (40, 40), (20, 20), (15, 15), (10, 10)];
    assert_eq!(values(&samples, 50, 40, 5), expected);
    // What came in the gap is spread over it.
    let mut samples = Samples::default();
    run(&mut samples, 0..=20, |_| 0);
    run(&mut samples, 40..=40, |_| 100);
    assert_eq!(samples.rates(QUEUE), Some(vec![5.0]));
}

#[test]
fn an_hour_is_kept_by_ticks_and_a_day_by_minutes() {
    let mut samples = Samples::default();
    let day = 24 * 3_600;
    run(&mut samples, 0..=day + 7_200, |second| second);
    let at = day + 7_200;
    assert_eq!(values(&samples, at, 20, 5).len(), 5);
    let hour = values(&samples, at, 3_600, 10);
    assert_eq!(hour.len(), 361);
    assert!(hour.iter().all(|(at, value)| at == value), "to the tick");
    let whole = values(&samples, at, day, 600);
    assert_eq!(whole.len(), 144);
    for (at, value) in whole {
        // A minute's value may be that of the tick before it.
        assert!(value <= at && at - value <= 65, "{value} at {at}");
    }
    assert_eq!(
        values(&samples, at, day + 3_600, 600).len(),
        144,
        "nothing older"
    );
}

#[test]
fn what_stands_still_takes_no_room_and_is_forgotten_after_a_day() {
    let mut samples = Samples::default();
    run(&mut samples, 0..=60, |_| 1);
    let bytes = samples.bytes;
    run(&mut samples, 65..=3_600, |_| 1);
    assert_eq!(samples.bytes, bytes);
    assert_eq!(samples.rates(QUEUE), Some(vec![0.0]));
    for second in (3_605..=25 * 3_600).step_by(5) {
        samples.begin(second * 1_000);
    }
    assert_eq!((samples.objects.len(), samples.bytes), (0, 0));
    assert!(!samples.remembers_all());
}

#[test]
fn an_object_that_is_new_began_at_what_it_is_said_to_have_stood_at() {
    let mut samples = Samples::default();
    samples.begin(0);
    samples.begin(5_000);
    samples.note(QUEUE, &[50], Some(&[0]));
    assert_eq!(samples.rates(QUEUE), Some(vec![10.0]));
    assert_eq!(values(&samples, 5, 5, 5), [(5, 50), (0, 0)]);
    assert_eq!(samples.newest(QUEUE), Some(&[50][..]));
}

#[test]
fn nothing_happened_to_an_object_that_is_not_known_unless_it_may_have_been_forgotten() {
    let bounds = Bounds {
        objects: 2,
        bytes: usize::MAX,
    };
    let mut samples = Samples::with_bounds(bounds);
    let (one, other, third) = (Subject::Queue(1), Subject::Queue(2), Subject::Queue(3));
    assert_eq!(samples.rates_or_still(one, 1), None, "nobody looks");
    samples.begin(0);
    assert_eq!(samples.rates_or_still(one, 1), Some(vec![0.0]));
    samples.note(one, &[1], None);
    samples.note(other, &[1], None);
    assert_eq!(samples.rates_or_still(third, 1), Some(vec![0.0]));
    // Both others are of this tick, so that there is no room for it.
    samples.note(third, &[1], None);
    assert_eq!(samples.rates_or_still(third, 1), None);
    assert_eq!(samples.rates_or_still(one, 1), Some(vec![0.0]));
}

#[test]
fn a_value_that_falls_has_a_rate_below_zero() {
    let mut samples = Samples::default();
    run(&mut samples, 0..=10, |second| 100 - second);
    assert_eq!(samples.rates(QUEUE), Some(vec![-1.0]));
}

#[test]
fn no_more_objects_are_known_than_the_bound_and_the_idle_give_way() {
    let bounds = Bounds {
        objects: SAMPLED_OBJECTS_MAX,
        bytes: usize::MAX,
    };
    let mut samples = Samples::with_bounds(bounds);
    samples.begin(0);
    for id in 0..SAMPLED_OBJECTS_MAX as u64 {
        samples.note(Subject::Queue(id), &[1], None);
    }
    assert_eq!(samples.objects.len(), SAMPLED_OBJECTS_MAX);
    // All others are of this tick: nothing gives way.
    let one_more = Subject::Queue(SAMPLED_OBJECTS_MAX as u64);
    samples.note(one_more, &[1], None);
    assert_eq!(samples.objects.len(), SAMPLED_OBJECTS_MAX);
    assert_eq!(samples.newest(one_more), None);
    samples.begin(5_000);
    samples.note(QUEUE, &[2], None);
    samples.note(one_more, &[2], None);
    assert!(samples.newest(one_more).is_some());
    assert!(samples.newest(QUEUE).is_some(), "it is not idle");
    assert!(samples.objects.len() < SAMPLED_OBJECTS_MAX);
}

#[test]
fn no_more_bytes_are_kept_than_the_bound() {
    let mut samples = Samples::default();
    assert_eq!(samples.bounds.bytes, SAMPLES_BYTES_MAX);
    samples.bounds.bytes = 1 << 20;
    let mut most = 0;
    for tick in 0..2_000_u64 {
        samples.begin(tick * SAMPLE_STEP_MS);
        // Each tick others are busy, with figures that take room.
        for id in 0..50 {
            let values = [tick << 40, id << 50, tick * id];
            samples.note(Subject::Queue(tick % 40 * 50 + id), &values, None);
        }
        let exact: usize = samples.objects.values().map(Object::bytes).sum();
        assert_eq!(samples.bytes, exact, "what is kept is counted");
        most = most.max(samples.bytes);
    }
    // A tick may go over it by what it brings before room is made, once.
    assert!(most > 1 << 19, "{most} bytes: the bound was never near");
    assert!(most <= (1 << 20) + 50 * 600, "{most} bytes");
    // A full hour and day of a busy queue with fifteen figures.
    let mut samples = Samples::default();
    for tick in 0..u64::from(SAMPLES_COARSE * SAMPLES_PER_COARSE) {
        samples.begin(tick * SAMPLE_STEP_MS);
        let mut values = [0; 15];
        for (at, value) in values.iter_mut().enumerate().take(6) {
            *value = tick * (1_000 + at as u64) + tick % 7;
        }
        samples.note(QUEUE, &values, None);
    }
    assert!(samples.bytes < 64 * 1024, "{} bytes", samples.bytes);
}

#[test]
fn more_gaps_than_the_bound_shorten_what_is_known() {
    let mut samples = Samples::default();
    for gap in 0..=SAMPLE_RUNS_MAX as u64 {
        samples.begin(gap * 10_000);
        samples.note(QUEUE, &[gap], None);
        assert!(samples.runs.len() <= SAMPLE_RUNS_MAX);
    }
    assert_eq!(samples.runs.front(), Some(&(2, 2)), "the oldest has gone");
}
