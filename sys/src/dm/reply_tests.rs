use proptest::prelude::*;

use super::*;

/// A reply with `flags` and `data` behind the header.
fn reply(flags: u32, target_count: u32, data: &[u8]) -> Vec<u8> {
    let mut reply = vec![0; size_of::<dm_ioctl>()];
    reply.extend_from_slice(data);
    let size = u32::try_from(reply.len()).unwrap();
    for (at, value) in [
        (0, 4),
        (4, 48),
        (12, size),
        (16, 312),
        (20, target_count),
        (28, flags),
    ] {
        reply[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
    }
    reply
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// A row of the device list as kernels from 5.13 on write it.
fn row(dev: u64, name: &str, event_nr: u32, uuid: Option<&str>, last: bool) -> Vec<u8> {
    let mut row = dev.to_ne_bytes().to_vec();
    row.extend([0; 4]);
    row.extend(name.as_bytes());
    row.push(0);
    pad(&mut row);
    row.extend(event_nr.to_ne_bytes());
    row.extend(if uuid.is_some() { 1u32 } else { 2 }.to_ne_bytes());
    if let Some(uuid) = uuid {
        row.extend(uuid.as_bytes());
        row.push(0);
    }
    pad(&mut row);
    if !last {
        let next = u32::try_from(row.len()).unwrap();
        row[8..12].copy_from_slice(&next.to_ne_bytes());
    }
    row
}

/// A line of a table as the kernel writes it; `at` is its offset in the data.
fn line(at: usize, start: u64, length: u64, kind: &str, params: &str) -> Vec<u8> {
    let mut line = start.to_ne_bytes().to_vec();
    line.extend(length.to_ne_bytes());
    line.extend([0; 8]);
    line.extend(kind.as_bytes());
    line.resize(40, 0);
    line.extend(params.as_bytes());
    line.push(0);
    pad(&mut line);
    let next = u32::try_from(at + line.len()).unwrap();
    line[20..24].copy_from_slice(&next.to_ne_bytes());
    line
}

#[test]
fn header_fields() {
    let mut bytes = reply(2 | 0x40 | 0x2000, 3, &[]);
    bytes[24..28].copy_from_slice(&5i32.to_ne_bytes());
    bytes[32..36].copy_from_slice(&9u32.to_ne_bytes());
    bytes[40..48].copy_from_slice(&0xfd03u64.to_ne_bytes());
    bytes[48..52].copy_from_slice(b"vg-a");
    bytes[176..181].copy_from_slice(b"LVM-x");
    let expected = DmInfo {
        dev: DevNo::new(253, 3),
        name: "vg-a".to_owned(),
        uuid: "LVM-x".to_owned(),
        open_count: 5,
        event_nr: 9,
        suspended: true,
        inactive_table: true,
        target_count: 3,
        uevent_generated: true,
        ..DmInfo::default()
    };
    assert_eq!(info(&bytes).unwrap(), expected);
    assert_eq!(version(&bytes).unwrap(), (4, 48, 0));
    assert!(!buffer_full(&bytes).unwrap());
    assert!(buffer_full(&reply(0x100, 0, &[])).unwrap());
}

#[test]
fn a_name_that_fills_its_field_is_refused() {
    let mut bytes = reply(0, 0, &[]);
    bytes[48..176].fill(b'n');
    let error = ReplyError::Unterminated {
        what: "device name",
        offset: 48,
    };
    assert_eq!(info(&bytes).unwrap_err(), error);
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidData);
}

#[test]
fn device_list_with_and_without_uuids() {
    let mut data = row(0xfd00, "vg-a", 1, Some("LVM-aaaa"), false);
    data.extend(row(0xfd01, "plain", 7, None, true));
    let rows = devices(&reply(0, 0, &data)).unwrap();
    let entry = |minor, name: &str, uuid: Option<&str>, event_nr| DmEntry {
        dev: DevNo::new(253, minor),
        name: name.to_owned(),
        uuid: uuid.map(str::to_owned),
        event_nr,
    };
    let uuid = Some("LVM-aaaa".to_owned());
    assert_eq!(
        rows,
        [
            (
                entry(0, "vg-a", Some("LVM-aaaa"), 1),
                ListedUuid::Told(uuid)
            ),
            (entry(1, "plain", None, 7), ListedUuid::Told(None)),
        ]
    );
}

#[test]
fn empty_device_lists() {
    assert_eq!(devices(&reply(0, 0, &[])).unwrap(), []);
    // Some kernels leave the zeroed first row in the reply.
    assert_eq!(devices(&reply(0, 0, &[0; 16])).unwrap(), []);
}

#[test]
fn old_kernels_tell_no_uuid() {
    // Interface 4.37 to 4.44: an event number, then zeros up to the next row.
    let mut data = row(0xfd00, "vg-a", 3, None, true);
    let flags = data.len() - 4;
    data[flags..].fill(0);
    let rows = devices(&reply(0, 0, &data)).unwrap();
    assert_eq!((rows[0].0.event_nr, &rows[0].1), (3, &ListedUuid::NotTold));
    // The same row as the last one of a list, cut behind the event number.
    let rows = devices(&reply(0, 0, &data[..flags])).unwrap();
    assert_eq!((rows[0].0.event_nr, &rows[0].1), (3, &ListedUuid::NotTold));
    // Before that: the name only.
    let rows = devices(&reply(0, 0, &data[..17])).unwrap();
    assert_eq!(
        (rows[0].0.name.as_str(), &rows[0].1),
        ("vg-a", &ListedUuid::NotTold)
    );
}

#[test]
fn table_lines() {
    let mut data = line(0, 0, 8192, "linear", "7:0 2048");
    let second = line(data.len(), 8192, 8, "error", "");
    data.extend(second);
    let lines = targets(&reply(0, 2, &data)).unwrap();
    let expected = |start, length, kind: &str, params: &str| TargetLine {
        start,
        length,
        kind: kind.to_owned(),
        params: params.to_owned(),
    };
    assert_eq!(
        lines,
        [
            expected(0, 8192, "linear", "7:0 2048"),
            expected(8192, 8, "error", "")
        ]
    );
    assert_eq!(targets(&reply(0, 0, &[])).unwrap(), []);
}

#[test]
fn links_must_lead_onwards() {
    let mut data = line(0, 0, 8, "error", "");
    data[20..24].copy_from_slice(&8u32.to_ne_bytes());
    let error = ReplyError::BadLink {
        what: "target",
        offset: 0,
        next: 8,
    };
    assert_eq!(targets(&reply(0, 1, &data)).unwrap_err(), error);
    let mut data = row(0xfd00, "a", 0, None, false);
    data[8..12].copy_from_slice(&4u32.to_ne_bytes());
    let error = ReplyError::BadLink {
        what: "device",
        offset: 0,
        next: 4,
    };
    assert_eq!(devices(&reply(0, 0, &data)).unwrap_err(), error);
}

#[test]
fn more_targets_than_there_are_is_truncated() {
    let data = line(0, 0, 8, "error", "");
    let error = targets(&reply(0, u32::MAX, &data)).unwrap_err();
    assert!(
        matches!(error, ReplyError::Truncated { what: "target", .. }),
        "{error}"
    );
}

#[test]
fn dependencies_versions_and_messages() {
    let mut data = 2u32.to_ne_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(0x0700u64.to_ne_bytes());
    data.extend(0x10_fd01u64.to_ne_bytes());
    assert_eq!(
        deps(&reply(0, 0, &data)).unwrap(),
        [DevNo::new(7, 0), DevNo::new(253, 257)]
    );
    assert!(deps(&reply(0, 0, &data[..20])).is_err());
    assert_eq!(deps(&reply(0, 0, &[])).unwrap(), []);

    let mut data = Vec::new();
    for (next, name) in [(32u32, "thin-pool"), (0, "linear")] {
        data.extend(next.to_ne_bytes());
        data.extend([1u32, 22, 3].map(u32::to_ne_bytes).concat());
        data.extend(name.as_bytes());
        data.push(0);
        pad(&mut data);
    }
    let kinds = target_versions(&reply(0, 0, &data)).unwrap();
    let version = (1, 22, 3);
    assert_eq!(
        kinds,
        [
            ("thin-pool".to_owned(), version),
            ("linear".to_owned(), version)
        ]
    );

    assert_eq!(message(&reply(0, 0, b"ignored\0")).unwrap(), None);
    assert_eq!(
        message(&reply(0x10000, 0, b"yes\0no")).unwrap().as_deref(),
        Some("yes")
    );
    assert_eq!(
        message(&reply(0x10000, 0, b"yes")).unwrap().as_deref(),
        Some("yes")
    );
}

/// Runs every decoder; the results do not matter, returning does.
fn decode_all(bytes: &[u8]) {
    let _ = info(bytes);
    let _ = version(bytes);
    let _ = buffer_full(bytes);
    let _ = targets(bytes);
    let _ = devices(bytes);
    let _ = deps(bytes);
    let _ = target_versions(bytes);
    let _ = message(bytes);
}

#[test]
fn every_cut_of_a_reply_is_an_error_or_a_shorter_answer() {
    let mut data = row(0xfd00, "vg-a", 1, Some("LVM-aaaa"), false);
    data.extend(row(0xfd01, "vg-b", 1, Some("LVM-bbbb"), true));
    let whole = reply(0, 0, &data);
    for length in 0..whole.len() {
        decode_all(&whole[..length]);
        // The header promises more than there is.
        assert!(devices(&whole[..length]).is_err(), "{length}");
        // The uuid, here empty, is the last field that is read.
        assert_eq!(info(&whole[..length]).is_err(), length <= 176, "{length}");
    }
}

proptest! {
    #[test]
    fn no_data_panics(
        count: u32,
        flags: u32,
        data in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        decode_all(&reply(flags, count, &data));
    }

    #[test]
    fn no_header_panics(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        decode_all(&bytes);
    }

    /// Mostly zeros, so that links and lengths are small and get followed.
    #[test]
    fn no_links_panic(
        count in 0u32..20,
        words in proptest::collection::vec(prop_oneof![Just(0u32), 0u32..200], 0..150),
    ) {
        let data: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        decode_all(&reply(bindings::DM_DATA_OUT_FLAG, count, &data));
    }
}
