//! Sparse bytes: a disk of any size that costs memory only where written.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of one page.
pub(super) const PAGE: u64 = PAGE_LEN as u64;

const PAGE_LEN: usize = 4096;

type Page = [u8; PAGE_LEN];

/// Sparse content. Pages are shared between copies until one is written.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pages: BTreeMap<u64, Arc<Page>>,
}

/// The part of a byte range that lies in one page.
struct Part {
    page: u64,
    inside: usize,
    len: usize,
    done: usize,
}

fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done;
        let inside = at % PAGE;
        let part = (PAGE - inside).min(len - done);
        let found = Part {
            page: at / PAGE,
            inside: index(inside),
            len: index(part),
            done: index(done),
        };
        done += part;
        Some(found)
    })
}

/// Offsets in memory always fit: they index buffers that exist.
pub(super) fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Pages {
    /// Fills `buf` from `offset`; what was never written is zero.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        for part in parts(offset, buf.len() as u64) {
            let target = &mut buf[part.done..part.done + part.len];
            match self.pages.get(&part.page) {
                Some(page) => target.copy_from_slice(&page[part.inside..part.inside + part.len]),
                None => target.fill(0),
            }
        }
    }

    /// Puts `data` at `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for part in parts(offset, data.len() as u64) {
            let page = self.page_mut(part.page);
            page[part.inside..part.inside + part.len]
                .copy_from_slice(&data[part.done..part.done + part.len]);
        }
    }

    /// Makes `length` bytes zero. Costs time only for pages that exist.
    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let first = offset / PAGE;
        let touched: Vec<u64> = self
            .pages
            .range(first..end.div_ceil(PAGE))
            .map(|(n, _)| *n)
            .collect();
        for number in touched {
            let start = number * PAGE;
            let from = index(offset.saturating_sub(start));
            let to = index((end - start).min(PAGE));
            if from == 0 && to == PAGE_LEN {
                self.pages.remove(&number);
            } else {
                self.page_mut(number)[from..to].fill(0);
            }
        }
    }

    /// The pages that were written, as offset and bytes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts_from(0)
    }

    /// The same from the page that holds `offset`.
    pub(super) fn parts_from(&self, offset: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let pages = self.pages.range(offset / PAGE..);
        pages.map(|(number, page)| (number * PAGE, page.as_slice()))
    }

    /// Takes over the pages of `other` that overlap the range.
    pub(super) fn adopt(&mut self, other: &Self, offset: u64, length: u64) {
        let first = offset / PAGE;
        let last = offset.saturating_add(length).div_ceil(PAGE);
        let stale: Vec<u64> = self.pages.range(first..last).map(|(n, _)| *n).collect();
        for number in stale {
            self.pages.remove(&number);
        }
        for (number, page) in other.pages.range(first..last) {
            self.pages.insert(*number, Arc::clone(page));
        }
    }

    fn page_mut(&mut self, number: u64) -> &mut Page {
        let page = self
            .pages
            .entry(number)
            .or_insert_with(|| Arc::new([0; PAGE_LEN]));
        Arc::make_mut(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_bytes_are_zero_and_writes_cross_pages() {
        let mut pages = Pages::default();
        pages.write(PAGE - 2, b"abcd");
        let mut buf = [1; 8];
        pages.read(PAGE - 4, &mut buf);
        assert_eq!(&buf, b"\0\0abcd\0\0");
        assert_eq!(pages.pages.len(), 2);
    }

    #[test]
    fn zeroing_frees_whole_pages_and_keeps_the_rest() {
        let mut pages = Pages::default();
        pages.write(0, &[7; 3 * PAGE_LEN]);
        pages.zero(100, 2 * PAGE);
        assert_eq!(pages.pages.len(), 2, "the page in the middle is gone");
        let mut buf = vec![0; 3 * PAGE_LEN];
        pages.read(0, &mut buf);
        let end = 100 + 2 * PAGE_LEN;
        assert!(buf[..100].iter().all(|byte| *byte == 7));
        assert!(buf[100..end].iter().all(|byte| *byte == 0));
        assert!(buf[end..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn zeroing_a_huge_hole_costs_nothing() {
        let mut pages = Pages::default();
        pages.zero(0, u64::MAX);
        assert!(pages.pages.is_empty());
    }

    #[test]
    fn copies_do_not_see_later_writes() {
        let mut pages = Pages::default();
        pages.write(0, b"old");
        let copy = pages.clone();
        pages.write(0, b"new");
        let mut buf = [0; 3];
        copy.read(0, &mut buf);
        assert_eq!(&buf, b"old");
    }
}
