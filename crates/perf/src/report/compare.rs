//! Several runs side by side.

use super::figures::{axis, curve_lines, curve_points};
use super::{Table, label, setups};
use crate::plot::{BarSeries, Bars, Body, Figure, Ink, Lines, Scale, Series, Unit};
use crate::result::{Latency, LoadResult, RunResult};

/// A figure of a run by which runs are compared.
struct Quantity {
    name: &'static str,
    unit: Unit,
    of: fn(&RunResult) -> Option<f64>,
}

/// Greater is better, for rates; less is, for the rest.
const QUANTITIES: [Quantity; 8] = [
    Quantity {
        name: "published",
        unit: Unit::MessagesPerSecond,
        of: |run| some(run.main_load().totals.publish_rate),
    },
    Quantity {
        name: "confirmed",
        unit: Unit::MessagesPerSecond,
        of: |run| some(run.main_load().totals.confirm_rate),
    },
    Quantity {
        name: "consumed",
        unit: Unit::MessagesPerSecond,
        of: |run| some(run.main_load().totals.consume_rate),
    },
    Quantity {
        name: "confirm p50",
        unit: Unit::Micros,
        of: |run| micros(&run.main_load().confirm, 50.0),
    },
    Quantity {
        name: "confirm p99",
        unit: Unit::Micros,
        of: |run| micros(&run.main_load().confirm, 99.0),
    },
    Quantity {
        name: "end-to-end p50",
        unit: Unit::Micros,
        of: |run| micros(&run.main_load().end_to_end, 50.0),
    },
    Quantity {
        name: "end-to-end p99",
        unit: Unit::Micros,
        of: |run| micros(&run.main_load().end_to_end, 99.0),
    },
    Quantity {
        name: "broker CPU s/million",
        unit: Unit::Cores,
        of: cpu_per_million,
    },
];

fn some(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

fn micros(latency: &Option<Latency>, percent: f64) -> Option<f64> {
    let of = latency.as_ref()?.percentiles;
    some(if percent > 50.0 { of.p99_us } else { of.p50_us } as f64)
}

fn cpu_per_million(run: &RunResult) -> Option<f64> {
    let totals = run.loads.iter().map(|load| &load.totals);
    let messages: u64 = totals
        .map(|totals| totals.published.max(totals.consumed))
        .sum();
    let cpu: f64 = run.nodes.iter().map(|node| node.cpu_s).sum();
    some(cpu * 1e6 / messages.max(1) as f64)
}

/// Groups that stand side by side; more stand below each other.
const BESIDE_MAX: usize = 4;

/// Each run's figures as parts of the first's. Runs of one label are alternating rounds of one
/// thing and stand together, by their median.
pub(super) fn ratios(runs: &[RunResult]) -> Table {
    let groups = rounds(runs);
    if groups.len() > BESIDE_MAX {
        return ratios_below(&groups);
    }
    let mut head = vec!["figure".to_owned()];
    for (at, group) in groups.iter().enumerate() {
        head.push(group.title());
        head.extend((at > 0).then(|| "ratio".to_owned()));
    }
    let mut table = Table {
        head,
        rows: Vec::new(),
    };
    for quantity in &QUANTITIES {
        let values: Vec<Option<f64>> = groups.iter().map(|group| group.median(quantity)).collect();
        let mut row = vec![quantity.name.to_owned()];
        for (at, &value) in values.iter().enumerate() {
            row.push(value.map_or("–".to_owned(), |value| quantity.unit.write(value)));
            row.extend((at > 0).then(|| ratio(value, &values)));
        }
        if values.iter().any(Option::is_some) {
            table.row(row);
        }
    }
    table
}

/// One row a group, ratios alone.
fn ratios_below(groups: &[Rounds]) -> Table {
    let mut table = Table {
        head: vec!["run".to_owned()],
        rows: Vec::new(),
    };
    table
        .head
        .extend(QUANTITIES.iter().map(|quantity| quantity.name.to_owned()));
    for group in groups {
        let ratios = QUANTITIES.iter().map(|quantity| {
            let first = groups.first().and_then(|first| first.median(quantity));
            ratio(group.median(quantity), &[first])
        });
        table.row([group.title()].into_iter().chain(ratios));
    }
    table.without_empty_columns()
}

/// A value as part of the first of some.
fn ratio(value: Option<f64>, of: &[Option<f64>]) -> String {
    let first = of.first().copied().flatten();
    let ratio = value
        .zip(first)
        .map(|(value, first)| format!("{:.2}×", value / first));
    ratio.unwrap_or_else(|| "–".to_owned())
}

/// Rounds of one thing.
struct Rounds<'a> {
    name: String,
    runs: Vec<&'a RunResult>,
}

impl Rounds<'_> {
    fn title(&self) -> String {
        match self.runs.len() {
            1 => self.name.clone(),
            count => format!("{} (median of {count})", self.name),
        }
    }

    fn median(&self, quantity: &Quantity) -> Option<f64> {
        let mut values: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| (quantity.of)(run))
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied()
    }
}

/// Runs by what tells them apart, in the order of their first.
fn rounds(runs: &[RunResult]) -> Vec<Rounds<'_>> {
    let all: Vec<&RunResult> = runs.iter().collect();
    let mut groups: Vec<Rounds> = Vec::new();
    for (label, run) in label::labels(&all).into_iter().zip(all) {
        let name = label.split(" #").next().unwrap_or_default().to_owned();
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.runs.push(run),
            None => groups.push(Rounds {
                name,
                runs: vec![run],
            }),
        }
    }
    groups
}

/// What a terminal shows of several runs: each in a line, then ratios to the first.
#[must_use]
pub fn comparison(runs: &[RunResult]) -> String {
    let all: Vec<&RunResult> = runs.iter().collect();
    let banner =
        label::banner(&all).map_or(String::new(), |banner| format!("*** {banner} ***\n\n"));
    let failures = runs
        .iter()
        .zip(label::labels(&all))
        .filter_map(|(run, name)| Some(format!("CHECKS FAILED in {name}: {}\n", run.failure()?)));
    format!(
        "{banner}{}\n{}{}",
        super::summary_table(runs).text(),
        ratios(runs).text(),
        failures.collect::<String>()
    )
}

/// Runs whose bars stand in one row even where they can be grouped.
const ROW_MAX: usize = 8;

/// The pictures that compare.
pub(super) fn figures(runs: &[RunResult]) -> Vec<Figure> {
    let grouped = setups::by_experiment(runs);
    // What stands in groups already need not stand in a row as well.
    let few = runs.len() <= ROW_MAX || grouped.is_empty();
    let rows = [
        bars(runs, "rates", "Throughput", Scale::Linear, &[0, 1, 2]),
        bars(runs, "latencies", "Latency", Scale::Log, &[3, 4, 5, 6]),
    ];
    let mut figures = grouped;
    figures.extend(setups::beside_documents(runs));
    figures.extend(few.then_some(rows).into_iter().flatten());
    figures.extend([
        over_time(runs, "consumed", "Consumed over time"),
        curves(runs, "confirm", |load| &load.confirm),
        curves(runs, "end-to-end", |load| &load.end_to_end),
        bars(
            runs,
            "cpu",
            "Broker CPU seconds per million messages",
            Scale::Linear,
            &[7],
        ),
    ]);
    figures.retain(|figure| !figure.is_empty());
    figures
}

pub(super) fn figure(
    runs: &[RunResult],
    name: &str,
    title: &str,
    subtitle: &str,
    body: Body,
) -> Figure {
    let all: Vec<&RunResult> = runs.iter().collect();
    Figure {
        name: format!("compare-{name}"),
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        banner: label::banner(&all),
        body,
    }
}

fn bars(runs: &[RunResult], name: &str, title: &str, scale: Scale, which: &[usize]) -> Figure {
    let all: Vec<&RunResult> = runs.iter().collect();
    let quantities = which
        .iter()
        .filter_map(|&at| Some((at, QUANTITIES.get(at)?)));
    let series = quantities.map(|(at, quantity)| BarSeries {
        name: quantity.name.to_owned(),
        ink: Ink::Category(at - which.first().unwrap_or(&0)),
        values: runs.iter().map(|run| (quantity.of)(run)).collect(),
    });
    let series: Vec<BarSeries> = series
        .filter(|one| one.values.iter().any(Option::is_some))
        .collect();
    let unit = which
        .first()
        .and_then(|&at| QUANTITIES.get(at))
        .map_or(Unit::Count, |of| of.unit);
    let subtitle = match (unit, scale) {
        (Unit::MessagesPerSecond, _) => "messages per second",
        (_, Scale::Log) => "log scale",
        _ => "user and system",
    };
    let body = Bars {
        y: axis("", scale, unit),
        groups: label::labels(&all),
        series,
    };
    figure(runs, name, title, subtitle, Body::Bars(body))
}

fn over_time(runs: &[RunResult], name: &str, title: &str) -> Figure {
    let all: Vec<&RunResult> = runs.iter().collect();
    let line = |(at, (label, run)): (usize, (String, &RunResult))| {
        let seconds = run
            .main_load()
            .seconds
            .iter()
            .filter(|second| second.length_s >= 0.5);
        let points = seconds.map(|second| (second.at_s, second.consume_rate()));
        Series {
            name: label,
            ink: Ink::Category(at),
            points: points.collect(),
        }
    };
    let labelled = label::labels(&all).into_iter().zip(runs);
    let body = Lines {
        x: axis("seconds", Scale::Time, Unit::Seconds),
        y: axis("", Scale::Linear, Unit::MessagesPerSecond),
        series: labelled.enumerate().map(line).collect(),
        spans: Vec::new(),
    };
    figure(
        runs,
        name,
        title,
        "messages per second, warm-up included",
        Body::Lines(body),
    )
}

fn curves(runs: &[RunResult], what: &str, of: fn(&LoadResult) -> &Option<Latency>) -> Figure {
    let all: Vec<&RunResult> = runs.iter().collect();
    let labelled = label::labels(&all).into_iter().zip(runs).enumerate();
    let series = labelled.filter_map(|(at, (label, run))| {
        let points = curve_points(of(run.main_load()).as_ref()?);
        Some(Series {
            name: label,
            ink: Ink::Category(at),
            points,
        })
    });
    let title = match what {
        "confirm" => "Confirm latency by percentile",
        _ => "End-to-end latency by percentile",
    };
    let body = Body::Lines(curve_lines(series.collect()));
    figure(
        runs,
        &format!("{what}-percentiles"),
        title,
        "over the measured time",
        body,
    )
}
