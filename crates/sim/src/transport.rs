//! Transport of a flow: what stands at each of its two ends, between the network and the application.

use std::collections::VecDeque;

use apps::{Media, MediaReceiver, MediaSender, Report};
use guest::{End, Guest, Kind};
use path::Nanos;
use tcp::Endpoint;
use units::Phase;
use wire::{Flags, Segment};

use crate::socket::Waiting;

/// One end of a flow, at its place in the table of connections.
// Nearly all are TCP, and a packet finds its endpoint without a pointer to follow.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Transport {
    /// No connection: not opened yet, or over and its memory given back.
    Closed,
    /// TCP as a kernel has it.
    Tcp(Endpoint),
    /// Sending end of a flow of datagrams.
    Source(DatagramSource),
    /// Receiving end of a flow of datagrams.
    Sink(DatagramSink),
    /// Sending end of a flow of media.
    MediaSource(Box<MediaSender>),
    /// Receiving end of a flow of media.
    MediaSink(Box<MediaSink>),
    /// End of a connection of a guest.
    Guest(Box<GuestEnd>),
}

/// Sending end of a flow of datagrams.
pub(crate) struct DatagramSource {
    /// Sizes and times of the datagrams.
    pub datagrams: apps::Datagrams,
    /// Number of datagrams sent.
    pub sent: u64,
}

/// Receiving end of a flow of datagrams.
#[derive(Default)]
pub(crate) struct DatagramSink {
    /// Whether each datagram is sent back.
    pub echoes: bool,
    /// Payload received, bytes.
    pub bytes: u64,
}

/// Receiving end of a flow of media. In the network a packet has only the number of its report.
pub(crate) struct MediaSink {
    /// The receiver.
    pub receiver: MediaReceiver,
    /// Reports under way, by their numbers.
    under_way: VecDeque<(u64, Report)>,
    reports: u64,
}

impl MediaSink {
    /// An end that has received nothing.
    pub(crate) fn new(media: &Media) -> MediaSink {
        MediaSink { receiver: MediaReceiver::new(media), under_way: VecDeque::new(), reports: 0 }
    }

    /// Makes the report that is due; returns its number and the payload it takes.
    pub(crate) fn report(&mut self, now: Nanos) -> (u64, u32) {
        let (number, report) = (self.reports, self.receiver.report(now));
        let payload = report.payload();
        self.reports += 1;
        self.under_way.push_back((number, report));
        // The oldest were lost.
        if self.under_way.len() > MOST_REPORTS {
            self.under_way.pop_front();
        }
        (number, payload)
    }

    /// Takes the report of this number. None if it came before, or is long gone.
    pub(crate) fn take(&mut self, number: u64) -> Option<Report> {
        let place = self.under_way.binary_search_by_key(&number, |&(of, _)| of).ok()?;
        self.under_way.remove(place).map(|(_, report)| report)
    }
}

/// Reports under way at most: some seconds of them.
const MOST_REPORTS: usize = 1000;

impl Transport {
    /// The TCP endpoint. None for any other transport.
    #[inline(always)]
    pub(crate) fn tcp(&self) -> Option<&Endpoint> {
        if let Transport::Tcp(endpoint) = self { Some(endpoint) } else { None }
    }

    /// The TCP endpoint, to be changed. None for any other transport.
    #[inline(always)]
    pub(crate) fn tcp_mut(&mut self) -> Option<&mut Endpoint> {
        if let Transport::Tcp(endpoint) = self { Some(endpoint) } else { None }
    }

    /// Whether there is no connection.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Transport::Closed)
    }

    /// Payload that the application at this end has read, bytes.
    pub(crate) fn bytes_read(&self) -> u64 {
        match self {
            Transport::Tcp(endpoint) => endpoint.bytes_read(),
            Transport::Sink(sink) => sink.bytes,
            Transport::MediaSink(sink) => sink.receiver.bytes(),
            Transport::Guest(end) => end.own.bytes_read,
            Transport::Closed | Transport::Source(_) | Transport::MediaSource(_) => 0,
        }
    }

    /// State of the sender at this end at `now`. None without a connection that is open.
    pub(crate) fn sender(&mut self, now: Nanos) -> Option<SenderState> {
        match self {
            Transport::Tcp(endpoint) => {
                let info = endpoint.info(now);
                Some(SenderState {
                    cwnd: Some(info.sender.cwnd),
                    ssthresh: info.sender.ssthresh,
                    srtt: info.sender.srtt,
                    rto: Some(info.sender.rto),
                    inflight: info.sender.inflight,
                    pacing_bps: info.sender.pacing_bps,
                    phase: Some(info.sender.phase),
                    acknowledged: Some(info.bytes_acked),
                    sent: info.data_segments_out,
                    retransmits: info.retransmits,
                    window: Some(info.snd_wnd),
                    buffer: Some(info.send_buffer),
                })
            }
            Transport::Guest(end) => Some(end.state()),
            Transport::Closed
            | Transport::Source(_)
            | Transport::Sink(_)
            | Transport::MediaSource(_)
            | Transport::MediaSink(_) => None,
        }
    }
}

/// State of a flow's sender, as TCP_INFO would tell it. None: the transport does not tell.
#[derive(Clone, Copy, Debug)]
pub struct SenderState {
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Slow-start threshold, bytes. None while infinite.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT. None before the first sample.
    pub srtt: Option<Nanos>,
    /// Retransmission timeout.
    pub rto: Option<Nanos>,
    /// Bytes in flight by the sender's own estimate.
    pub inflight: u64,
    /// Pacing rate, bits per second. None when not pacing.
    pub pacing_bps: Option<u64>,
    /// Coarse state.
    pub phase: Option<Phase>,
    /// Payload acknowledged, bytes.
    pub acknowledged: Option<u64>,
    /// Number of data packets sent.
    pub sent: u64,
    /// Number of data packets sent again; of a guest, of packets judged lost, whose content is sent again.
    pub retransmits: u64,
    /// The peer's window as the sender knows it, bytes.
    pub window: Option<u64>,
    /// Send buffer, bytes.
    pub buffer: Option<u64>,
}

/// One end of a connection of a guest.
pub(crate) struct GuestEnd {
    /// The end, as its application has it.
    pub own: End,
    /// Datagrams or packets that the end has sent.
    pub sent: Sent,
}

/// Datagrams or packets that an end of a guest has sent.
pub(crate) enum Sent {
    /// Datagrams, of which some are under way.
    Datagrams(Datagrams),
    /// Packets with TCP.
    Packets(PacketLog),
}

impl Sent {
    /// Nothing, of a guest of this kind.
    pub(crate) fn nothing(kind: Kind) -> Sent {
        match kind {
            Kind::Datagrams => Sent::Datagrams(Datagrams::default()),
            Kind::Packets => Sent::Packets(PacketLog::default()),
        }
    }
}

impl GuestEnd {
    /// An end that has sent nothing. Its host sets ECN fields, or leaves them at zero.
    pub(crate) fn new(guest: Box<dyn Guest>, kind: Kind, marks: bool) -> GuestEnd {
        GuestEnd { own: End::new(guest, marks), sent: Sent::nothing(kind) }
    }

    /// State of the sender: what the guest tells, and else what its packets show.
    pub(crate) fn state(&self) -> SenderState {
        let seen = self.own.guest.observe();
        let shown = match &self.sent {
            Sent::Datagrams(datagrams) => PacketLog { sent: datagrams.count(), ..PacketLog::default() },
            Sent::Packets(log) => *log,
        };
        SenderState {
            cwnd: seen.cwnd,
            ssthresh: seen.ssthresh,
            srtt: seen.srtt,
            rto: seen.rto,
            inflight: seen.in_flight.unwrap_or(shown.end - shown.acknowledged),
            pacing_bps: seen.pacing_bps,
            phase: seen.phase(),
            acknowledged: seen.acknowledged,
            sent: seen.sent.unwrap_or(shown.sent),
            retransmits: seen.lost.unwrap_or(shown.resent),
            window: seen.window,
            buffer: seen.buffer,
        }
    }
}

impl Waiting for &mut End {
    fn waiting(&self) -> u64 {
        self.guest.readable()
    }
}

/// Record of a stream as the packets of an end of TCP show it.
#[derive(Clone, Copy, Default)]
pub(crate) struct PacketLog {
    /// Sequence number of the stream's first byte. None before a SYN.
    first: Option<u32>,
    /// End of what was sent of the stream, bytes.
    end: u64,
    /// End of what the other end has acknowledged, bytes.
    acknowledged: u64,
    /// Number of packets with payload.
    sent: u64,
    /// Number of those whose payload was sent before.
    resent: u64,
}

impl PacketLog {
    /// Notes a segment that the end sends; returns the offset of its payload in the stream.
    pub(crate) fn note_sent(&mut self, segment: &Segment) -> u64 {
        if segment.flags.has(Flags::SYN) {
            self.first = Some(segment.seq.wrapping_add(1));
            return 0;
        }
        let offset = self.offset(segment.seq);
        if segment.len > 0 {
            self.sent += 1;
            self.resent += u64::from(offset < self.end);
            self.end = self.end.max(offset + u64::from(segment.len));
        }
        offset
    }

    /// Notes a segment that arrives.
    pub(crate) fn note_received(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::ACK) && self.first.is_some() {
            self.acknowledged = self.acknowledged.max(self.offset(segment.ack).min(self.end));
        }
    }

    /// Offset in the stream of a sequence number near its end.
    fn offset(&self, seq: u32) -> u64 {
        let distance = seq.wrapping_sub(self.first.unwrap_or(seq)).wrapping_sub(self.end as u32);
        self.end.saturating_add_signed(i64::from(distance as i32))
    }
}

/// Bytes of the datagrams of an end that are under way. In the network a packet has only the number of its datagram.
#[derive(Default)]
pub(crate) struct Datagrams {
    /// Number of the first in `under_way`.
    first: u64,
    under_way: VecDeque<Option<Vec<u8>>>,
    /// Memory for those to come.
    spare: Vec<Vec<u8>>,
}

impl Datagrams {
    /// Number of datagrams sent.
    pub(crate) fn count(&self) -> u64 {
        self.first + self.under_way.len() as u64
    }

    /// Memory for a datagram, empty.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Memory that is not needed any more.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare.push(bytes);
    }

    /// Keeps a datagram that is sent; returns its number.
    pub(crate) fn send(&mut self, bytes: Vec<u8>) -> u64 {
        self.under_way.push_back(Some(bytes));
        self.count() - 1
    }

    /// Takes the datagram of this number. None if it was taken before.
    pub(crate) fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        let place = number.checked_sub(self.first)?;
        let bytes = self.under_way.get_mut(place as usize)?.take();
        while let Some(None) = self.under_way.front() {
            self.under_way.pop_front();
            self.first += 1;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_followed_beyond_the_end_of_sequence_numbers() {
        let mut log = PacketLog::default();
        let segment = |seq: u32, len, flags| Segment { seq, len, flags, ..Segment::default() };
        let first = u32::MAX - 1000;
        assert_eq!(log.note_sent(&segment(first - 1, 0, Flags::SYN)), 0);
        assert_eq!(
            [0u32, 1000, 2000].map(|at| log.note_sent(&segment(first.wrapping_add(at), 1000, Flags::ACK))),
            [0, 1000, 2000]
        );
        assert_eq!(log.note_sent(&segment(first.wrapping_add(1000), 1000, Flags::ACK)), 1000);
        assert_eq!((log.sent, log.resent, log.end), (4, 1, 3000));
        log.note_received(&Segment {
            ack: first.wrapping_add(2000),
            flags: Flags::ACK,
            ..Segment::default()
        });
        log.note_received(&Segment { ack: first, flags: Flags::ACK, ..Segment::default() });
        // A FIN is behind the stream, and no part of it.
        log.note_received(&Segment { ack: first.wrapping_add(3001), ..Segment::default() });
        assert_eq!(log.acknowledged, 2000);
    }

    #[test]
    fn datagrams_are_kept_until_they_are_taken_in_any_order() {
        let mut sent = Datagrams::default();
        assert_eq!([[1u8], [2], [3]].map(|bytes| sent.send(bytes.to_vec())), [0, 1, 2]);
        assert_eq!(sent.take(1), Some(vec![2]));
        assert_eq!(sent.take(1), None, "once");
        assert_eq!(sent.take(3), None, "not sent");
        assert_eq!(sent.take(0), Some(vec![1]));
        assert_eq!((sent.under_way.len(), sent.count()), (1, 3), "nothing else is held");
        assert_eq!(sent.take(2), Some(vec![3]));
        assert_eq!((sent.under_way.len(), sent.count()), (0, 3));
        assert_eq!(sent.take(0), None, "long gone");
        sent.give_back(vec![9]);
        assert!(sent.buffer().is_empty());
    }
}
