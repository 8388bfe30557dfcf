//! Connections from the kubelet, whose requests name an authority that is none.
//!
//! The kubelet dials the registration socket by its path, and its gRPC client
//! puts that into `:authority`, escaped (`%2Fvar%2Flib…`). RFC 3986 allows it as
//! a host; the `http` crate does not, so our server would refuse every request
//! before we see it. The filter below replaces the value while the bytes arrive.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// What a client sends first (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// Of a frame (RFC 9113 §4.1).
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Largest payload that a peer may send to somebody who has not asked for more.
const LARGEST: usize = 16 << 10;
/// `:authority` in the static table (RFC 7541, appendix A).
const AUTHORITY: u64 = 1;
const LOCALHOST: &[u8] = b"localhost";

/// A connection whose requests are for `localhost`, whatever the client says.
#[derive(Debug)]
pub(super) struct Localhost<S> {
    inner: S,
    filter: Filter,
}

impl<S> Localhost<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            filter: Filter::default(),
        }
    }
}

impl<S> Connected for Localhost<S> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl<S: AsyncRead + Unpin> AsyncRead for Localhost<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.filter.give(out) {
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(())) => self.filter.take(buffer.filled()),
                other => return other,
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Localhost<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Passes a client's bytes on, frame by frame.
#[derive(Debug, Default)]
struct Filter {
    begun: bool,
    raw: Vec<u8>,
    done: Vec<u8>,
    given: usize,
}

impl Filter {
    /// Whether there was something to give.
    fn give(&mut self, out: &mut ReadBuf<'_>) -> bool {
        let left = &self.done[self.given..];
        let length = left.len().min(out.remaining());
        out.put_slice(&left[..length]);
        self.given += length;
        if self.given == self.done.len() {
            self.done.clear();
            self.given = 0;
        }
        length > 0
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        if !self.begun {
            if self.raw.len() < PREFACE {
                return;
            }
            self.begun = true;
            self.done.extend(self.raw.drain(..PREFACE));
        }
        while let Some(frame) = self.frame() {
            match rewritten(&frame) {
                Some(frame) => self.done.extend(frame),
                None => self.done.extend(frame),
            }
        }
    }

    /// The next frame, if all of it is there. One that is too large is the
    /// server's to refuse: it goes on as it comes.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let header = self.raw.get(..FRAME_HEADER)?;
        let length = payload_length(header);
        let all = if length > LARGEST {
            self.raw.len()
        } else {
            FRAME_HEADER + length
        };
        (self.raw.len() >= all).then(|| self.raw.drain(..all).collect())
    }
}

fn payload_length(header: &[u8]) -> usize {
    header[..3]
        .iter()
        .fold(0, |length, &byte| length << 8 | usize::from(byte))
}

/// The frame with another authority, if it is a whole block of headers.
fn rewritten(frame: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = frame.split_at(FRAME_HEADER);
    let flags = header[4];
    let whole = header[3] == HEADERS && flags & END_HEADERS != 0 && flags & PADDED == 0;
    let before = if flags & PRIORITY == 0 { 0 } else { 5 };
    let block = payload.get(before..).filter(|_| whole)?;
    let block = replaced(block)?;
    let length = u32::try_from(before + block.len()).ok()?.to_be_bytes();
    let mut new = length[1..].to_vec();
    new.extend_from_slice(&header[3..]);
    new.extend_from_slice(&payload[..before]);
    new.extend_from_slice(&block);
    Some(new)
}

/// A block of header fields (RFC 7541 §6) with another authority.
///
/// The client's table then holds a larger entry than ours: at worst it has
/// dropped old entries that we still have, which changes no index that it uses.
fn replaced(block: &[u8]) -> Option<Vec<u8>> {
    let mut new = Vec::with_capacity(block.len());
    let mut rest = block;
    while let Some(&first) = rest.first() {
        let (prefix, literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (index, after) = integer(rest, prefix)?;
        let after = match (literal, index) {
            (false, _) => after,
            (true, AUTHORITY) => {
                new.extend_from_slice(&rest[..rest.len() - after.len()]);
                new.push(u8::try_from(LOCALHOST.len()).ok()?);
                new.extend_from_slice(LOCALHOST);
                rest = string(after)?;
                continue;
            }
            (true, 0) => string(string(after)?)?,
            (true, _) => string(after)?,
        };
        new.extend_from_slice(&rest[..rest.len() - after.len()]);
        rest = after;
    }
    Some(new)
}

/// An integer with so many bits in its first byte (RFC 7541 §5.1), and what
/// follows.
fn integer(bytes: &[u8], prefix: u32) -> Option<(u64, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let mask = (1_u64 << prefix) - 1;
    let mut value = u64::from(first) & mask;
    if value < mask {
        return Some((value, rest));
    }
    for shift in (0..28).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        value += (u64::from(byte) & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// What follows a string (RFC 7541 §5.2).
fn string(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = integer(bytes, 7)?;
    rest.get(usize::try_from(length).ok()?..)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What grpc-go sends to call a method of a socket that it dialled by its
    /// path: preface, settings, headers, and a message.
    pub(in crate::kube::agent) fn call(method: &str, message: &[u8]) -> Vec<u8> {
        let path = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Flocal.csi.openebs.io-reg.sock";
        let mut block = vec![0x83, 0x86];
        for (index, value) in [(0x44, method), (0x41, path), (0x5f, "application/grpc")] {
            block.push(index);
            block.push(u8::try_from(value.len()).unwrap());
            block.extend_from_slice(value.as_bytes());
        }
        block.extend_from_slice(b"\x40\x02te\x08trailers");
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[]));
        bytes.extend(frame(1, END_HEADERS, 1, &block));
        let length = u32::try_from(message.len()).unwrap();
        let body = [&[0], &length.to_be_bytes()[..], message].concat();
        bytes.extend(frame(0, 1, 1, &body));
        bytes
    }

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn filtered(bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut filter = Filter::default();
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            filter.take(piece);
            let mut buffer = [0; 7];
            loop {
                let mut buffer = ReadBuf::new(&mut buffer);
                if !filter.give(&mut buffer) {
                    break;
                }
                out.extend_from_slice(buffer.filled());
            }
        }
        out
    }

    #[test]
    fn the_authority_becomes_localhost_however_the_bytes_come() {
        let bytes = call("/a.B/C", b"message");
        let whole = filtered(&bytes, bytes.len());
        for piece in [1, 2, 9, 30, 100] {
            assert_eq!(filtered(&bytes, piece), whole);
        }
        let text = String::from_utf8_lossy(&whole);
        assert!(text.contains("\x41\x09localhost\x5f\x10application/grpc"));
        assert!(!text.contains("%2F") && text.contains("/a.B/C") && text.ends_with("message"));
    }

    #[test]
    fn what_is_not_understood_goes_on_unchanged() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let authority = b"\x41\x03a%b";
        for (flags, payload) in [
            (END_HEADERS | PADDED, authority.as_slice()),
            (0, authority),
            (END_HEADERS, b"\x41\x7fshort"),
            (END_HEADERS, b"\x41\xff\xff\xff\xff\xff\xff"),
            (END_HEADERS, b"\x82\x86"),
        ] {
            let bytes = [preface.clone(), frame(1, flags, 1, payload)].concat();
            assert_eq!(filtered(&bytes, 5), bytes, "{payload:x?}");
        }
        let large = [
            &preface[..],
            b"\x01\x00\x00\x00\x00\x00\x00\x00\x01",
            &[7; 9000],
        ]
        .concat();
        assert_eq!(filtered(&large, 4096), large);
    }

    #[test]
    fn other_ways_to_write_the_field_are_found() {
        let new = |block: &[u8]| replaced(block).unwrap();
        // Without a place in the table, never in one, and in Huffman's code.
        assert_eq!(new(b"\x01\x03a%b\x82"), b"\x01\x09localhost\x82");
        assert_eq!(new(b"\x11\x83\x1a\x2b\x3c"), b"\x11\x09localhost");
        // A change of the table's size, and a field in the table.
        assert_eq!(new(b"\x3f\xe1\x1f\xbe"), b"\x3f\xe1\x1f\xbe");
        assert_eq!(new(b"\x00\x01k\x01v"), b"\x00\x01k\x01v");
    }
}
