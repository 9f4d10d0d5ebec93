//! Where the password of a user at a node elsewhere comes from. The arguments of a command are
//! everybody's to read on its machine: a file, the environment and a prompt are not.

use leveret_types::limits::PASSWORD_LINE_BYTES_MAX;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The variable that holds a password.
pub const VARIABLE: &str = "LEVERET_PASSWORD";
/// The user who needs no word about it: a new node's own.
const GUEST: &str = "guest";

/// Where a password comes from: from what is given first, otherwise the environment's, otherwise
/// what a user at a terminal types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordSource {
    /// `--password`
    pub given: Option<String>,
    /// `--password-file`: its first line; `-` is standard input.
    pub file: Option<PathBuf>,
}

impl PasswordSource {
    /// The password of this user.
    ///
    /// # Errors
    /// One line: which file cannot be read, or how a password can be given.
    pub fn read(&self, user: &str) -> Result<String, String> {
        self.read_from(user, std::env::var(VARIABLE).ok(), prompt)
    }

    fn read_from(
        &self,
        user: &str,
        variable: Option<String>,
        prompt: impl FnOnce(&str) -> Option<String>,
    ) -> Result<String, String> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        if let Some(path) = &self.file {
            let line = match path.as_os_str() == "-" {
                true => first_line(io::stdin().lock()),
                false => File::open(path).and_then(|file| first_line(BufReader::new(file))),
            };
            return line.map_err(|error| {
                format!("cannot read a password from {}: {error}", path.display())
            });
        }
        if let Some(word) = variable {
            return Ok(word);
        }
        if user == GUEST {
            return Ok(GUEST.to_owned());
        }
        prompt(user).ok_or_else(|| {
            format!(
                "there is no password for user '{user}': name a file with --password-file (`-` \
                 is standard input), or set {VARIABLE}"
            )
        })
    }
}

/// The first line, without its end. One that is too long is refused: what is cut off would be
/// missing from a password that nobody then knows.
fn first_line(from: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    let most = PASSWORD_LINE_BYTES_MAX + "\r\n".len();
    from.take(most as u64).read_line(&mut line)?;
    let kept = line.trim_end_matches(['\r', '\n']).len();
    if kept > PASSWORD_LINE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "its first line is longer than {PASSWORD_LINE_BYTES_MAX} bytes"
        )));
    }
    line.truncate(kept);
    Ok(line)
}

/// What a user types who sees no letter of it; nothing without a terminal.
fn prompt(user: &str) -> Option<String> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal.ok().filter(|terminal| isatty(terminal))?;
    write!(terminal, "Password of user '{user}': ").ok()?;
    let _silent = Silent::begin(&terminal);
    first_line(BufReader::new(&terminal)).ok()
}

/// A terminal that does not show what is typed, until this is dropped.
pub struct Silent<T: AsFd> {
    terminal: T,
    shown: Option<Termios>,
}

impl<T: AsFd> Silent<T> {
    /// Where it is no terminal, nothing is shown anyway.
    pub fn begin(terminal: T) -> Self {
        let shown = tcgetattr(&terminal).ok();
        if let Some(shown) = &shown {
            let mut silent = shown.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            // The end of the line is seen: the next one begins below.
            silent.local_modes.insert(LocalModes::ECHONL);
            let _ = tcsetattr(&terminal, OptionalActions::Flush, &silent);
        }
        Self { terminal, shown }
    }
}

impl<T: AsFd> Drop for Silent<T> {
    fn drop(&mut self) {
        if let Some(shown) = &self.shown {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_goes_before_the_environment_and_that_before_a_prompt() {
        let path = std::env::temp_dir().join(format!("leveret-password-{}", std::process::id()));
        std::fs::write(&path, " in a file \r\nmore\n").expect("a file");
        let given = |given: Option<&str>, file: bool| PasswordSource {
            given: given.map(str::to_owned),
            file: file.then(|| path.clone()),
        };
        for (source, user, variable, typed, expected) in [
            (given(Some("g"), true), "u", Some("v"), Some("t"), Some("g")),
            (
                given(None, true),
                "u",
                Some("v"),
                Some("t"),
                Some(" in a file "),
            ),
            (given(None, false), "u", Some("v"), Some("t"), Some("v")),
            (given(None, false), "guest", Some("v"), Some("t"), Some("v")),
            (given(None, false), "guest", None, Some("t"), Some("guest")),
            (given(None, false), "u", None, Some("t"), Some("t")),
            (given(None, false), "u", None, None, None),
        ] {
            let variable = variable.map(str::to_owned);
            let read = source.read_from(user, variable, |_| typed.map(str::to_owned));
            assert_eq!(read.ok().as_deref(), expected, "{source:?}");
        }
        std::fs::remove_file(&path).expect("removed");
        let error = given(None, true).read("u").expect_err("no file");
        assert!(
            error.starts_with("cannot read a password from /"),
            "{error}"
        );
    }

    #[test]
    fn a_password_may_have_the_most_bytes_and_is_refused_with_one_more() {
        let password = |bytes: usize| "a".repeat(bytes);
        let most = password(PASSWORD_LINE_BYTES_MAX);
        for end in ["", "\n", "\r\n", "\nanother line"] {
            let line = first_line(format!("{most}{end}").as_bytes());
            assert_eq!(line.expect("a line"), most, "{end:?}");
            let more = password(PASSWORD_LINE_BYTES_MAX + 1) + end;
            let error = first_line(more.as_bytes()).expect_err("one too many");
            assert!(error.to_string().contains("4096 bytes"), "{error}");
        }
        let endless = io::BufReader::new(io::repeat(b'a'));
        assert!(first_line(endless).is_err());
    }
}
