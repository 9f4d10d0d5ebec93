//! Bars in groups, from zero, each with its value above it.

use super::paint::{Paint, Part};
use super::scale::FittedAxis;
use super::svg::{self, Anchor, Area, Canvas, TextStyle};
use super::{BarSeries, Bars, Figure, GROUPS_MAX, SERIES_MAX, Scale};

/// Widest that a bar gets, so that two of them do not look like walls.
const BAR_MAX: f64 = 58.0;
/// Share of a group's width that its bars take.
const GROUP_SHARE: f64 = 0.78;
/// Least width of a bar above which its value fits, standing upright.
const VALUE_WIDTH_MIN: f64 = 12.0;
/// Least distance between the values of two bars side by side.
const VALUE_GAP: f64 = 3.0;
/// The angle of names that have no room side by side.
const SLANT_DEGREES: f64 = 35.0;
/// Most height that such names may take.
const SLANTED_ROOM_MAX: f64 = 120.0;
/// Letters of such a name that have room in it.
const SLANTED_LETTERS: usize = 23;
/// Most height that values may take above the plot.
const TURNED_ROOM_MAX: f64 = 60.0;
/// Height of one row of the legend.
const LEGEND_STEP: f64 = 18.0;

pub(super) fn draw(figure: &Figure, bars: &Bars, paint: Paint) -> String {
    let mut canvas = Canvas::new(figure, paint);
    let series = bars.series.get(..SERIES_MAX).unwrap_or(&bars.series);
    let groups = &names(bars.groups.get(..GROUPS_MAX).unwrap_or(&bars.groups));
    let values = series
        .iter()
        .flat_map(|one| one.values.iter().take(groups.len()).flatten());
    let y = FittedAxis::fit(bars.y.scale, bars.y.unit, values.copied());
    let legend = draw_legend(&mut canvas, series);
    let left = svg::gutter(&y.ticks).max(overhang(groups));
    let step = (svg::WIDTH - 16.0 - left) / groups.len().max(1) as f64;
    let (stand, room) = stand(bars, groups.len(), series, step);
    let area = Area {
        left,
        top: legend + 18.0 + room,
        right: svg::WIDTH - 16.0,
        bottom: canvas.height - group_room(groups),
    };
    svg::rulings(&mut canvas, area, &y.ticks);
    canvas.label(
        12.0,
        area.top - 14.0,
        Anchor::Start,
        Part::Muted,
        &bars.y.label,
    );
    let lay = lay(groups);
    for (at, name) in groups.iter().enumerate() {
        let step = (area.right - area.left) / groups.len() as f64;
        let left = area.left + step * at as f64;
        draw_group(
            &mut canvas,
            Area {
                left,
                right: left + step,
                ..area
            },
            &y,
            bars,
            (at, series, stand),
        );
        draw_group_name(&mut canvas, (left + step / 2.0, area.bottom), lay, name);
    }
    canvas.line(
        (area.left, area.bottom),
        (area.right, area.bottom),
        Part::Axis,
    );
    if bars.groups.len() > GROUPS_MAX {
        let text = format!("{} further groups left out", bars.groups.len() - GROUPS_MAX);
        let at = canvas.height - 6.0;
        canvas.label(svg::WIDTH - 12.0, at, Anchor::End, Part::Muted, &text);
    }
    canvas.finish()
}

/// One row of swatches and names, wrapped; where it ends. One series needs none.
fn draw_legend(canvas: &mut Canvas, series: &[BarSeries]) -> f64 {
    let mut y = canvas.head;
    if series.len() < 2 {
        return y - 6.0;
    }
    let mut x = 12.0;
    for one in series {
        let name = svg::fitted(&one.name, svg::letters(svg::WIDTH - 46.0));
        let width = svg::width_of(&name) + 34.0;
        if x + width > svg::WIDTH && x > 12.0 {
            x = 12.0;
            y += LEGEND_STEP;
        }
        let colour = canvas.paint.ink(one.ink).into_owned();
        let swatch = Area {
            left: x,
            top: y - 9.0,
            right: x + 10.0,
            bottom: y + 1.0,
        };
        canvas.rectangle(swatch, 2.0, &colour);
        canvas.label(x + 15.0, y, Anchor::Start, Part::Text, &name);
        x += width;
    }
    y + 8.0
}

/// Room below the plot: names that are too long for their group stand on two lines.
fn group_room(groups: &[String]) -> f64 {
    match lay(groups) {
        Lay::Line => 34.0,
        Lay::Halves => 52.0,
        // The longest name, at the angle at which it stands.
        Lay::Slanted => {
            let longest = groups
                .iter()
                .map(|name| svg::width_of(name))
                .fold(0.0, f64::max);
            (longest * SLANT_DEGREES.to_radians().sin() + 26.0).min(SLANTED_ROOM_MAX)
        }
    }
}

/// Room that slanted names need left of the plot.
fn overhang(groups: &[String]) -> f64 {
    if lay(groups) != Lay::Slanted {
        return 0.0;
    }
    let step = (svg::WIDTH - 64.0) / groups.len().max(1) as f64;
    let over = |(at, name): (usize, &String)| {
        svg::width_of(name) * SLANT_DEGREES.to_radians().cos() - step * (at as f64 + 0.5)
    };
    groups.iter().enumerate().map(over).fold(0.0, f64::max)
}

/// The groups' names, shortened where they would have to stand slanted and leave the picture.
fn names(groups: &[String]) -> Vec<String> {
    let shortened = |name: &String| svg::fitted(name, SLANTED_LETTERS).into_owned();
    match lay(groups) {
        Lay::Slanted => groups.iter().map(shortened).collect(),
        Lay::Line | Lay::Halves => groups.to_vec(),
    }
}

/// How the bars' values stand: all of a figure alike, as a few that are written among many that are
/// not would mislead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Across,
    Upright,
    Nowhere,
}

/// How values stand in a figure, and the room above the plot for those on bars that reach its top.
fn stand(bars: &Bars, groups: usize, series: &[BarSeries], step: f64) -> (Stand, f64) {
    let has = |one: &&BarSeries, at: usize| one.values.get(at).copied().flatten().is_some();
    let most = (0..groups)
        .map(|at| series.iter().filter(|one| has(one, at)).count())
        .max();
    let width = (step * GROUP_SHARE / most.unwrap_or(0).max(1) as f64).min(BAR_MAX);
    let values = series
        .iter()
        .flat_map(|one| one.values.iter().take(groups).flatten());
    let longest = values
        .map(|value| svg::width_of(&bars.y.unit.tick(*value)))
        .fold(0.0, f64::max);
    match width {
        width if width >= longest + VALUE_GAP => (Stand::Across, 0.0),
        width if width >= VALUE_WIDTH_MIN => (Stand::Upright, longest.min(TURNED_ROOM_MAX)),
        _ => (Stand::Nowhere, 0.0),
    }
}

/// How the groups' names stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lay {
    Line,
    Halves,
    Slanted,
}

fn lay(groups: &[String]) -> Lay {
    let step = (svg::WIDTH - 64.0) / groups.len().max(1) as f64;
    let fits = |text: &str| svg::width_of(text) <= step - 6.0;
    let halves_fit = |name: &String| {
        let (first, second) = halves(name);
        fits(first) && fits(second)
    };
    match groups {
        groups if groups.iter().all(|name| fits(name)) => Lay::Line,
        groups if groups.iter().all(halves_fit) => Lay::Halves,
        _ => Lay::Slanted,
    }
}

fn draw_group(
    canvas: &mut Canvas,
    area: Area,
    y: &FittedAxis,
    bars: &Bars,
    (at, series, stand): (usize, &[BarSeries], Stand),
) {
    let value = |one: &BarSeries| one.values.get(at).copied().flatten();
    // A group stands around its middle, however many of its bars have a value.
    let placed: Vec<(&BarSeries, f64, f64)> = series
        .iter()
        .filter_map(|one| value(one).and_then(|value| Some((one, value, y.place(value)?))))
        .collect();
    if placed.is_empty() && !series.is_empty() {
        let middle = (area.left + area.right) / 2.0;
        canvas.label(middle, area.bottom - 4.0, Anchor::Middle, Part::Muted, "–");
    }
    let room = (area.right - area.left) * GROUP_SHARE;
    let width = (room / placed.len().max(1) as f64).min(BAR_MAX);
    let mut left = (area.left + area.right - width * placed.len() as f64) / 2.0;
    let foot = match bars.y.scale {
        Scale::Log => 0.0,
        _ => y.place(0.0).unwrap_or(0.0),
    };
    for (one, value, share) in placed {
        let right = left + width;
        let (top, bottom) = (area.y(share.max(foot)), area.y(share.min(foot)));
        // A value of nothing still shows that it was measured.
        let bar = Area {
            left: left + 1.0,
            top: top.min(bottom - 1.0),
            right: right - 1.0,
            bottom,
        };
        let colour = canvas.paint.ink(one.ink).into_owned();
        canvas.rectangle(bar, 2.0, &colour);
        draw_value(canvas, bar, &bars.y.unit.tick(value), stand);
        let name = bars.groups.get(at).map_or("", String::as_str);
        canvas.hint(
            Area {
                top: area.top,
                ..bar
            },
            &hint(name, one, bars, value),
        );
        left = right;
    }
}

fn hint(group: &str, series: &BarSeries, bars: &Bars, value: f64) -> String {
    format!(
        "{group}\n{}",
        svg::hint_line(&series.name, bars.y.unit, value)
    )
}

fn draw_value(canvas: &mut Canvas, bar: Area, text: &str, stand: Stand) {
    let (middle, foot) = ((bar.left + bar.right) / 2.0, bar.top - 4.0);
    let ink = canvas.paint.part(Part::Text).into_owned();
    match stand {
        Stand::Across => {
            let style = TextStyle {
                anchor: Anchor::Middle,
                colour: &ink,
                attributes: r#" font-size="10.5""#,
            };
            canvas.styled((middle, foot), style, text);
        }
        Stand::Upright => {
            let x = middle + 3.5;
            let turn = format!(r#" font-size="10" transform="rotate(-90 {x:.1} {foot:.1})""#);
            let style = TextStyle {
                anchor: Anchor::Start,
                colour: &ink,
                attributes: &turn,
            };
            canvas.styled((x, foot), style, text);
        }
        Stand::Nowhere => {}
    }
}

fn draw_group_name(canvas: &mut Canvas, at: (f64, f64), lay: Lay, name: &str) {
    let (middle, foot) = at;
    match lay {
        Lay::Line => canvas.label(middle, foot + 18.0, Anchor::Middle, Part::Text, name),
        Lay::Halves => {
            let (first, second) = halves(name);
            canvas.label(middle, foot + 18.0, Anchor::Middle, Part::Text, first);
            canvas.label(middle, foot + 33.0, Anchor::Middle, Part::Text, second);
        }
        Lay::Slanted => {
            let (x, y) = (middle + 4.0, foot + 14.0);
            let ink = canvas.paint.part(Part::Text).into_owned();
            let turn =
                format!(r#" font-size="11" transform="rotate(-{SLANT_DEGREES} {x:.1} {y:.1})""#);
            let style = TextStyle {
                anchor: Anchor::End,
                colour: &ink,
                attributes: &turn,
            };
            canvas.styled((x, y), style, name);
        }
    }
}

/// The name in two parts, cut at the space or hyphen that is nearest to its middle.
fn halves(name: &str) -> (&str, &str) {
    let middle = name.len() / 2;
    let cuts = name
        .char_indices()
        .filter(|(_, letter)| matches!(letter, ' ' | '-'));
    let best = cuts
        .map(|(at, _)| at + 1)
        .min_by_key(|at| at.abs_diff(middle));
    let (first, second) = name.split_at(best.unwrap_or(name.len()));
    (first.trim_end(), second)
}
