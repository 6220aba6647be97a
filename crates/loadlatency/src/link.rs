//! The pinger's connection at either end: messages read with a limit and written with a time-out.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::sys::{self, closed, would_block};
use crate::wire::{HEADER, read_header};

/// The longest that writing a message, or reading a greeting, may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection of messages.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    most: u32,
    bytes: Vec<u8>,
}

impl Link {
    /// Takes a connection whose greetings are exchanged; messages to be read have at most `most` bytes.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub(crate) fn new(stream: TcpStream, most: u32) -> io::Result<Link> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // `next` reads only what is there; this bounds the rest.
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Link { stream, most, bytes: Vec::new() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the other end is gone, or takes nothing for `TIMEOUT`.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(message)
    }

    /// The next message, kind and body, if one is whole within `wait`.
    ///
    /// # Errors
    /// When the other end is gone, or sends one that is too long.
    pub(crate) fn next(&mut self, wait: Duration) -> io::Result<Option<(u8, Vec<u8>)>> {
        if let Some(message) = self.whole()? {
            return Ok(Some(message));
        }
        if !sys::wait(&self.stream, false, wait)?.read {
            return Ok(None);
        }
        let mut some = [0; 16 << 10];
        match (&self.stream).read(&mut some) {
            Ok(0) => Err(closed()),
            Ok(count) => {
                self.bytes.extend(&some[..count]);
                self.whole()
            }
            Err(error) if would_block(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn whole(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let Some(header) = self.bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let (kind, length) = read_header(*header);
        if length > self.most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the other end sent what is no message"));
        }
        let end = HEADER + length as usize;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let body = self.bytes[HEADER..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some((kind, body)))
    }
}

/// Reads exactly so many bytes before `deadline_ns`, however slowly they come.
///
/// # Errors
/// When they do not.
pub(crate) fn read_before<const N: usize>(stream: &TcpStream, deadline_ns: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_before(stream, &mut bytes, deadline_ns)?;
    Ok(bytes)
}

/// Fills `bytes` likewise.
///
/// # Errors
/// When not so many come.
pub(crate) fn fill_before(stream: &TcpStream, bytes: &mut [u8], deadline_ns: u64) -> io::Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        let left = Duration::from_nanos(deadline_ns.saturating_sub(sys::now_ns()));
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        if sys::wait(stream, false, left)?.read {
            match (&mut &*stream).read(&mut bytes[have..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => have += count,
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
