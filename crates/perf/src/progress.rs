//! How a run goes, in the terminal: a few lines, drawn over each second, with a small chart; where
//! nobody watches (a pipe, a log file, a dumb terminal), one plain line a second.
//!
//! Invariant: each second is one write, so that nothing flickers.
//! Invariant: between two seconds the cursor stands below what was drawn and is never hidden, so
//! that a run which is interrupted, however, leaves the terminal as it should be.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use crate::plot::Unit;
use crate::report::{Table, banner_of};
use crate::result::{Live, Percentiles, Second};
use crate::spec::Spec;

/// Seconds that the chart shows.
const CHART_SECONDS: usize = 60;
/// Loads and nodes that have a line; further ones are left out of the view, not of the result.
const LINES_MAX: usize = 12;
/// Columns where a terminal does not say how many it has.
const COLUMNS: usize = 80;
/// Blocks by eighths of a line's height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of the bar that shows how much of the run is over.
const BAR: usize = 24;

/// How the view is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Drawn over each second.
    Terminal,
    /// One line a second and load.
    Plain,
}

/// The view of a run.
pub struct Progress<W: Write> {
    out: W,
    style: Style,
    columns: fn() -> usize,
    name: String,
    /// What every picture of the run must say of its device.
    banner: Option<String>,
    /// Lines that stand above the cursor and will be drawn over.
    drawn: usize,
    /// Rates of the main load, the newest last.
    rates: VecDeque<f64>,
}

impl Progress<io::Stderr> {
    /// The view on standard error, so that standard output holds the result alone.
    #[must_use]
    pub fn stderr(spec: &Spec) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let style = if io::stderr().is_terminal() && !dumb {
            Style::Terminal
        } else {
            Style::Plain
        };
        let model = spec.broker.model.as_deref();
        let banner = model.filter(|_| spec.uris.is_empty()).map(banner_of);
        Self::new(io::stderr(), style, terminal_columns, &spec.name).with_banner(banner)
    }
}

fn terminal_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
}

impl<W: Write> Progress<W> {
    /// A view on any writer; `columns` is asked each second.
    pub fn new(out: W, style: Style, columns: fn() -> usize, name: &str) -> Self {
        Self {
            out,
            style,
            columns,
            name: printable(name),
            banner: None,
            drawn: 0,
            rates: VecDeque::new(),
        }
    }

    /// The same with a line that stands beside all figures.
    #[must_use]
    pub fn with_banner(mut self, banner: Option<String>) -> Self {
        self.banner = banner.map(|banner| printable(&banner));
        self
    }

    /// Draws a second.
    pub fn show(&mut self, live: &Live) {
        if self.rates.len() == CHART_SECONDS {
            self.rates.pop_front();
        }
        let main = live.loads.first().map(|(_, second)| second);
        self.rates.push_back(main.map_or(0.0, main_rate));
        let text = match self.style {
            Style::Terminal => self.over(&self.view(live)),
            Style::Plain => self.plain(live),
        };
        // A view that cannot be shown is no reason to end a run.
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    /// Takes the view away again, so that the result stands in its place.
    pub fn finish(mut self) {
        if self.style == Style::Terminal && self.drawn > 0 {
            let _ = write!(self.out, "\x1b[{}A\r\x1b[J", self.drawn);
            let _ = self.out.flush();
        }
    }

    /// The lines, written over those of the second before; each is cut to the terminal's width, as
    /// a line that wraps would be two.
    fn over(&mut self, lines: &[String]) -> String {
        let columns = (self.columns)().max(1);
        let mut text = String::new();
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A\r", self.drawn);
        }
        for line in lines {
            let cut: String = line.chars().take(columns.saturating_sub(1)).collect();
            let _ = writeln!(text, "{}\x1b[K", cut.trim_end());
        }
        // What is left of a longer view.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        text
    }

    fn view(&self, live: &Live) -> Vec<String> {
        let mut lines: Vec<String> = self.banner.iter().cloned().collect();
        lines.push(self.head(live));
        lines.extend(loads(live).text().lines().map(str::to_owned));
        if !live.nodes.is_empty() {
            lines.extend(nodes(live).text().lines().map(str::to_owned));
        }
        lines.push(self.chart());
        lines
    }

    fn head(&self, live: &Live) -> String {
        let mut line = format!("{}  {}", self.name, clock(live.at_s));
        if let Some(all) = live.expected_s.filter(|all| *all > 0.0) {
            let share = (live.at_s / all).clamp(0.0, 1.0);
            let full = (share * BAR as f64).round() as usize;
            let (done, left) = ("━".repeat(full), "╌".repeat(BAR - full));
            let _ = write!(line, " / {}  {done}{left}", clock(all));
        }
        let _ = write!(line, "  {}", printable(&live.phase));
        line
    }

    /// One line a load: everything by its name, for who searches it later.
    fn plain(&self, live: &Live) -> String {
        let mut text = String::new();
        let banner = self.banner.iter().map(|banner| format!(", {banner}"));
        let banner: String = banner.collect();
        for (name, second) in live.loads.iter().take(LINES_MAX) {
            let broke = match second.broken {
                0 => String::new(),
                broken => format!(", {broken} connections broke"),
            };
            let _ = writeln!(
                text,
                "{} {} {}: published {:.0}/s, confirmed {:.0}/s, consumed {:.0}/s, backlog {}, \
                 confirm p50 {} p99 {}, end-to-end p50 {} p99 {}{broke}{banner}",
                clock(live.at_s),
                printable(&live.phase),
                printable(name),
                second.publish_rate(),
                second.confirm_rate(),
                second.consume_rate(),
                second.backlog,
                time(second.confirm, |of| of.p50_us),
                time(second.confirm, |of| of.p99_us),
                time(second.end_to_end, |of| of.p50_us),
                time(second.end_to_end, |of| of.p99_us),
            );
        }
        text
    }

    /// The last minute's rates, lowest to highest from zero.
    fn chart(&self) -> String {
        let highest = self.rates.iter().copied().fold(0.0, f64::max);
        let block = |rate: &f64| {
            let eighth = (rate / highest.max(f64::MIN_POSITIVE) * BLOCKS.len() as f64).ceil();
            BLOCKS[(eighth as usize).clamp(1, BLOCKS.len()) - 1]
        };
        let line: String = self.rates.iter().map(block).collect();
        format!("{line}  up to {}", Unit::MessagesPerSecond.write(highest))
    }
}

/// What the main load is about: what arrives, or else what is sent.
fn main_rate(second: &Second) -> f64 {
    second.consume_rate().max(if second.consumed == 0 {
        second.publish_rate()
    } else {
        0.0
    })
}

fn loads(live: &Live) -> Table {
    let mut table = Table::new(&[
        "",
        "published",
        "confirmed",
        "consumed",
        "backlog",
        "confirm p50",
        "p99",
        "end-to-end p50",
        "p99",
    ]);
    for (name, second) in live.loads.iter().take(LINES_MAX) {
        let rate = |rate: f64| Unit::MessagesPerSecond.write(rate);
        table.row([
            printable(name),
            rate(second.publish_rate()),
            rate(second.confirm_rate()),
            rate(second.consume_rate()),
            Unit::Count.write(second.backlog as f64),
            time(second.confirm, |of| of.p50_us),
            time(second.confirm, |of| of.p99_us),
            time(second.end_to_end, |of| of.p50_us),
            time(second.end_to_end, |of| of.p99_us),
        ]);
    }
    table
}

fn nodes(live: &Live) -> Table {
    let mut table = Table::new(&["", "cores", "memory", "written", "syncs", "mean sync"]);
    for (name, node) in live.nodes.iter().take(LINES_MAX) {
        table.row([
            printable(name),
            Unit::Cores.write(node.cpu_cores),
            Unit::Bytes.write(node.rss_bytes as f64),
            Unit::BytesPerSecond.write(node.disk_written_bytes_per_s),
            node.fsyncs_per_s.map_or(String::new(), |syncs| {
                format!("{}/s", Unit::PerSecond.write(syncs))
            }),
            node.fsync_mean_us
                .map_or(String::new(), |mean| Unit::Micros.write(mean)),
        ]);
    }
    table
}

fn time(of: Option<Percentiles>, read: fn(&Percentiles) -> u64) -> String {
    let of = of.filter(|of| of.count > 0);
    of.map_or("–".to_owned(), |of| Unit::Micros.write(read(&of) as f64))
}

/// Minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    format!("{:02}:{:02}", whole / 60, whole % 60)
}

/// A name without what a terminal would obey.
fn printable(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::NodeSecond;

    fn live(at_s: f64, consumed: u64) -> Live {
        let latency = Percentiles {
            count: 5,
            p50_us: 1_200,
            p99_us: 4_500,
            ..Percentiles::default()
        };
        let second = Second {
            at_s,
            length_s: 1.0,
            published: consumed,
            consumed,
            confirm: Some(latency),
            ..Second::default()
        };
        Live {
            at_s,
            expected_s: Some(60.0),
            phase: "run".to_owned(),
            loads: vec![("quorum\x1b[2J".to_owned(), second)],
            nodes: vec![(
                "node-1".to_owned(),
                NodeSecond {
                    cpu_cores: 0.5,
                    ..NodeSecond::default()
                },
            )],
        }
    }

    fn shown(style: Style, columns: fn() -> usize, seconds: &[Live]) -> String {
        let mut out = Vec::new();
        let mut view = Progress::new(&mut out, style, columns, "quorum-1");
        for second in seconds {
            view.show(second);
        }
        view.finish();
        String::from_utf8(out).unwrap()
    }

    /// What a terminal shows after these octets: just enough of one for what the view uses.
    fn screen(text: &str) -> Vec<String> {
        let (mut lines, mut row) = (vec![String::new()], 0usize);
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(escape) = rest.strip_prefix("\x1b[") {
                let end = escape
                    .find(|letter: char| letter.is_ascii_alphabetic())
                    .unwrap();
                let count = escape[..end].parse().unwrap_or(1);
                match &escape[end..=end] {
                    "A" => row = row.checked_sub(count).expect("above the top"),
                    "K" => {}
                    "J" => lines.truncate(row + 1),
                    other => panic!("an escape that is not expected: {other}"),
                }
                rest = &escape[end + 1..];
                continue;
            }
            rest = &rest[letter.len_utf8()..];
            match letter {
                '\n' => {
                    row += 1;
                    if row == lines.len() {
                        lines.push(String::new());
                    }
                    lines[row].clear();
                }
                '\r' => lines[row].clear(),
                letter => lines[row].push(letter),
            }
        }
        lines
    }

    #[test]
    fn seconds_are_drawn_over_each_other_and_taken_away_at_the_end() {
        let mut out = Vec::new();
        let mut view = Progress::new(&mut out, Style::Terminal, || 200, "quorum-1");
        view.show(&live(1.0, 100));
        view.show(&live(2.0, 200));
        drop(view);
        let lines = screen(std::str::from_utf8(&out).unwrap());
        assert_eq!(
            lines[0],
            format!("quorum-1  00:02 / 01:00  ━{}  run", "╌".repeat(23))
        );
        assert!(
            lines[2].starts_with("quorum[2J") && lines[2].contains("200/s"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("1.2 ms") && lines[2].contains("4.5 ms"),
            "{lines:?}"
        );
        assert_eq!(lines[5], "▄█  up to 200/s");
        assert_eq!(lines[6..], [""], "the cursor stands below");
        let after = shown(Style::Terminal, || 200, &[live(1.0, 100), live(2.0, 200)]);
        assert_eq!(screen(&after), [""]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [|| 0usize, || 1, || 20, || 80] {
            let text = shown(Style::Terminal, columns, &[live(1.0, 100)]);
            let drawn = text.rsplit_once("\x1b[6A").unwrap().0;
            let widest = screen(drawn)
                .iter()
                .map(|line| line.chars().count())
                .max()
                .unwrap();
            assert!(widest < columns().max(1), "{widest} of {}", columns());
        }
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        let text = shown(Style::Plain, || 80, &[live(1.0, 100), live(61.0, 200)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[1].starts_with("01:01 run quorum[2J: published 200/s"),
            "{text}"
        );
        assert!(!text.contains('\x1b') && !text.contains('\r'));
    }

    #[test]
    fn a_modelled_device_is_named_beside_every_figure() {
        let banner = banner_of("hdd:2");
        assert_eq!(banner, "MODELLED DEVICE, NOT A REAL ONE: HDD ×2");
        for style in [Style::Terminal, Style::Plain] {
            let mut out = Vec::new();
            let view = Progress::new(&mut out, style, || 200, "quorum-1");
            let mut view = view.with_banner(Some(banner.clone()));
            view.show(&live(1.0, 100));
            view.show(&live(2.0, 100));
            drop(view);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.matches(&banner).count(), 2, "{text}");
        }
    }

    #[test]
    fn the_chart_keeps_a_minute() {
        let seconds: Vec<Live> = (0..200).map(|at| live(f64::from(at), 100)).collect();
        let text = shown(Style::Terminal, || 200, &seconds);
        let longest = text.lines().map(|line| line.matches('█').count()).max();
        assert_eq!(longest, Some(CHART_SECONDS));
    }
}
