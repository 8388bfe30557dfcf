//! Mistakes by which an engine writes what lvm2 cannot read, each by its number
//! in docs/testing.md.

use lvcsi::engine::{Engine, EngineConfig, Request};
use lvcsi_kit::LoopVg;
use lvm2::name::VgName;

use crate::common::{Native, create, extents, machine};

/// Quotes, backslashes and what looks like the end of a section, in the strings
/// that do not come from our own code: lvm2 reads the text, and can write it
/// again. lvm2 2.03.16 escapes nothing in the host name of an LV, so these
/// characters must not get there.
#[test]
fn pitfall_15_strings_with_quotes_and_backslashes() {
    let vg = LoopVg::new(64);
    for (n, host) in ["a\"b", "a\\", "\\\"", "}\" = [", "# none", "né"]
        .iter()
        .enumerate()
    {
        let mut machine = machine(&vg);
        machine.identity.hostname = (*host).to_owned();
        machine.identity.kernel = "Linux \"6\"\n} \\ # x".to_owned();
        let native = Native {
            engine: Engine::start(machine, EngineConfig::default()).expect("the engine"),
            vg: VgName::new(vg.name.clone()).expect("name of a VG"),
        };
        let name = format!("lv{n}");
        let mut request = create(&name, extents(1));
        if let Request::Create(create) = &mut request {
            // This kernel may have no device-mapper.
            create.activate = false;
        }
        native.ok(request);
        let rows = vg.lvm.report("lvs", "lv_host", &[&vg.lv(&name)]);
        let plain = host.replace(['"', '\\'], "");
        assert_eq!(rows[0]["lv_host"], plain);
        // lvm2 writes the text anew, from what it understood.
        vg.lvm.clean(&["lvchange", "--addtag", "t", &vg.lv(&name)]);
        let text = vg.text();
        let read = lvm2::model::Vg::parse(text.as_bytes()).expect("lvm2's text");
        let read = read.lv(&name).and_then(|lv| lv.creation_host.clone());
        assert_eq!(read.as_deref(), Some(plain.as_str()));
    }
    vg.assert_clean();
}
