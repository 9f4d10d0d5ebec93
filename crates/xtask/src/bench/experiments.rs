//! The documents' experiments by `leveret perf`, as `docs/experiments` shows them: what is asked of
//! which drive and cluster is data here, the text around the tables is written by hand.

mod numbers;
mod plan;

use super::report::{Measured, Options, page_of, write_into_page};
use crate::broker::leveret_binary;
use crate::numbers::{median, table};
use crate::run;
use anyhow::{Context, Result, bail};
use numbers::{figure, milliseconds, rate, short, sum};
use plan::{CLUSTER, COMPARISONS, Comparison, GRIDS, Grid, On, ROUNDS, WHOLE, Whole};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs what is asked for, short (`--fast`) or at a quarter of an hour's presets' own length.
pub fn run(options: &Options) -> Result<Measured> {
    let asked = COMPARISONS.iter().filter(|c| options.wants(c.part)).count();
    if options.write && (1..COMPARISONS.len()).contains(&asked) {
        bail!("the page has one table for all rounds: --write wants --part rounds or more");
    }
    let pages = run::root().join("docs/experiments");
    if options.write {
        parts(options).try_for_each(|part| page_of(&pages, part).map(drop))?;
    }
    let mut runner = Runner {
        folder: run::target_folder("experiments")?,
        fast: options.fast,
        records: Vec::new(),
    };
    let mut sections = Vec::new();
    for grid in GRIDS.iter().filter(|grid| options.wants(grid.part)) {
        sections.push((grid.part, runner.grid(grid)?));
    }
    if options.wants("cluster") {
        sections.push(("cluster", runner.cluster()?));
    }
    if options.wants("fanout-backlog") {
        sections.push(("fanout-backlog", runner.backlog()?));
    }
    for whole in WHOLE.iter().filter(|whole| options.names(whole.part)) {
        sections.push((whole.part, runner.whole(whole)?));
    }
    let asked = COMPARISONS.iter().filter(|c| options.wants(c.part));
    let mut rows = Vec::new();
    for comparison in asked {
        rows.extend(runner.compare(comparison)?);
    }
    if !rows.is_empty() {
        let head = [
            "", "figure", "round 1", "round 2", "round 3", "median", "ratio",
        ];
        sections.push(("rounds", table(&head, &rows)));
    }
    if options.write {
        for (part, text) in &sections {
            write_into_page(&pages, part, text)?;
            runner.publish_pictures(&pages.join("figures"), part)?;
        }
    }
    let text: Vec<String> = sections
        .iter()
        .map(|(part, text)| format!("{part}\n\n{text}"))
        .collect();
    Ok(Measured {
        text: text.join("\n"),
        json: json!({ "fast": options.fast, "runs": runner.records }),
    })
}

/// What is asked for, by the names of its tables.
fn parts(options: &Options) -> impl Iterator<Item = &'static str> {
    let grids = GRIDS.iter().map(|grid| grid.part);
    let others = grids.chain(["cluster", "fanout-backlog"]);
    let others = others.filter(move |part| options.wants(part));
    let whole = WHOLE.iter().map(|whole| whole.part);
    let whole = whole.filter(move |part| options.names(part));
    let compares = COMPARISONS.iter().any(|c| options.wants(c.part));
    others.chain(whole).chain(compares.then_some("rounds"))
}

struct Runner {
    folder: PathBuf,
    fast: bool,
    records: Vec<Value>,
}

impl Runner {
    fn grid(&mut self, grid: &Grid) -> Result<String> {
        let mut rows = Vec::new();
        let mut files = Vec::new();
        for preset in grid.presets {
            let mut results = Vec::new();
            for on in grid.drives {
                let (file, result) = self.run(grid.part, preset, *on, 1)?;
                files.push(file);
                results.push(result);
            }
            for figure in grid.figures {
                let mut row = vec![format!("{preset}, {}", figure.title)];
                row.extend(results.iter().map(figure.read));
                rows.push(row);
                let document = grid
                    .document
                    .iter()
                    .find(|(of, title, _)| of == preset && *title == figure.title);
                if let Some((.., cells)) = document {
                    let mut row = vec!["\u{2014} the document".to_owned()];
                    row.extend(cells.iter().map(|&cell| cell.to_owned()));
                    row.resize(grid.drives.len() + 1, String::new());
                    rows.push(row);
                }
            }
        }
        self.pictures(grid.part, &files)?;
        let titles: Vec<String> = grid.drives.iter().map(|on| on.title()).collect();
        let mut head = vec![""];
        head.extend(titles.iter().map(String::as_str));
        Ok(table(&head, &rows))
    }

    fn cluster(&mut self) -> Result<String> {
        let (mut rows, mut files) = (Vec::new(), Vec::new());
        for (preset, document) in CLUSTER {
            let (file, run) = self.run("cluster", preset, On::RealDrive, 1)?;
            files.push(file);
            let cpu = sum(&run["nodes"], "cpu_s");
            let consumed = figure(&run, "/loads/0/totals/consumed");
            rows.push(vec![
                (*preset).to_owned(),
                short(rate(&run, "publish_rate")),
                short(rate(&run, "consume_rate")),
                (*document).to_owned(),
                milliseconds(&run, "confirm", "p50_us"),
                milliseconds(&run, "end_to_end", "p99_us"),
                short(cpu / consumed.max(1.0) * 1e6),
            ]);
        }
        self.pictures("cluster", &files)?;
        let head = [
            "",
            "published/s",
            "consumed/s",
            "document, consumed/s",
            "confirm p50",
            "end-to-end p99",
            "CPU s/million, all nodes",
        ];
        Ok(table(&head, &rows))
    }

    fn backlog(&mut self) -> Result<String> {
        let (file, run) = self.run("fanout-backlog", "fanout-backlog", On::RealDrive, 1)?;
        self.pictures("fanout-backlog", &[file])?;
        let seconds = run["loads"][0]["seconds"].as_array();
        let usage = run["nodes"][0]["seconds"].as_array();
        let (seconds, usage) = seconds.zip(usage).context("the run has no seconds")?;
        let phases = run["phases"].as_array().context("the run has no phases")?;
        let lasts = |phase: &&Value| {
            let end = |key: &str| phase[key].as_f64().unwrap_or_default();
            end("to_s") - end("from_s") >= 0.5
        };
        let rows = phases.iter().filter(lasts).map(|phase| {
            let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
            let (from, to) = (number(phase, "from_s"), number(phase, "to_s"));
            let within = |second: &&Value| (from..=to).contains(&number(second, "at_s"));
            let here: Vec<&Value> = seconds.iter().filter(within).collect();
            let count = |key| here.iter().map(|s| number(s, key)).sum::<f64>();
            let used: Vec<&Value> = usage.iter().filter(within).collect();
            let most = used.iter().map(|s| number(s, "rss_bytes"));
            let cores: Vec<f64> = used.iter().map(|s| number(s, "cpu_cores")).collect();
            let at_end = here.last().map_or(0.0, |s| number(s, "backlog"));
            let cpu_s = cores.iter().sum::<f64>() / cores.len().max(1) as f64 * (to - from);
            vec![
                phase["name"].as_str().unwrap_or_default().to_owned(),
                format!("{:.0} s", to - from),
                short(count("published") / (to - from)),
                short(count("consumed") / (to - from)),
                short(at_end),
                format!("{:.1} MB", most.fold(0.0, f64::max) / 1e6),
                format!("{:.2}", cpu_s / (to - from)),
                match count("consumed") {
                    // Nobody consumes, or hardly.
                    consumed if consumed < 10.0 * (to - from) => "\u{2013}".to_owned(),
                    consumed => format!("{:.0} µs", cpu_s / consumed * 1e6),
                },
            ]
        });
        let head = [
            "phase",
            "time",
            "published/s",
            "consumed/s",
            "backlog at its end",
            "most memory",
            "cores",
            "CPU for each delivery",
        ];
        Ok(table(&head, &rows.collect::<Vec<_>>()))
    }

    /// Each preset of a scenario once; what a message costs, and what the worst of a thousand
    /// waits.
    fn whole(&mut self, whole: &Whole) -> Result<String> {
        let (mut rows, mut files) = (Vec::new(), Vec::new());
        for preset in whole.presets {
            let (file, run) = self.run(whole.part, preset, On::RealDrive, 1)?;
            files.push(file);
            let totals = |which: &str| figure(&run, &format!("/loads/0/totals/{which}"));
            // What nobody consumes is counted where it is published.
            let messages = totals("consumed").max(totals("published"));
            let nodes = run["nodes"].as_array().into_iter().flatten();
            let memory = nodes.filter_map(|node| node["rss_bytes_max"].as_f64());
            rows.push(vec![
                (*preset).to_owned(),
                short(totals("measured_s")),
                short(messages),
                short(totals("publish_rate")),
                short(totals("consume_rate")),
                milliseconds(&run, "confirm", "p50_us"),
                milliseconds(&run, "confirm", "p99_us"),
                milliseconds(&run, "end_to_end", "p75_us"),
                milliseconds(&run, "end_to_end", "p99_9_us"),
                short(sum(&run["nodes"], "cpu_s") / messages.max(1.0) * 1e6),
                short(memory.fold(0.0, f64::max) / 1e6),
            ]);
        }
        self.pictures(whole.part, &files)?;
        let head = [
            "",
            "seconds",
            "messages",
            "published/s",
            "consumed/s",
            "confirm p50",
            "confirm p99",
            "end-to-end p75",
            "end-to-end p99.9",
            "CPU s/million, all nodes",
            "most memory of a node, MB",
        ];
        Ok(table(&head, &rows))
    }

    /// Rounds in turn, and what each run's median is of the first one's.
    fn compare(&mut self, comparison: &Comparison) -> Result<Vec<Vec<String>>> {
        let mut results = vec![Vec::new(); comparison.runs.len()];
        for round in 1..=ROUNDS {
            for (at, (preset, on)) in comparison.runs.iter().enumerate() {
                results[at].push(self.run(comparison.part, preset, *on, round)?.1);
            }
        }
        let value = |run: &Value| match comparison.figure.title {
            "p99.9" => figure(run, "/loads/0/end_to_end/percentiles/p99_9_us"),
            _ => rate(run, "consume_rate"),
        };
        let medians: Vec<(f64, Vec<String>)> = results
            .iter()
            .map(|runs| {
                let values: Vec<f64> = runs.iter().map(value).collect();
                (
                    median(&values),
                    runs.iter().map(comparison.figure.read).collect(),
                )
            })
            .collect();
        let first = medians[0].0;
        let rows = comparison.runs.iter().zip(medians);
        let rows = rows.map(|((preset, on), (median, cells))| {
            let shown = match comparison.figure.title {
                "p99.9" => format!("{} ms", short(median / 1e3)),
                _ => short(median),
            };
            let mut row = vec![
                format!("{preset}, {}", on.title()),
                comparison.figure.title.to_owned(),
            ];
            row.extend(cells);
            row.extend([shown, format!("{:.2}", median / first)]);
            row
        });
        Ok(rows.collect())
    }

    /// One run; its result, and the file that holds it.
    fn run(&mut self, part: &str, preset: &str, on: On, round: usize) -> Result<(PathBuf, Value)> {
        let name = format!("{part}-{preset}{}-{round}", on.file_suffix());
        let file = self.folder.join(format!("{name}.json"));
        let mut command = match on {
            On::OneCore => {
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", "0"]).arg(leveret_binary());
                pinned
            }
            _ => Command::new(leveret_binary()),
        };
        command
            .args(["perf", "run", preset])
            .arg("--json")
            .arg(&file);
        if let On::Model(model) = on {
            command.args(["--model", model]);
        }
        if self.fast {
            command.arg("--fast");
        }
        run::output(&mut command).with_context(|| format!("{name} found something"))?;
        let result: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let rate = rate(&result, "consume_rate");
        println!("{name:<52} {:>8}/s", short(rate));
        self.records.push(json!({
            "part": part, "preset": preset, "on": on.title(), "round": round,
            "consumed_per_s": rate,
            "end_to_end": result["loads"][0]["end_to_end"]["percentiles"],
            "confirm": result["loads"][0]["confirm"]["percentiles"],
        }));
        Ok((file, result))
    }

    /// Replaces those pictures of the pages that this part has drawn anew.
    fn publish_pictures(&self, pages: &Path, part: &str) -> Result<()> {
        let drawn = self.folder.join(format!("{part}-figures"));
        let prefix = format!("{part}-");
        for entry in fs::read_dir(pages)? {
            let shown = entry?.path();
            let name = shown.file_name().and_then(|name| name.to_str());
            let Some(picture) = name.and_then(|name| name.strip_prefix(&prefix)) else {
                continue;
            };
            // Of one run, or of several together.
            let mut found = ["", "compare-"].map(|of| drawn.join(format!("{of}{picture}")));
            found.sort_by_key(|file| !file.exists());
            fs::copy(&found[0], &shown).with_context(|| {
                format!(
                    "{} is shown, and this run has not drawn it",
                    shown.display()
                )
            })?;
        }
        Ok(())
    }

    /// Draws what these runs are compared by.
    fn pictures(&self, part: &str, files: &[PathBuf]) -> Result<()> {
        let folder = self.folder.join(format!("{part}-figures"));
        let mut command = Command::new(leveret_binary());
        command.args(["perf", "report"]).args(files);
        run::output(command.arg("--figures").arg(&folder))?;
        Ok(())
    }
}
