//! A node starts on a full disk, whatever has ended it before: else nobody could drain it.

use crate::common::free_addresses;
use std::process::Command;

/// Runs in namespaces of its own: the small disk is gone with them. `$0` is the binary, `$1` where
/// the disk goes, `$2` a folder elsewhere, and what follows are options of the node.
const SCRIPT: &str = r#"
disk=$1; other=$2; shift 2; options=$*
mount -t tmpfs -o size=48m leveret "$disk" || exit 77
ctl() { "$0" ctl --data-dir "$disk/data" -q "$@"; }
start() {
    rm -f "$other/out"
    "$0" serve --data-dir "$disk/data" --amqp 127.0.0.1:0 --http none --metrics none $options >"$other/out" 2>&1 &
    node=$!; tries=0
    until grep -q ' ready after ' "$other/out" 2>/dev/null; do
        kill -0 $node 2>/dev/null || { cat "$other/out"; exit 1; }
        tries=$((tries + 1)); [ $tries -lt 1200 ] || { cat "$other/out"; kill -9 $node; exit 1; }
        sleep 0.05
    done
}
fill() { cat /dev/zero >>"$disk/fill" 2>/dev/null; cat /dev/zero >>"$disk/rest" 2>/dev/null; }
start
ctl add_vhost kept || exit 1
# What is kept for starts is made while there is room for it, soon after the first one.
until [ -f "$disk/data/data/leveret.reserve" ] && [ -f "$disk/data/wal/log.reserve" ]; do
    sleep 0.05
done
kill -9 $node; wait $node 2>/dev/null
for round in 1 2 3 4 5 6; do
    fill; start
    ctl list_vhosts | grep kept || exit 1
    kill -9 $node; wait $node 2>/dev/null
done
# What a node takes with it when it ends in order has to be written again.
fill; start
ctl list_vhosts | grep kept || exit 1
kill -TERM $node; wait $node || { cat "$other/out"; exit 1; }
fill; start
ctl list_vhosts | grep kept || exit 1
kill -9 $node; wait $node 2>/dev/null
exit 0
"#;

/// The same, for streams: what is confirmed is in the journal in which they share syncs, and its
/// loss elsewhere by a power cut is played. `$3` is a port, `$4` a load of two streams.
const STREAMS_SCRIPT: &str = r#"
disk=$1; other=$2; port=$3; load=$4
export LEVERET_DISK_FREE_LIMIT_ABSOLUTE=0
mount -t tmpfs -o size=64m leveret "$disk" || exit 77
start() {
    rm -f "$other/out"
    "$0" serve --data-dir "$disk/data" --amqp 127.0.0.1:0 --http none --metrics none \
        --stream "127.0.0.1:$port" >"$other/out" 2>&1 &
    node=$!; tries=0
    until grep -q ' ready after ' "$other/out" 2>/dev/null; do
        kill -0 $node 2>/dev/null || { cat "$other/out"; exit 1; }
        tries=$((tries + 1)); [ $tries -lt 1200 ] || { cat "$other/out"; kill -9 $node; exit 1; }
        sleep 0.05
    done
}
start
uri="rabbitmq-stream://guest:guest@127.0.0.1:$port"
"$0" perf run "$load" --uri "$uri" >"$other/perf" 2>&1 &
perf=$!; tries=0
cd "$disk/data/segment/stream" || exit 1
until [ -s streams-0.journal ] && [ "$(cat *.stream | wc -c)" -gt 65536 ]; do
    kill -0 $perf 2>/dev/null || { cat "$other/perf" "$other/out"; exit 1; }
    tries=$((tries + 1)); [ $tries -lt 1200 ] || { ls -l; kill -9 $node $perf; exit 1; }
    sleep 0.05
done
kill -9 $node $perf; wait $node $perf 2>/dev/null
[ -s journal.reserve ] || { ls -l; exit 1; }
for segment in *.stream; do truncate -s 1024 "$segment"; done
cat /dev/zero >>"$disk/fill" 2>/dev/null; cat /dev/zero >>"$disk/rest" 2>/dev/null
for round in 1 2; do
    start
    for segment in *.stream; do
        [ "$(stat -c %s "$segment")" -gt 1024 ] || { cat "$other/out"; ls -l; exit 1; }
    done
    kill -9 $node; wait $node 2>/dev/null
done
exit 0
"#;

/// Two streams with few messages each.
const LOAD: &str = r#"
protocol = "stream"
about = ""
name = "two"
duration_s = 60.0
warm_up_s = 0.0
[[load]]
name = "two"
queue_type = "stream"
publishers = 2
consumers = 0
queues = 2
size = 128
rate = 1000.0
confirm_window = 100
queue_arguments = { flush = "sync" }
"#;

fn run(name: &str, options: &[&str]) {
    run_script(SCRIPT, name, options);
}

fn run_script(script: &str, name: &str, options: &[&str]) {
    let folder = std::env::temp_dir().join(format!("leveret-full-{name}-{}", std::process::id()));
    let (disk, other) = (folder.join("disk"), folder.join("other"));
    for folder in [&disk, &other] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_leveret"))
        .args([&disk, &other])
        .args(options)
        .env("LEVERET_WAL_FILE_SIZE", "4MiB")
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("left out: no unshare here: {error}"),
    };
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || why.contains("unshare:") {
        return eprintln!("left out: no disk of our own without rights: {why}");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {said}{why}");
}

#[test]
fn a_node_starts_on_a_full_disk() {
    run("alone", &[]);
}

#[test]
fn a_clusters_node_starts_on_a_full_disk() {
    let address = &free_addresses(1)[0];
    run("cluster", &["--cluster", address, "--join", address]);
}

#[test]
fn a_node_starts_on_a_full_disk_with_what_only_the_streams_journal_has() {
    let address = &free_addresses(1)[0];
    let (_, port) = address.rsplit_once(':').expect("a port");
    let load = std::env::temp_dir().join(format!("leveret-full-{}.toml", std::process::id()));
    std::fs::write(&load, LOAD).expect("a file");
    run_script(STREAMS_SCRIPT, "streams", &[port, &load.to_string_lossy()]);
    let _ = std::fs::remove_file(load);
}
