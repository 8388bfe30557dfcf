//! lvm.conf with lvmlocal.conf, the devices file and the mount table.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use lvcsi_fuzz::host::linux::{devices_file, lvm_conf, mount_table};
use lvcsi_fuzz::mutate;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            let mut files = data.splitn(2, |byte| *byte == 0);
            let main = files.next().unwrap_or_default();
            lvm_conf(files.next().unwrap_or_default(), main);
        }
        1 => devices_file(&String::from_utf8_lossy(data)),
        _ => mount_table(data),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::text(data, size, max_size, seed)
});
