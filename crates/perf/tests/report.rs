//! Reports: complete, self-contained, honest about what was modelled, and safe whatever names hold.

mod sample;

use std::fs;
use std::path::PathBuf;

use leveret_perf::compare;
use leveret_perf::plot::{Body, GROUPS_MAX, Paint};
use leveret_perf::report::{self, Outputs, RUNS_MAX, ReportError, Table};
use leveret_perf::result::{FsyncSlot, Prediction, RunResult};
use leveret_perf::verdict::Evidence;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("leveret-report-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_page_holds_everything_and_fetches_nothing() {
    let run = sample::run("mixed-medium-1", 20_000.0, None);
    let page = report::page(std::slice::from_ref(&run));
    for text in [
        "mixed-medium-1",
        "leveret perf run mixed-medium-1",
        "A processor, 4 cores, 16 GB memory, Linux 6.1",
        "one node stands for three",
        "What limited the run",
        "nothing lost, duplicated, out of order or damaged",
        "Throughput",
        "Confirm latency over time, load `quorum`",
        "Latency by percentile",
        "Broker CPU",
        "Latency of the log&#39;s syncs",
        "Beside the document: consumed",
        "2024-12-31 23:59:59 UTC",
        "@media print",
        "prefers-color-scheme:dark",
    ] {
        let text = text.replace("&#39;", "'");
        assert!(page.contains(&text), "no {text}");
    }
    // An SVG's namespace is a name, not an address that is fetched.
    let fetched = page.replace("http://www.w3.org/2000/svg", "");
    for address in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link",
    ] {
        assert!(!fetched.contains(address), "{address}");
    }
}

#[test]
fn modelled_runs_say_so_everywhere() {
    let run = sample::run("quorum-1", 9_000.0, Some("hdd:1"));
    let other = sample::run("quorum-1", 19_000.0, None);
    let wanted = "MODELLED DEVICE, NOT A REAL ONE: HDD ×1";
    assert!(report::page(std::slice::from_ref(&run)).contains(wanted));
    assert!(report::summary(&run).contains(wanted));
    for figure in report::pictures(std::slice::from_ref(&run)) {
        assert!(figure.svg(Paint::Light).contains(wanted), "{}", figure.name);
    }
    let both = [run, other.clone()];
    let wanted = "SOME RUNS ON A MODELLED DEVICE, NOT A REAL ONE: HDD ×1";
    assert!(report::page(&both).contains(wanted));
    assert!(report::comparison(&both).contains(wanted));
    for figure in report::pictures(&both) {
        assert!(figure.svg(Paint::Light).contains(wanted), "{}", figure.name);
    }
    assert!(!report::page(&[other]).contains("MODELLED"));
    // The kernel's counts are of the real drive beneath: they are not shown as the model's.
    assert!(
        report::pictures(&both[..1])
            .iter()
            .all(|figure| !figure.name.starts_with("drives"))
    );
}

#[test]
fn ratios_of_modelled_rounds_say_so() {
    let run = sample::run("quorum-1", 9_000.0, Some("hdd:1"));
    let other = sample::run("quorum-1", 19_000.0, None);
    let table = compare::table(&[run], std::slice::from_ref(&other));
    let wanted = "*** SOME RUNS ON A MODELLED DEVICE, NOT A REAL ONE: HDD ×1 ***";
    assert!(table.starts_with(wanted), "{table}");
    let other = std::slice::from_ref(&other);
    assert!(!compare::table(other, other).contains("***"));
}

#[test]
fn folders_are_named_with_their_drives() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    run.nodes[0].drives[0].place = Some("/mnt/a".to_owned());
    run.nodes[0].drives[0].device = None;
    let wanted = "wal in /mnt/a (no block device known); segment, data in /var/tmp (sda)";
    assert!(report::summary(&run).contains(&format!("folders: {wanted}")));
    assert!(report::page(std::slice::from_ref(&run)).contains(wanted));
    run.modelled_device = Some("hdd:1".to_owned());
    let summary = report::summary(&run);
    assert!(
        summary.contains("wal in /mnt/a; segment, data in /var/tmp\n"),
        "{summary}"
    );
}

/// Older versions kept them.
#[test]
fn passwords_in_results_are_not_shown() {
    let folder = folder("secret");
    let mut run = sample::run("quorum-1", 9_000.0, None);
    run.spec.uris = vec!["amqp://ann:s3cret@box/".to_owned()];
    run.command = "leveret perf run -h amqp://ann:s3cret@box/ -x 4".to_owned();
    let path = folder.join("old.json");
    fs::write(&path, run.to_json()).unwrap();
    let run = report::read(&[path]).unwrap().remove(0);
    assert_eq!(run.command, "leveret perf run -h amqp://ann:***@box/ -x 4");
    for text in [run.to_json(), report::page(std::slice::from_ref(&run))] {
        assert!(
            text.contains("ann:***@box") && !text.contains("s3cret"),
            "{text}"
        );
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Whatever browser prints it: the runs of a comparison are opened, the seconds are not.
#[test]
fn a_printed_comparison_has_its_runs() {
    let run = sample::run("quorum-1", 9_000.0, None);
    let page = report::page(&[run.clone(), run]);
    assert_eq!(page.matches("<details class=\"run\">").count(), 2);
    let (_, print) = page.split_once("@media print").unwrap();
    for rule in [
        "details:not([open]):not(.run){display:none}",
        "details.run::details-content{content-visibility:visible;",
    ] {
        assert!(print.contains(rule), "no {rule}");
    }
}

#[test]
fn what_cannot_be_written_keeps_nothing_else_from_being_so() {
    let folder = folder("some");
    let outputs = Outputs {
        html: Some(folder.join("file").join("page.html")),
        json: Some(folder.join("result.json")),
        csv: Some(folder.join("result.csv")),
        ..Outputs::default()
    };
    fs::write(folder.join("file"), "no folder").unwrap();
    let mut written = Vec::new();
    let run = sample::run("quorum-1", 9_000.0, None);
    let error = report::write_all(&[run], &outputs, &mut written).unwrap_err();
    assert!(error.to_string().contains("page.html"), "{error}");
    assert_eq!(written.first(), Some(&folder.join("result.json")));
    assert_eq!(written.len(), 4, "the result, and three files of seconds");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_failed_check_is_not_to_be_missed() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    run.loads[0].checks.lost = 3;
    assert!(
        report::page(std::slice::from_ref(&run))
            .contains("<b>Checks failed.</b> load `quorum`: 3 lost")
    );
    assert!(report::summary(&run).contains("CHECKS FAILED: load `quorum`: 3 lost"));
    assert!(report::comparison(&[run.clone(), run]).contains("CHECKS FAILED in"));
}

#[test]
fn names_cannot_break_out() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    let evil = "<script>alert(1)</script>\",=x\n\u{0}";
    run.name = evil.to_owned();
    run.command = evil.to_owned();
    run.spec.about = evil.to_owned();
    run.target.product = evil.to_owned();
    run.notes = vec![evil.to_owned()];
    run.loads[0].name = evil.to_owned();
    run.nodes[0].name = evil.to_owned();
    run.nodes[0].drives[0].folder = evil.to_owned();
    run.phases[0].name = evil.to_owned();
    run.modelled_device = Some(evil.to_owned());
    for page in [
        report::page(std::slice::from_ref(&run)),
        report::page(&[run.clone(), run.clone()]),
    ] {
        assert!(!page.to_lowercase().contains("<script"));
    }
    let folder = folder("evil");
    let outputs = Outputs {
        figures: Some(folder.clone()),
        ..Outputs::default()
    };
    report::write(&[run], &outputs).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_written_is_read_again() {
    let folder = folder("round");
    let runs = [
        sample::run("quorum-1", 9_000.0, None),
        sample::run("quorum-4", 9e3, Some("hdd:2")),
    ];
    for (name, runs) in [("one.json", &runs[..1]), ("two.json", &runs[..])] {
        let path = folder.join(name);
        let outputs = Outputs {
            json: Some(path.clone()),
            ..Outputs::default()
        };
        report::write(runs, &outputs).unwrap();
        assert_eq!(report::read(&[path]).unwrap(), runs);
    }
    let all = report::read(&[folder.join("one.json"), folder.join("two.json")]).unwrap();
    assert_eq!(all.len(), 3);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_that_are_no_results_are_named() {
    let folder = folder("wrong");
    let cases = [
        ("empty", "", "EOF"),
        ("list", "[{}]", "missing field"),
        ("future", "{\"version\":1}", "missing field"),
        ("deep", &"[".repeat(100_000), "recursion limit"),
    ];
    for (name, text, wrong) in cases {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        let error = report::read(std::slice::from_ref(&path))
            .unwrap_err()
            .to_string();
        assert!(error.contains(name) && error.contains(wrong), "{error}");
    }
    let missing = folder.join("missing");
    assert!(matches!(
        report::read(&[missing]),
        Err(ReportError::Io { .. })
    ));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn as_many_runs_as_allowed_and_no_more() {
    let run = sample::run("quorum-1", 9_000.0, None);
    let nothing = Outputs::default();
    assert!(report::write(&vec![run.clone(); RUNS_MAX], &nothing).is_ok());
    let many = vec![run; RUNS_MAX + 1];
    assert!(matches!(
        report::write(&many, &nothing),
        Err(ReportError::Count(65))
    ));
    assert!(matches!(
        report::write(&[], &nothing),
        Err(ReportError::Count(0))
    ));
}

#[test]
fn csv_files_have_a_row_for_each_second_and_as_many_fields_as_the_head() {
    let folder = folder("csv");
    let path = folder.join("run.csv");
    let outputs = Outputs {
        csv: Some(path.clone()),
        ..Outputs::default()
    };
    let run = sample::run("mixed-medium-1", 20_000.0, Some("ssd:1"));
    let seconds = sample::SECONDS as usize + 1;
    let written = report::write(&[run], &outputs).unwrap();
    let names = ["run.csv", "run-nodes.csv", "run-percentiles.csv"].map(|name| folder.join(name));
    assert_eq!(written, names);
    for (path, rows) in names
        .iter()
        .zip([Some(2 * seconds), Some(3 * seconds), None])
    {
        let text = fs::read_to_string(path).unwrap();
        let mut fields = text.lines().map(|line| line.split(',').count());
        let head = fields.next().unwrap();
        assert!(fields.all(|count| count == head), "{text}");
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("mixed-medium-1,ssd:1,"))
        );
        if let Some(rows) = rows {
            assert_eq!(text.lines().count(), rows + 1);
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn runs_are_told_apart_by_what_differs() {
    let run = |name: &str, product: &str, model: Option<&str>| {
        let mut run = sample::run(name, 9_000.0, model);
        run.target.product = product.to_owned();
        run
    };
    let names = |runs: &[RunResult]| -> Vec<String> {
        report::summary_table(runs)
            .rows
            .into_iter()
            .map(|row| row[0].clone())
            .collect()
    };
    let one = run("quorum-1", "Leveret", None);
    assert_eq!(names(std::slice::from_ref(&one)), ["quorum-1"]);
    assert_eq!(
        names(&[one.clone(), run("quorum-4", "Leveret", None)]),
        ["quorum-1", "quorum-4"]
    );
    assert_eq!(
        names(&[one.clone(), run("quorum-1", "RabbitMQ", None)]),
        ["Leveret", "RabbitMQ"]
    );
    assert_eq!(
        names(&[run("quorum-1", "Leveret", Some("hdd:1")), one.clone()]),
        ["HDD ×1", "real drive"]
    );
    assert_eq!(names(&[one.clone(), one]), ["quorum-1 #1", "quorum-1 #2"]);
}

/// Alternating rounds of two brokers: medians, and the second's as parts of the first's.
#[test]
fn ratios_are_of_medians() {
    let round = |product: &str, rate: f64| {
        let mut run = sample::run("quorum-1", rate, None);
        run.target.product = product.to_owned();
        run
    };
    let runs = [
        round("Leveret", 50_000.0),
        round("RabbitMQ", 10_000.0),
        round("Leveret", 40_000.0),
        round("RabbitMQ", 9_000.0),
        round("Leveret", 1.0),
        round("RabbitMQ", 90_000.0),
    ];
    let text = report::comparison(&runs);
    let line = text
        .lines()
        .rfind(|line| line.starts_with("published "))
        .unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells, ["published", "40k/s", "10k/s", "0.25×"], "{text}");
}

#[test]
fn a_prediction_stands_beside_what_came() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    run.prediction = Some(Prediction {
        path: "/mnt/a".to_owned(),
        confirm_rate: 18_000.0,
        confirm_p50_us: 1_000.0,
        confirm_p99_us: 2_000.0,
        reasoning: "by reckoning".to_owned(),
    });
    let page = report::page(std::slice::from_ref(&run));
    assert!(page.contains("What the drive promised") && page.contains("by reckoning"));
    assert!(
        report::summary(&run).contains("18k/s"),
        "{}",
        report::summary(&run)
    );
    assert!(report::summary(&run).contains("0.50"));
}

#[test]
fn runs_without_this_or_that_still_give_a_page() {
    let mut bare = sample::run("quorum-1", 9_000.0, None);
    bare.nodes.clear();
    bare.phases.clear();
    bare.loads[0].seconds.clear();
    bare.loads[0].confirm = None;
    bare.loads[0].end_to_end = None;
    bare.loads[0].totals = Default::default();
    bare.machine = Default::default();
    for runs in [vec![bare.clone()], vec![bare.clone(), bare]] {
        let page = report::page(&runs);
        assert!(!page.contains("NaN") && !page.contains(">inf"), "{page}");
        let _ = report::comparison(&runs);
    }
}

#[test]
fn tables_align_in_every_form() {
    let mut table = Table::new(&["name", "µs", "empty"]);
    table.row(["a".to_owned(), "1".to_owned()]);
    table.row(["long name".to_owned(), "1,000".to_owned(), "–".to_owned()]);
    let table = table.without_empty_columns();
    assert_eq!(
        table.text(),
        "name          µs\na              1\nlong name  1,000\n"
    );
    let wanted = "| name      |    µs |\n| --------- | ----: |\n| a         |     1 |\n\
        | long name | 1,000 |\n";
    assert_eq!(table.markdown(), wanted);
}

/// Experiments on several sets of drives: grouped as the documents do it, with theirs beside.
#[test]
fn one_drive_or_several_is_one_picture() {
    let devices = [Some("hdd:1"), Some("hdd:3"), None];
    let run = |name: &str, device| sample::run(name, 9_000.0, device);
    let runs: Vec<RunResult> = ["quorum-1", "mixed-medium-1"]
        .iter()
        .flat_map(|name| devices.map(|device| run(name, device)))
        .collect();
    let names: Vec<String> = report::pictures(&runs)
        .into_iter()
        .map(|figure| figure.name)
        .collect();
    for wanted in [
        "compare-drives-consumed",
        "compare-drives-end-to-end-p99-9",
        "compare-document-quorum-1-consumed",
        "compare-document-mixed-medium-1-consumed",
    ] {
        assert!(
            names.iter().any(|name| name == wanted),
            "no {wanted} in {names:?}"
        );
    }
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "each has a file of its own");
    // On a drive that no document speaks of there is nothing to stand beside.
    let real = [run("quorum-1", None), run("quorum-1", None)];
    assert!(
        report::pictures(&real)
            .iter()
            .all(|figure| !figure.name.contains("document"))
    );
}

/// Deliveries of one message from several queues are one message consumed.
#[test]
fn copies_of_a_message_do_not_count_as_consumption() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    let consumed = run.loads[0].totals.consume_rate;
    let mut cases = vec![("", "direct", None, 1.0), ("", "direct", Some("key"), 1.0)];
    cases.extend([("", "fanout", None, 3.0), ("ours", "topic", None, 1.0)]);
    cases.extend(["direct", "topic"].map(|kind| ("ours", kind, Some("key"), 3.0)));
    cases.push(("", "topic", Some("key"), 3.0));
    for (exchange, kind, key, copies) in cases {
        let load = &mut run.spec.loads[0];
        load.queues = 3;
        load.exchange = exchange.to_owned();
        load.exchange_type = kind.to_owned();
        load.routing_key = key.map(str::to_owned);
        let rate = Evidence::of(&run).consume_rate;
        assert!(
            (rate - consumed / copies).abs() < 1e-6,
            "{exchange} {kind} {key:?}: {rate}"
        );
    }
}

#[test]
fn a_second_without_messages_is_a_gap_in_the_latency() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    for second in &mut run.loads[0].seconds[10..14] {
        second.confirm = None;
    }
    let pictures = report::pictures(std::slice::from_ref(&run));
    let picture = pictures
        .iter()
        .find(|figure| figure.name == "quorum-confirm-latency");
    let svg = picture.unwrap().svg(Paint::Light);
    let pieces = |line: &str| line.split('"').next().unwrap().matches('M').count();
    let lines: Vec<usize> = svg.split("<path d=\"").skip(1).map(pieces).collect();
    assert_eq!(lines, [2; 5], "each line is in two pieces");
    for second in &mut run.loads[0].seconds {
        second.confirm = None;
    }
    let pictures = report::pictures(&[run]);
    assert!(
        pictures
            .iter()
            .all(|figure| figure.name != "quorum-confirm-latency")
    );
}

#[test]
fn pictures_say_what_their_bands_are_where_connections_broke() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    let of = |run: &RunResult| {
        let pictures = report::pictures(std::slice::from_ref(run));
        let rates = pictures.into_iter().find(|figure| figure.name == "rates");
        let rates = rates.unwrap();
        let Body::Lines(lines) = rates.body else {
            panic!("rates are lines")
        };
        let bands = lines
            .spans
            .into_iter()
            .filter(|span| span.name == "connections broke");
        (
            rates.subtitle,
            bands.map(|span| span.range).collect::<Vec<_>>(),
        )
    };
    assert_eq!(of(&run), ("messages per second".to_owned(), vec![]));
    let ends: Vec<f64> = [10, 11, 20]
        .map(|at| run.loads[0].seconds[at].at_s)
        .to_vec();
    for at in [10, 11, 20] {
        let second = &mut run.loads[0].seconds[at];
        second.broken = 2;
        // As the clock has it: a little longer than from the second before.
        second.length_s = 1.001;
    }
    let (subtitle, bands) = of(&run);
    assert_eq!(
        subtitle,
        "messages per second; narrow bands: connections broke"
    );
    assert_eq!(
        bands,
        [(ends[0] - 1.001, ends[1]), (ends[2] - 1.001, ends[2])]
    );
}

/// The longest syncs are those that a reader looks for.
#[test]
fn no_sync_is_left_out_of_the_picture_however_many_slots_there_are() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    for node in &mut run.nodes {
        node.fsync_slots = (0..40_u32)
            .map(|at| FsyncSlot {
                to_us: (at < 39).then_some(16.0 * 1.5_f64.powi(at as i32)),
                count: u64::from(at) + 1,
            })
            .collect();
    }
    let pictures = report::pictures(&[run]);
    let picture = pictures
        .iter()
        .find(|figure| figure.name == "sync-times")
        .unwrap();
    let Body::Bars(bars) = &picture.body else {
        panic!("sync times are bars")
    };
    assert!(bars.groups.len() <= GROUPS_MAX, "{:?}", bars.groups);
    assert_eq!(bars.groups[..2], ["to 24 \u{b5}s", "to 54 \u{b5}s"]);
    assert_eq!(bars.groups.last().unwrap(), "longer");
    for series in &bars.series {
        let sum: f64 = series.values.iter().flatten().sum();
        assert!((sum - 820.0).abs() < 1e-9, "{sum}");
    }
}

#[test]
fn commands_in_a_verdict_are_code() {
    let mut run = sample::run("quorum-1", 9_000.0, None);
    for node in &mut run.nodes {
        node.fsyncs = Some(27_000);
        node.fsync_mean_us = Some(1_000.0);
        node.disk_written_bytes = 27_000_000;
        node.cpu_s = 1.0;
    }
    run.loads[0].limits.window_full = 0.9;
    let page = report::page(&[run]);
    assert!(
        page.contains("<code>leveret perf drive PATH</code>"),
        "{page}"
    );
}
