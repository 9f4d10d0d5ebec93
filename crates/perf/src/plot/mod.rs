//! Figures: lines over time, percentile curves, bars in groups; as SVG.
//!
//! A figure is data: what is drawn, in which unit, on which scale. How it looks is decided here,
//! once, so that the figures of the report, of `docs/experiments` and of `perf drive` are one
//! family.
//!
//! Invariant: drawing reads no file, clock or socket.
//! Invariant: values that are not finite, and on a logarithmic scale those that are not positive,
//! are gaps; they never move another mark.

mod bars;
mod lines;
mod paint;
mod scale;
mod svg;
mod unit;

#[cfg(test)]
mod tests;

pub use paint::{Ink, Paint, style_sheet};
pub use scale::Scale;
pub(crate) use svg::escaped;
pub use unit::Unit;

/// Points of one series that are drawn; longer series are thinned to their extremes.
pub const POINTS_MAX: usize = 1_200;
/// Series of one figure; what exceeds this is left out, and the figure says so.
pub const SERIES_MAX: usize = 12;
/// Groups of bars in one figure; as for [`SERIES_MAX`].
pub const GROUPS_MAX: usize = 24;

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A name for files and anchors: lower case, digits and hyphens.
    pub name: String,
    /// What is shown, in a few words.
    pub title: String,
    /// Unit and circumstances; empty for none.
    pub subtitle: String,
    /// A warning in large letters, such as that the device was modelled.
    pub banner: Option<String>,
    /// What is drawn.
    pub body: Body,
}

/// The kinds of figures.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Series of points, joined by lines.
    Lines(Lines),
    /// Bars from zero, in groups.
    Bars(Bars),
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, in the order of the labels.
    pub series: Vec<Series>,
    /// Stretches of the horizontal axis with a name, such as a warm-up.
    pub spans: Vec<Span>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured, written beside the axis; may be empty.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// How values are written.
    pub unit: Unit,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its label.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// Horizontal and vertical values, in ascending horizontal order.
    pub points: Vec<(f64, f64)>,
}

/// A named stretch of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Written at its top.
    pub name: String,
    /// Where it begins and ends.
    pub range: (f64, f64),
}

/// Bars in groups: one group for each name, one bar in it for each series.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The vertical axis.
    pub y: Axis,
    /// The groups' names.
    pub groups: Vec<String>,
    /// The bars; each has one value, or none, for each group.
    pub series: Vec<BarSeries>,
}

/// The bars of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// One value for each group.
    pub values: Vec<Option<f64>>,
}

impl Figure {
    /// The figure as an SVG document, which may stand alone or within a page, as `paint` says.
    #[must_use]
    pub fn svg(&self, paint: Paint) -> String {
        match &self.body {
            Body::Lines(lines) => lines::draw(self, lines, paint),
            Body::Bars(bars) => bars::draw(self, bars, paint),
        }
    }

    /// Whether there is anything to see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Lines(lines) => lines.series.iter().all(|series| series.points.is_empty()),
            Body::Bars(bars) => bars
                .series
                .iter()
                .all(|series| series.values.iter().all(Option::is_none)),
        }
    }
}
