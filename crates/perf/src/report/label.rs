//! What to call runs that stand side by side: by what tells them apart, and no more.

use crate::result::RunResult;

/// A name for the device of a run: `HDD ×1` for the model `hdd:1`.
#[must_use]
pub fn device(run: &RunResult) -> Option<String> {
    run.modelled_device.as_deref().map(device_of)
}

fn device_of(model: &str) -> String {
    match model.split_once(':') {
        Some((kind, drives)) => format!("{} ×{drives}", kind.to_uppercase()),
        None => model.to_uppercase(),
    }
}

const MODELLED: &str = "MODELLED DEVICE";
const NOT_REAL: &str = "NOT A REAL ONE";

/// What stands beside every figure of a run on a model (`hdd:1`) while it runs.
#[must_use]
pub fn banner_of(model: &str) -> String {
    format!("{MODELLED}, {NOT_REAL}: {}", device_of(model))
}

/// What stands on top of every picture and page of a modelled run.
#[must_use]
pub fn banner(runs: &[&RunResult]) -> Option<String> {
    let mut devices: Vec<String> = runs.iter().filter_map(|run| device(run)).collect();
    devices.dedup();
    if devices.is_empty() {
        return None;
    }
    let all = runs.iter().all(|run| run.modelled_device.is_some());
    let which = if all {
        MODELLED
    } else {
        "SOME RUNS ON A MODELLED DEVICE"
    };
    devices.sort();
    devices.dedup();
    Some(format!("{which}, {NOT_REAL}: {}", devices.join(", ")))
}

/// One label a run. Aspects that all runs share are left out; runs that are still alike are
/// numbered.
#[must_use]
pub fn labels(runs: &[&RunResult]) -> Vec<String> {
    let aspects: [fn(&RunResult) -> String; 4] = [
        |run| run.name.clone(),
        |run| run.target.product.clone(),
        |run| run.target.version.clone(),
        |run| device(run).unwrap_or_else(|| "real drive".to_owned()),
    ];
    let telling = aspects.into_iter().filter(|aspect| {
        let mut values = runs.iter().map(|run| aspect(run));
        let first = values.next();
        values.any(|value| Some(value) != first)
    });
    let telling: Vec<fn(&RunResult) -> String> = telling.collect();
    let name = |run: &&RunResult| {
        let parts: Vec<String> = telling.iter().map(|aspect| aspect(run)).collect();
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            run.name.clone()
        } else {
            parts.join(", ")
        }
    };
    numbered(runs.iter().map(name).collect())
}

/// The n-th of several alike gets its number.
fn numbered(names: Vec<String>) -> Vec<String> {
    let alike = |name: &String| names.iter().filter(|other| *other == name).count();
    let number = |at: usize, name: &String| {
        let before = names.iter().take(at).filter(|other| *other == name).count();
        if alike(name) > 1 {
            format!("{name} #{}", before + 1)
        } else {
            name.clone()
        }
    };
    names
        .iter()
        .enumerate()
        .map(|(at, name)| number(at, name))
        .collect()
}
