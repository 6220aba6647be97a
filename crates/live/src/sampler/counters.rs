//! A network namespace's counters of TCP, which TCP_INFO does not have: entries to fast recovery.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::thread;

use crate::sys;

/// Entries to fast recovery, of peers without SACK and with.
const RECOVERIES: [&str; 2] = ["TCPRenoRecovery", "TCPSackRecovery"];

/// The counters of one network namespace.
pub(super) struct Counters {
    file: File,
    text: Vec<u8>,
}

/// Bytes of the file at most.
const MOST: usize = 1 << 16;

impl Counters {
    /// Opens those of a namespace: a name under /run/netns, or a path; None: the caller's.
    ///
    /// # Errors
    /// None such, not enough rights, or no /proc.
    pub(super) fn open(name: Option<String>) -> io::Result<Counters> {
        // The file stays that of the namespace in which it was opened; the thread that enters it is for that only.
        let work = move || {
            sys::enter(name.as_deref())?;
            File::open("/proc/thread-self/net/netstat").map_err(|error| sys::about("netstat", &error))
        };
        let thread = thread::Builder::new().name("sampler".into()).spawn(work)?;
        let file = thread.join().unwrap_or_else(|_| Err(io::Error::other("opening netstat panicked")))?;
        Ok(Counters { file, text: vec![0; MOST] })
    }

    /// Number of times that connections of the namespace have entered fast recovery. None if the kernel does not
    /// tell.
    pub(super) fn recoveries(&mut self) -> io::Result<Option<u64>> {
        // One call: the kernel makes the whole text at once.
        let length = self.file.read_at(&mut self.text, 0)?;
        Ok(sum(&String::from_utf8_lossy(&self.text[..length]), &RECOVERIES))
    }
}

/// The sum of counters of the group TcpExt: a line of names is followed by one of values.
fn sum(text: &str, names: &[&str]) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (known, values) = (lines.next()?, lines.next()?);
    let value = |name: &&str| {
        let place = known.split_ascii_whitespace().position(|known| known == *name)?;
        values.split_ascii_whitespace().nth(place)?.parse::<u64>().ok()
    };
    names.iter().map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text =
            "TcpExt: SyncookiesSent TCPRenoRecovery TCPSackRecovery\nTcpExt: 9 3 40\nIpExt: A\nIpExt: 1\n";
        assert_eq!(sum(text, &RECOVERIES), Some(43));
        assert_eq!(sum(text, &["TCPNone"]), None);
        assert_eq!(sum("", &RECOVERIES), None);
    }

    #[test]
    fn this_kernel_counts_recoveries() {
        let mut counters = Counters::open(None).expect("netstat");
        let first = counters.recoveries().expect("read").expect("known");
        assert!(counters.recoveries().expect("read again").expect("known") >= first);
    }
}
