//! A modelled endpoint and this host's kernel move 100 MB each way through 2 % loss, and every byte is right.
//!
//! Needs root and /dev/net/tun. The namespace is the test's own thread's and goes with it.
#![cfg(target_os = "linux")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use live::peer::{self, Report, Setup};
use live::tun::Tun;
use tcp::stack::{EcnMode, SocketOptions};
use tcp::{Config, HostClock};
use wire::codec::Ends;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 5001;
const MEGABYTE: u64 = 1_000_000;

/// A stream of so many bytes that look like noise, and its checksum so far.
struct Noise {
    left: u64,
    state: u64,
    sum: Sum,
}

/// FNV-1a with 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum(u64, u64);

impl Sum {
    const NEW: Sum = Sum(0xcbf2_9ce4_8422_2325, 0);

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.1 += bytes.len() as u64;
    }
}

impl Noise {
    fn new(bytes: u64, seed: u64) -> Noise {
        Noise { left: bytes, state: seed | 1, sum: Sum::NEW }
    }
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (buffer.len() as u64).min(self.left) as usize;
        for byte in &mut buffer[..count] {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            *byte = (self.state >> 32) as u8;
        }
        self.sum.add(&buffer[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets both ends send; returns what each end sent and got, and the endpoint's report.
fn talk(stack: &'static str, connect: bool, ours: u64, theirs: u64) -> ([Sum; 4], Report) {
    let result = thread::spawn(move || {
        // SAFETY: plain call; it changes only this thread's namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "a network namespace needs root");
        let tun = Tun::open("tun0", false).expect("a TUN device needs root and /dev/net/tun");
        tun.start(KERNEL, 24, 1500).expect("the device starts");
        let listener = TcpListener::bind(SocketAddrV4::new(KERNEL, PORT)).expect("a listener");
        // A thread started here is in the same namespace.
        let kernel = thread::spawn(move || kernel_side(&listener, connect, theirs));
        let profile = tcp::profile::find(stack).expect("a stack");
        let spec = profile.spec();
        let setup = Setup {
            profile: profile.as_ref(),
            config: Config {
                clock: HostClock::new(spec.hz, 1_000_000_000, 0),
                ip_header: 20,
                known: Default::default(),
                mss: 1460,
                ecn: EcnMode::Off,
                tso: false,
                socket: SocketOptions { sndbuf: Some(1 << 20), rcvbuf: Some(1 << 20) },
                cc: spec.cc[0],
                // It wraps within the transfer.
                iss: 0xffff_0000,
                veth: false,
                timestamp_offset: 0,
                random: 1,
            },
            ends: Ends { src: OURS, dst: KERNEL, sport: if connect { 40_000 } else { PORT }, dport: PORT },
            connect,
            loss: 20,
            seed: 7,
            patience: Duration::from_secs(240),
        };
        let mut source = Noise::new(ours, 3);
        let mut got = Sum::NEW;
        let report =
            peer::run(&tun, &setup, &mut source, &mut got).unwrap_or_else(|error| panic!("{stack}: {error}"));
        let (kernel_sent, kernel_got) = kernel.join().expect("the kernel's application ends");
        ([source.sum, kernel_got, kernel_sent, got], report)
    });
    result.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The application on the kernel's sockets: sends and receives at once.
fn kernel_side(listener: &TcpListener, accept: bool, bytes: u64) -> (Sum, Sum) {
    let mut stream = if accept {
        listener.accept().expect("a connection").0
    } else {
        TcpStream::connect(SocketAddrV4::new(OURS, PORT)).expect("a connection")
    };
    let mut writer = stream.try_clone().expect("a second handle");
    let sending = thread::spawn(move || {
        let mut noise = Noise::new(bytes, 5);
        io::copy(&mut noise, &mut writer).expect("the kernel takes it");
        writer.shutdown(std::net::Shutdown::Write).expect("an open connection");
        noise.sum
    });
    let mut got = Sum::NEW;
    io::copy(&mut stream, &mut got).expect("the kernel delivers it");
    (sending.join().expect("the sender ends"), got)
}

fn check(stack: &'static str, connect: bool, ours: u64, theirs: u64) {
    let ([sent, arrived, kernel_sent, got], report) = talk(stack, connect, ours, theirs);
    println!("{stack}: {report:?}");
    assert_eq!((sent.1, kernel_sent.1), (ours, theirs), "{stack}: not all was sent");
    assert_eq!(sent, arrived, "{stack}: what the kernel got differs from what was sent");
    assert_eq!(kernel_sent, got, "{stack}: what was received differs from what the kernel sent");
    // With 2 % loss there must have been losses and repairs, or the test shows nothing.
    assert!(report.lost > (ours + theirs) / 1448 / 100, "{stack}: hardly a packet was lost: {report:?}");
    assert!(ours == 0 || report.retransmits > 0, "{stack}: nothing was sent again");
}

#[test]
fn a_hundred_megabytes_to_the_kernel() {
    check("linux-6.18", true, 100 * MEGABYTE, 0);
}

#[test]
fn a_hundred_megabytes_from_the_kernel() {
    check("linux-6.18", false, 0, 100 * MEGABYTE);
}

#[test]
fn every_family_talks_with_the_kernel_both_ways_at_once() {
    for stack in ["freebsd-9.2", "freebsd-13", "freebsd-15-current", "linux-3.9", "linux-6.8", "windows-7"] {
        check(stack, true, 3 * MEGABYTE, 3 * MEGABYTE);
    }
}
