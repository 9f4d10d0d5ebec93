//! In the manner of the documents: experiments on one drive and on several, and what the documents
//! themselves report beside it.

use super::compare::figure;
use super::figures::{axis, slug};
use super::label;
use crate::plot::{BarSeries, Bars, Body, Figure, Ink, Scale, Unit};
use crate::preset::{Measure, Reported, reported};
use crate::result::RunResult;

/// What experiments are compared by.
const COMPARED: [Measure; 3] = [Measure::ConsumeRate, Measure::P75Us, Measure::P999Us];

/// Each experiment on each set of drives. Empty unless there are several of both.
pub(super) fn by_experiment(runs: &[RunResult]) -> Vec<Figure> {
    let experiments = distinct(runs, |run| run.name.clone());
    let setups = distinct(runs, setup);
    if experiments.len() < 2 || setups.len() < 2 {
        return Vec::new();
    }
    let of = |measure: Measure| {
        let series = setups.iter().enumerate().map(|(at, setup)| BarSeries {
            name: setup.clone(),
            ink: Ink::Category(at),
            values: experiments
                .iter()
                .map(|experiment| find(runs, experiment, setup, measure))
                .collect(),
        });
        let body = bars(measure, experiments.clone(), series.collect());
        let name = format!("drives-{}", slug(&[measure.name()]));
        let title = format!("One drive or several: {}", measure.name());
        figure(runs, &name, &title, subtitle(measure), body)
    };
    COMPARED.into_iter().map(of).collect()
}

/// For each experiment the document's figures and ours, set of drives by set of drives. Empty where
/// no run is on drives that the document speaks of.
pub(super) fn beside_documents(runs: &[RunResult]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for experiment in distinct(runs, |run| run.name.clone()) {
        for measure in COMPARED {
            let theirs: Vec<&Reported> = reported(&experiment)
                .iter()
                .filter(|figure| figure.measure == measure)
                .collect();
            figures.extend(beside_document(runs, &experiment, measure, &theirs));
        }
    }
    figures
}

fn beside_document(
    runs: &[RunResult],
    experiment: &str,
    measure: Measure,
    theirs: &[&Reported],
) -> Option<Figure> {
    let mut groups: Vec<String> = theirs.iter().map(|figure| figure.setup.clone()).collect();
    let here: Vec<&RunResult> = runs.iter().filter(|run| run.name == experiment).collect();
    let shared = here.iter().any(|run| groups.contains(&setup(run)));
    if !shared {
        return None;
    }
    for run in here {
        if !groups.contains(&setup(run)) {
            groups.push(setup(run));
        }
    }
    let document = |group: &String| {
        let found = theirs.iter().find(|figure| figure.setup == *group);
        found.map(|figure| figure.value)
    };
    let series = vec![
        BarSeries {
            name: "the document's broker, on its machines".to_owned(),
            ink: Ink::Reference,
            values: groups.iter().map(document).collect(),
        },
        BarSeries {
            name: "these runs".to_owned(),
            ink: Ink::Category(0),
            values: groups
                .iter()
                .map(|group| find(runs, experiment, group, measure))
                .collect(),
        },
    ];
    let name = slug(&["document", experiment, measure.name()]);
    let title = format!("{experiment} beside the document: {}", measure.name());
    let body = bars(measure, groups, series);
    Some(figure(runs, &name, &title, subtitle(measure), body))
}

fn bars(measure: Measure, groups: Vec<String>, series: Vec<BarSeries>) -> Body {
    let scale = match measure.unit() {
        Unit::Micros => Scale::Log,
        _ => Scale::Linear,
    };
    Body::Bars(Bars {
        y: axis("", scale, measure.unit()),
        groups,
        series,
    })
}

fn subtitle(measure: Measure) -> &'static str {
    match measure.unit() {
        Unit::Micros => "from publisher to consumer; log scale",
        _ => "messages per second",
    }
}

fn setup(run: &RunResult) -> String {
    label::device(run).unwrap_or_else(|| "real drive".to_owned())
}

/// The first run of an experiment on these drives.
fn find(runs: &[RunResult], experiment: &str, wanted: &str, measure: Measure) -> Option<f64> {
    let mut found = runs
        .iter()
        .filter(|run| run.name == experiment && setup(run) == wanted);
    measure.of(found.next()?.main_load())
}

/// Values in the order in which they first occur.
fn distinct(runs: &[RunResult], of: impl Fn(&RunResult) -> String) -> Vec<String> {
    let mut values = Vec::new();
    for value in runs.iter().map(of) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
