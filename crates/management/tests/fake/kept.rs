//! What delayed exchanges of a node keep back.

use leveret_management::api::DelayedMessage;
use leveret_management::directory::AlterError;
use serde_json::Value;
use std::sync::Mutex;

/// What an import made nothing of.
pub type Imported = Result<Vec<String>, AlterError>;

/// Messages by when they are due.
#[derive(Default)]
pub struct KeptBack(pub Mutex<Vec<DelayedMessage>>);

impl KeptBack {
    pub fn first(&self, from: (u64, u64), most: usize) -> (u64, Vec<DelayedMessage>) {
        let kept = self.0.lock().expect("kept back");
        let later = kept.iter().filter(|one| (one.due_ms, one.index) >= from);
        (kept.len() as u64, later.take(most).cloned().collect())
    }

    pub fn cancel(&self, which: (u64, u64)) -> bool {
        let mut kept = self.0.lock().expect("kept back");
        let before = kept.len();
        kept.retain(|one| (one.due_ms, one.index) != which);
        kept.len() < before
    }
}

/// What an import of these definitions makes of them.
pub fn imported(definitions: &Value) -> Imported {
    match definitions["vhosts"].is_array() {
        true => Ok(vec![
            "parameter 'p' in vhost '/': there is no federation".to_owned(),
        ]),
        false => Err(AlterError::Invalid("vhosts must be a list".to_owned())),
    }
}
