//! Congestion controls that were written for no kernel: four events, and a window in bytes. They run on every family that has
//! hooks; [`on_linux`] and [`on_freebsd`] are what stands between.

mod on_freebsd;
mod on_linux;
pub(crate) mod shared_library;

use std::fmt::Display;
use std::sync::Arc;

use tcp::Nanos;
use tcp::cc::Module;
use tcp::cc::foreign::{Failure, Foreign, Host, Knob, Trouble};

/// No window is as large, bytes.
const TOO_LARGE: f64 = (1u64 << 40) as f64;

/// View that a controller has of its connection, and what it sets: `struct cwndlab_flow` of `cwndlab_cc.h`. In
/// seconds and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Bytes of this structure.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Seeds whatever the controller draws.
    pub seed: u64,
    /// Time of the run.
    pub now: f64,
    /// Congestion window; may be set.
    pub cwnd: f64,
    /// Slow-start threshold; infinite before the first reduction; may be set by `on_ack`.
    pub ssthresh: f64,
    /// Payload of a full segment.
    pub mss: f64,
    /// Smoothed round trip; 0: none yet.
    pub srtt: f64,
    /// Smallest round trip; 0: none yet.
    pub min_rtt: f64,
    /// Newest round trip; 0: none yet.
    pub rtt: f64,
    /// Bytes that this ACK newly acknowledges.
    pub acked: f64,
    /// Bytes in flight.
    pub in_flight: f64,
}

/// Event that a controller is told.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection begins.
    Create,
    /// Connection that is gone.
    Destroy,
    /// Data is acknowledged, the window is what limits, and nothing is being repaired.
    Ack,
    /// Loss was found by ACKs.
    Loss,
    /// A retransmission timeout.
    Timeout,
    /// The peer has seen a mark.
    Ecn,
}

impl Event {
    /// Name of the method that controllers have for the event.
    pub fn name(self) -> &'static str {
        match self {
            Event::Create => "create",
            Event::Destroy => "destroy",
            Event::Ack => "on_ack",
            Event::Loss => "on_loss",
            Event::Timeout => "on_rto",
            Event::Ecn => "on_ecn",
        }
    }
}

/// The controller of one connection.
pub trait Controller: Send {
    /// Tells it of an event; what it set is in `flow` then.
    ///
    /// # Errors
    /// How it failed, as the rest of a sentence that begins with the event.
    fn tell(&mut self, event: Event, flow: &mut Flow) -> Result<(), Failure>;
}

/// The controllers of one host.
pub trait Maker: Send + Sync {
    /// Makes the controller of a new connection.
    ///
    /// # Errors
    ///
    /// How that failed.
    fn connect(&self, flow: &mut Flow) -> Result<Box<dyn Controller>, Failure>;
}

/// Begins on a host: makes its controllers' maker, with statics of its own.
pub type Load = dyn Fn(&Host<'_>) -> Result<Arc<dyn Maker>, Failure> + Send + Sync;

/// A controller without a kernel, for the stacks of one family.
pub struct Plain {
    /// Name by which flows choose the controller.
    pub name: String,
    /// The family that it is for here.
    pub family: String,
    /// Makes it.
    pub load: Box<Load>,
}

impl Foreign for Plain {
    fn name(&self) -> &str {
        &self.name
    }

    fn family(&self) -> &str {
        &self.family
    }

    fn knobs(&self) -> &[Knob] {
        &[]
    }

    fn load(&self, host: &Host<'_>) -> Result<Module, Failure> {
        let maker =
            crate::witness::during(&self.name, "its module", crate::witness::NEVER, || (self.load)(host))?;
        let seat = Seat {
            name: self.name.clone(),
            maker,
            trouble: host.trouble.clone(),
            boot: host.boot,
            seed: host.random,
        };
        match self.family.as_str() {
            "linux" => Ok(Module::Linux(Arc::new(on_linux::OnHost(Arc::new(seat))))),
            "freebsd" => Ok(Module::FreeBsd(Arc::new(on_freebsd::OnHost(Arc::new(seat))))),
            other => Err(Failure::Family(other.to_owned())),
        }
    }
}

/// Seat of the controllers of a host.
struct Seat {
    name: String,
    maker: Arc<dyn Maker>,
    trouble: Trouble,
    boot: Nanos,
    seed: u64,
}

/// A controller at work: its window, to fractions of a byte, and whether it has failed.
struct Running {
    seat: Arc<Seat>,
    /// None: it could not be made, and the run has failed.
    controller: Option<Box<dyn Controller>>,
    /// The window as the controller left it.
    cwnd: f64,
    failed: bool,
    seed: u64,
}

impl Running {
    /// Creates a connection's state. The controller comes with the first event, when the connection's metrics are
    /// known.
    fn new(seat: &Arc<Seat>, random: u64) -> Running {
        let seed = seat.seed ^ random.rotate_left(32);
        Running { seat: seat.clone(), controller: None, cwnd: 0.0, failed: false, seed }
    }

    /// Tells the controller. `flow.cwnd` is the stack's window: where that is what the controller left but for a fraction, the
    /// fraction counts.
    fn tell(&mut self, event: Event, now: Nanos, flow: &mut Flow) -> bool {
        if self.failed {
            return false;
        }
        flow.size = size_of::<Flow>() as u32;
        flow.seed = self.seed;
        flow.now = now.saturating_sub(self.seat.boot) as f64 / 1e9;
        let seat = self.seat.clone();
        let at = now.saturating_sub(self.seat.boot);
        if self.controller.is_none() {
            let made =
                crate::witness::during(&seat.name, Event::Create.name(), at, || seat.maker.connect(flow));
            match made {
                Ok(made) => self.controller = Some(made),
                Err(why) => return self.fail(Event::Create, now, &why),
            }
        }
        if (flow.cwnd - self.cwnd).abs() < flow.mss {
            flow.cwnd = self.cwnd;
        }
        let told = crate::witness::during(&seat.name, event.name(), at, || {
            self.controller.as_mut().map_or(Ok(()), |controller| controller.tell(event, flow))
        });
        if let Err(why) = told {
            return self.fail(event, now, &why);
        }
        // A comparison with NaN is false.
        for (what, bytes) in [("window", flow.cwnd), ("slow-start threshold", flow.ssthresh)] {
            let unlimited = what != "window" && bytes == f64::INFINITY;
            if !(unlimited || (1.0..TOO_LARGE).contains(&bytes)) {
                return self.fail(event, now, &format!("left a {what} of {bytes} bytes"));
            }
        }
        self.cwnd = flow.cwnd;
        true
    }

    fn fail(&mut self, event: Event, now: Nanos, what: &dyn Display) -> bool {
        self.failed = true;
        let at = crate::seconds(now.saturating_sub(self.seat.boot));
        self.seat.trouble.report(format!("{}: {} {what}, at {at}", self.seat.name, event.name()));
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(controller) = &mut self.controller
            && !self.failed
        {
            let mut flow = Flow::default();
            // The run is over: whatever becomes of it changes no result.
            let name = Event::Destroy.name();
            let _ = crate::witness::during(&self.seat.name, name, crate::witness::NEVER, || {
                controller.tell(Event::Destroy, &mut flow)
            });
        }
    }
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            size: size_of::<Flow>() as u32,
            reserved: 0,
            seed: 0,
            now: 0.0,
            cwnd: 0.0,
            ssthresh: f64::INFINITY,
            mss: 0.0,
            srtt: 0.0,
            min_rtt: 0.0,
            rtt: 0.0,
            acked: 0.0,
            in_flight: 0.0,
        }
    }
}
