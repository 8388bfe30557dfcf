//! Writes the seeds of one target into a folder: genuine samples, brought into
//! the form that the target reads.
//!
//! Usage: `seeds TARGET FOLDER`

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use lvm2::ondisk::label::{self, SEARCHED_BYTES};
use lvm2::ondisk::mda::MdaHeader;
use lvm2::ondisk::ring;

// The counters that the crates are compiled with live in libFuzzer.
use libfuzzer_sys as _;

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let (Some(target), Some(folder)) = (args.next(), args.next()) else {
        return Err(io::Error::other("usage: seeds TARGET FOLDER"));
    };
    let seeds = match target.as_str() {
        "text" | "vg" => texts()?,
        "pv_head" => heads()?,
        "dm_reply" => replies(),
        "words" => words(),
        "host_files" => host_files()?,
        _ => return Err(io::Error::other(format!("no target {target}"))),
    };
    fs::create_dir_all(&folder)?;
    for (name, bytes) in seeds {
        fs::write(Path::new(&folder).join(name), bytes)?;
    }
    Ok(())
}

type Seeds = Vec<(String, Vec<u8>)>;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lvm2/tests/data")
}

fn samples(ending: &str) -> io::Result<Seeds> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            found.push((name, fs::read(entry.path())?));
        }
    }
    Ok(found)
}

fn texts() -> io::Result<Seeds> {
    let mut seeds = samples(".txt")?;
    seeds.extend(samples(".vg")?);
    Ok(seeds)
}

/// Label sectors, header of the first area, and the text as it is read.
fn heads() -> io::Result<Seeds> {
    let mut seeds = Vec::new();
    for (name, packed) in samples(".head.gz")? {
        let mut image = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut image)?;
        let mut seed = image[..SEARCHED_BYTES].to_vec();
        let found = label::find(&image).map_err(io::Error::other)?;
        let area = found.and_then(|found| found.header.metadata_areas.first().copied());
        if let Some(area) = area {
            let start = usize::try_from(area.offset.0).map_err(io::Error::other)?;
            seed.extend(&image[start..start + 512]);
            let header = MdaHeader::decode(&image[start..], area.offset.0);
            let locn = header.as_ref().ok().and_then(|header| header.committed);
            if let (Ok(header), Some(locn)) = (&header, locn) {
                for piece in ring::pieces(header.size, locn.offset, locn.size).unwrap_or_default() {
                    let at = start + usize::try_from(piece.offset_in_mda).unwrap_or(0);
                    seed.extend(&image[at..at + piece.range.len()]);
                }
            }
        }
        seeds.push((name, seed));
    }
    Ok(seeds)
}

/// Replies as the kernel builds them: `struct dm_ioctl`, then what follows it.
fn replies() -> Seeds {
    const START: usize = 312;
    let header = |flags: u32, count: u32, data: &[u8]| {
        let size = u32::try_from(START + data.len()).unwrap_or(u32::MAX);
        let mut reply = Vec::new();
        for number in [4u32, 48, 0, size, 312, count, 0, flags, 7, 0] {
            reply.extend(number.to_ne_bytes());
        }
        reply.extend(0xfd01u64.to_ne_bytes());
        reply.extend(b"vg-lv\0");
        reply.resize(176, 0);
        reply.extend(b"LVM-0123\0");
        reply.resize(START, 0);
        reply.extend(data);
        reply
    };
    let target = |next: u32, kind: &[u8], params: &[u8]| {
        let mut spec = Vec::new();
        spec.extend(0u64.to_ne_bytes());
        spec.extend(8192u64.to_ne_bytes());
        spec.extend(0i32.to_ne_bytes());
        spec.extend(next.to_ne_bytes());
        spec.extend(kind);
        spec.resize(40, 0);
        spec.extend(params);
        spec.resize(spec.len().next_multiple_of(8), 0);
        spec
    };
    let table = [
        target(56, b"linear", b"8:16 2048\0"),
        target(112, b"linear", b"8:32 2048\0"),
    ]
    .concat();
    let row = |dev: u64, next: u32, name: &[u8], uuid: &[u8]| {
        let mut row = Vec::new();
        row.extend(dev.to_ne_bytes());
        row.extend(next.to_ne_bytes());
        row.extend(name);
        row.push(0);
        row.resize(row.len().next_multiple_of(8), 0);
        row.extend(3u32.to_ne_bytes());
        row.extend(1u32.to_ne_bytes());
        row.extend(uuid);
        row.push(0);
        row.resize(row.len().next_multiple_of(8), 0);
        row
    };
    let first = row(0xfd00, 40, b"vg-a", b"LVM-1");
    let list = [first, row(0xfd01, 0, b"vg-b", b"LVM-2")].concat();
    let mut deps = Vec::new();
    deps.extend(2u32.to_ne_bytes());
    deps.extend(0u32.to_ne_bytes());
    deps.extend(0x0810u64.to_ne_bytes());
    deps.extend(0x0820u64.to_ne_bytes());
    let mut versions = Vec::new();
    for number in [0u32, 1, 4, 0] {
        versions.extend(number.to_ne_bytes());
    }
    versions.extend(b"linear\0\0");
    [
        ("info", header(0x10, 1, &[])),
        ("targets", header(0x10, 2, &table)),
        ("devices", header(0, 0, &list)),
        ("deps", header(0, 0, &deps)),
        ("versions", header(0, 0, &versions)),
        ("message", header(1 << 16, 0, b"0 8 9\0")),
    ]
    .into_iter()
    .map(|(name, reply)| (name.to_owned(), reply))
    .collect()
}

fn words() -> Seeds {
    [
        "1.5g",
        "4",
        "7 KiB",
        "15.999e",
        "99999999999999999999",
        "vg0/lv-1",
        "vg--0-lv--a-real",
        "pvc-3f2b7c1e/x_tmeta",
        "VX5vBQ-8Yjm-ku97-ADYd-rGMZ-kAar-SAX8kk",
        "253:7",
        "lvcsi.access=mount",
        "a\"b\\c",
    ]
    .iter()
    .enumerate()
    .map(|(n, word)| (n.to_string(), word.as_bytes().to_vec()))
    .collect()
}

const LVM_CONF: &str = "# a comment\ndevices {\n\tfilter = [ \"a|^/dev/sd|\", \"r/.*/\" ]\n\
    \tglobal_filter = \"r(loop)\"\n\tscan_lvs = 0\n\tuse_devicesfile = 1\n\
    \tdevicesfile = \"system.devices\"\n\tmd_component_checks = \"auto\"\n}\n\
    devices/multipath_component_detection = 1\nglobal {\n\tlocking_dir = \"/run/lock/lvm\"\n\
    \tsystem_id_source = \"lvmlocal\"\n}\n\0local {\n\tsystem_id = \"node-1\"\n\
    \textra_system_ids = [ \"node-2\", \"localhost\" ]\n}\n";

const DEVICES_FILE: &str = "# LVM uses devices listed in this file.\nVERSION=1.1.2\n\
    IDTYPE=sys_wwid IDNAME=t10.ATA_QEMU_HARDDISK DEVNAME=/dev/sda PVID=x PART=1\n\
    IDTYPE=devname IDNAME=/dev/vdb DEVNAME=/dev/vdb PVID=.\n";

const MOUNTS: &str = "36 35 98:0 /mnt1 /mnt\\0402\\134x rw,noatime master:1 - ext3 /dev/root rw\n\
    40 22 0:5 /dm-3 /var/lib/kubelet/vol ro,nosuid - devtmpfs devtmpfs rw,size=4k\n";

fn host_files() -> io::Result<Seeds> {
    let kinds = [
        ("conf", LVM_CONF),
        ("devices", DEVICES_FILE),
        ("mounts", MOUNTS),
    ];
    Ok((0u8..)
        .zip(kinds)
        .map(|(kind, (name, text))| {
            let mut seed = vec![kind];
            seed.extend(text.as_bytes());
            (name.to_owned(), seed)
        })
        .collect())
}
