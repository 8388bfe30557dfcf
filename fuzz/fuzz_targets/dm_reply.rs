//! Replies of device-mapper.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lvcsi_sys::dm::reply;

fuzz_target!(|data: &[u8]| {
    let _ = reply::flags(data);
    let _ = reply::buffer_full(data);
    let _ = reply::version(data);
    // Names may grow by the replacement of bytes that are not UTF-8, at most
    // threefold, and no record is read twice.
    let most = data.len() * 3;
    if let Ok(info) = reply::info(data) {
        assert!(info.name.len() + info.uuid.len() <= most);
    }
    if let Ok(lines) = reply::targets(data) {
        let text: usize = lines.iter().map(|l| l.kind.len() + l.params.len()).sum();
        assert!(text <= most && lines.len() <= data.len());
    }
    if let Ok(rows) = reply::devices(data) {
        let text: usize = rows.iter().map(|(entry, _)| entry.name.len()).sum();
        assert!(text <= most && rows.len() <= data.len());
    }
    if let Ok(deps) = reply::deps(data) {
        assert!(deps.len() <= data.len() / 8);
    }
    if let Ok(kinds) = reply::target_versions(data) {
        assert!(kinds.len() <= data.len());
    }
    if let Ok(Some(text)) = reply::message(data) {
        assert!(text.len() <= most);
    }
});
