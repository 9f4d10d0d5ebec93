//! The Leveret broker.

fn main() -> std::process::ExitCode {
    leveret::cli::main(std::env::args_os())
}
