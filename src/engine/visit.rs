//! Looking at a VG without waiting for its devices for ever.
//!
//! A VG whose PVs do not answer in time is shown as it was last seen, with the
//! reason. The VG's worker is no visitor: it reads under the VG lock, and has
//! to know the truth.

use std::sync::Arc;

use lvm2::name::VgName;

use super::activity::{Activity, Obstacle, Watch};
use super::error::EngineError;
use super::hazard::Hazard;
use super::lanes::{Begun, Key, Late};
use super::loaded::Loaded;
use super::registry::Registry;
use crate::host::Host;

type Result<T> = std::result::Result<T, EngineError>;

/// A question about one VG.
pub(super) trait Question<T>:
    Fn(&Host, &Arc<Loaded>) -> Result<T> + Send + Sync + 'static
{
}

impl<T, F> Question<T> for F where F: Fn(&Host, &Arc<Loaded>) -> Result<T> + Send + Sync + 'static {}

/// What a visitor needs.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) registry: Arc<Registry>,
    pub(super) watch: Watch,
}

/// A question that was asked.
pub(super) struct Visit<T> {
    vg: VgName,
    question: Arc<dyn Question<T>>,
    begun: Asked<T>,
}

enum Asked<T> {
    /// The answer, or nothing if all devices have to be looked at first.
    Begun(std::result::Result<Begun<Option<Result<T>>>, Late>),
    /// The VG's worker hangs: its devices were not asked.
    Hanging(Obstacle),
    Failed(EngineError),
}

impl Visitor {
    /// Asks about a VG; `worker` is what is known of its worker.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        vg: &VgName,
        worker: Option<&Activity>,
        question: Arc<dyn Question<T>>,
    ) -> Visit<T> {
        let begun = match worker.and_then(Activity::obstacle) {
            Some(obstacle) => Asked::Hanging(obstacle),
            None => match self.registry.refresh(vg) {
                Err(error) => Asked::Failed(error),
                Ok(()) => Asked::Begun(self.look(vg, &question)),
            },
        };
        Visit {
            vg: vg.clone(),
            question,
            begun,
        }
    }

    fn look<T: Send + 'static>(
        &self,
        vg: &VgName,
        question: &Arc<dyn Question<T>>,
    ) -> std::result::Result<Begun<Option<Result<T>>>, Late> {
        let (registry, host) = (Arc::clone(&self.registry), self.watch.host.clone());
        let (name, question) = (vg.clone(), Arc::clone(question));
        let look = move || {
            let loaded = registry.current(&name)?;
            Some(question(&host, &loaded))
        };
        let key = Key::Metadata(vg.clone());
        self.registry.lanes().begin(key, self.watch.limit, look)
    }

    /// Waits for the answer.
    pub(super) fn end<T: Send + 'static>(&self, visit: Visit<T>) -> Result<T> {
        let Visit {
            vg,
            question,
            begun,
        } = visit;
        let begun = match begun {
            Asked::Failed(error) => return Err(error),
            Asked::Hanging(obstacle) => return self.ask_the_past(&vg, &obstacle, question),
            Asked::Begun(begun) => begun,
        };
        match begun.and_then(Begun::wait) {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.registry.rescan()?;
                let loaded = self.registry.known(&vg)?;
                self.ask(&loaded, question)
            }
            Err(late) => {
                let object = format!("VG {vg}");
                let obstacle = self.watch.obstacle(&object, late);
                let stuck = |_| EngineError::Stuck {
                    object,
                    obstacle: Arc::new(obstacle.clone()),
                };
                self.ask_the_past(&vg, &obstacle, question).map_err(stuck)
            }
        }
    }

    /// Asks about the VG as it was last seen.
    fn ask_the_past<T: Send + 'static>(
        &self,
        vg: &VgName,
        obstacle: &Obstacle,
        question: Arc<dyn Question<T>>,
    ) -> Result<T> {
        let known = self.registry.known(vg)?;
        let mut paths = known.pvs.iter().map(|pv| &pv.device.info().path);
        let hanging = paths.find(|path| path.to_string_lossy() == *obstacle.pending.object);
        let silence = Hazard::Silent {
            path: hanging
                .or_else(|| paths.next())
                .cloned()
                .unwrap_or_default(),
            reason: obstacle.to_string(),
        };
        let past = known.silenced(vec![silence]);
        self.ask(&Arc::new(past), question)
    }

    /// Asks about the VG as it was loaded, its devices in device-mapper but no
    /// PV.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        loaded: &Arc<Loaded>,
        question: Arc<dyn Question<T>>,
    ) -> Result<T> {
        let vg = loaded.vg.name();
        let (host, loaded) = (self.watch.host.clone(), Arc::clone(loaded));
        let key = Key::Mapped(vg.clone());
        let look = move || question(&host, &loaded);
        self.registry
            .lanes()
            .run(key, self.watch.limit, look)
            .map_err(|late| self.watch.stuck(format!("VG {vg}"), late))?
    }
}
