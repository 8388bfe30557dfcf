//! How often each object was tried without success.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Failed attempts by object.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<String, u32>>);

impl Attempts {
    /// Counts one more; how many there were before.
    pub(super) fn count(&self, object: &str) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(object.to_owned()).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        before
    }

    /// It went well, or is gone.
    pub(super) fn forget(&self, object: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(object);
    }
}
