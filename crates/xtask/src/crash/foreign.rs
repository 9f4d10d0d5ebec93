//! Other people's clients as part of the load: pika and amqp091-go, each connection a program of
//! its own that does on its input's word what one publisher or consumer does, and says what came.
//!
//! Both programs speak the same frames, so that the ledger and the load know one client. They lie
//! in `tests/interop/python/crash_client.py` and `tests/interop/go/crash_client`.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::load::Connection;
use crate::client::Event;
use crate::run;
use crate::suite::{go, python};
use crate::tools::{self, Tool};

/// How the copy of this tool in a namespace, which reaches no registry, is told the programs.
const PROGRAMS: [&str; 2] = ["XTASK_CRASH_PIKA", "XTASK_CRASH_GO"];
/// How long a program may take until its channel is open.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// Whose client a connection is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Python's pika.
    Pika,
    /// Go's amqp091-go.
    Go,
}

/// The programs that are ready to be started.
#[derive(Clone, Debug)]
pub struct Programs {
    python: PathBuf,
    go: PathBuf,
}

impl Programs {
    /// Installs and builds what the programs need.
    pub fn prepare() -> Result<Programs> {
        tools::ensure(Tool::Python)?;
        tools::ensure(Tool::Go)?;
        Ok(Programs {
            python: python::python()?,
            go: go::crash_client()?,
        })
    }

    /// What whoever started this copy had prepared.
    pub fn handed_over() -> Result<Programs> {
        let path = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .context("no program")
        };
        let [python, go] = PROGRAMS;
        Ok(Programs {
            python: path(python)?,
            go: path(go)?,
        })
    }

    /// Tells them to a copy of this tool.
    pub fn hand_over(&self, command: &mut Command) {
        let [python, go] = PROGRAMS;
        command.env(python, &self.python).env(go, &self.go);
    }

    /// Connects as the default user, and opens a channel.
    ///
    /// # Errors
    /// The broker refuses or is not there; or nothing has come of it for [`OPEN_DEADLINE`].
    pub fn connect(&self, library: Library, address: SocketAddr) -> Result<Foreign> {
        let mut command = match library {
            Library::Pika => {
                let mut command = Command::new(&self.python);
                command.arg(run::root().join("tests/interop/python/crash_client.py"));
                command
            }
            Library::Go => Command::new(&self.go),
        };
        command.args([address.ip().to_string(), address.port().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start a client's program")?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = child.stdout.take().context("its output is piped")?;
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let said = read(&mut output);
                let ends = said.is_err();
                if sender.send(said).is_err() || ends {
                    return;
                }
            }
        });
        let foreign = Foreign {
            child,
            input,
            output: Vec::new(),
            events,
        };
        match foreign.events.recv_timeout(OPEN_DEADLINE) {
            Ok(Ok(Said::Open)) => Ok(foreign),
            Ok(Ok(Said::Event(_))) => bail!("an event before the channel was open"),
            Ok(Err(error)) => Err(error),
            Err(_) => bail!("no channel within {} s", OPEN_DEADLINE.as_secs()),
        }
    }
}

/// A connection with one channel, in a program of its own, which ends with it.
pub struct Foreign {
    child: Child,
    input: ChildStdin,
    output: Vec<u8>,
    events: Receiver<Result<Said>>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is left to report to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program says.
enum Said {
    /// The channel is open.
    Open,
    Event(Event),
}

/// Reads one frame: its kind, then what that has.
fn read(from: &mut impl Read) -> Result<Said> {
    let kind = u8::from_be_bytes(take(from).context("the client's program ended")?);
    Ok(match kind {
        b'O' => Said::Open,
        b'K' => Said::Event(Event::Confirm {
            number: u64::from_be_bytes(take(from)?),
            multiple: take::<1>(from)? != [0],
            refused: take::<1>(from)? != [0],
        }),
        b'D' => Said::Event(Event::Deliver {
            tag: u64::from_be_bytes(take(from)?),
            redelivered: take::<1>(from)? != [0],
            body: bytes(from)?,
        }),
        b'T' => Said::Event(Event::tx_committed()),
        b'E' => bail!("{}", String::from_utf8_lossy(&bytes(from)?)),
        other => bail!("a client's program said {other:#x}"),
    })
}

fn take<const N: usize>(from: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Bytes behind their count.
fn bytes(from: &mut impl Read) -> Result<Vec<u8>> {
    let mut bytes = vec![0; u32::from_be_bytes(take(from)?) as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Foreign {
    /// The name of a queue, behind its length.
    fn name(&mut self, queue: &str) {
        self.output.push(queue.len() as u8);
        self.output.extend_from_slice(queue.as_bytes());
    }
}

impl Connection for Foreign {
    fn select_confirms(&mut self) -> Result<()> {
        self.output.push(b'S');
        self.flush()
    }

    fn subscribe(&mut self, queue: &str, prefetch: u16, in_transactions: bool) -> Result<()> {
        self.output.push(b'C');
        self.name(queue);
        self.output.extend_from_slice(&prefetch.to_be_bytes());
        self.output.push(u8::from(in_transactions));
        self.flush()
    }

    fn publish(&mut self, queue: &str, body: &[u8]) {
        self.output.push(b'P');
        self.name(queue);
        self.output
            .extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.output.extend_from_slice(body);
    }

    fn settle(&mut self, tag: u64, in_transaction: bool) {
        self.output.push(b'A');
        self.output.extend_from_slice(&tag.to_be_bytes());
        self.output.push(u8::from(in_transaction));
    }

    fn buffered_bytes(&self) -> usize {
        self.output.len()
    }

    fn flush(&mut self) -> Result<()> {
        // A program that has ended says why on its output.
        let _ = self.input.write_all(&self.output);
        self.output.clear();
        Ok(())
    }

    fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        match self.events.recv_timeout(wait) {
            Ok(said) => event(said?).map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the client's program ended"),
        }
    }

    fn next_buffered(&mut self) -> Result<Option<Event>> {
        match self.events.try_recv() {
            Ok(said) => event(said?).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the client's program ended"),
        }
    }
}

fn event(said: Said) -> Result<Event> {
    match said {
        Said::Event(event) => Ok(event),
        Said::Open => bail!("a channel was opened twice"),
    }
}
