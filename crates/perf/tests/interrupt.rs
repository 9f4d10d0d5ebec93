//! A signal ends what runs as an error does: nothing is left behind. One test, as signals are the
//! whole process's.

mod support;

use std::time::{Duration, Instant};

use leveret_perf::drive::{self, DriveError, Plan};
use leveret_perf::engine::Engine;
use leveret_perf::error::Error;
use leveret_perf::interrupt;
use rustix::process::{Signal, getpid, kill_process};
use support::{Broker, spec};

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing() {
    interrupt::watch().unwrap();
    assert!(interrupt::check().is_ok());
    let broker = Broker::start();
    let mut spec = spec(broker.address, "rate = 100.0\nconfirm_window = 10");
    spec.duration_s = 600.0;
    let began = Instant::now();
    let mut made = Vec::new();
    let result = Engine::default().run(&spec, &mut |_| {
        made = broker.names();
        kill_process(getpid(), Signal::TERM).unwrap();
    });
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(interrupt::signal(), Some(15));
    assert_eq!((made.len(), broker.names().len()), (1, 0), "{made:?}");
    a_drive_is_left_as_it_was();
}

/// After the signal.
fn a_drive_is_left_as_it_was() {
    let path = std::env::temp_dir().join(format!("leveret-interrupt-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let mut steps = 0;
    let result = drive::measure(&path, &Plan::FAST, &mut |_| steps += 1);
    assert!(matches!(result, Err(DriveError::Interrupted)), "{result:?}");
    assert_eq!(steps, 1);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    std::fs::remove_dir(&path).unwrap();
}
