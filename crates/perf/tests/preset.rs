//! Every preset is a file that can be read, run and copied; the table of `scenarios.md` in short.

use leveret_perf::preset::{PRESETS, Preset, fast, list, reported};
use leveret_perf::spec::{Load, Rate, Size, Spec};

fn spec(name: &str) -> Spec {
    Preset::find(name)
        .unwrap_or_else(|| panic!("no preset {name}"))
        .spec()
        .unwrap()
}

#[test]
fn every_file_is_a_preset_and_every_preset_reads() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.trim_end_matches(".toml").to_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
    for preset in &PRESETS {
        let spec = preset
            .spec()
            .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        assert_eq!(spec.name, preset.name);
        assert!(!spec.about.is_empty(), "{}", preset.name);
        let says = |from: &str| preset.text.starts_with(from);
        assert!(
            says("# \"") || says("# No document: "),
            "{} names its document",
            preset.name
        );
    }
}

/// Publishers, queues, bytes and rate of each: `scenarios.md` A to D.
#[test]
fn loads_are_those_of_the_documents() {
    let cases = [
        ("quorum-1", 1, 1, 1_000, None),
        ("quorum-4", 4, 4, 1_000, None),
        ("quorum-40-slow", 40, 40, 1_000, Some(10.0)),
        ("quorum-40-fast", 40, 40, 1_000, Some(50.0)),
        ("mixed-light-1", 1, 1, 1_000, None),
        ("mixed-light-4", 4, 4, 1_000, None),
        ("mixed-light-40-slow", 40, 40, 1_000, Some(10.0)),
        ("mixed-light-40-fast", 40, 40, 1_000, Some(50.0)),
        ("mixed-medium-1", 1, 1, 1_000, None),
        ("mixed-medium-4", 4, 4, 1_000, None),
        ("mixed-medium-40-slow", 40, 40, 1_000, Some(10.0)),
        ("mixed-medium-40-fast", 40, 40, 1_000, Some(50.0)),
        ("fanout-backlog", 1, 3, 200, Some(600.0)),
        ("mirrored-1", 10, 1, 4_000, None),
        ("mirrored-10", 10, 10, 4_000, None),
        ("mirrored-20", 20, 20, 4_000, None),
        ("mirrored-30", 30, 30, 4_000, None),
        ("mirrored-10-backlog", 10, 10, 4_000, None),
        ("mirrored-1-follower", 10, 1, 4_000, None),
        ("mirrored-10-follower", 10, 10, 4_000, None),
        ("mirrored-30-spread", 30, 30, 4_000, None),
        ("stream-1-1", 1, 1, 128, None),
        ("stream-1-1-512", 1, 1, 512, None),
        ("stream-1-1-1024", 1, 1, 1_024, None),
        ("stream-1-1-2048", 1, 1, 2_048, None),
        ("stream-2-2", 2, 2, 128, None),
        ("stream-2-2-512", 2, 2, 512, None),
        ("stream-2-2-1024", 2, 2, 1_024, None),
        ("stream-2-2-2048", 2, 2, 2_048, None),
        ("stream-sync", 1, 1, 128, None),
        ("stream-catch-up", 1, 1, 1_024, None),
        ("view-1-1", 1, 1, 128, None),
        ("view-2", 1, 2, 128, None),
    ];
    for (name, publishers, queues, bytes, rate) in cases {
        let spec = spec(name);
        let load = &spec.loads[0];
        assert_eq!(
            (load.publishers, load.queues),
            (publishers, queues),
            "{name}"
        );
        assert_eq!(load.size, Size::Fixed(bytes), "{name}");
        assert_eq!(
            load.rate,
            rate.map_or(Rate::Unlimited, Rate::Fixed),
            "{name}"
        );
        assert!(load.persistent && load.durable && load.verify, "{name}");
        let background = background_rate(&spec);
        let wanted = match name {
            _ if name.starts_with("mixed-light") => Some(400.0),
            _ if name.starts_with("mixed-medium") => Some(2_000.0),
            _ => None,
        };
        assert_eq!(background, wanted, "{name}");
    }
}

fn background_rate(spec: &Spec) -> Option<f64> {
    let load: &Load = spec.loads.get(1)?;
    assert_eq!((load.publishers, load.consumers, load.queues), (40, 40, 40));
    assert_eq!(
        (load.size.clone(), load.queue_type.as_str()),
        (Size::Fixed(16), "classic")
    );
    match load.rate {
        Rate::Fixed(rate) => Some(rate * f64::from(load.publishers)),
        _ => panic!("a background has a rate"),
    }
}

/// The backlog's consumers take 1,200 messages a second from each queue, and no more.
#[test]
fn the_backlog_can_clear() {
    let spec = spec("fanout-backlog");
    let load = &spec.loads[0];
    let per_queue = f64::from(load.consumers / load.queues) * 1_000.0 / load.ack.delay_ms;
    assert!((per_queue - 1_200.0).abs() < 12.0, "{per_queue}");
    let phases: Vec<&str> = spec
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    assert_eq!(phases, ["steady", "grow", "drain"]);
    assert_eq!(spec.phases[1].until_backlog, Some(500_000));
}

#[test]
fn the_short_form_has_the_same_shape_and_less_of_it() {
    for preset in &PRESETS {
        let (long, short) = (preset.spec().unwrap(), fast(&preset.spec().unwrap()));
        short.check().unwrap();
        let mut same = short.clone();
        same.duration_s = long.duration_s;
        same.warm_up_s = long.warm_up_s;
        for (phase, long) in same.phases.iter_mut().zip(&long.phases) {
            phase.duration_s = long.duration_s;
            phase.until_backlog = long.until_backlog;
        }
        assert_eq!(
            same, long,
            "{}: nothing but time and backlog differs",
            preset.name
        );
        assert!(
            short.expected_s() < long.expected_s() / 3.0,
            "{}",
            preset.name
        );
        assert!(short.duration_s >= 3.0, "{}", preset.name);
        assert_eq!(
            fast(&fast(&short)).duration_s,
            3.0,
            "{}: it has a floor",
            preset.name
        );
    }
    let short = fast(&spec("fanout-backlog"));
    assert_eq!(short.phases[1].until_backlog, Some(10_000));
    assert_eq!(short.phases[2].until_backlog_below, Some(100));
}

#[test]
fn what_the_documents_report_can_be_looked_up() {
    let found = reported("mixed-medium-1");
    let hard_disk = found
        .iter()
        .find(|figure| figure.setup == "HDD ×1")
        .unwrap();
    assert_eq!(hard_disk.value, 300.0);
    let values = |name: &str| -> Vec<f64> { reported(name).iter().map(|of| of.value).collect() };
    assert_eq!(values("mirrored-30"), [8_000.0, 9_500.0, 7_500.0]);
    assert_eq!(values("mirrored-30-spread"), [6_000.0]);
    assert_eq!(values("stream-2-2-2048"), [23_000.0]);
    assert!(reported("quorum-4").is_empty());
    assert!(reported("no such").is_empty());
}

#[test]
fn names_are_listed_found_and_guessed() {
    let list = list();
    for preset in &PRESETS {
        assert!(list.contains(preset.name));
        assert_eq!(Preset::find(preset.name), Some(preset));
    }
    assert!(
        list.lines().all(|line| line.chars().count() <= 100),
        "{list}"
    );
    assert_eq!(Preset::find("mixed-medum-1"), None);
    assert_eq!(Preset::nearest("mixed-medum-1"), "mixed-medium-1");
}
