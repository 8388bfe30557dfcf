//! Devices of new volumes.
//!
//! A volume with a file system is Ready as soon as the metadata has it:
//! publishing activates it if nobody has. Its device follows when no volume has
//! been made for a moment. For each new device the host's udev rules start
//! several programs, and while many volumes are made at once that is most of
//! what they cost: the last of them, and the pods that wait for it, should not
//! wait for that too.
//!
//! What is not activated when the agent ends is activated by publishing, or by
//! the host when it starts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::engine::LvState;

/// How long no volume has been made before devices are.
pub(super) const QUIET: Duration = Duration::from_secs(10);

/// Activates what is told, one at a time, when nothing was told for `quiet`, until
/// `stop`.
pub(super) async fn activate(
    agent: Arc<Agent>,
    mut new: UnboundedReceiver<LvState>,
    quiet: Duration,
    stop: CancellationToken,
) {
    let mut waiting: VecDeque<LvState> = VecDeque::new();
    let mut from = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            lv = new.recv() => match lv {
                Some(lv) => {
                    waiting.push_back(lv);
                    from = Instant::now() + quiet;
                }
                None => return,
            },
            () = tokio::time::sleep_until(from), if !waiting.is_empty() => {
                if let Some(lv) = waiting.pop_front() {
                    one(&agent, lv).await;
                }
            }
        }
    }
}

async fn one(agent: &Arc<Agent>, lv: LvState) {
    let (vg, name) = (lv.vg.clone(), lv.name.clone());
    match agent.work(move |work| work.activate(&lv)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%vg, lv = %name, %error, "not active yet"),
        Err(stopped) => tracing::error!(%vg, lv = %name, %stopped, "activation ended early"),
    }
}
