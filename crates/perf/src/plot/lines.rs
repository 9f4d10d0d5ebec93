//! Line charts: each line labelled at its end, so that nobody has to match colours to a legend.

use super::paint::{Paint, Part};
use super::scale::FittedAxis;
use super::svg::{self, Anchor, Area, Canvas};
use super::{Figure, Lines, POINTS_MAX, SERIES_MAX, Series, Span};

/// Least distance between two labels.
const LABEL_STEP: f64 = 15.0;
/// Most room that labels may take from the plot.
const LABEL_ROOM_MAX: f64 = 210.0;
/// What of it is taken by the swatch and the distances around the text.
const LABEL_EDGE: f64 = 28.0;
/// Strips with hints in one figure.
const HINTS_MAX: usize = 400;

/// A line with its places in the picture.
struct Drawn<'a> {
    series: &'a Series,
    places: Vec<Option<(f64, f64)>>,
}

pub(super) fn draw(figure: &Figure, lines: &Lines, paint: Paint) -> String {
    let mut canvas = Canvas::new(figure, paint);
    let shown = lines.series.get(..SERIES_MAX).unwrap_or(&lines.series);
    let thinned: Vec<Series> = shown.iter().map(thin).collect();
    let points = || thinned.iter().flat_map(|series| &series.points);
    let borders = lines
        .spans
        .iter()
        .flat_map(|span| [span.range.0, span.range.1]);
    let x = FittedAxis::fit(
        lines.x.scale,
        lines.x.unit,
        points().map(|point| point.0).chain(borders),
    );
    let y = FittedAxis::fit(lines.y.scale, lines.y.unit, points().map(|point| point.1));
    let area = plot_area(&canvas, &y, &thinned);
    for span in &lines.spans {
        draw_span(&mut canvas, area, &x, span);
    }
    svg::rulings(&mut canvas, area, &y.ticks);
    draw_axis(&mut canvas, area, &x, lines);
    let drawn: Vec<Drawn> = thinned
        .iter()
        .map(|series| placed(series, area, &x, &y))
        .collect();
    for line in &drawn {
        let colour = canvas.paint.ink(line.series.ink).into_owned();
        canvas.path(&line.places, &colour, r#" stroke-width="2""#);
        draw_lone_points(&mut canvas, line, &colour);
    }
    draw_labels(&mut canvas, area, &drawn);
    draw_hints(&mut canvas, area, &x, lines, &thinned);
    draw_left_out(&mut canvas, lines.series.len());
    canvas.finish()
}

fn plot_area(canvas: &Canvas, y: &FittedAxis, series: &[Series]) -> Area {
    let widest = series
        .iter()
        .map(|series| svg::width_of(&series.name))
        .fold(0.0, f64::max);
    Area {
        left: svg::gutter(&y.ticks),
        top: canvas.head + 12.0,
        right: svg::WIDTH - (widest + LABEL_EDGE).min(LABEL_ROOM_MAX),
        bottom: canvas.height - 42.0,
    }
}

fn draw_span(canvas: &mut Canvas, area: Area, x: &FittedAxis, span: &Span) {
    let (Some(from), Some(to)) = (x.place(span.range.0), x.place(span.range.1)) else {
        return;
    };
    let (left, right) = (area.x(from), area.x(to));
    if right - left < 0.5 {
        return;
    }
    canvas.fill(
        Area {
            left,
            right,
            ..area
        },
        0.0,
        Part::Span,
    );
    if right - left > svg::width_of(&span.name) {
        canvas.label(
            left + 4.0,
            area.top + 12.0,
            Anchor::Start,
            Part::Muted,
            &span.name,
        );
    }
}

fn draw_axis(canvas: &mut Canvas, area: Area, x: &FittedAxis, lines: &Lines) {
    canvas.line(
        (area.left, area.bottom),
        (area.right, area.bottom),
        Part::Axis,
    );
    for (share, label) in &x.ticks {
        let at = area.x(*share);
        canvas.line((at, area.bottom), (at, area.bottom + 4.0), Part::Axis);
        canvas.label(at, area.bottom + 18.0, Anchor::Middle, Part::Muted, label);
    }
    canvas.label(
        area.right,
        area.bottom + 34.0,
        Anchor::End,
        Part::Muted,
        &lines.x.label,
    );
    canvas.label(
        12.0,
        canvas.head,
        Anchor::Start,
        Part::Muted,
        &lines.y.label,
    );
}

fn placed<'a>(series: &'a Series, area: Area, x: &FittedAxis, y: &FittedAxis) -> Drawn<'a> {
    let place = |&(along, up): &(f64, f64)| Some((area.x(x.place(along)?), area.y(y.place(up)?)));
    Drawn {
        series,
        places: series.points.iter().map(place).collect(),
    }
}

/// A point with a gap on either side is no line: it gets a dot.
fn draw_lone_points(canvas: &mut Canvas, line: &Drawn, colour: &str) {
    let at = |index: usize| line.places.get(index).copied().flatten();
    for index in 0..line.places.len() {
        let before = index.checked_sub(1).and_then(at);
        if let (None, Some(place), None) = (before, at(index), at(index + 1)) {
            canvas.dot(place, 2.5, colour);
        }
    }
}

fn draw_labels(canvas: &mut Canvas, area: Area, drawn: &[Drawn]) {
    let end = |line: &Drawn| line.places.iter().rev().copied().flatten().next();
    let mut labels: Vec<(f64, (f64, f64), &Series)> = drawn
        .iter()
        .filter_map(|line| end(line).map(|place| (place.1, place, line.series)))
        .collect();
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    spread(&mut labels, area);
    for (y, end, series) in labels {
        let colour = canvas.paint.ink(series.ink).into_owned();
        canvas.dot(end, 3.0, &colour);
        let left = area.right + 10.0;
        let swatch = Area {
            left,
            top: y - 4.0,
            right: left + 8.0,
            bottom: y + 4.0,
        };
        canvas.rectangle(swatch, 2.0, &colour);
        canvas.label(
            left + 12.0,
            y + 4.0,
            Anchor::Start,
            Part::Text,
            &svg::fitted(&series.name, svg::letters(LABEL_ROOM_MAX - LABEL_EDGE)),
        );
    }
}

/// Moves labels apart, downwards, and all of them up again when the last one falls off the foot.
fn spread(labels: &mut [(f64, (f64, f64), &Series)], area: Area) {
    let mut least = area.top;
    for label in labels.iter_mut() {
        label.0 = label.0.max(least);
        least = label.0 + LABEL_STEP;
    }
    let mut most = area.bottom;
    for label in labels.iter_mut().rev() {
        label.0 = label.0.min(most);
        most = label.0 - LABEL_STEP;
    }
}

fn draw_hints(canvas: &mut Canvas, area: Area, x: &FittedAxis, lines: &Lines, series: &[Series]) {
    if canvas.paint != Paint::Page {
        return;
    }
    let mut values: Vec<f64> = series
        .iter()
        .flat_map(|line| &line.points)
        .map(|at| at.0)
        .collect();
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.dedup();
    let stride = values.len().div_ceil(HINTS_MAX).max(1);
    let values: Vec<f64> = values.into_iter().step_by(stride).collect();
    let place = |at: usize| {
        values
            .get(at)
            .and_then(|value| x.place(*value))
            .map(|share| area.x(share))
    };
    for (at, value) in values.iter().enumerate() {
        let Some(middle) = place(at) else { continue };
        let before = at.checked_sub(1).and_then(place).unwrap_or(area.left);
        let after = place(at + 1).unwrap_or(area.right);
        let strip = Area {
            left: (before + middle) / 2.0,
            right: (middle + after) / 2.0,
            ..area
        };
        let here = series.iter().filter_map(|line| {
            let found = line
                .points
                .binary_search_by(|point| point.0.total_cmp(value))
                .ok()?;
            Some(svg::hint_line(
                &line.name,
                lines.y.unit,
                line.points.get(found)?.1,
            ))
        });
        let mut text = vec![lines.x.unit.write(*value)];
        text.extend(here);
        canvas.hint(strip, &text.join("\n"));
    }
}

fn draw_left_out(canvas: &mut Canvas, count: usize) {
    if count > SERIES_MAX {
        let text = format!("{} further lines left out", count - SERIES_MAX);
        let y = canvas.height - 8.0;
        canvas.label(12.0, y, Anchor::Start, Part::Muted, &text);
    }
}

/// At most [`POINTS_MAX`] points: of each stretch of a longer series the lowest and the highest.
fn thin(series: &Series) -> Series {
    if series.points.len() <= POINTS_MAX {
        return series.clone();
    }
    let stretch = (series.points.len() * 2).div_ceil(POINTS_MAX);
    let points = series.points.chunks(stretch).flat_map(extremes).collect();
    Series {
        points,
        ..series.clone()
    }
}

/// The lowest and the highest point; a gap only where there is nothing else.
fn extremes(stretch: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let by_height = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
    let known = || stretch.iter().filter(|point| point.1.is_finite());
    let low = known().min_by(by_height).or(stretch.first());
    let high = known().max_by(by_height);
    let mut found: Vec<(f64, f64)> = low.into_iter().chain(high).copied().collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found.dedup();
    found
}
