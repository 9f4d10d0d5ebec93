//! Pictures as PNG, drawn by resvg from the very SVG that the report holds.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use super::{Figure, Paint};

/// Pixels a unit of the figure: sharp on dense screens, and still small as a file.
const SCALE: f32 = 2.0;
/// Families of which the first that the system has stands in for `sans-serif`.
const FAMILIES: [&str; 8] = [
    "Inter",
    "Noto Sans",
    "Roboto",
    "Segoe UI",
    "Helvetica Neue",
    "DejaVu Sans",
    "Liberation Sans",
    "Arial",
];

/// Why there is no PNG.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The system has no fonts.
    #[error("the system has no fonts to draw PNG files with: install one, or use the SVG files")]
    NoFonts,
    /// The picture could not be drawn.
    #[error("cannot draw the figure {figure} as PNG: {reason}; its SVG file is complete")]
    Drawing {
        /// The figure's name.
        figure: String,
        /// What the library says.
        reason: String,
    },
}

/// A figure as PNG, on light ground, two pixels a unit.
///
/// # Errors
/// When the system has no fonts, or the figure cannot be drawn.
pub fn png(figure: &Figure) -> Result<Vec<u8>, PngError> {
    let failed = |reason: String| PngError::Drawing {
        figure: figure.name.clone(),
        reason,
    };
    let tree = Tree::from_str(&figure.svg(Paint::Light), options()?)
        .map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let mut pixels = size
        .and_then(|size| Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| failed("it has no size".to_owned()))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| failed(error.to_string()))
}

/// The system's fonts, looked up once for the process.
fn options() -> Result<&'static Options<'static>, PngError> {
    static OPTIONS: OnceLock<Option<Options<'static>>> = OnceLock::new();
    OPTIONS.get_or_init(load).as_ref().ok_or(PngError::NoFonts)
}

fn load() -> Option<Options<'static>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let has = |family: &&&str| {
        let query = fontdb::Query {
            families: &[fontdb::Family::Name(family)],
            ..fontdb::Query::default()
        };
        fonts.query(&query).is_some()
    };
    let known = FAMILIES.iter().find(has).map(|&family| family.to_owned());
    let any = || {
        fonts
            .faces()
            .next()?
            .families
            .first()
            .map(|family| family.0.clone())
    };
    let family = known.or_else(any)?;
    fonts.set_sans_serif_family(family);
    Some(Options {
        fontdb: Arc::new(fonts),
        ..Options::default()
    })
}
