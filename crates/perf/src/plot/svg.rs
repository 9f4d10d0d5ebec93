//! The few elements of SVG that figures need, and the frame that all of them share.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::paint::{Paint, Part};
use super::{Figure, Unit};

/// Width of every figure, in its own units.
pub(super) const WIDTH: f64 = 760.0;
/// Height of every figure without its banner.
pub(super) const HEIGHT: f64 = 340.0;
/// Roughly how wide a letter of the usual size is.
const LETTER_WIDTH: f64 = 6.9;
const BANNER_HEIGHT: f64 = 26.0;
/// Letters of a title that fit into the width of a figure.
const TITLE_LETTERS: usize = 80;
const FONT: &str = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif";

/// A rectangle of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// The horizontal place of a share of the width.
    pub fn x(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share
    }

    /// The vertical place of a share of the height, counted from the foot.
    pub fn y(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share
    }
}

/// How a text stands to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What a text looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle<'a> {
    pub(super) anchor: Anchor,
    pub(super) colour: &'a str,
    /// Attributes of the element, which begin with a space.
    pub(super) attributes: &'a str,
}

/// A picture being written.
pub(super) struct Canvas {
    text: String,
    pub paint: Paint,
    /// Where what the figure says about itself ends.
    pub head: f64,
    /// The picture's height.
    pub height: f64,
}

impl Canvas {
    /// A picture with ground, banner, title and subtitle.
    pub fn new(figure: &Figure, paint: Paint) -> Self {
        let banner = if figure.banner.is_some() {
            BANNER_HEIGHT
        } else {
            0.0
        };
        let height = HEIGHT + banner;
        let mut canvas = Self {
            text: String::new(),
            paint,
            head: banner + 56.0,
            height,
        };
        let _ = write!(
            canvas.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" font-family=\"{FONT}\">"
        );
        let described = format!("{}. {}", figure.title, figure.subtitle);
        let _ = write!(canvas.text, "<title>{}</title>", escaped(described.trim()));
        canvas.head(figure, banner);
        canvas
    }

    fn head(&mut self, figure: &Figure, banner: f64) {
        if self.paint != Paint::Page {
            let all = Area {
                left: 0.0,
                top: 0.0,
                right: WIDTH,
                bottom: self.height,
            };
            self.fill(all, 0.0, Part::Ground);
        }
        if let Some(warning) = &figure.banner {
            let strip = Area {
                left: 0.0,
                top: 0.0,
                right: WIDTH,
                bottom: banner - 4.0,
            };
            self.fill(strip, 3.0, Part::Banner);
            let ground = self.paint.part(Part::Ground).into_owned();
            let style = TextStyle {
                anchor: Anchor::Start,
                colour: &ground,
                attributes: r#" font-size="13" font-weight="700""#,
            };
            self.styled((12.0, 15.5), style, warning);
        }
        let ink = self.paint.part(Part::Text).into_owned();
        let title = TextStyle {
            anchor: Anchor::Start,
            colour: &ink,
            attributes: r#" font-size="15" font-weight="700""#,
        };
        let shown = fitted(&figure.title, TITLE_LETTERS);
        self.styled((12.0, banner + 20.0), title, &shown);
        let muted = self.paint.part(Part::Muted).into_owned();
        let subtitle = TextStyle {
            anchor: Anchor::Start,
            colour: &muted,
            attributes: r#" font-size="12""#,
        };
        self.styled((12.0, banner + 38.0), subtitle, &figure.subtitle);
    }

    /// The finished document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }

    /// Text of the usual size.
    pub fn label(&mut self, x: f64, y: f64, anchor: Anchor, part: Part, content: &str) {
        let colour = self.paint.part(part).into_owned();
        let style = TextStyle {
            anchor,
            colour: &colour,
            attributes: r#" font-size="11.5""#,
        };
        self.styled((x, y), style, content);
    }

    /// Text of a style of its own.
    pub fn styled(&mut self, (x, y): (f64, f64), style: TextStyle<'_>, content: &str) {
        let TextStyle {
            anchor,
            colour,
            attributes,
        } = style;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             style=\"fill:{colour}\"{attributes}>{}</text>",
            escaped(content)
        );
    }

    /// A filled rectangle in the colour of a part.
    pub fn fill(&mut self, area: Area, radius: f64, part: Part) {
        let colour = self.paint.part(part).into_owned();
        self.rectangle(area, radius, &colour);
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, area: Area, radius: f64, colour: &str) {
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        let _ = write!(
            self.text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"{radius}\" style=\"fill:{colour}\"/>",
            area.left, area.top
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), part: Part) {
        let colour = self.paint.part(part).into_owned();
        let _ = write!(
            self.text,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" style="stroke:{colour}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// A path of straight pieces; `None` lifts the pen.
    pub fn path(&mut self, places: &[Option<(f64, f64)>], colour: &str, attributes: &str) {
        let mut down = false;
        let mut path = String::new();
        for place in places {
            match place {
                Some((x, y)) => {
                    let _ = write!(path, "{}{x:.1} {y:.1}", if down { "L" } else { "M" });
                    down = true;
                }
                None => down = false,
            }
        }
        let _ = write!(
            self.text,
            "<path d=\"{path}\" style=\"fill:none;stroke:{colour}\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\"{attributes}/>"
        );
    }

    /// A dot.
    pub fn dot(&mut self, at: (f64, f64), radius: f64, colour: &str) {
        let _ = write!(
            self.text,
            r#"<circle cx="{:.1}" cy="{:.1}" r="{radius}" style="fill:{colour}"/>"#,
            at.0, at.1
        );
    }

    /// An invisible rectangle that tells what lies beneath it to who points there. Pages only.
    pub fn hint(&mut self, area: Area, content: &str) {
        if self.paint != Paint::Page {
            return;
        }
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        let _ = write!(
            self.text,
            "<rect class=\"hint\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{}</title></rect>",
            area.left,
            area.top,
            escaped(content)
        );
    }
}

/// Text as XML has to have it. Control characters, which XML cannot carry, are dropped.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push('\n'),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => safe.push(letter),
        }
    }
    safe
}

/// Roughly how wide a text of the usual size is.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// How many letters of the usual size fit into so much room.
pub(super) fn letters(room: f64) -> usize {
    (room / LETTER_WIDTH) as usize
}

/// The text in so many letters at most. What is left out is in its middle: names that begin alike
/// differ at their ends.
pub(super) fn fitted(text: &str, letters: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= letters {
        return Cow::Borrowed(text);
    }
    let head = letters / 2;
    let tail = letters.saturating_sub(head + 1);
    let kept = text.chars().take(head).chain(['\u{2026}']);
    Cow::Owned(kept.chain(text.chars().skip(count - tail)).collect())
}

/// Horizontal grid lines with their labels left of `area`.
pub(super) fn rulings(canvas: &mut Canvas, area: Area, ticks: &[(f64, String)]) {
    for (share, label) in ticks {
        let y = area.y(*share);
        canvas.line((area.left, y), (area.right, y), Part::Grid);
        canvas.label(area.left - 8.0, y + 4.0, Anchor::End, Part::Muted, label);
    }
}

/// Room for the labels left of an axis.
pub(super) fn gutter(ticks: &[(f64, String)]) -> f64 {
    let widest = ticks
        .iter()
        .map(|(_, label)| width_of(label))
        .fold(0.0, f64::max);
    (widest + 18.0).max(48.0)
}

/// One line of a hint.
pub(super) fn hint_line(name: &str, unit: Unit, value: f64) -> String {
    format!("{name}: {}", unit.write(value))
}
