//! What the load generator itself can do: messages of 16 octets to a sink that reads frames and
//! nothing else, and from a source that writes them, in a process of its own. With an AMQP URI, the
//! same against a broker.
//!
//! ```sh
//! cargo run --release -p leveret-perf --example generator [URI]
//! ```

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use leveret_perf::engine::Engine;
use leveret_perf::spec::Spec;
use support::Sink;

const SEND: &str = "consumers = 0";
const RECEIVE: &str = "publishers = 0\nack = { automatic = true }\nverify = false";
const BOTH: &str = "ack = { automatic = true }";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("sink") => serve_sink(),
        Some(uri) => measure("send and receive", uri, BOTH),
        None => against_sink(),
    }
}

/// Says where the sink is, waits until nobody wants it any more, and says what it has read.
fn serve_sink() -> Result<(), Box<dyn std::error::Error>> {
    let sink = Sink::start();
    println!("{}", sink.address);
    std::io::stdout().flush()?;
    std::io::stdin().lines().for_each(drop);
    println!("{}", sink.frames.load(std::sync::atomic::Ordering::Relaxed));
    Ok(())
}

fn against_sink() -> Result<(), Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("sink")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut sink = command.spawn()?;
    let mut lines = BufReader::new(sink.stdout.take().ok_or("the sink has no output")?).lines();
    let address = lines.next().ok_or("the sink does not say where it is")??;
    let uri = format!("amqp://{address}/");
    let done = measure("send", &uri, SEND).and_then(|()| measure("receive", &uri, RECEIVE));
    drop(sink.stdin.take());
    let frames: u64 = lines
        .next()
        .ok_or("the sink does not say what it read")??
        .parse()?;
    println!("the sink read {frames} frames, three for each message that was sent");
    sink.wait()?;
    done
}

fn measure(what: &str, uri: &str, load: &str) -> Result<(), Box<dyn std::error::Error>> {
    let spec = Spec::parse(&format!(
        "name = \"generator\"\nduration_s = 5.0\nwarm_up_s = 1.0\ndrain_s = 0.5\nthreads = 1\n\
         uris = [\"{uri}\"]\n[[load]]\npersistent = false\nsize = 16\n{load}\n"
    ))?;
    let result = Engine::default().run(&spec, &mut |_| {})?;
    let totals = &result.main_load().totals;
    let messages = totals.published + totals.consumed;
    println!(
        "{what}: {messages} messages; {:.0} published/s, {:.0} consumed/s, {:.3} CPU-s per million, busiest thread {:.0} %",
        totals.publish_rate,
        totals.consume_rate,
        result.generator.cpu_s / messages as f64 * 1e6,
        result.generator.busiest_thread * 100.0
    );
    if let Some(failure) = result.failure() {
        println!("FAILED: {failure}");
    }
    Ok(())
}
