//! Flows of datagrams, and their echoes.

use apps::{HEADERS, Sent};
use contract::ids::FlowId;
use contract::kinds::sample;
use contract::scenario::EcnField;
use contract::tables::SampleRow;
use wire::Segment;

use super::Simulation;
use crate::event_queue::Source;
use crate::flow::FlowApp;
use crate::packet::Packet;

impl Simulation {
    pub(super) fn send_datagram(&mut self, flow: FlowId) {
        let run = &mut self.flows[flow.index()];
        let FlowApp::Datagrams(source) = &mut run.app else { return };
        let Sent { number, payload, next } = source.send(self.now);
        let ecn = match source.ecn() {
            EcnField::Off => wire::Ecn::NotEct,
            EcnField::Ect0 => wire::Ecn::Ect0,
            EcnField::Ect1 => wire::Ecn::Ect1,
        };
        run.datagrams_sent += 1;
        let packet = Packet {
            segment: Segment { offset: number, len: payload, frames: 1, ecn, ..Segment::default() },
            sent_at: self.now,
            bytes: HEADERS + payload,
            connection: flow.accepting(),
            src: run.from,
            dst: run.to,
            ..Packet::default()
        };
        self.events.set_occasional(Source::App(flow), next);
        self.emit(packet);
    }

    /// A packet for a connection that does not exist: a datagram, or none.
    pub(super) fn take_datagram(&mut self, packet: &Packet) -> bool {
        let flow = packet.connection.flow();
        let inside = self.recording.is_measuring();
        let run = &mut self.flows[flow.index()];
        let FlowApp::Datagrams(source) = &run.app else { return false };
        let delay = self.now - packet.sent_at;
        let (kind, value) = if packet.connection.is_opening() {
            (sample::PROBE_RTT, packet.echo_delay + delay)
        } else {
            run.datagram_bytes += u64::from(packet.segment.len);
            if inside {
                run.tally.one_way.add(delay);
            }
            if source.is_echoed() {
                let echo = Packet {
                    sent_at: self.now,
                    echo_delay: delay.max(1),
                    queue_delay: 0,
                    connection: packet.connection.peer(),
                    src: packet.dst,
                    dst: packet.src,
                    ..*packet
                };
                self.emit(echo);
            }
            (sample::ONE_WAY_DELAY, delay)
        };
        self.recording.recorder.sample(&SampleRow { t: self.now, flow: flow.0, kind, value: value as i64 });
        true
    }
}
