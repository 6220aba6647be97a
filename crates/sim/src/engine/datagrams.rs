//! Flows of datagrams, and their echoes.

use apps::Sent;
use contract::ids::FlowId;
use contract::kinds::sample;
use contract::tables::SampleRow;
use wire::Segment;

use super::Simulation;
use super::media::ecn;
use crate::event_queue::Source;
use crate::packet::Packet;
use crate::transport::Transport;

impl Simulation {
    pub(super) fn send_datagram(&mut self, flow: FlowId) {
        let run = &self.flows[flow.index()];
        let Transport::Source(source) = &mut self.connections[flow.opening().index()] else { return };
        let Sent { number, payload, next } = source.datagrams.send(self.now);
        let ecn = ecn(source.datagrams.ecn());
        source.sent += 1;
        let packet = Packet {
            segment: Segment { offset: number, len: payload, frames: 1, ecn, ..Segment::default() },
            sent_at: self.now,
            bytes: run.datagram_bytes(payload),
            connection: flow.accepting(),
            src: run.from,
            dst: run.to,
            ..Packet::default()
        };
        self.events.set_occasional(Source::App(flow), next);
        self.emit(packet);
    }

    /// A datagram, or the echo of one, reaches its host.
    pub(super) fn take_datagram(&mut self, packet: &Packet) {
        let flow = packet.connection.flow();
        let delay = self.now - packet.sent_at;
        let (kind, value) = if let Transport::Sink(sink) = &mut self.connections[packet.connection.index()] {
            sink.bytes += u64::from(packet.segment.len);
            let echoes = sink.echoes;
            if self.recording.is_measuring() {
                self.flows[flow.index()].tally.one_way.add(delay);
            }
            if echoes {
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
        } else {
            (sample::PROBE_RTT, packet.echo_delay + delay)
        };
        self.recording.recorder.sample(&SampleRow { t: self.now, flow: flow.0, kind, value: value as i64 });
    }
}
