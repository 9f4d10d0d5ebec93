//! `leveret perf` with nodes of its own: started, measured, held up, and gone afterwards.

use crate::common::Folder;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leveret_perf::engine::Engine;
use leveret_perf::local::Nodes;
use leveret_perf::spec::{BrokerSpec, Spec};
use leveret_perf::uri::Protocol;

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_leveret"))
}

fn engine() -> Engine {
    Engine {
        binary: Some(binary()),
        ..Engine::default()
    }
}

fn spec(text: &str) -> Spec {
    let times = "name = \"test\"\nduration_s = 2.0\nwarm_up_s = 0.0\ndrain_s = 5.0\n";
    Spec::parse(&format!("{times}{text}")).unwrap()
}

fn is_empty(folder: &Folder) -> bool {
    std::fs::read_dir(folder.path()).unwrap().next().is_none()
}

#[test]
fn a_node_of_its_own_is_measured_and_gone_afterwards() {
    let drive = Folder::new("perf-drive");
    let mut spec = spec(
        "[[load]]\nsize = 1000\nconfirm_window = 100\nprefetch = 100\n\
         [[load]]\nname = \"beside\"\nqueues = 3\npublishers = 3\nconsumers = 3\nrate = 50.0\n",
    );
    spec.broker
        .drives
        .insert("wal".to_owned(), drive.path().to_owned());
    let mut was_used = false;
    let result = engine().run(&spec, &mut |_| was_used |= !is_empty(&drive));
    let result = result.unwrap();
    assert_eq!(result.failure(), None);
    assert!(
        was_used && is_empty(&drive),
        "the node's folder came and went"
    );
    assert_eq!(result.target.product, "Leveret");
    assert_eq!(result.loads.len(), 2);
    assert!(result.loads.iter().all(|load| load.checks.loss_checked));
    let node = &result.nodes[0];
    assert!(node.cpu_s > 0.0 && node.rss_bytes_max > 0, "{node:?}");
    assert!(node.fsyncs.is_some_and(|count| count > 0), "{node:?}");
    let folders: Vec<_> = node
        .drives
        .iter()
        .map(|drive| drive.folder.as_str())
        .collect();
    assert_eq!(folders, ["data", "segment", "wal", "logs"]);
    let mut names = result.phases.iter().map(|phase| phase.name.as_str());
    assert!(names.by_ref().eq(["steady", "drain"]));
}

#[test]
fn a_modelled_device_is_slower_and_named() {
    let load = "[[load]]\nsize = 1000\nrate = 50.0\nconfirm_window = 1000\n";
    let mut modelled = spec(load);
    modelled.broker.model = Some("hdd:1".to_owned());
    let result = engine().run(&modelled, &mut |_| {}).unwrap();
    assert_eq!(result.failure(), None);
    assert_eq!(result.modelled_device.as_deref(), Some("hdd:1"));
    // The head has to come back to the log's file before it can be synced: eight milliseconds.
    let latency = result.loads[0].confirm.as_ref().unwrap();
    assert!(
        latency.percentiles.max_us >= 8_000,
        "{:?}",
        latency.percentiles
    );
    let real = engine().run(&spec(load), &mut |_| {}).unwrap();
    assert_eq!(real.modelled_device, None);
}

#[test]
fn three_nodes_of_its_own_see_each_other_and_are_measured() {
    let mut spec =
        spec("[[load]]\nsize = 100\nrate = 200.0\nconfirm_window = 100\nqueue_type = \"quorum\"\n");
    spec.broker.nodes = 3;
    let result = engine().run(&spec, &mut |_| {}).unwrap();
    assert_eq!(result.failure(), None);
    // Where this machine keeps temporary files is another matter.
    let mut notes = result.notes.iter();
    assert!(
        notes.all(|note| note.contains("the nodes' folders")),
        "{:?}",
        result.notes
    );
    let names: Vec<_> = result.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
    assert!(result.nodes.iter().all(|node| node.cpu_s > 0.0));
    assert_eq!(result.target.uris.len(), 3);
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// How many processes have a folder in their command lines.
fn processes_in(folder: &Path) -> usize {
    let folder = folder.as_os_str().as_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let names = |line: &Vec<u8>| line.windows(folder.len()).any(|part| part == folder);
    lines.filter(names).count()
}

#[test]
fn an_interrupted_run_leaves_no_node_and_no_folder() {
    let (temporary, drive) = (Folder::new("perf-end-tmp"), Folder::new("perf-end-drive"));
    let wal = format!("wal={}", drive.path().display());
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        // Who runs these tests in the background may have interrupts ignored.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(binary());
        command.args(["perf", "run", "-z", "600", "-r", "100", "--drives", &wal]);
        command.env("TMPDIR", temporary.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("published"), "{first}");
        assert_eq!(processes_in(temporary.path()), 1, "the node");
        assert!(!is_empty(&temporary) && !is_empty(&drive));
        signal(child.id(), name);
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{rest:?}");
        assert!(
            rest.iter().any(|line| line.ends_with(": interrupted")),
            "{rest:?}"
        );
        assert_eq!(processes_in(temporary.path()), 0, "the node is gone");
        assert!(is_empty(&temporary) && is_empty(&drive));
    }
}

#[test]
fn a_broker_that_is_stopped_for_a_while_shows_it() {
    let nodes = Nodes::start(&BrokerSpec::default(), Protocol::Amqp, Some(&binary())).unwrap();
    let pid = nodes.pids()[0];
    let uri = format!("amqp://guest:guest@{}/", nodes.uris()[0].place());
    let mut spec = spec("[[load]]\nsize = 64\nrate = 1000.0\nconfirm_window = 50\n");
    spec.uris = vec![uri];
    spec.duration_s = 3.0;
    let mut stopper = None;
    let mut stop_once = |_: &_| {
        stopper.get_or_insert_with(|| {
            std::thread::spawn(move || {
                signal(pid, "-STOP");
                let began = Instant::now();
                std::thread::sleep(Duration::from_millis(500));
                // Measured before it goes on, so that it is no longer than the stall was.
                let stalled = began.elapsed();
                signal(pid, "-CONT");
                stalled
            })
        });
    };
    let result = engine().run(&spec, &mut |live| stop_once(live)).unwrap();
    let stalled = stopper.expect("a second was over").join().unwrap();
    nodes.stop().unwrap();
    assert_eq!(result.failure(), None);
    let latency = result.loads[0]
        .confirm
        .as_ref()
        .unwrap()
        .histogram()
        .unwrap();
    let stalled_us = stalled.as_micros() as u64;
    let late: u64 = latency
        .slots()
        .filter(|(us, _)| *us > stalled_us / 2)
        .map(|(_, n)| n)
        .sum();
    // At a thousand a second, each millisecond of the stall's first half had a message due.
    let due = stalled.as_millis() as u64 / 2;
    assert!(late + 20 >= due, "{late} of {due} were late; {latency:?}");
}

/// One node of three is killed with its clients on it: they go on at the others.
#[test]
fn a_killed_node_shows_as_an_outage_and_loses_nothing() {
    let three = BrokerSpec {
        nodes: 3,
        ..BrokerSpec::default()
    };
    let nodes = Nodes::start(&three, Protocol::Amqp, Some(&binary())).unwrap();
    let uris = nodes.uris().into_iter();
    let mut spec = spec(
        "[[load]]\nsize = 64\nrate = 200.0\nconfirm_window = 50\nprefetch = 50\n\
         publishers = 3\nconsumers = 3\nqueues = 3\nqueue_type = \"quorum\"\n",
    );
    spec.uris = uris
        .map(|uri| format!("amqp://guest:guest@{}/", uri.place()))
        .collect();
    (spec.duration_s, spec.drain_s) = (4.0, 20.0);
    let victim = nodes.pids()[1];
    let mut killed = false;
    let mut kill_once = |_: &_| {
        if !std::mem::replace(&mut killed, true) {
            signal(victim, "-KILL");
        }
    };
    let result = engine().run(&spec, &mut |live| kill_once(live)).unwrap();
    let load = &result.loads[0];
    assert_eq!(result.failure(), None, "{:?}", load.checks);
    assert!(load.checks.loss_checked, "{:?}", load.checks);
    assert!(
        load.breaks.broken >= 2,
        "a publisher's and a consumer's: {:?}",
        load.breaks
    );
    assert!(load.breaks.reopened >= 2, "{:?}", load.breaks);
    // What waits for a confirm when the node dies is confirmed by another, later.
    let confirm = load.confirm.as_ref().unwrap().percentiles;
    assert!(confirm.max_us > confirm.p50_us, "{confirm:?}");
    let published: u64 = load.seconds.iter().map(|second| second.published).sum();
    let confirmed: u64 = load.seconds.iter().map(|second| second.confirmed).sum();
    assert_eq!(confirmed, published);
}

#[test]
fn the_command_line_runs_shows_and_refuses() {
    let run = |words: &[&str]| {
        let output = Command::new(binary())
            .arg("perf")
            .args(words)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let scratch = Folder::new("perf-cli");
    let json = scratch.path().join("result.json").display().to_string();
    let csv = scratch.path().join("result.csv").display().to_string();
    let stats = scratch.path().join("figures").display().to_string();
    let mut words = vec!["run", "-C", "1000", "-s", "100", "-c", "50", "-z", "20"];
    words.extend(["--json", &json, "--csv", &csv, "--figures", &stats]);
    let (code, said) = run(&words);
    assert_eq!(code, Some(0), "{said}");
    for file in ["result.json", "result.csv", "result-percentiles.csv"] {
        assert!(scratch.path().join(file).exists(), "{file}: {said}");
    }
    let drawn = std::fs::read_dir(&stats).unwrap().count();
    assert!(drawn > 0, "{said}");
    let (code, said) = run(&["report", &json]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&["run", "--help"]);
    assert!(code == Some(0) && said.contains("--quorum-queue"), "{said}");
    let (code, said) = run(&["show", "quorum-1"]);
    assert!(code == Some(0) && said.contains("[[load]]"), "{said}");
    for (words, expected) in [
        (&["run", "quorum-2"][..], "the nearest is"),
        (&["run", "-h", "box"], "no AMQP URI"),
        (&["run", "-h", "amqp://ann:secret@box:x"], "ann:***@box:x"),
        (
            &["run", "--compare", "amqp://127.0.0.1:1", "--rounds", "33"],
            "--rounds",
        ),
        (&["run", "--model", "tape:1"], "hdd"),
        (&["run", "-h", "amqp://127.0.0.1:1"], "127.0.0.1:1"),
    ] {
        let (code, said) = run(words);
        assert!(
            code == Some(2) && said.contains(expected),
            "{words:?}: {said}"
        );
    }
}
