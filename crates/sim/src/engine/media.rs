//! Flows of real-time media: packets there, reports back, and what the sender learns of them.

use apps::EcnField;
use contract::ids::{ConnectionId, FlowId};
use contract::kinds::sample;
use contract::tables::SampleRow;
use path::Nanos;
use wire::{Ecn, Segment};

use super::Simulation;
use crate::event_queue::{NEVER, Source};
use crate::packet::Packet;
use crate::transport::Transport;

impl Simulation {
    /// Sends what is due at either end of a flow of media, and asks when something is next.
    pub(super) fn run_media(&mut self, flow: FlowId) {
        let run = &self.flows[flow.index()];
        let stop = run.stop.unwrap_or(NEVER);
        let mut next = NEVER;
        if self.now >= run.start && self.now < stop {
            self.send_media(flow);
            self.send_report(flow);
            next = stop.min(self.media_due(flow));
        }
        self.events.set_occasional(Source::App(flow), next);
    }

    fn media_due(&self, flow: FlowId) -> Nanos {
        let ends = [flow.opening(), flow.accepting()].map(|end| &self.connections[end.index()]);
        let due = ends.map(|end| match end {
            Transport::MediaSource(sender) => sender.due(),
            Transport::MediaSink(sink) => sink.receiver.due().unwrap_or(NEVER),
            _ => NEVER,
        });
        due[0].min(due[1]).max(self.now)
    }

    fn send_media(&mut self, flow: FlowId) {
        while let Transport::MediaSource(sender) = &mut self.connections[flow.opening().index()] {
            let Some(packet) = sender.send(self.now) else { return };
            let ecn = ecn(sender.ecn());
            let segment = Segment { offset: packet.number, len: packet.payload, ecn, ..Segment::default() };
            self.emit_media(flow.accepting(), segment);
        }
    }

    fn send_report(&mut self, flow: FlowId) {
        let Transport::MediaSink(sink) = &mut self.connections[flow.accepting().index()] else { return };
        if sink.receiver.due().is_none_or(|due| due > self.now) {
            return;
        }
        let (number, payload) = sink.report(self.now);
        self.emit_media(flow.opening(), Segment { offset: number, len: payload, ..Segment::default() });
    }

    /// A packet of a flow sets out to one of its ends; a report tells how long the newest packet was under way.
    fn emit_media(&mut self, to: ConnectionId, segment: Segment) {
        let run = &self.flows[to.flow().index()];
        let (src, dst) = if to.is_opening() { (run.to, run.from) } else { (run.from, run.to) };
        let echo_delay = if to.is_opening() { run.ends[1].echo_delay } else { 0 };
        self.emit(Packet {
            segment: Segment { frames: 1, ..segment },
            sent_at: self.now,
            echo_delay,
            bytes: run.datagram_bytes(segment.len),
            connection: to,
            src,
            dst,
            ..Packet::default()
        });
    }

    /// A packet of media, or a report, reaches its host.
    pub(super) fn take_media(&mut self, packet: &Packet) {
        let flow = packet.connection.flow();
        if packet.connection.is_opening() {
            self.take_report(flow, packet.segment.offset);
        } else {
            self.take_media_packet(flow, packet);
        }
        self.run_media(flow);
    }

    fn take_media_packet(&mut self, flow: FlowId, packet: &Packet) {
        let number = packet.segment.offset;
        let ends_frame = match &self.connections[flow.opening().index()] {
            Transport::MediaSource(sender) => sender.ends_frame(number),
            _ => false,
        };
        let Transport::MediaSink(sink) = &mut self.connections[flow.accepting().index()] else { return };
        let is_marked = packet.segment.ecn == Ecn::Ce;
        sink.receiver.take(self.now, number, packet.segment.len, is_marked, ends_frame);
        let delay = self.now - packet.sent_at;
        if self.recording.is_measuring() {
            self.flows[flow.index()].tally.one_way.add(delay);
        }
        self.sample_media(flow, sample::ONE_WAY_DELAY, delay);
    }

    fn take_report(&mut self, flow: FlowId, number: u64) {
        let Transport::MediaSink(sink) = &mut self.connections[flow.accepting().index()] else { return };
        let Some(report) = sink.take(number) else { return };
        let Transport::MediaSource(sender) = &mut self.connections[flow.opening().index()] else { return };
        let seen = sender.on_report(self.now, &report);
        self.sample_media(flow, sample::TARGET_RATE, seen.target_bps);
        self.sample_media(flow, sample::QUEUE_DELAY, seen.queue_delay);
        for (kind, value) in [(sample::FEEDBACK_RTT, seen.rtt), (sample::FEEDBACK_LOSS, seen.lost_ppm)] {
            if let Some(value) = value {
                self.sample_media(flow, kind, value);
            }
        }
        if seen.left_out > 0 {
            self.sample_media(flow, sample::LEFT_OUT, seen.left_out);
        }
    }

    fn sample_media(&mut self, flow: FlowId, kind: u32, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.recording.recorder.sample(&SampleRow { t: self.now, flow: flow.0, kind, value });
    }
}

/// The ECN field that an application asks for.
pub(super) fn ecn(field: EcnField) -> Ecn {
    match field {
        EcnField::Off => Ecn::NotEct,
        EcnField::Ect0 => Ecn::Ect0,
        EcnField::Ect1 => Ecn::Ect1,
    }
}
