//! The emulator's disk with a volatile cache, served to it by the network block
//! device protocol over a socket. That the emulator goes is the power cut.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

use super::cache::CachedDisk;
use super::rng::Rng;

const MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// "Fixed newstyle" negotiation, and no padding after it.
const SERVER_FLAGS: u16 = 0b11;
/// Flags are valid; flush, forced writes and zeroing are understood.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 6;

const OPT_ABORT: u32 = 2;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_UNSUPPORTED: u32 = 1 << 31 | 1;

const FLAG_FUA: u16 = 1;
const EINVAL: u32 = 22;
const EIO: u32 = 5;
/// Longer requests than any client sends are nonsense.
const MOST: usize = 64 << 20;

/// A disk that is being served to one emulator.
pub(super) struct Served {
    thread: JoinHandle<io::Result<u64>>,
}

impl Served {
    /// Listens on `socket` and serves the file until the client goes.
    pub(super) fn start(socket: &Path, file: &Path, mut rng: Rng) -> io::Result<Self> {
        let mut disk = CachedDisk::open(file)?;
        let listener = UnixListener::bind(socket)?;
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            // However it ends: a client that is killed may leave half a request.
            let _ = serve(&stream, &mut disk);
            disk.cut(&mut rng)
        });
        Ok(Self { thread })
    }

    /// Waits for the cut; returns how many sectors it lost.
    pub(super) fn lost(self) -> io::Result<u64> {
        let gone = || io::Error::other("the disk's thread panicked");
        self.thread.join().map_err(|_| gone())?
    }
}

fn serve(mut stream: &UnixStream, disk: &mut CachedDisk) -> io::Result<()> {
    if negotiate(stream, disk.size())? {
        while let Some(request) = Request::read(&mut stream)? {
            request.answer(stream, disk)?;
        }
    }
    Ok(())
}

/// Whether the client goes on to read and write.
fn negotiate(mut stream: &UnixStream, size: u64) -> io::Result<bool> {
    let mut hello = Vec::new();
    hello.extend(MAGIC.to_be_bytes());
    hello.extend(OPTION.to_be_bytes());
    hello.extend(SERVER_FLAGS.to_be_bytes());
    stream.write_all(&hello)?;
    let _client_flags = read_u32(&mut stream)?;
    loop {
        if read_u64(&mut stream)? != OPTION {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let option = read_u32(&mut stream)?;
        let length = read_u32(&mut stream)? as usize;
        if length > MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut vec![0; length])?;
        match option {
            OPT_INFO | OPT_GO => {
                let mut info = 0_u16.to_be_bytes().to_vec();
                info.extend(size.to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                option_reply(stream, option, REP_INFO, &info)?;
                option_reply(stream, option, REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_ABORT => {
                option_reply(stream, option, REP_ACK, &[])?;
                return Ok(false);
            }
            _ => option_reply(stream, option, REP_UNSUPPORTED, &[])?,
        }
    }
}

fn option_reply(mut stream: &UnixStream, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut reply = OPTION_REPLY.to_be_bytes().to_vec();
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend(
        u32::try_from(data.len())
            .map_err(io::Error::other)?
            .to_be_bytes(),
    );
    reply.extend(data);
    stream.write_all(&reply)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Read,
    Write,
    Flush,
    WriteZeroes,
    /// One that we did not offer.
    Unknown,
}

struct Request {
    command: Command,
    forced: bool,
    cookie: u64,
    offset: u64,
    length: usize,
    payload: Vec<u8>,
}

impl Request {
    /// `None` if the client says goodbye.
    fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        if read_u32(stream)? != REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let kinds = read_u32(stream)?;
        let (flags, kind) = ((kinds >> 16) as u16, kinds & 0xffff);
        let cookie = read_u64(stream)?;
        let offset = read_u64(stream)?;
        let length = read_u32(stream)? as usize;
        let command = match kind {
            0 => Command::Read,
            1 => Command::Write,
            2 => return Ok(None),
            3 => Command::Flush,
            6 => Command::WriteZeroes,
            _ => Command::Unknown,
        };
        let mut payload = Vec::new();
        if command == Command::Write {
            if length > MOST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            payload.resize(length, 0);
            stream.read_exact(&mut payload)?;
        }
        Ok(Some(Self {
            command,
            forced: flags & FLAG_FUA != 0,
            cookie,
            offset,
            length,
            payload,
        }))
    }

    fn answer(&self, mut stream: &UnixStream, disk: &mut CachedDisk) -> io::Result<()> {
        let mut data = Vec::new();
        let error = match self.carry_out(disk, &mut data) {
            Ok(()) => 0,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => EINVAL,
            Err(_) => EIO,
        };
        let mut reply = REPLY.to_be_bytes().to_vec();
        reply.extend(error.to_be_bytes());
        reply.extend(self.cookie.to_be_bytes());
        if error == 0 {
            reply.append(&mut data);
        }
        stream.write_all(&reply)
    }

    fn carry_out(&self, disk: &mut CachedDisk, data: &mut Vec<u8>) -> io::Result<()> {
        let in_bounds = disk.has(self.offset, self.length);
        match self.command {
            Command::Flush => return disk.flush(),
            Command::Unknown => return Err(io::ErrorKind::InvalidInput.into()),
            _ if !in_bounds => return Err(io::ErrorKind::InvalidInput.into()),
            Command::Read if self.length > MOST => return Err(io::ErrorKind::InvalidInput.into()),
            Command::Read => {
                data.resize(self.length, 0);
                return disk.read(self.offset, data);
            }
            Command::Write => disk.write(self.offset, &self.payload),
            Command::WriteZeroes => disk.zero(self.offset, self.length),
        }
        if self.forced {
            disk.force(self.offset, self.length)?;
        }
        Ok(())
    }
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
