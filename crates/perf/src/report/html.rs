//! The page.

use std::fmt::Write as _;

use super::{compare, figures, label, tables};
use crate::plot::{Figure, Paint, Unit, escaped, style_sheet};
use crate::result::RunResult;
use crate::verdict::verdict;

/// Rows of the table of seconds; a longer run's seconds are in its CSV file.
const SECONDS_MAX: usize = 600;
const STYLE: &str = include_str!("page.css");

/// A run's page.
pub fn of_run(run: &RunResult) -> String {
    let mut page = Page::new(&run.name, label::banner(&[run]));
    page.heading(run);
    page.body_of(run);
    page.finish()
}

/// A page that compares runs, each with its own part further down.
pub fn of_runs(runs: &[RunResult]) -> String {
    let all: Vec<&RunResult> = runs.iter().collect();
    let title = format!("{} runs compared", runs.len());
    let mut page = Page::new(&title, label::banner(&all));
    page.push(&format!("<h1>{}</h1>", escaped(&title)));
    page.push(&super::summary_table(runs).html());
    page.push("<h2>Ratios to the first</h2>");
    page.push(&compare::ratios(runs).html());
    page.figures(&compare::figures(runs));
    for (name, run) in label::labels(&all).iter().zip(runs) {
        page.push(&format!(
            "<details class=\"run\"><summary>{}</summary>",
            escaped(name)
        ));
        if let Some(banner) = label::banner(&[run]) {
            page.push(&format!("<p class=\"banner\">{}</p>", escaped(&banner)));
        }
        page.body_of(run);
        page.push("</details>");
    }
    page.finish()
}

/// A page of other figures and tables, in the same dress.
pub fn of_parts(
    title: &str,
    lead: &str,
    tables: &[(String, super::Table)],
    figures: &[Figure],
) -> String {
    let mut page = Page::new(title, None);
    page.push(&format!(
        "<h1>{}</h1><p class=\"lead\">{}</p>",
        escaped(title),
        escaped(lead)
    ));
    page.figures(figures);
    for (name, table) in tables {
        page.push(&format!("<h2>{}</h2>{}", escaped(name), table.html()));
    }
    page.finish()
}

struct Page(String);

impl Page {
    fn new(title: &str, banner: Option<String>) -> Self {
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{} · leveret perf</title><style>\n{}{STYLE}</style></head><body><main>\
             <p class=\"brand\">leveret perf</p>",
            escaped(title),
            style_sheet()
        );
        if let Some(banner) = banner {
            let _ = write!(
                text,
                "<p class=\"banner\" role=\"alert\">{}</p>",
                escaped(&banner)
            );
        }
        Self(text)
    }

    fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn finish(mut self) -> String {
        self.push("</main></body></html>\n");
        self.0
    }

    fn heading(&mut self, run: &RunResult) {
        self.push(&format!("<h1>{}</h1>", escaped(&run.name)));
        if !run.spec.about.is_empty() {
            self.push(&format!(
                "<p class=\"lead\">{}</p>",
                escaped(&run.spec.about)
            ));
        }
    }

    fn body_of(&mut self, run: &RunResult) {
        self.checks_line(run);
        self.tiles(run);
        self.verdict(run);
        for note in &run.notes {
            self.push(&format!("<p class=\"note\">{}</p>", escaped(note)));
        }
        self.figures(&figures::of_run(run));
        self.tables(run);
        self.circumstances(run);
    }

    fn checks_line(&mut self, run: &RunResult) {
        match run.failure() {
            Some(failure) => {
                let failure = escaped(&failure);
                self.push(&format!(
                    "<p class=\"failed\"><b>Checks failed.</b> {failure}</p>"
                ));
            }
            None => self.push(&format!(
                "<p class=\"passed\">Checked: {}.</p>",
                tables::passed(run)
            )),
        }
    }

    /// The few figures that a reader looks for first.
    fn tiles(&mut self, run: &RunResult) {
        let load = run.main_load();
        let totals = &load.totals;
        let mut tiles: Vec<(&str, String, String)> = Vec::new();
        let rates = [
            ("published", totals.publish_rate),
            ("confirmed", totals.confirm_rate),
            ("consumed", totals.consume_rate),
        ];
        for (name, rate) in rates.into_iter().filter(|(_, rate)| *rate > 0.0) {
            tiles.push((name, Unit::MessagesPerSecond.write(rate), String::new()));
        }
        for (name, latency) in [
            ("confirm latency", &load.confirm),
            ("end-to-end latency", &load.end_to_end),
        ] {
            let Some(of) = latency.as_ref().map(|latency| latency.percentiles) else {
                continue;
            };
            let time = |us: u64| Unit::Micros.write(us as f64);
            let tail = format!("p99 {} · p99.9 {}", time(of.p99_us), time(of.p99_9_us));
            tiles.push((name, time(of.p50_us), format!("median · {tail}")));
        }
        self.push("<div class=\"tiles\">");
        for (name, value, more) in tiles {
            let (name, value, more) = (escaped(name), escaped(&value), escaped(&more));
            self.push(&format!(
                "<div class=\"tile\"><span>{name}</span><strong>{value}</strong>\
                 <small>{more}</small></div>"
            ));
        }
        self.push("</div>");
    }

    fn verdict(&mut self, run: &RunResult) {
        let verdict = verdict(run);
        self.push(&format!(
            "<div class=\"verdict\"><h2>What limited the run</h2><p>{}</p>\
             <p><b>What would help.</b> {}</p></div>",
            with_code(&verdict.found),
            with_code(&verdict.helps)
        ));
    }

    fn figures(&mut self, figures: &[Figure]) {
        self.push("<div class=\"figures\">");
        for figure in figures {
            self.push(&format!("<figure>{}</figure>", figure.svg(Paint::Page)));
        }
        self.push("</div>");
    }

    fn tables(&mut self, run: &RunResult) {
        let mut section = |title: &str, table: super::Table| {
            if !table.rows.is_empty() {
                self.push(&format!("<h2>{title}</h2>{}", table.html()));
            }
        };
        section("Rates", tables::rates(run));
        section("Latencies", tables::latencies(run));
        if let Some(table) = tables::prediction(run) {
            section("What the drive promised", table);
        }
        section("Checks", tables::checks(run));
        section("Broken connections", tables::breaks(run));
        section("Resources", tables::nodes(run));
        if let Some(prediction) = &run.prediction {
            self.push(&format!(
                "<p class=\"note\">{}</p>",
                escaped(&prediction.reasoning)
            ));
        }
        self.seconds(run);
    }

    fn seconds(&mut self, run: &RunResult) {
        for load in &run.loads {
            let mut table = super::Table::new(&[
                "second",
                "published",
                "confirmed",
                "consumed",
                "backlog",
                "confirm p99",
                "end-to-end p99",
            ]);
            let time = |of: &Option<crate::result::Percentiles>| {
                of.map_or(String::new(), |of| Unit::Micros.write(of.p99_us as f64))
            };
            for second in load.seconds.iter().take(SECONDS_MAX) {
                table.row([
                    format!("{:.1}", second.at_s),
                    format!("{:.0}", second.publish_rate()),
                    format!("{:.0}", second.confirm_rate()),
                    format!("{:.0}", second.consume_rate()),
                    second.backlog.to_string(),
                    time(&second.confirm),
                    time(&second.end_to_end),
                ]);
            }
            let name = escaped(&load.name);
            self.push(&format!(
                "<details><summary>Each second of load “{name}”</summary>"
            ));
            self.push(&table.html());
            if load.seconds.len() > SECONDS_MAX {
                self.push("<p class=\"note\">The rest is in the CSV files.</p>");
            }
            self.push("</details>");
        }
    }

    fn circumstances(&mut self, run: &RunResult) {
        let machine = &run.machine;
        let broker = format!("{} {}", run.target.product, run.target.version);
        let started = if run.target.started_here {
            ", started by this run"
        } else {
            ""
        };
        let rows = [
            (
                "Broker",
                format!("{broker}{started}: {}", run.target.uris.join(", ")),
            ),
            (
                "Machine",
                format!(
                    "{}, {} cores, {} memory, {}",
                    machine.cpu,
                    machine.cores,
                    Unit::Bytes.write(machine.memory_bytes as f64),
                    machine.kernel
                ),
            ),
            (
                "Device",
                match &run.modelled_device {
                    Some(model) => format!("MODELLED: {model}"),
                    None => match tables::places(run) {
                        Some(places) => format!("as it is: {places}"),
                        None => "as it is".to_owned(),
                    },
                },
            ),
            ("Began", utc(run.started_unix_s)),
        ];
        self.push("<h2>Circumstances</h2><dl>");
        for (name, value) in rows {
            self.push(&format!("<dt>{name}</dt><dd>{}</dd>", escaped(&value)));
        }
        self.push("</dl>");
        self.push(&format!(
            "<pre><code>{}</code></pre>",
            escaped(&run.command)
        ));
    }
}

/// Text for a page: what stands between back quotes is code.
fn with_code(text: &str) -> String {
    let mut safe = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escaped(part);
        let _ = match at % 2 {
            0 => write!(safe, "{part}"),
            _ => write!(safe, "<code>{part}</code>"),
        };
    }
    safe
}

/// A time as `2026-03-04 05:06:07 UTC`, by the civil calendar's arithmetic (Hinnant,
/// `civil_from_days`).
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, text) in cases {
            assert_eq!(utc(seconds), text);
        }
    }
}
