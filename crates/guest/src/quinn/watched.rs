//! A congestion control of quinn's own, through which every call passes: what quinn does not tell otherwise is noted on the way.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::{EventKind, GuestEvent};

/// Notes on a connection. They belong to one thread at a time; quinn wants what could be shared.
#[derive(Default)]
pub(super) struct Seen {
    in_flight: AtomicU64,
    has_rtt: AtomicBool,
    has_events: AtomicBool,
    events: Mutex<VecDeque<GuestEvent>>,
}

impl Seen {
    /// Bytes in flight, as the congestion control is told.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Whether a round trip was measured.
    pub(super) fn has_rtt(&self) -> bool {
        self.has_rtt.load(Relaxed)
    }

    /// Next change of the window since the last call.
    pub(super) fn take(&self) -> Option<GuestEvent> {
        if !self.has_events.load(Relaxed) {
            return None;
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let next = events.pop_front();
        self.has_events.store(!events.is_empty(), Relaxed);
        next
    }

    fn note(&self, event: GuestEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
        self.has_events.store(true, Relaxed);
    }
}

/// Makes congestion controls that are watched.
pub(super) struct Watched<F> {
    own: Arc<F>,
    seen: Arc<Seen>,
}

impl<F> Watched<F> {
    pub(super) fn new(own: Arc<F>, seen: &Arc<Seen>) -> Watched<F> {
        Watched { own, seen: Arc::clone(seen) }
    }
}

impl<F: ControllerFactory> ControllerFactory for Watched<F> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let own = Arc::clone(&self.own).build(now, current_mtu);
        Box::new(Watcher { own, seen: Arc::clone(&self.seen) })
    }
}

struct Watcher {
    own: Box<dyn Controller>,
    seen: Arc<Seen>,
}

impl Controller for Watcher {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.seen.in_flight.fetch_add(bytes, Relaxed);
        self.own.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.seen.has_rtt.store(true, Relaxed);
        self.own.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.seen.in_flight.store(in_flight, Relaxed);
        self.own.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let before = self.own.window();
        self.own.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        let after = self.own.window();
        let in_flight = self.seen.in_flight();
        self.seen.in_flight.store(in_flight.saturating_sub(lost_bytes), Relaxed);
        if after < before {
            // An ECN echo loses nothing (Controller::on_congestion_event).
            self.seen.note(match lost_bytes {
                0 => GuestEvent { kind: EventKind::Reduction, value: after },
                _ => GuestEvent { kind: EventKind::RecoveryIn, value: before },
            });
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.own.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.own.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.own.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Watcher { own: self.own.clone_box(), seen: Arc::clone(&self.seen) })
    }

    fn initial_window(&self) -> u64 {
        self.own.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
