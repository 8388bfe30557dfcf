//! The receipt for a queued change.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lvm2::name::LvName;
use tokio::sync::oneshot;

use super::activity::Activity;
use super::error::EngineError;
use super::state::LvState;

type Answer = Result<LvState, EngineError>;

/// Tells how a queued change ended.
pub struct Ticket {
    object: String,
    state: State,
}

enum State {
    /// The change was not queued.
    Refused(EngineError),
    Queued {
        answer: oneshot::Receiver<Answer>,
        activity: Arc<Activity>,
        lv: LvName,
    },
}

impl Ticket {
    pub(super) fn refused(object: String, error: EngineError) -> Self {
        Self {
            object,
            state: State::Refused(error),
        }
    }

    pub(super) fn new(
        object: String,
        answer: oneshot::Receiver<Answer>,
        activity: Arc<Activity>,
        lv: LvName,
    ) -> Self {
        Self {
            object,
            state: State::Queued {
                answer,
                activity,
                lv,
            },
        }
    }

    /// Waits for the end, unless the change hangs in a dead device: then the
    /// error says in which, and the change goes on without a listener. Not to
    /// be called on a thread that runs async tasks.
    ///
    /// # Errors
    /// Why the change did not happen, or not yet: [`EngineError::Stuck`].
    pub fn wait(self) -> Answer {
        let object = self.object;
        let (mut answer, activity, lv) = match self.state {
            State::Refused(error) => return Err(error),
            State::Queued {
                answer,
                activity,
                lv,
            } => (answer, activity, lv),
        };
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut answer).poll(&mut context) {
                return ended.unwrap_or(Err(EngineError::Closed { object }));
            }
            if let Some(obstacle) = activity.obstacle_of(&lv) {
                return Err(EngineError::Stuck {
                    object,
                    obstacle: Arc::new(obstacle),
                });
            }
            thread::park_timeout(activity.tick());
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
