//! Definitions that are larger than the body of one import may be: cut into pieces, each of which
//! an import takes behind those before it.

use leveret_types::limits::{HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_BYTES_MAX};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Lists of what has to be there before anything is declared, in the order of an import.
const BEFORE: [&str; 2] = ["global_parameters", "vhosts"];
/// The list that has limits of virtual hosts as well.
const PARAMETERS: &str = "parameters";
/// The component of these limits.
const LIMITS: &str = "vhost-limits";
/// The list that has views of streams as well.
const QUEUES: &str = "queues";
/// The argument that makes a queue a view.
const VIEW_OF: &str = "x-stream-source";
/// Lists of who may do what. They come last: whoever imports may be among them, with another
/// password.
const ACCOUNTS: [&str; 3] = ["users", "permissions", "topic_permissions"];

/// What one import takes: the definitions as they are, or pieces of them that are to be imported
/// in this order, where they are larger than [`HTTP_DEFINITIONS_BYTES_MAX`]. Pieces have what an
/// import makes something of, and are smaller than they would have to be, as an import takes
/// several times its text.
///
/// # Errors
/// As [`cut`]. What is wrong in definitions that are not cut is left to the node to say.
pub fn definitions_pieces(definitions: Vec<u8>) -> Result<Vec<Vec<u8>>, NoDefinitions> {
    match is_one_piece(&definitions) {
        true => Ok(vec![definitions]),
        false => cut(&definitions, HTTP_BODY_BYTES_MAX),
    }
}

/// Whether one import takes definitions as they are.
#[must_use]
pub const fn is_one_piece(definitions: &[u8]) -> bool {
    definitions.len() <= HTTP_DEFINITIONS_BYTES_MAX
}

/// Why something cannot be cut, in the words of an import.
#[derive(Debug, thiserror::Error)]
pub enum NoDefinitions {
    /// It is no object of JSON.
    #[error("these are no definitions: {0}")]
    Text(serde_json::Error),
    /// What should be a list is none.
    #[error("these are no definitions: \"{0}\" is no list")]
    List(String),
}

/// Pieces of so many bytes at most each, but that no object is cut.
///
/// # Errors
/// If these are no definitions.
pub fn cut(definitions: &[u8], bytes_max: usize) -> Result<Vec<Vec<u8>>, NoDefinitions> {
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_slice(definitions).map_err(NoDefinitions::Text)?;
    let list = |name: &str| -> Result<Vec<&RawValue>, NoDefinitions> {
        let Some(list) = fields.get(name) else {
            return Ok(Vec::new());
        };
        serde_json::from_str(list.get()).map_err(|_| NoDefinitions::List(name.to_owned()))
    };
    let (limits, others): (Vec<_>, Vec<_>) = list(PARAMETERS)?.into_iter().partition(is_limit);
    let (views, queues): (Vec<_>, Vec<_>) = list(QUEUES)?.into_iter().partition(is_view);
    let mut pieces = Pieces::new(bytes_max);
    for name in BEFORE {
        pieces.add(name, list(name)?);
    }
    pieces.add(PARAMETERS, others);
    pieces.add("policies", list("policies")?);
    pieces.add("exchanges", list("exchanges")?);
    // A view needs its stream.
    pieces.add(QUEUES, queues.into_iter().chain(views));
    pieces.add("bindings", list("bindings")?);
    // Limits hold for what comes after: the definitions may have more than they allow.
    pieces.end();
    pieces.add(PARAMETERS, limits);
    pieces.end();
    for name in ACCOUNTS {
        pieces.add(name, list(name)?);
    }
    pieces.end();
    Ok(pieces.whole)
}

fn is_limit(parameter: &&RawValue) -> bool {
    #[derive(Deserialize)]
    struct Parameter {
        component: String,
    }
    let parameter = serde_json::from_str::<Parameter>(parameter.get());
    parameter.is_ok_and(|parameter| parameter.component == LIMITS)
}

fn is_view(queue: &&RawValue) -> bool {
    #[derive(Deserialize)]
    struct Queue<'a> {
        #[serde(borrow)]
        arguments: BTreeMap<String, &'a RawValue>,
    }
    let queue = serde_json::from_str::<Queue<'_>>(queue.get());
    queue.is_ok_and(|queue| queue.arguments.contains_key(VIEW_OF))
}

/// Pieces under way.
struct Pieces {
    bytes_max: usize,
    whole: Vec<Vec<u8>>,
    /// The one that is being made, and the list that is open in it.
    piece: Vec<u8>,
    open: Option<&'static str>,
}

impl Pieces {
    const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            whole: Vec::new(),
            piece: Vec::new(),
            open: None,
        }
    }

    /// Adds objects of a list. That must be the one that is open, or one that the piece under way
    /// does not have: of a key that stands twice the last one counts.
    fn add<'a>(&mut self, list: &'static str, objects: impl IntoIterator<Item = &'a RawValue>) {
        for object in objects {
            let object = object.get().as_bytes();
            let around = "],\"\":[]}".len() + list.len();
            if self.piece.len() + object.len() + around > self.bytes_max {
                self.end();
            }
            match self.open.replace(list) {
                Some(open) if open == list => self.piece.push(b','),
                open => {
                    let before: &[u8] = if open.is_some() { b"]," } else { b"{" };
                    self.piece.extend_from_slice(before);
                    self.piece.extend(format!("\"{list}\":[").bytes());
                }
            }
            self.piece.extend_from_slice(object);
        }
    }

    /// Ends a piece, if one is under way: what is added next begins another one.
    fn end(&mut self) {
        if self.open.take().is_some() {
            self.piece.extend_from_slice(b"]}");
            self.whole.push(std::mem::take(&mut self.piece));
        }
    }
}
