//! Our engine, in this process.

use std::time::{Duration, Instant};

use lvcsi::engine::{Engine, EngineConfig, Request, Size};
use lvcsi::host::linux::{LinuxConfig, LinuxHost};
use lvm2::name::VgName;
use lvm2::units::Bytes;

use crate::common::{create, extend, lv};
use crate::{GROWTH, SIZE};

/// The engine and the VG that it works on.
pub(crate) struct Native {
    engine: Engine,
    vg: VgName,
}

impl Native {
    pub(crate) fn open(vg: &str) -> Self {
        let host = LinuxHost::open(&LinuxConfig::default()).expect("the host");
        let engine = Engine::start(host, EngineConfig::default()).expect("the engine");
        Self {
            engine,
            vg: VgName::new(vg).expect("name of a VG"),
        }
    }

    fn run(&self, request: Request) -> Duration {
        let start = Instant::now();
        let done = self.engine.submit(&self.vg, request).wait();
        let took = start.elapsed();
        done.unwrap_or_else(|error| panic!("{error}"));
        took
    }

    pub(crate) fn create(&self, name: &str) -> Duration {
        self.run(create(name, Size::Bytes(Bytes(SIZE.0))))
    }

    pub(crate) fn extend(&self, name: &str) -> Duration {
        self.run(extend(name, Size::Bytes(Bytes(GROWTH.0)), false))
    }

    pub(crate) fn remove(&self, name: &str) -> Duration {
        self.run(Request::Remove {
            name: lv(name),
            must_exist: true,
            require_tag: None,
        })
    }

    /// Fills the VG with `count` small inactive LVs, as fast as group commit
    /// allows.
    pub(crate) fn fill(&self, count: usize) {
        let tickets: Vec<_> = (0..count)
            .map(|n| {
                let mut request = create(&format!("fill{n}"), Size::Bytes(Bytes(4 << 20)));
                if let Request::Create(create) = &mut request {
                    create.activate = false;
                }
                self.engine.submit(&self.vg, request)
            })
            .collect();
        for ticket in tickets {
            ticket.wait().unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
