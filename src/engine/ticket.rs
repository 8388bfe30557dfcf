//! The receipt for a queued change.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use tokio::sync::oneshot;

use super::error::EngineError;
use super::state::LvState;

/// Tells how a queued change ended, to a thread or to a task.
pub struct Ticket {
    object: String,
    answer: oneshot::Receiver<Result<LvState, EngineError>>,
}

impl Ticket {
    pub(super) fn new(
        object: String,
        answer: oneshot::Receiver<Result<LvState, EngineError>>,
    ) -> Self {
        Self { object, answer }
    }

    /// Waits for the end. Not to be called on a thread that runs async tasks.
    ///
    /// # Errors
    /// Why the change did not happen.
    pub fn wait(self) -> Result<LvState, EngineError> {
        self.answer
            .blocking_recv()
            .unwrap_or(Err(EngineError::Closed {
                object: self.object,
            }))
    }
}

impl IntoFuture for Ticket {
    type Output = Result<LvState, EngineError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.answer.await.unwrap_or(Err(EngineError::Closed {
                object: self.object,
            }))
        })
    }
}
