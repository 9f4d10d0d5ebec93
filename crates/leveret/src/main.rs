//! The Leveret broker.

fn main() -> std::process::ExitCode {
    leveret::memory::keep_little();
    leveret::cli::main(std::env::args_os())
}
