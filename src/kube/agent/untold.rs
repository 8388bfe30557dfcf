//! LVs that were made for an object that does not say so: the API server
//! refused the status, because somebody else had changed the object. Nobody ever
//! used such an LV. The next attempt tells of it; if the object is gone by then,
//! or will never be Ready, the LV is taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::work::WorkError;
use crate::engine::LvState;

/// By name of the object, which is the LV's. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Untold(Arc<Mutex<HashMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    uid: Option<String>,
    lv: LvState,
    held: bool,
}

/// An entry that nobody else can hold meanwhile. It stays when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    all: Untold,
    name: String,
    /// Of the object that the LV was made for.
    pub(super) uid: Option<String>,
    /// The LV.
    pub(super) lv: LvState,
}

impl Untold {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an LV that was just made.
    pub(super) fn remember(&self, name: &str, uid: Option<String>, lv: LvState) -> Held {
        let entry = Entry {
            uid: uid.clone(),
            lv: lv.clone(),
            held: true,
        };
        self.entries().insert(name.to_owned(), entry);
        Held {
            all: self.clone(),
            name: name.to_owned(),
            uid,
            lv,
        }
    }

    /// Holds the entry of this name, if there is one.
    ///
    /// # Errors
    /// [`WorkError::Busy`] while somebody else holds it.
    pub(super) fn hold(&self, name: &str) -> Result<Option<Held>, WorkError> {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(name) else {
            return Ok(None);
        };
        if entry.held {
            return Err(WorkError::Busy);
        }
        entry.held = true;
        Ok(Some(Held {
            all: self.clone(),
            name: name.to_owned(),
            uid: entry.uid.clone(),
            lv: entry.lv.clone(),
        }))
    }
}

impl Held {
    /// The object says so now, or the LV is gone.
    pub(super) fn forget(self) {
        self.all.entries().remove(&self.name);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(entry) = self.all.entries().get_mut(&self.name) {
            entry.held = false;
        }
    }
}
