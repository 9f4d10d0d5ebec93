//! Has the released binary linked smaller, where the linker and the C library can.
//!
//! - `--icf=all` keeps functions of the same machine code once: the compiler makes many of generic
//!   ones. Nothing here compares addresses of functions. A backtrace may show a function by the
//!   name of its twin.
//! - `pack-relative-relocs` writes the list of addresses that the loader mends, most of them in
//!   vtables, as a bit map: a hundredth of its size. It wants glibc 2.36.
//!
//! Neither changes what runs. Which linker that is depends on toolchain, system and settings, and
//! one that does not know an option refuses it: so a program of no content is linked with each,
//! and run.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const OPTIONS: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") || !is_native {
        return;
    }
    for option in OPTIONS {
        if works(option).unwrap_or(false) {
            println!("cargo::rustc-link-arg-bins={option}");
        }
    }
}

/// Whether a program that is linked with an option runs.
fn works(option: &str) -> Option<bool> {
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    std::fs::write(&source, "fn main() {}").ok()?;
    let mut compiler = Command::new(env::var_os("RUSTC")?);
    compiler.args(
        env::var("CARGO_ENCODED_RUSTFLAGS")
            .ok()?
            .split_terminator('\x1f'),
    );
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = std::ffi::OsString::from("linker=");
        argument.push(linker);
        compiler.arg("-C").arg(argument);
    }
    compiler.arg("-C").arg(format!("link-arg={option}"));
    compiler.arg("-o").arg(&program).arg(&source);
    Some(succeeds(&mut compiler) && succeeds(&mut Command::new(program)))
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
