//! What `leveret config check` says of a configuration, against what a start with it does; and what
//! a node says of the definitions that it begins with.

use crate::common::{BINARY, Folder, Node, serve};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn a_configuration_is_checked_by_its_place_or_by_option() {
    let folder = Folder::new("check");
    let good = folder.write("good.conf", "listeners.tcp.default = 5672\n");
    let bad = folder.write("bad.conf", "listeners.tcp.defualt = 5672\nheartbeet = 5\n");
    let check = |words: &[&str], file: &Path| {
        let mut command = Command::new(BINARY);
        command.env_clear().args(["config", "check"]);
        command.args(words).arg(file).output().expect("it runs")
    };
    for words in [&[][..], &["--config"]] {
        assert!(check(words, &good).status.success(), "{words:?}");
        let output = check(words, &bad);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("did you mean \"heartbeat\"?"), "{text}");
    }
}

/// What `leveret` does with these words and this file, in a folder.
fn run(words: &[&str], file: &Path, folder: &Path) -> Output {
    let mut command = Command::new(BINARY);
    command.env_clear().args(words).arg(file);
    command.current_dir(folder);
    command.env("LEVERET_LISTENERS_TCP_DEFAULT", "127.0.0.1:0");
    command.env("LEVERET_MANAGEMENT_TCP_PORT", "none");
    command.env("LEVERET_PROMETHEUS_TCP_PORT", "none");
    command.output().expect("it runs")
}

#[test]
fn a_check_finds_what_a_start_would_fail_at() {
    let folder = Folder::new("check-all");
    let broken = folder.write("broken.json", "{\"queues\": [{\"name\": 1}]}");
    let astray = r#"{"queues": [{"name": "q", "vhost": "nowhere", "durable": true}]}"#;
    let astray = folder.write("astray.json", astray);
    let file = folder.write("file", "");
    let ssl = |key: &str| {
        format!(
            "listeners.ssl.default = 0\nssl_options.certfile = {0}\nssl_options.keyfile = {0}\n{key}",
            file.display()
        )
    };
    for (text, expected) in [
        (
            "load_definitions = /nonexistent.json\n".to_owned(),
            "/nonexistent.json",
        ),
        (
            format!("load_definitions = {}\n", broken.display()),
            "these are no definitions",
        ),
        (ssl(""), "cannot read a certificate"),
        (
            format!("data_dir = {}/below\n", file.display()),
            "\"data_dir\"",
        ),
        (
            format!("folders.wal = {}\n", file.display()),
            "\"folders.wal\"",
        ),
        // Whoever asks may write there, and nothing can be made.
        (
            "folders.data = /proc/leveret/data\n".to_owned(),
            "\"folders.data\"",
        ),
        (
            format!(
                "folders.logs = {}\nlog.file = file/below.log\n",
                folder.path().display()
            ),
            "log file",
        ),
        ("cluster.address = 0.0.0.0:0\n".to_owned(), "secret"),
        (
            "cluster.join.1 = burrow:7000\n".to_owned(),
            "cluster.address",
        ),
        (
            format!("load_definitions = {}\n", astray.display()),
            "queue 'q' in vhost 'nowhere'",
        ),
    ] {
        let file = folder.write("node.conf", &text);
        for words in [&["config", "check", "--config"][..], &["serve", "--config"]] {
            let output = run(words, &file, folder.path());
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{words:?} {text}");
            assert!(why.contains(expected), "{words:?} {text}: {why}");
        }
    }
}

/// What there is in a folder, and below.
fn all_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(all_in(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Whether `config check` lets a node start with this file, and what it says.
fn check(file: &Path) -> (bool, String) {
    let mut command = Command::new(BINARY);
    command.env_clear().args(["config", "check"]).arg(file);
    let output = command.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

#[test]
fn a_folder_of_rabbitmqs_is_read_as_rabbitmq_reads_it() {
    let folder = Folder::new("check-rabbitmq");
    folder.write("rabbitmq.conf", "heartbeat = 10\nchannel_max = 100\n");
    folder.write("rabbitmq-env.conf", "NODENAME=rabbit\n");
    folder.write("enabled_plugins", "[rabbitmq_management].");
    fs::create_dir(folder.path().join("conf.d")).expect("a folder");
    folder.write("conf.d/20-last.conf", "heartbeat = 30\n");
    folder.write("conf.d/10-first.conf", "heartbeat = 20\n");
    folder.write("conf.d/notes.txt", "no configuration\n");
    for named in [
        folder.path().to_owned(),
        folder.path().join("rabbitmq.conf"),
    ] {
        let mut command = Command::new(BINARY);
        command.env_clear().args(["config", "show"]);
        let output = command.arg(&named).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for (key, value) in [("heartbeat", "30"), ("channel_max", "100")] {
            let line = |line: &str| line.split_whitespace().take(2).eq([key, value]);
            assert!(said.lines().any(line), "{key}: {said} {output:?}");
        }
    }
}

#[test]
fn a_check_leaves_nothing_behind() {
    let folder = Folder::new("check-traces");
    let definitions = r#"{"vhosts": [{"name": "shop"}],
        "queues": [{"name": "q", "vhost": "shop", "durable": true}]}"#;
    let definitions = folder.write("definitions.json", definitions);
    let below = folder.path().join("not/there");
    let text = format!(
        "data_dir = {}\nlog.file = node.log\nload_definitions = {}\n",
        below.display(),
        definitions.display()
    );
    let file = folder.write("node.conf", &text);
    let before = all_in(folder.path());
    let (is_good, said) = check(&file);
    assert!(is_good, "{said}");
    assert_eq!(all_in(folder.path()), before);
}

/// Definitions may name what only the store has: it is asked, and where its node runs, nothing is
/// claimed.
#[test]
fn definitions_are_checked_against_what_is_there() {
    let folder = Folder::new("check-store");
    let node = Node::start(
        serve(&folder.data()).args(["--http", "none"]),
        &folder.data(),
    );
    node.told(&["add_vhost", "shop"]);
    let with = |name: &str, vhost: &str| {
        let queue = format!(r#"{{"name": "q", "vhost": "{vhost}", "durable": true}}"#);
        let json = folder.write(
            &format!("{name}.json"),
            &format!(r#"{{"queues": [{queue}]}}"#),
        );
        let text = format!(
            "data_dir = {}\nload_definitions = {}\n",
            folder.data().display(),
            json.display()
        );
        folder.write(&format!("{name}.conf"), &text)
    };
    let (right, wrong) = (with("right", "shop"), with("wrong", "shed"));
    for file in [&right, &wrong] {
        let (is_good, said) = check(file);
        assert!(is_good, "its node runs: {said}");
    }
    assert!(node.terminate(), "an orderly end");
    let before = all_in(&folder.data());
    let (is_good, said) = check(&right);
    assert!(is_good, "{said}");
    let (is_good, said) = check(&wrong);
    assert!(!is_good && said.contains("vhost 'shed'"), "{said}");
    assert_eq!(all_in(&folder.data()), before);
    // The drive of the data folder is not mounted.
    fs::rename(folder.data().join("data"), folder.path().join("away")).expect("moved");
    fs::create_dir(folder.data().join("data")).expect("a folder");
    let (is_good, said) = check(&right);
    assert!(!is_good && said.contains("leveret.store"), "{said}");
}

#[test]
fn a_check_says_what_a_start_would_to_a_store_of_a_cluster_or_of_none() {
    let folder = Folder::new("check-cluster");
    let data = folder.data();
    let configuration = |name: &str, lines: &str| {
        let text = format!("data_dir = {}\n{lines}", data.display());
        folder.write(name, &text)
    };
    let alone = configuration("alone.conf", "");
    let clustered = "cluster.address = 127.0.0.1:0\n\
                     cluster.secret = a secret that is long enough for everybody\n";
    let founds = configuration("founds.conf", clustered);
    let joined = format!("{clustered}cluster.join.1 = 127.0.0.1:1\n");
    let joins = configuration("joins.conf", &joined);
    let is_refused = |file: &Path, expected: &str| {
        for words in [&["config", "check", "--config"][..], &["serve", "--config"]] {
            let output = run(words, file, folder.path());
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{words:?} {}", file.display());
            assert!(why.contains(expected), "{words:?}: {why}");
        }
    };
    let is_taken = |file: &Path| {
        let (is_good, said) = check(file);
        assert!(is_good, "{}: {said}", file.display());
    };
    let start = |words: &[&str]| {
        let mut command = serve(&data);
        let node = Node::start(command.args(["--http", "none"]).args(words), &data);
        assert!(node.terminate(), "an orderly end");
    };
    start(&[]);
    is_refused(&joins, "data of its own");
    is_taken(&alone);
    is_taken(&founds);
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let address = free.expect("a port on loopback").to_string();
    start(&["--cluster", &address]);
    is_refused(&alone, "that of a cluster's node");
    is_taken(&founds);
    is_taken(&joins);
    fs::remove_file(data.join("cluster")).expect("it says which cluster");
    is_refused(&founds, "does not say which");
}

#[test]
fn a_start_names_what_it_passes_over_in_definitions() {
    let folder = Folder::new("passed-over");
    let definitions = r#"{"vhosts": [{"name": "/"}], "users": [],
        "queues": [{"name": "amq.gen-1", "vhost": "/", "durable": true},
            {"name": "q", "vhost": "/", "durable": true}],
        "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "amq.gen-1",
            "destination_type": "queue", "routing_key": "k"}]}"#;
    let definitions = folder.write("definitions.json", definitions);
    let text = format!("load_definitions = {}\n", definitions.display());
    let configuration = folder.write("node.conf", &text);
    let log = folder.path().join("log");
    let mut command = serve(&folder.data());
    command.args(["--http", "none", "--config"]);
    command.arg(configuration);
    command.stderr(File::create(&log).expect("a file"));
    let node = Node::start(&mut command, &folder.data());
    assert_eq!(node.told(&["-s", "list_queues", "name"]), "q\n");
    // The same over HTTP, with who it was.
    let path = definitions.to_str().expect("text");
    node.told(&["import_definitions", path]);
    assert!(node.terminate(), "an orderly end");
    let log = fs::read_to_string(&log).expect("the log");
    let of = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(
        of("passed over in an import: queue 'amq.gen-1'"),
        2,
        "{log}"
    );
    assert_eq!(
        of("passed over in an import: binding from 'amq.topic'"),
        2,
        "{log}"
    );
    assert_eq!(
        of("by=\"(operator)\""),
        3,
        "two lines and the change: {log}"
    );
    assert_eq!(of("'q'"), 0, "{log}");
}

#[test]
fn definitions_and_secrets_that_others_can_read_are_named() {
    let folder = Folder::new("check-exposed");
    let with_password = r#"{"users": [{"name": "u", "password": "p", "tags": []}]}"#;
    let files = [
        folder.write("passwords.json", with_password),
        folder.write("none.json", r#"{"vhosts": [{"name": "shop"}]}"#),
        folder.write("secret", "a secret that is long enough for everybody\n"),
    ];
    let configuration = |definitions: &Path, secret: &Path| {
        let text = format!(
            "data_dir = {}\nload_definitions = {}\ncluster.address = 127.0.0.1:0\n\
             cluster.secret_file = {}\n",
            folder.data().display(),
            definitions.display(),
            secret.display(),
        );
        folder.write("node.conf", &text)
    };
    let permit = |file: &Path, mode| {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("permitted");
    };
    let [passwords, none, secret] = &files;
    permit(secret, 0o600);
    for (definitions, mode, is_named) in [
        (passwords, 0o644, true),
        (passwords, 0o640, false),
        (none, 0o644, false),
    ] {
        permit(definitions, mode);
        let (is_good, said) = check(&configuration(definitions, secret));
        assert!(is_good, "{said}");
        let exposed = format!("passwords, or their hashes, in {}", definitions.display());
        assert_eq!(said.contains(&exposed), is_named, "{mode:o}: {said}");
    }
    // One of the node's own user that others can read stops a start; another user's does not.
    permit(secret, 0o644);
    let mut command = serve(&folder.data());
    command.args(["--http", "none", "--config"]);
    command
        .arg(configuration(none, secret))
        .stderr(Stdio::piped());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let exposed = format!("a password or secret in {}", secret.display());
    assert!(
        !output.status.success() && said.contains(&exposed),
        "{said}"
    );
}
