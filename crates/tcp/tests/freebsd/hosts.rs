//! The recorded hosts by the recordings' names for them.

use tcp::cc::freebsd::{CongestionControl, Cubic, CubicEra};
use tcp::profile::freebsd::{FreeBsd, release};
use tcp::receiver::Receiver;
use tcp::sender::Sender;
use tcp::sender::freebsd::FreeBsdSender;
use tcp::sender::rack::WheelTimers;
use tcp::stack::{Buffer, Profile, SocketOptions, StackSpec, Sysctl};

/// Local time of the sender's clock when its SYN leaves: the end of a tick, ns.
pub(crate) const PHASE: u64 = 999_900;

/// The receiver's clock ticks this much later, ns.
pub(crate) const LAG: u64 = 370_000;

/// The congestion control that a recording calls `cc`.
pub(crate) fn module(cc: &str) -> &str {
    if cc == "cubic15" { "cubic" } else { cc }
}

/// FreeBSD 13's RACK stack with the timers of its recordings in `stack`.
pub(crate) fn recorded_rack() -> FreeBsd {
    release("freebsd-13/rack").expect("a release").with_wheel_timers(WheelTimers::WholeTicks)
}

/// A host: `f11`, `f11iw3` or `f13`; `cubic15` is main's CUBIC in the 13.0 stack.
pub(crate) fn named(stack: &str, cc: &str, pipe: bool) -> Host {
    let mut release = match stack {
        "f13rack" => recorded_rack(),
        _ if stack.starts_with("f13") => release("freebsd-13").expect("a release"),
        _ => release("freebsd-11").expect("a release"),
    };
    if stack == "f11iw3" {
        release.set("net.inet.tcp.initcwnd_segments", 0);
    }
    if pipe {
        release.set("net.inet.tcp.rfc6675_pipe", 1);
    }
    let module: Option<Module> = if stack == "f13cubic15" || cc == "cubic15" {
        Some(Box::new(|_| Box::new(Cubic::new(CubicEra::Rfc8312Micros))))
    } else {
        None
    };
    Host { release, module }
}

/// Makes a congestion control for a release.
pub(crate) type Module = Box<dyn Fn(&FreeBsd) -> Box<dyn CongestionControl> + Send + Sync>;

/// A release, perhaps with another congestion control than its own.
pub(crate) struct Host {
    /// The release.
    pub release: FreeBsd,
    /// None: the one that is asked for by name.
    pub module: Option<Module>,
}

impl Profile for Host {
    fn spec(&self) -> &StackSpec {
        self.release.spec()
    }
    fn sysctls(&self) -> Vec<Sysctl> {
        self.release.sysctls()
    }
    fn set(&mut self, name: &str, value: i64) {
        self.release.set(name, value);
    }
    fn buffers(&self, socket: &SocketOptions) -> ((u64, bool), (u64, bool)) {
        self.release.buffers(socket)
    }
    fn holds_buffer(&self, buffer: Buffer, socket: &SocketOptions, size: u64) -> Option<&'static str> {
        self.release.holds_buffer(buffer, socket, size)
    }
    fn sender(&self, cc: &str, random: u64) -> Box<dyn Sender> {
        match &self.module {
            Some(make) => Box::new(FreeBsdSender::new(self.release.sender_tuning(), make(&self.release))),
            None => self.release.sender(cc, random),
        }
    }
    fn receiver(&self) -> Box<dyn Receiver> {
        self.release.receiver()
    }
}
