//! A Redis server of its own for a suite.
//!
//! It listens at a free loopback port, keeps nothing on the disk, and is ended by its process id.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::ports;

/// It starts in milliseconds; a busy machine may be late.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long a look at a server that is about to listen waits for the next.
const POLL: Duration = Duration::from_millis(20);
/// More than the results of any suite, far below what a machine has.
const MEMORY: &str = "256mb";

/// A running server. Dropping it kills it.
pub struct Redis {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

impl Redis {
    /// Starts one. Its working folder is `folder`, in which it writes nothing.
    ///
    /// # Errors
    /// It cannot be started, or does not answer within [`START_DEADLINE`].
    pub fn start(folder: &Path) -> Result<Redis> {
        let address = ports::free(1)?[0];
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--maxmemory", MEMORY])
            .current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("start redis-server")?;
        let mut redis = Redis { address, child };
        redis.wait_until_it_answers()?;
        Ok(redis)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let started = Instant::now();
        while !answers(self.address) {
            if let Some(status) = self.child.try_wait()? {
                bail!("redis-server at {} ended: {status}", self.address);
            }
            if started.elapsed() >= START_DEADLINE {
                bail!("redis-server at {} does not answer", self.address);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a server there answers `PING`.
fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, START_DEADLINE)?;
        stream.set_read_timeout(Some(START_DEADLINE))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(&answer == b"+PONG\r\n")
    };
    ask().unwrap_or(false)
}
