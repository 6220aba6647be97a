//! Many datagrams by one system call, which in a guest in virtual time is what costs.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _};

/// Room for datagrams of a socket.
#[derive(Debug)]
pub struct Datagrams {
    memory: Vec<u8>,
    /// Most bytes of a datagram.
    longest: usize,
    lengths: Vec<usize>,
}

impl Datagrams {
    /// Room for so many datagrams of at most `longest` bytes.
    pub fn new(most: usize, longest: usize) -> Datagrams {
        Datagrams { memory: vec![0; most * longest], longest, lengths: Vec::new() }
    }

    /// Receives what has come, in order, `most` datagrams or as many as there is room for; waits for the first of them unless
    /// `flags` say otherwise (recvmmsg(2)). Returns whether there may be more.
    ///
    /// # Errors
    /// Errors are those of recvmmsg(2), and a datagram that is longer than there is room for.
    pub fn receive(&mut self, socket: &impl AsFd, most: usize, flags: libc::c_int) -> io::Result<bool> {
        self.lengths.clear();
        let piece =
            |piece: &mut [u8]| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
        let mut pieces: Vec<libc::iovec> =
            self.memory.chunks_mut(self.longest).take(most).map(piece).collect();
        let message = |piece: &mut libc::iovec| {
            // SAFETY: a mmsghdr is plain data for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let mut messages: Vec<libc::mmsghdr> = pieces.iter_mut().map(message).collect();
        let flags = flags | libc::MSG_WAITFORONE;
        // SAFETY: as many messages as are said, each with a piece of memory of its own, all of which outlive the call.
        let came = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
        if messages[..came].iter().any(|message| message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0) {
            return Err(io::Error::other("an answer of the kernel that is longer than expected"));
        }
        self.lengths.extend(messages[..came].iter().map(|message| message.msg_len as usize));
        Ok(came == messages.len())
    }

    /// Datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.memory.chunks(self.longest).zip(&self.lengths).map(|(piece, &length)| &piece[..length])
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn one_call_takes_all_that_has_come_in_order() {
        let (near, far) = UnixDatagram::pair().expect("sockets");
        for text in ["a", "bc", "def"] {
            near.send(text.as_bytes()).expect("room");
        }
        let mut datagrams = Datagrams::new(2, 3);
        assert!(datagrams.receive(&far, 9, 0).expect("two of three"));
        assert_eq!(datagrams.iter().collect::<Vec<_>>(), [b"a" as &[u8], b"bc"]);
        assert!(!datagrams.receive(&far, 9, 0).expect("the third, without waiting for a fourth"));
        assert_eq!(datagrams.iter().collect::<Vec<_>>(), [b"def"]);
        let nothing = datagrams.receive(&far, 1, libc::MSG_DONTWAIT).expect_err("nothing came");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(datagrams.iter().count(), 0);
        near.send(b"long").expect("room");
        assert!(datagrams.receive(&far, 1, 0).expect_err("four bytes").to_string().contains("longer"));
    }
}
