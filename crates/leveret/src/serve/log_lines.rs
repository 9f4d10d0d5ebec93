//! Log lines on their way to where they go: nothing in them is more than text, and none comes so
//! often that it fills a disk.

use super::admin::audit;
use crate::config::LogFormat;
use crate::plain_text;
use leveret_types::limits::{LOG_LINE_BYTES_MAX, LOG_LINES_AT_ONCE_MAX, LOG_LINES_PER_SECOND};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Milliseconds between two looks for lines that are to be summed up.
const SUM_EVERY_MS: u64 = 1_000;

/// Where lines go, and how many of each kind have gone there lately.
pub struct Lines {
    to: BoxMakeWriter,
    format: LogFormat,
    started: Instant,
    kinds: Mutex<Kinds>,
}

/// The lines by the place in the code that makes them: those are one kind. Of what operators
/// change, those of a user are: who changes much hides what others do from nobody.
#[derive(Default)]
struct Kinds {
    by_place: HashMap<(Identifier, u8), Kind>,
    summed_ms: u64,
}

/// How often one kind of line has come lately.
struct Kind {
    /// Lines that may go at once, in thousandths.
    allowance: u64,
    at_ms: u64,
    /// The first line that was left out, and how many were.
    left_out: Option<(Shown<String>, u64)>,
}

/// What is shown of a line, and how many bytes of it are not.
struct Shown<T> {
    text: T,
    bytes_more: usize,
}

impl<'a> Shown<&'a str> {
    fn of(line: &'a str) -> Self {
        let line = line.trim_end_matches('\n');
        let (text, rest) = line.split_at(line.floor_char_boundary(LOG_LINE_BYTES_MAX));
        let bytes_more = rest.len();
        Self { text, bytes_more }
    }
}

impl Lines {
    /// Lines of this format that go to `to`.
    pub fn new(to: BoxMakeWriter, format: LogFormat) -> Self {
        Self {
            to,
            format,
            started: Instant::now(),
            kinds: Mutex::default(),
        }
    }

    /// Writes what is to be summed up, if there is any: a flood that has ended is told of although
    /// no other line comes.
    pub fn write_sums(&self) -> io::Result<()> {
        let out = self.summed(self.now_ms());
        match out.is_empty() {
            true => Ok(()),
            false => self.to.make_writer().write_all(out.as_bytes()),
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// The sums that are due.
    fn summed(&self, now_ms: u64) -> String {
        let kinds = self.kinds.lock();
        let mut kinds = kinds.unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        self.add_sums(&mut out, &mut kinds, now_ms);
        out
    }

    fn add_sums(&self, out: &mut String, kinds: &mut Kinds, now_ms: u64) {
        for (line, count) in kinds.sums(now_ms) {
            let Shown { text, bytes_more } = &line;
            let (text, bytes_more) = (text.as_str(), *bytes_more);
            self.add(out, &Shown { text, bytes_more }, Some(count));
        }
    }

    /// What is to be written for a line: nothing, the line, or sums of others before it.
    fn take(&self, kind: Option<&Kindred>, line: &str, now_ms: u64) -> String {
        let mut out = String::new();
        let kinds = self.kinds.lock();
        // A line that panicked on its way has left the counts as they were.
        let mut kinds = kinds.unwrap_or_else(PoisonError::into_inner);
        self.add_sums(&mut out, &mut kinds, now_ms);
        let goes = match kind {
            Some(kind) if kind.is_bounded => {
                let user = if kind.is_audit {
                    share_of_user(line)
                } else {
                    0
                };
                kinds.admit((kind.place.clone(), user), line, now_ms)
            }
            _ => true,
        };
        if goes {
            self.add(&mut out, &Shown::of(line), None);
        }
        out
    }

    /// Adds a line with nothing in it that its reader takes for an order or for another line, and
    /// with how many like it were left out.
    fn add(&self, out: &mut String, line: &Shown<&str>, left_out: Option<u64>) {
        let Shown { text, bytes_more } = *line;
        let object = text.strip_suffix('}').filter(|_| bytes_more == 0);
        match (self.format, object) {
            (LogFormat::Plain, _) => {
                plain_text::push(out, text);
                if bytes_more > 0 {
                    let _ = write!(out, "... ({bytes_more} bytes more)");
                }
                if let Some(count) = left_out {
                    let _ = write!(out, " left_out={count}");
                }
            }
            (LogFormat::Json, Some(object)) => {
                plain_text::push(out, object);
                if let Some(count) = left_out {
                    let _ = write!(out, ",\"left_out\":{count}");
                }
                out.push('}');
            }
            (LogFormat::Json, None) => {
                let mut cut = serde_json::json!({"cut": text, "bytes_more": bytes_more});
                if let Some(count) = left_out {
                    cut["left_out"] = count.into();
                }
                plain_text::push(out, &cut.to_string());
            }
        }
        out.push('\n');
    }
}

impl Kinds {
    /// Whether a line of this kind may go now.
    fn admit(&mut self, place: (Identifier, u8), line: &str, now_ms: u64) -> bool {
        const WHOLE: u64 = 1_000;
        let most = LOG_LINES_AT_ONCE_MAX * WHOLE;
        let kind = self.by_place.entry(place).or_insert(Kind {
            allowance: most,
            at_ms: now_ms,
            left_out: None,
        });
        let since_ms = now_ms.saturating_sub(kind.at_ms);
        kind.at_ms = now_ms;
        let gained = since_ms.saturating_mul(LOG_LINES_PER_SECOND * WHOLE / 1_000);
        kind.allowance = kind.allowance.saturating_add(gained).min(most);
        if let Some(rest) = kind.allowance.checked_sub(WHOLE) {
            kind.allowance = rest;
            return true;
        }
        match &mut kind.left_out {
            Some((_, count)) => *count += 1,
            None => {
                let Shown { text, bytes_more } = Shown::of(line);
                let text = text.to_owned();
                kind.left_out = Some((Shown { text, bytes_more }, 1));
            }
        }
        false
    }

    /// The lines that were left out and have not been summed up, once a second.
    fn sums(&mut self, now_ms: u64) -> Vec<(Shown<String>, u64)> {
        if now_ms.saturating_sub(self.summed_ms) < SUM_EVERY_MS {
            return Vec::new();
        }
        self.summed_ms = now_ms;
        let kinds = self.by_place.values_mut();
        kinds.filter_map(|kind| kind.left_out.take()).collect()
    }
}

/// What kind of line is written.
struct Kindred {
    place: Identifier,
    /// Whether there may be too many of it. Who asks for more than the usual lines gets them all.
    is_bounded: bool,
    /// Whether it says what an operator changed.
    is_audit: bool,
}

/// Which of 256 allowances a line about a user has.
fn share_of_user(line: &str) -> u8 {
    let names = [" by=", "\"by\":"];
    let mut found = names.iter().filter_map(|name| line.split_once(name));
    let by = found.next().map_or("", |(_, rest)| rest);
    // Quotes in a name are escaped, so that the second one ends it.
    let user = by.split('"').nth(1).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    user.hash(&mut hasher);
    hasher.finish().to_le_bytes()[0]
}

/// One line that is written.
pub struct Line<'a> {
    lines: &'a Lines,
    kind: Option<Kindred>,
    to: Box<dyn Write + 'a>,
}

/// The same for a layer of the log, which keeps it, and for who sums up.
pub struct Shared(pub std::sync::Arc<Lines>);

impl<'a> MakeWriter<'a> for Shared {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        self.0.make_writer()
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        self.0.make_writer_for(metadata)
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            lines: self,
            kind: None,
            to: self.to.make_writer(),
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line {
            lines: self,
            kind: Some(Kindred {
                place: metadata.callsite(),
                is_bounded: *metadata.level() <= Level::INFO,
                is_audit: metadata.target() == audit::TARGET,
            }),
            to: self.to.make_writer_for(metadata),
        }
    }
}

impl Write for Line<'_> {
    /// Takes a whole line, as the formatters write it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let now_ms = self.lines.now_ms();
        let text = String::from_utf8_lossy(line);
        let out = self.lines.take(self.kind.as_ref(), &text, now_ms);
        if !out.is_empty() {
            self.to.write_all(out.as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, Registry};

    /// A place in the code that makes lines.
    struct TestCallsite(#[expect(dead_code, reason = "it makes two places differ")] u8);

    static CALLSITES: [TestCallsite; 2] = [TestCallsite(0), TestCallsite(1)];

    impl tracing::callsite::Callsite for TestCallsite {
        fn set_interest(&self, _interest: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("nothing is asked of it")
        }
    }

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` has logged.
    fn logged(format: LogFormat, work: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let to = written.clone();
        let lines = Lines::new(BoxMakeWriter::new(move || to.clone()), format);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(lines)
            .with_ansi(false);
        let layer = match format {
            LogFormat::Plain => layer.with_target(false).boxed(),
            LogFormat::Json => layer.json().flatten_event(true).boxed(),
        };
        tracing::subscriber::with_default(Registry::default().with(layer), work);
        let bytes = written.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        text.lines().map(str::to_owned).collect()
    }

    /// A newline, an order to a terminal, one of a single byte, text backwards, another newline.
    const HOSTILE: &str =
        "guest\n2026-01-01T00:00:00Z  INFO all is well\x1b[2J\u{9b}31m\u{202e}\r\u{2028}";

    #[test]
    fn whatever_is_logged_is_one_line_of_plain_text() {
        for format in [LogFormat::Plain, LogFormat::Json] {
            let lines = logged(format, || {
                tracing::warn!(user = HOSTILE, "login of {HOSTILE}");
                tracing::warn!(user = %HOSTILE, debug = ?HOSTILE, "shown");
            });
            assert_eq!(lines.len(), 2, "{lines:?}");
            for line in &lines {
                assert!(!line.chars().any(plain_text::is_order), "{line:?}");
                assert!(line.contains("all is well"), "{line}");
            }
            if format == LogFormat::Json {
                let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
                assert_eq!(value["user"], HOSTILE, "it says what it was");
            }
        }
    }

    #[test]
    fn a_flood_of_one_kind_is_summed_up_and_others_go_on() {
        let lines = Lines::new(BoxMakeWriter::new(io::sink), LogFormat::Plain);
        let places = [&CALLSITES[0], &CALLSITES[1]].map(|place| Kindred {
            place: Identifier(place),
            is_bounded: true,
            is_audit: false,
        });
        let most = LOG_LINES_AT_ONCE_MAX;
        let go = |kind: usize, line: &str, ms: u64| lines.take(Some(&places[kind]), line, ms);
        for number in 0..most {
            let line = format!("flood {number}\n");
            assert_eq!(go(0, &line, 100), line);
        }
        for number in most..most + 500 {
            assert_eq!(go(0, &format!("flood {number}\n"), 100), "");
        }
        assert_eq!(go(1, "another\n", 200), "another\n");
        // The sum goes before whatever is next, a second later.
        let sum = format!("flood {most} left_out=500\nanother\n");
        assert_eq!(go(1, "another\n", 1_200), sum);
        // So many more have their place by then.
        let gained = (0..200).filter(|_| !go(0, "flood\n", 2_100).is_empty());
        assert_eq!(gained.count() as u64, 2 * LOG_LINES_PER_SECOND);
    }

    #[test]
    fn who_changes_much_hides_no_line_about_what_others_change() {
        for format in [LogFormat::Plain, LogFormat::Json] {
            let change = |by: &str| crate::serve::admin::audit::note(by, "declare", "q", None);
            let most = LOG_LINES_AT_ONCE_MAX as usize;
            let lines = logged(format, || {
                (0..most + 500).for_each(|_| change("busy\" by=\"quiet"));
                (0..most).for_each(|_| change("quiet"));
            });
            let busy = lines.iter().filter(|line| line.contains("busy")).count();
            // A slow machine gives back some of the allowance meanwhile.
            assert!((most..most + 500).contains(&busy), "{busy}");
            assert_eq!(lines.len() - busy, most, "{format:?}");
        }
    }

    #[test]
    fn the_sum_of_a_flood_comes_without_another_line() {
        let lines = Lines::new(BoxMakeWriter::new(io::sink), LogFormat::Plain);
        let flood = Kindred {
            place: Identifier(&CALLSITES[0]),
            is_bounded: true,
            is_audit: false,
        };
        for _ in 0..LOG_LINES_AT_ONCE_MAX + 3 {
            lines.take(Some(&flood), "flood\n", 100);
        }
        assert_eq!(lines.summed(500), "", "it is not due yet");
        assert_eq!(lines.summed(1_200), "flood left_out=3\n");
        assert_eq!(lines.summed(3_000), "");
    }

    #[test]
    fn who_asks_for_all_lines_gets_them() {
        let count = 2 * LOG_LINES_AT_ONCE_MAX as usize;
        let lines = logged(LogFormat::Plain, || {
            (0..count).for_each(|number| tracing::debug!(number, "asked for"));
        });
        assert_eq!(lines.len(), count);
    }

    #[test]
    fn a_line_of_its_length_is_whole_and_one_byte_more_is_cut() {
        let lines = Lines::new(BoxMakeWriter::new(io::sink), LogFormat::Plain);
        let longest = "x".repeat(LOG_LINE_BYTES_MAX);
        assert_eq!(lines.take(None, &longest, 0), format!("{longest}\n"));
        let cut = lines.take(None, &format!("{longest}y"), 0);
        assert_eq!(cut, format!("{longest}... (1 bytes more)\n"));
        let lines = Lines::new(BoxMakeWriter::new(io::sink), LogFormat::Json);
        let object = serde_json::json!({"message": longest}).to_string();
        let cut = lines.take(None, &object, 0);
        assert!(
            serde_json::from_str::<serde_json::Value>(&cut).is_ok(),
            "{cut}"
        );
    }

    #[test]
    fn a_sum_says_how_many_in_the_format_of_lines_however_long_they_are() {
        for message in ["short".to_owned(), "x".repeat(LOG_LINE_BYTES_MAX)] {
            let object = serde_json::json!({"message": message}).to_string() + "\n";
            for format in [LogFormat::Plain, LogFormat::Json] {
                let lines = Lines::new(BoxMakeWriter::new(io::sink), format);
                let kind = Kindred {
                    place: Identifier(&CALLSITES[0]),
                    is_bounded: true,
                    is_audit: false,
                };
                let count = LOG_LINES_AT_ONCE_MAX + 7;
                (0..count).for_each(|_| drop(lines.take(Some(&kind), &object, 100)));
                let sum = lines.take(None, "{}\n", 2_000);
                let sum = sum.strip_suffix("{}\n").expect("the other line");
                match format {
                    LogFormat::Plain => assert!(sum.ends_with(" left_out=7\n"), "{sum}"),
                    LogFormat::Json => {
                        let sum: serde_json::Value = serde_json::from_str(sum).expect("JSON");
                        assert_eq!(sum["left_out"], 7);
                    }
                }
            }
        }
    }
}
