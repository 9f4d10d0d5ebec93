//! `leveret perf drive` from its command line to what it writes.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use leveret_perf::drive::{Arguments, CommandError, DriveResult, check_spec, run};
use leveret_perf::spec::{Rate, Size};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    drive: Arguments,
}

fn arguments(line: &[&str]) -> Arguments {
    let line = ["drive"].into_iter().chain(line.iter().copied());
    Command::try_parse_from(line).unwrap().drive
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("leveret-drives-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Measures this machine's drive, shortly; the run that checks is a result made beforehand.
#[test]
fn a_drive_is_measured_promises_and_is_held_to_it() {
    let folder = folder("all");
    let file = |name: &str| folder.join("out").join(name);
    let names = ["drive.html", "drive.json", "check.html", "check.json"].map(file);
    let arguments = arguments(&[
        text(&folder),
        "--fast",
        "--check",
        "--html",
        text(&names[0]),
        "--json",
        text(&names[1]),
        "--check-html",
        text(&names[2]),
        "--check-json",
        text(&names[3]),
    ]);
    let mut out = Vec::new();
    let mut ran = 0;
    let broken = run(&arguments, &mut out, &mut |spec| {
        ran += 1;
        assert_eq!(spec.broker.drives["wal"], folder);
        let mut result = sample::run("quorum-1", 20_000.0, None);
        result.loads[0].checks.lost = 3;
        Ok(result)
    })
    .unwrap();
    assert!(broken.is_some_and(|text| text.contains("3 lost")));
    let out = String::from_utf8(out).unwrap();
    assert_eq!(ran, 1);
    for part in [
        "4 KiB",
        "4 MiB",
        "quorum queue, three nodes",
        "measured/predicted",
    ] {
        assert!(out.contains(part), "no {part} in {out}");
    }
    let [page, json, check_page, check_json] = names.map(|path| fs::read_to_string(path).unwrap());
    let drive: DriveResult = serde_json::from_str(&json).unwrap();
    assert_eq!(drive.recycled.len(), 6);
    assert!(page.contains("What a queue on it confirms") && page.contains("<svg"));
    assert!(check_page.contains("What the drive promised"));
    assert!(check_json.contains("\"confirm_p99_us\""));
    let left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(
        left,
        [folder.join("out")],
        "nothing of the measurement is left"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_run_that_fails_is_an_error_with_its_reason() {
    let folder = folder("fails");
    let arguments = arguments(&[text(&folder), "--fast", "--check"]);
    let error = run(&arguments, &mut Vec::new(), &mut |_| {
        Err("no broker".to_owned())
    })
    .unwrap_err();
    assert!(
        matches!(&error, CommandError::Run(reason) if reason == "no broker"),
        "{error}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_loss_is_the_outcome_though_the_run_cannot_be_written() {
    let folder = folder("unwritable");
    let json = "/dev/null/check.json";
    let arguments = arguments(&[text(&folder), "--fast", "--check", "--check-json", json]);
    for lost in [3, 0] {
        let mut out = Vec::new();
        let done = run(&arguments, &mut out, &mut |_| {
            let mut result = sample::run("quorum-1", 20_000.0, None);
            result.loads[0].checks.lost = lost;
            Ok(result)
        });
        match done {
            Ok(broken) => {
                assert!(broken.is_some_and(|text| text.contains("3 lost")));
                assert!(String::from_utf8(out).unwrap().contains(json));
            }
            Err(error) => assert!(lost == 0 && error.to_string().contains(json), "{error}"),
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_check_is_the_load_that_was_asked_about() {
    let spec = check_spec(&arguments(&[
        "/mnt/a", "-s", "4000", "-c", "50", "-r", "100",
    ]));
    spec.check().unwrap();
    let load = &spec.loads[0];
    assert_eq!(
        (load.size.clone(), load.confirm_window),
        (Size::Fixed(4_000), 50)
    );
    assert_eq!(load.rate, Rate::Fixed(100.0));
    assert!(
        spec.broker
            .drives
            .values()
            .all(|path| path == Path::new("/mnt/a"))
    );
    assert_eq!(spec.broker.drives.len(), 4);
}

#[test]
fn figures_that_make_no_sense_are_refused() {
    for line in [["/", "-c", "0"], ["/", "-c", "16000001"], ["/", "-s", "-1"]] {
        let line = ["drive"].into_iter().chain(line);
        assert!(Command::try_parse_from(line).is_err());
    }
}
