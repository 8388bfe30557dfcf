//! What does not become a PV or part of a VG, whatever is asked: every byte
//! stays as it was, in a dry run as well.

use lvm2::ondisk::label;

use super::disks::*;
use super::*;
use crate::engine::{DiskError, DiskRequest};
use crate::error::Kind;
use crate::host::sim::CallKind;
use crate::host::{HostError, Identity, SkipReason, Unfit};

/// The error of a request, which must leave every byte as it was, for a dry
/// run as well.
pub(super) fn refused(sim: &SimHost, request: &DiskRequest, agreed: bool) -> EngineError {
    let writes = |sim: &SimHost| {
        sim.calls()
            .iter()
            .filter(|call| {
                matches!(
                    call.kind,
                    CallKind::Write | CallKind::Zero | CallKind::Discard
                )
            })
            .count()
    };
    sim.clear_calls();
    let error = engine(sim.host())
        .change_disks(request, agreed)
        .expect_err(&format!("{request:?}"));
    assert_eq!(writes(sim), 0, "{request:?} was refused, but wrote");
    let dry = engine(sim.host()).plan_disks(request);
    assert_eq!(writes(sim), 0, "a dry run of {request:?} wrote");
    if !matches!(&error, EngineError::Disk(source) if matches!(**source, DiskError::Signatures { .. }))
    {
        let dry = dry.expect_err("a dry run refuses what a real one does");
        assert_eq!(dry.kind(), error.kind(), "{dry} / {error}");
    }
    error
}

pub(super) fn refused_disk(sim: &SimHost, request: &DiskRequest) -> DiskError {
    match refused(sim, request, true) {
        EngineError::Disk(source) => (*source).clone(),
        other => panic!("{request:?}: {other}"),
    }
}

#[test]
fn devices_that_are_used_otherwise_are_refused() {
    let held = vec!["vg-lv".to_owned()];
    let cases = [
        (Unfit::Mounted("/mnt".into()), "mounted at /mnt"),
        (Unfit::Swap, "swapoff"),
        (Unfit::Held(held), "vg-lv"),
        (Unfit::ReadOnly, "read-only"),
        (Unfit::Skipped(SkipReason::Partitioned), "partitioned"),
        (Unfit::Skipped(SkipReason::MdComponent), "md array"),
        (
            Unfit::Skipped(SkipReason::MultipathComponent("mpatha".to_owned())),
            "mpatha",
        ),
        (Unfit::Skipped(SkipReason::Filtered), "filter"),
        (Unfit::Skipped(SkipReason::Kind("zram".to_owned())), "zram"),
    ];
    for (reason, words) in cases {
        let sim = blank(&["/dev/sda", "/dev/sdb"]);
        sim.make_unfit("/dev/sdb", reason);
        for request in [
            create_pv(&["/dev/sda", "/dev/sdb"]),
            create_vg("data", &["/dev/sda", "/dev/sdb"]),
        ] {
            let error = refused_disk(&sim, &request);
            assert!(matches!(error, DiskError::Unfit { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("/dev/sdb") && text.contains(words), "{text}");
        }
    }
}

#[test]
fn lvs_and_small_and_absent_devices_are_refused() {
    let sim = machine();
    sim.add_disk("/dev/small", MIB, 512);
    let first = engine(sim.host());
    let lv = run(&first, Request::Create(create("one", 32))).unwrap();
    let node = lv.node.unwrap();
    let error = refused_disk(&sim, &create_pv(&[node.to_str().unwrap()]));
    assert!(error.to_string().contains("itself an LV"), "{error}");
    let error = refused_disk(&sim, &create_pv(&["/dev/small"]));
    assert!(error.to_string().contains("smaller than 2 MiB"), "{error}");
    let error = refused(&sim, &create_pv(&["/dev/absent"]), true);
    assert!(error.to_string().contains("/dev/absent"), "{error}");
    let error = refused_disk(&sim, &create_pv(&[]));
    assert_eq!(error, DiskError::NoDevice);
    sim.add_disk("/dev/sdc", 64 * MIB, 512);
    let error = refused_disk(&sim, &create_pv(&["/dev/sdc", "/dev/sdc"]));
    assert!(matches!(error, DiskError::Twice { .. }), "{error}");
}

#[test]
fn a_device_that_somebody_has_for_himself_is_refused() {
    let sim = blank(&["/dev/sda"]);
    let other = sim.host();
    let info = other.block.examine("/dev/sda".as_ref()).unwrap().info;
    let claim = other.block.open_exclusive(&info).unwrap();
    sim.clear_calls();
    let error = engine(sim.host())
        .change_disks(&create_pv(&["/dev/sda"]), true)
        .unwrap_err();
    assert!(matches!(&error, EngineError::Host { source, .. }
        if matches!(**source, HostError::Claimed { .. })));
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    drop(claim);
    ok(&sim, &create_pv(&["/dev/sda"]));
}

#[test]
fn pvs_of_any_vg_are_refused_whatever_the_state_of_the_vg() {
    let sim = machine();
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    let wanted = [
        create_pv(&["/dev/sdb"]),
        create_vg("other", &["/dev/sdc", "/dev/sdb"]),
        DiskRequest::RemovePv {
            devices: paths(&["/dev/sdb"]),
        },
    ];
    for request in &wanted {
        let error = refused_disk(&sim, request);
        assert_eq!(
            error,
            DiskError::Member {
                path: "/dev/sdb".into(),
                vg: vg()
            },
        );
    }
    // The VG misses its other PV.
    sim.detach("/dev/sda");
    for request in &wanted {
        let error = refused_disk(&sim, request);
        assert!(matches!(error, DiskError::Member { .. }), "{error}");
    }
    let error = refused(&sim, &extend_vg(&["/dev/sdc"]), true);
    assert!(error.to_string().contains("missing"), "{error}");
    let error = refused(&sim, &remove_vg(), true);
    assert!(error.to_string().contains("missing"), "{error}");
    sim.attach("/dev/sda");
    // A copy of a PV of the VG.
    let head = sim.disk("/dev/sdb").read(0, MIB_LEN);
    sim.disk("/dev/sdc").write(0, &head);
    let error = refused_disk(&sim, &create_pv(&["/dev/sdc"]));
    assert!(
        matches!(
            error,
            DiskError::Duplicate { .. } | DiskError::Member { .. }
        ),
        "{error}"
    );
}

/// Pitfall 18: a label that says "in use" is believed, and so is metadata.
#[test]
fn pitfall_18_what_a_label_or_an_area_says_about_a_vg_is_believed() {
    let sim = machine();
    // The VG's other PV is gone, and this one lost its text.
    let area = lvm2::ondisk::Area {
        offset: Bytes(4096),
        size: Bytes(MIB - 4096),
    };
    let empty = lvm2::ondisk::mda::MdaHeader::empty(area).encode();
    sim.disk("/dev/sdb").write(4096, &empty);
    sim.detach("/dev/sda");
    let error = refused_disk(&sim, &create_pv(&["/dev/sdb"]));
    assert_eq!(
        error,
        DiskError::InUse {
            path: "/dev/sdb".into()
        }
    );
    assert!(error.to_string().contains("pvremove -ff /dev/sdb"));
    // A damaged area of a PV whose label says that nothing uses it.
    let header = label_on(&sim, "/dev/sdb").unwrap().with_in_use(false);
    sim.disk("/dev/sdb")
        .write(512, &label::encode(1, &header).unwrap());
    sim.disk("/dev/sdb").write(4100, b"garbage");
    let error = refused_disk(&sim, &create_pv(&["/dev/sdb"]));
    assert!(matches!(error, DiskError::Damaged { .. }), "{error}");
    // A damaged label is one as well, unless wipefs took its type away.
    sim.disk("/dev/sdb").write(4096, &empty);
    sim.disk("/dev/sdb").write(512 + 40, b"x");
    let error = refused_disk(&sim, &create_pv(&["/dev/sdb"]));
    assert!(matches!(error, DiskError::Damaged { .. }), "{error}");
    sim.disk("/dev/sdb").write(512 + 24, &[0; 8]);
    engine(sim.host())
        .change_disks(&create_pv(&["/dev/sdb"]), true)
        .unwrap();
}

#[test]
fn a_device_beside_the_devices_file_is_read_before_it_is_believed_free() {
    let sim = machine();
    sim.use_devices_file(&["/dev/sda"]);
    let error = refused_disk(&sim, &create_pv(&["/dev/sdb"]));
    assert!(matches!(error, DiskError::Unseen { .. }), "{error}");
    assert!(error.to_string().contains("lvmdevices --adddev"), "{error}");
}

#[test]
fn names_that_are_taken_and_disks_that_do_not_match_are_refused() {
    let sim = machine();
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    sim.add_disk("/dev/big", 256 * MIB, 4096);
    let error = refused_disk(&sim, &create_vg("data", &["/dev/sdc"]));
    assert!(matches!(error, DiskError::VgExists { .. }), "{error}");
    assert_eq!(error.kind(), Kind::AlreadyExists);
    let error = refused_disk(&sim, &create_vg("sdc", &["/dev/sdc"]));
    assert!(matches!(error, DiskError::NameTaken { .. }), "{error}");
    for request in [
        create_vg("other", &["/dev/sdc", "/dev/big"]),
        extend_vg(&["/dev/big"]),
    ] {
        let error = refused_disk(&sim, &request);
        assert!(matches!(error, DiskError::BlockSizes { .. }), "{error}");
    }
    let error = refused_disk(&sim, &reduce_vg(&["/dev/sdc"]));
    assert!(matches!(error, DiskError::NotMember { .. }), "{error}");
    let error = refused_disk(&sim, &resize_pv("/dev/sdc"));
    assert!(matches!(error, DiskError::NotPv { .. }), "{error}");
    let error = refused(
        &sim,
        &create_vg("tiny", &["/dev/sdc"]).with_extent(1 << 20),
        true,
    );
    assert!(
        error.to_string().contains("no room for an extent"),
        "{error}"
    );
    let nobody = DiskRequest::RemoveVg {
        vg: VgName::new("nobody").unwrap(),
    };
    let error = refused(&sim, &nobody, true);
    assert_eq!(error.kind(), Kind::NotFound);
    let foreign = Identity {
        hostname: "other".to_owned(),
        system_id: Some("other".to_owned()),
        ..Identity::default()
    };
    let owner = Engine::start(sim.host_as(foreign), EngineConfig::default()).unwrap();
    owner
        .change_disks(&create_vg("theirs", &["/dev/sdc"]), false)
        .unwrap();
    let theirs = DiskRequest::RemoveVg {
        vg: VgName::new("theirs").unwrap(),
    };
    let error = refused(&sim, &theirs, true);
    assert!(error.to_string().contains("system id other"), "{error}");
    owner.change_disks(&theirs, false).unwrap();
}

impl DiskRequest {
    /// The same VG with extents of so many sectors.
    fn with_extent(mut self, sectors: u64) -> Self {
        if let Self::CreateVg { extent_size, .. } = &mut self {
            *extent_size = ExtentSize::new(Sectors(sectors)).unwrap();
        }
        self
    }
}
