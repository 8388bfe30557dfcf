//! Mutations for metadata texts. Changing bytes at random breaks a text long
//! before it says something interesting; these change what a line says.

use libfuzzer_sys::fuzzer_mutate;

/// Numbers at which something changes its type, sign or size.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "8",
    "100",
    "8192",
    "65535",
    "2147483647",
    "2147483648",
    "4294967294",
    "4294967295",
    "4294967296",
    "18014398509481983",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "017",
    "1.5",
    "[]",
];

/// Words that lvm2 gives a meaning.
const WORDS: &[&str] = &[
    "",
    "pv0",
    "pv1",
    "striped",
    "linear",
    "mirror",
    "raid0",
    "raid1",
    "snapshot",
    "thin",
    "thin-pool",
    "cache",
    "error",
    "zero",
    "VISIBLE",
    "READ",
    "WRITE",
    "WRITE_LOCKED",
    "LOCKED",
    "PVMOVE",
    "MISSING",
    "EXPORTED",
    "RESIZEABLE",
    "ALLOCATABLE",
    "contiguous",
    "cling",
    "anywhere",
    "..",
    "snapshot0",
    "a\\\"b\\\\",
];

/// Numbers from a seed, good enough to choose with.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let number = usize::try_from(self.0 >> 16).unwrap_or(0);
        number.checked_rem(end).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.below(items.len())).copied()
    }
}

/// A mutator for `fuzz_mutator!`: every third time libFuzzer's own mutation,
/// else up to four changes of lines, numbers and strings.
pub fn text(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed) << 8 | 0x9e37);
    let Some(given) = data.get(..size) else {
        return size;
    };
    if random.below(3) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut lines: Vec<Vec<u8>> = given.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..=random.below(4) {
        change(&mut lines, &mut random);
    }
    let text = lines.join(&b'\n');
    let len = text.len().min(max_size).min(data.len());
    data[..len].copy_from_slice(&text[..len]);
    len
}

fn change(lines: &mut Vec<Vec<u8>>, random: &mut Random) {
    let at = random.below(lines.len());
    let other = random.below(lines.len());
    match random.below(12) {
        0..=3 => number(&mut lines[at], random),
        4..=6 => word(lines, at, other, random),
        7 => {
            lines.remove(at);
            if lines.is_empty() {
                lines.push(Vec::new());
            }
        }
        8 => lines.swap(at, other),
        9 => {
            let line = lines[at].clone();
            lines.insert(other, line);
        }
        10 => {
            // A whole section, or something like it.
            let end = lines.len().min(at + 1 + random.below(24));
            let block = lines[at..end].to_vec();
            lines.splice(other..other, block);
        }
        _ => {
            let end = lines.len().min(at + 1 + random.below(24));
            if end - at < lines.len() {
                lines.drain(at..end);
            }
        }
    }
}

/// Replaces one number of the line, or moves it by a little.
fn number(line: &mut Vec<u8>, random: &mut Random) {
    let runs = runs(line, |b| b.is_ascii_digit());
    let Some((start, end)) = random.pick(&runs) else {
        return;
    };
    let old = std::str::from_utf8(&line[start..end]).unwrap_or_default();
    let new = match old.parse::<u64>() {
        Ok(old) if random.below(2) == 0 => {
            let step = u64::try_from(random.below(3)).unwrap_or(0) + 1;
            let up = random.below(2) == 0;
            let moved = if up {
                old.wrapping_add(step)
            } else {
                old.wrapping_sub(step)
            };
            moved.to_string()
        }
        _ => random.pick(NUMBERS).unwrap_or_default().to_owned(),
    };
    line.splice(start..end, new.into_bytes());
}

/// Replaces one string of the line by a known word or by a string from elsewhere.
fn word(lines: &mut [Vec<u8>], at: usize, other: usize, random: &mut Random) {
    let strings = |line: &[u8]| -> Vec<(usize, usize)> {
        let quotes: Vec<usize> = (0..line.len()).filter(|i| line[*i] == b'"').collect();
        let (pairs, _) = quotes.as_chunks::<2>();
        pairs.iter().map(|[start, end]| (start + 1, *end)).collect()
    };
    let Some((start, end)) = random.pick(&strings(&lines[at])) else {
        return;
    };
    let new = match random.pick(&strings(&lines[other])) {
        Some((from, to)) if random.below(2) == 0 => lines[other][from..to].to_vec(),
        _ => random.pick(WORDS).unwrap_or_default().as_bytes().to_vec(),
    };
    lines[at].splice(start..end, new);
}

/// Where the bytes are that pass, run by run.
fn runs(line: &[u8], pass: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, byte) in line.iter().enumerate() {
        match (pass(*byte), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found.push((from, line.len()));
    }
    found
}
