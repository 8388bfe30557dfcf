//! Requests that cannot be carried out: a clear error with the right code, and
//! disks that stay as they were, byte for byte.

use lvcsi_kit::csi::v1::{CapacityRange, CreateVolumeRequest};
use lvcsi_kit::csi::{capability, create_request};
use lvcsi_kit::{Driver, LoopVg};
use tonic::Code;

use crate::support::{MIB, Tidy};

struct Case {
    what: &'static str,
    code: Code,
    /// What the message must name.
    names: &'static str,
    request: CreateVolumeRequest,
}

fn cases(vg: &str) -> Vec<Case> {
    let good = || create_request(vg, "pvc-x", 16 * MIB, "ext4");
    let case = |what, code, names, change: &dyn Fn(&mut CreateVolumeRequest)| {
        let mut request = good();
        change(&mut request);
        Case {
            what,
            code,
            names,
            request,
        }
    };
    let parameter = |key: &'static str, value: &'static str| {
        move |r: &mut CreateVolumeRequest| _ = r.parameters.insert(key.into(), value.into())
    };
    let sizes = |required_bytes, limit_bytes| {
        move |r: &mut CreateVolumeRequest| {
            r.capacity_range = Some(CapacityRange {
                required_bytes,
                limit_bytes,
            });
        }
    };
    use Code::{InvalidArgument, OutOfRange, ResourceExhausted};
    vec![
        case("no name", InvalidArgument, "name", &|r| r.name.clear()),
        case("no capabilities", InvalidArgument, "capabilit", &|r| {
            r.volume_capabilities.clear()
        }),
        case("a name of 300 bytes", InvalidArgument, "name", &|r| {
            r.name = "n".repeat(300)
        }),
        case("a control character", InvalidArgument, "name", &|r| {
            r.name = "a\u{1}b".into()
        }),
        case(
            "a negative size",
            InvalidArgument,
            "required_bytes",
            &sizes(-1, 0),
        ),
        case(
            "limit below size",
            InvalidArgument,
            "limit_bytes",
            &sizes(64 * MIB, 32 * MIB),
        ),
        case(
            "no extent fits the limit",
            OutOfRange,
            "extent",
            &sizes(1, 1000),
        ),
        case(
            "more than the VG",
            ResourceExhausted,
            "free",
            &sizes(1 << 40, 0),
        ),
        case(
            "more than anything",
            ResourceExhausted,
            "pvc-x",
            &sizes(i64::MAX, 0),
        ),
        case(
            "thinProvision",
            InvalidArgument,
            "maybe",
            &parameter("thinProvision", "maybe"),
        ),
        case(
            "shared",
            InvalidArgument,
            "perhaps",
            &parameter("shared", "perhaps"),
        ),
        case(
            "scheduler",
            InvalidArgument,
            "Best",
            &parameter("scheduler", "Best"),
        ),
        case("vgpattern", InvalidArgument, "vgpattern", &|r| {
            r.parameters.remove("volgroup");
            r.parameters.insert("vgpattern".into(), "(".into());
        }),
        case("no VG named", InvalidArgument, "volgroup", &|r| {
            r.parameters.clear()
        }),
        case(
            "a VG name that is none",
            InvalidArgument,
            "volgroup",
            &parameter("volgroup", "a b/c"),
        ),
        case(
            "a VG that is not there",
            ResourceExhausted,
            "nosuchvg",
            &parameter("volgroup", "nosuchvg"),
        ),
        case(
            "fsType",
            InvalidArgument,
            "ntfs",
            &parameter("fsType", "ntfs"),
        ),
        case("capability's fs_type", InvalidArgument, "zfs", &|r| {
            r.volume_capabilities = vec![capability("zfs")];
        }),
        case("two access types", InvalidArgument, "", &|r| {
            r.volume_capabilities = vec![capability("ext4"), capability("")];
        }),
    ]
}

#[test]
fn create_volume_refuses() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let before = vg.digest();
    let mut wrong = Vec::new();
    for case in cases(&vg.name) {
        let answer = csi.create_volume(case.request);
        match answer {
            Ok(response) => wrong.push(format!("{}: succeeded: {response:?}", case.what)),
            Err(status) => {
                if status.code() != case.code {
                    wrong.push(format!("{}: not {:?}: {status}", case.what, case.code));
                }
                if !status.message().contains(case.names) {
                    wrong.push(format!(
                        "{}: does not name {}: {status}",
                        case.what, case.names
                    ));
                }
            }
        }
        if vg.digest() != before {
            wrong.push(format!("{}: the disks have changed", case.what));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    vg.assert_clean();
}

#[test]
fn other_calls_refuse() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-x", 32 * MIB, "ext4")
        .expect("CreateVolume");
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l1", "-n", "stranger", &vg.name,
    ]);
    let before = vg.digest();
    let target = vg.dir().join("nowhere");
    let text = |answer: Result<(), tonic::Status>| {
        let status = answer.expect_err("must fail");
        assert!(!status.message().is_empty());
        status.code()
    };
    let size = |answer: Result<i64, tonic::Status>| text(answer.map(drop));
    use Code::*;
    assert_eq!(
        text(csi.create(&vg.name, "pvc-x", 64 * MIB, "ext4").map(drop)),
        AlreadyExists
    );
    assert_eq!(
        text(csi.create(&vg.name, "stranger", 4 * MIB, "ext4").map(drop)),
        AlreadyExists
    );
    assert_eq!(text(csi.delete("")), InvalidArgument);
    assert_eq!(text(csi.delete("stranger")), FailedPrecondition);
    assert_eq!(size(csi.expand("", 64 * MIB)), InvalidArgument);
    assert_eq!(size(csi.expand("nobody", 64 * MIB)), NotFound);
    assert_eq!(size(csi.expand("pvc-x", 1 << 40)), ResourceExhausted);
    assert_eq!(size(csi.expand("pvc-x", i64::MIN)), InvalidArgument);
    assert_eq!(
        text(csi.publish(&volume, std::path::Path::new(""), "ext4")),
        InvalidArgument
    );
    assert_eq!(text(csi.publish(&volume, &target, "")), FailedPrecondition);
    let mut unknown = volume.clone();
    unknown.volume_id = "nobody".into();
    assert_eq!(text(csi.publish(&unknown, &target, "ext4")), NotFound);
    assert_eq!(size(csi.node_expand("pvc-x", &target, 64 * MIB)), NotFound);
    assert_eq!(text(csi.stats("pvc-x", &target).map(drop)), NotFound);
    assert_eq!(vg.digest(), before, "refused, yet the disks have changed");

    // Not errors: repeating and asking for less.
    csi.delete("nobody")
        .expect("unknown volumes are deleted already");
    assert_eq!(
        csi.expand("pvc-x", 16 * MIB).expect("it is that large"),
        32 * MIB
    );
    csi.unpublish("pvc-x", &target)
        .expect("not published is unpublished");
    assert_eq!(
        vg.digest(),
        before,
        "nothing to do, yet the disks have changed"
    );
    csi.delete("pvc-x").expect("DeleteVolume");
    vg.assert_clean();
}
