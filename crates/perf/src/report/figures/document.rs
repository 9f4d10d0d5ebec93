//! A preset's run beside what the document that it is taken from reports.

use super::{axis, figure, slug};
use crate::plot::{BarSeries, Bars, Body, Figure, Ink, Scale, Unit};
use crate::preset::{Measure, reported};
use crate::result::RunResult;

/// The document's figures for this preset, and ours beside them.
pub(super) fn beside(run: &RunResult) -> Vec<Figure> {
    let measures = [
        Measure::ConsumeRate,
        Measure::PublishRate,
        Measure::PublishBytesPerS,
        Measure::P75Us,
        Measure::P999Us,
    ];
    let load = run.main_load();
    let mut figures = Vec::new();
    for measure in measures {
        let theirs: Vec<_> = reported(&run.name)
            .iter()
            .filter(|figure| figure.measure == measure)
            .collect();
        let (false, Some(ours)) = (theirs.is_empty(), measure.of(load)) else {
            continue;
        };
        let mut groups: Vec<String> = theirs.iter().map(|figure| figure.setup.clone()).collect();
        groups.push(format!("{} here", run.target.product));
        let own = groups.len() - 1;
        let mut document: Vec<Option<f64>> = theirs.iter().map(|of| Some(of.value)).collect();
        document.push(None);
        let mut here = vec![None; own];
        here.push(Some(ours));
        let scale = if measure.unit() == Unit::Micros {
            Scale::Log
        } else {
            Scale::Linear
        };
        let bars = |name: &str, ink, values| BarSeries {
            name: name.to_owned(),
            ink,
            values,
        };
        let series = vec![
            bars("the document, on its machines", Ink::Reference, document),
            bars("this run", Ink::Category(0), here),
        ];
        figures.push(figure(
            run,
            &slug(&["document", measure.name()]),
            format!("Beside the document: {}", measure.name()),
            "other machines: compare shapes, not figures".to_owned(),
            Body::Bars(Bars {
                y: axis("", scale, measure.unit()),
                groups,
                series,
            }),
        ));
    }
    figures
}
