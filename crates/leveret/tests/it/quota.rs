//! A processor quota of the control group that a node is in, or of one above it, sets the number of
//! its threads.

use crate::common::{BINARY, Folder, Node};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A control group of this test's own, gone at its end.
struct Group(PathBuf);

impl Group {
    /// Makes one that leaves one processor, of version 1 or 2, whichever controls processors here.
    fn of_one_processor() -> io::Result<Self> {
        let name = format!("leveret-quota-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        if first.join("cpu.cfs_quota_us").exists() || first.join("cgroup.procs").exists() {
            let group = Self::make(first.join(name))?;
            fs::write(group.0.join("cpu.cfs_period_us"), "100000")?;
            fs::write(group.0.join("cpu.cfs_quota_us"), "100000")?;
            return Ok(group);
        }
        let root = Path::new("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
        let group = Self::make(root.join(name))?;
        fs::write(group.0.join("cpu.max"), "100000 100000")?;
        Ok(group)
    }

    fn make(path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group goes once the last process in it has gone.
        let _ = fs::remove_dir(&self.0);
    }
}

/// How many threads of a process serve client sockets, once all of them run: a thread has the name
/// of the one that started it until then.
fn io_threads(process: u32) -> usize {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
        let names: Vec<String> = tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
            .collect();
        let unnamed = names.iter().filter(|name| name.trim() == "leveret");
        if unnamed.count() == 1 {
            let serve = |name: &&String| name.starts_with("leveret-io-");
            return names.iter().filter(serve).count();
        }
        assert!(Instant::now() < deadline, "not all of them run: {names:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a node in a control group; without one where this process is.
fn start(group: Option<&Path>, folder: &Folder) -> Node {
    let data = folder.data();
    let serve = format!(
        "exec {BINARY} serve --data-dir {} --amqp 127.0.0.1:0 --http none --metrics none \
         --stream 127.0.0.1:0",
        data.display()
    );
    let enter = group.map(|group| format!("echo $$ > {}/cgroup.procs && ", group.display()));
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .args(["-c", &(enter.unwrap_or_default() + &serve)])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Node::start(&mut command, &data)
}

#[test]
fn a_quota_of_one_processor_above_its_own_group_leaves_a_node_one_io_thread() {
    let outer = match Group::of_one_processor() {
        Ok(group) => group,
        // Only root may make groups, and in many containers not even root. What is not there
        // cannot be told apart from a quota that is passed over.
        Err(error) => {
            eprintln!("not looked at: no control group can be made here: {error}");
            return;
        }
    };
    let inner = Group::make(outer.0.join("inner")).expect("a group within its own");
    let folder = Folder::new("quota");
    let free = start(None, &folder);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(io_threads(free.process.id()), processors.min(64));
    drop(free);
    let bound = start(Some(&inner.0), &folder);
    assert_eq!(io_threads(bound.process.id()), 1);
}
