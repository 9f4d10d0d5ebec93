//! `leveret perf` without the broker around it: what a load machine needs, and quick to build.
//!
//! ```sh
//! cargo run --release -p leveret-perf --example perf run -h amqp://broker/ -x 4 -y 4
//! ```

fn main() -> std::process::ExitCode {
    leveret_perf::main(std::env::args_os().skip(1))
}
