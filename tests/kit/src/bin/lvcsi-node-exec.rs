//! Runs commands for the cluster's tests on a node that has no other way in:
//! `lvcsi-node-exec PORT`.
//!
//! A client sends the length of a shell script in decimal, a newline and the
//! script; it gets the output of both streams, a zero byte and the exit status in
//! decimal.
#![allow(
    clippy::disallowed_types,
    reason = "running commands is what it is for"
)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Longer scripts are a mistake.
const LONGEST: u64 = 1 << 20;

fn main() -> io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .ok_or_else(|| io::Error::other("usage: lvcsi-node-exec PORT"))?;
    // The host's forwarded connections arrive at the address of the network card.
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("lvcsi-node-exec: {error}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = String::new();
    reader.read_line(&mut length)?;
    let length: u64 = length
        .trim()
        .parse()
        .map_err(|_| io::Error::other(format!("no length: {length:?}")))?;
    if length > LONGEST {
        return Err(io::Error::other(format!("a script of {length} bytes")));
    }
    let mut script = String::new();
    reader.take(length).read_to_string(&mut script)?;
    let (mut output, writer) = io::pipe()?;
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    // Its copies of the pipe's end would keep the copy waiting.
    drop(command);
    io::copy(&mut output, &mut stream)?;
    let status = child.wait()?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    write!(stream, "\0{code}")?;
    stream.flush()
}
