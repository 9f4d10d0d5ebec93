//! `leveret storage` as an operator runs it: the binary, on folders that this test wrote and
//! spoiled.

use crate::common::Folder;
use leveret_shell::disk::RealDisk;
use leveret_storage::{Durability, Folders, LogKind, Options, Store};
use leveret_types::LogId;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Two logs with three messages each, in order on disk.
fn write_store(root: &Path) {
    let folders = Folders::within(root);
    let options = Options {
        uuid: [7; 16],
        ..Options::default()
    };
    let (mut store, _) = Store::open(&RealDisk::new(), &folders, &options).expect("a new store");
    for log in [LogId(256), LogId(512)] {
        store.shards[0].create_log(log, LogKind::Durable);
        for number in 0..3 {
            let text = format!("message {number} of log {log}, which is long enough to be found");
            let body = store.shards[0].body(Durability::Durable, &[text.as_bytes()]);
            store.shards[0].append(log, body, text.len() as u32);
        }
    }
    store.close().expect("closed in order");
}

fn is_segment(entry: &fs::DirEntry) -> bool {
    entry.path().extension().is_some_and(|end| end == "seg")
}

/// Flips a bit in the only place on disk where this text stands.
fn spoil(root: &Path, text: &str) {
    let mut spoilt = 0;
    let folders = ["data", "segment"].map(|folder| root.join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("segments"));
    for entry in entries.filter(|entry| entry.as_ref().is_ok_and(is_segment)) {
        let path = entry.expect("an entry").path();
        let mut bytes = fs::read(&path).expect("a segment");
        let found = bytes.windows(text.len()).position(|w| w == text.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 1;
            fs::write(&path, bytes).expect("written back");
            spoilt += 1;
        }
    }
    assert_eq!(spoilt, 1, "{text} stands in one segment");
}

fn leveret(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command
        .arg("storage")
        .args(words)
        .arg("--data-dir")
        .arg(root);
    command
        .env_remove("LEVERET_CONFIG_FILE")
        .env_remove("RABBITMQ_CONFIG_FILE");
    command.output().expect("the binary runs")
}

#[track_caller]
fn check(root: &Path, words: &[&str], succeeds: bool, said: &[&str]) {
    let output = leveret(root, words);
    let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert_eq!(output.status.success(), succeeds, "{words:?}: {text:?}");
    for part in said {
        assert!(text.concat().contains(part), "{part}: not in {text:?}");
    }
}

#[test]
fn a_sound_store_is_explained() {
    let scratch = Folder::new("storage-sound");
    write_store(scratch.path());
    let both = [
        "log 256: 3 entries",
        "log 512: 3 entries",
        "closed in order",
    ];
    check(scratch.path(), &["inspect"], true, &both);
    check(
        scratch.path(),
        &["verify"],
        true,
        &["6 entries were read and are sound"],
    );
    check(
        scratch.path(),
        &["repair", "--accept-loss"],
        true,
        &["nothing is damaged"],
    );
}

/// It is no damage, and it is on the disk.
#[test]
fn what_a_start_has_set_aside_is_listed_with_what_to_do() {
    let scratch = Folder::new("storage-aside");
    write_store(scratch.path());
    let aside = scratch.path().join("segment/stream/set-aside");
    for words in [["inspect"], ["verify"]] {
        let output = leveret(scratch.path(), &words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && !text.contains("set aside"),
            "{text}"
        );
    }
    fs::create_dir_all(&aside).expect("a folder");
    let name = "000000000000000a-00000000000000000007.stream";
    fs::write(aside.join(name), [1; 12]).expect("a file");
    fs::write(aside.join("000000000000000a.replica"), [1; 30]).expect("a file");
    let folder = format!("set aside in {}: 2 files, 42 bytes", aside.display());
    let line =
        format!("{name}: 12 bytes, messages of the stream 000000000000000a from offset 7 on");
    let said = [folder.as_str(), &line, "or delete them"];
    check(scratch.path(), &["inspect"], true, &said);
    check(scratch.path(), &["verify"], true, &said);
    assert_eq!(fs::read(aside.join(name)).expect("a file"), [1; 12]);
}

#[test]
fn the_loss_of_a_replica_is_not_accepted_and_what_to_do_is_said() {
    let scratch = Folder::new("storage-replica");
    let root = scratch.path();
    write_store(root);
    let (mut store, _) = Store::open(
        &RealDisk::new(),
        &Folders::within(root),
        &Options::default(),
    )
    .expect("the store opens");
    // The log of the headers makes queue 1 a replicated one.
    store.shards[0].create_log(LogId(511), LogKind::Durable);
    store.close().expect("closed in order");
    spoil(root, "message 1 of log 256");
    let told = [
        "log 256 is of a replica (queue 1)",
        "leveret cluster shrink",
        "leveret cluster grow",
    ];
    check(root, &["verify"], false, &told);
    let named = ["repair", "--log", "256", "--accept-loss"];
    check(root, &named, false, &["nothing was changed", told[0]]);
    spoil(root, "message 2 of log 512");
    let given_up = ["log 512: 1 messages given up", told[0]];
    check(root, &["repair", "--accept-loss"], true, &given_up);
    check(root, &["verify"], false, &["1 logs are damaged", told[0]]);
}

#[test]
fn damage_is_found_and_given_up_only_when_that_is_accepted() {
    let scratch = Folder::new("storage-damaged");
    write_store(scratch.path());
    spoil(scratch.path(), "message 1 of log 256");
    let root = scratch.path();
    check(root, &["inspect"], true, &["log 256: 3 entries"]);
    check(
        root,
        &["verify"],
        false,
        &["1 logs are damaged", "DAMAGED: 1 entries"],
    );
    let told = [
        "nothing was changed",
        "log 256: 1 messages would be lost",
        "--accept-loss",
    ];
    check(root, &["repair"], false, &told);
    let other = ["repair", "--log", "512", "--accept-loss"];
    check(root, &other, true, &["nothing is damaged"]);
    check(root, &["verify"], false, &["1 logs are damaged"]);
    let given_up = ["log 256: 1 messages given up"];
    check(root, &["repair", "--accept-loss"], true, &given_up);
    check(
        root,
        &["verify"],
        true,
        &["log 256: 2 entries", "5 entries were read"],
    );
}

/// What a command says to programs, and whether it succeeded.
fn told(root: &Path, words: &[&str]) -> (Value, bool) {
    let output = leveret(root, words);
    let told = serde_json::from_slice(&output.stdout);
    let told = told.unwrap_or_else(|error| panic!("{error}: {words:?} {output:?}"));
    (told, output.status.success())
}

#[test]
fn repairs_and_rebuilds_are_told_to_programs() {
    let scratch = Folder::new("storage-told");
    let root = &scratch.path().join("store");
    write_store(root);
    let accept = ["repair", "--accept-loss", "--json"];
    let nothing = json!({"repaired": [], "left": null});
    assert_eq!(told(root, &accept), (nothing, true));
    assert_eq!(
        told(root, &["repair", "--json"]),
        (json!({"would_be_lost": []}), true)
    );
    spoil(root, "message 1 of log 256");
    let (lost, succeeds) = told(root, &["repair", "--json"]);
    let lost = &lost["would_be_lost"][0];
    assert!(
        !succeeds && lost["log"] == 256 && lost["lost"] == 1,
        "{lost}"
    );
    let (repaired, succeeds) = told(root, &accept);
    let log = &repaired["repaired"][0];
    assert!(succeeds && log["log"] == 256 && log["lost"] == 1, "{log}");
    assert!(log["notes"].is_array() && repaired["left"].is_null());
    let new = scratch.path().join("new").display().to_string();
    let (rebuilt, succeeds) = told(root, &["rebuild", "--into", &new, "--json"]);
    let entries = rebuilt["logs"].as_array().expect("logs").iter();
    let entries: u64 = entries.filter_map(|log| log["entries"].as_u64()).sum();
    assert!(succeeds && entries == 5, "{rebuilt}");
    assert!(
        rebuilt["folder"]
            .as_str()
            .expect("a folder")
            .starts_with(&new)
    );
}

#[test]
fn what_cannot_be_looked_at_is_said_with_what_to_do() {
    let scratch = Folder::new("storage-absent");
    check(
        &scratch.path().join("nothing"),
        &["inspect"],
        false,
        &["is there a store?", "--data-dir"],
    );
    write_store(scratch.path());
    let disk = RealDisk::new();
    let folders = Folders::within(scratch.path());
    let store = Store::open(&disk, &folders, &Options::default()).expect("free");
    let told = ["is in use by another process", "stop the node first"];
    check(scratch.path(), &["inspect"], false, &told);
    drop(store);
    check(scratch.path(), &["inspect"], true, &[]);
}

/// Changes a byte at the same place of both copies of the checkpoint, and at others if `apart`.
fn spoil_checkpoint(root: &Path, apart: usize) {
    let mut spoilt = 0;
    for entry in fs::read_dir(root.join("data")).expect("data") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "checkpoint") {
            let mut bytes = fs::read(&path).expect("a checkpoint");
            let half = bytes.len() / 2;
            bytes[30] ^= 1;
            bytes[half + 30 + apart] ^= 2;
            fs::write(&path, bytes).expect("written back");
            spoilt += 1;
        }
    }
    assert_eq!(spoilt, 1, "one checkpoint");
}

#[test]
fn a_checkpoint_damaged_in_both_copies_is_mended_or_the_store_rebuilt_elsewhere() {
    let scratch = Folder::new("storage-checkpoint");
    let root = &scratch.path().join("store");
    write_store(root);
    spoil_checkpoint(root, 4);
    let advice = ["both copies of the checkpoint", "repair", "rebuild"];
    check(root, &["verify"], false, &advice);
    check(
        root,
        &["repair", "--accept-loss"],
        true,
        &["nothing is damaged"],
    );
    check(
        root,
        &["verify"],
        true,
        &["6 entries were read and are sound"],
    );
    spoil_checkpoint(root, 0);
    check(root, &["repair", "--accept-loss"], false, &advice);
    let new = scratch.path().join("new");
    let into = new.display().to_string();
    let rebuild = ["rebuild", "--into", into.as_str()];
    let copied = [
        "log 256: 3 entries",
        "2 logs with 6 entries were copied, 0 entries are lost",
    ];
    check(root, &rebuild, true, &copied);
    check(
        &new,
        &["verify"],
        true,
        &["6 entries were read and are sound"],
    );
    check(root, &rebuild, false, &["there is a store"]);
}

/// The one trace of what a disk has lost of what streams had confirmed.
#[test]
fn damage_in_the_journal_of_the_streams_is_a_line_of_the_log() {
    let scratch = Folder::new("storage-journal");
    let streams = scratch.path().join("segment/stream");
    fs::create_dir_all(&streams).expect("a folder");
    fs::write(streams.join("streams-0.journal"), [7; 2_048]).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command
        .env_clear()
        .args(["serve", "--data-dir"])
        .arg(scratch.path());
    command.args(["--amqp", "127.0.0.1:0", "--stream", "127.0.0.1:0"]);
    command.args(["--http", "none", "--metrics", "none"]);
    let mut node = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(node.stderr.take().expect("its log")).lines();
    let lines = lines.map_while(Result::ok);
    let said: Vec<String> = lines
        .take_while(|line| !line.contains("store opened"))
        .collect();
    let _ = node.kill();
    node.wait().expect("it ends");
    let told: Vec<&String> = said
        .iter()
        .filter(|line| line.contains(".journal"))
        .collect();
    let [told] = &told[..] else {
        panic!("not one line of it: {said:?}");
    };
    for part in ["WARN", "the head of", "streams-0.journal", "is lost"] {
        assert!(told.contains(part), "{part}: not in {told}");
    }
}
