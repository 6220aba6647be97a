//! Transport of a flow: what stands at each of its two ends, between the network and the application.

use apps::Datagrams;
use tcp::Endpoint;

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
}

/// Sending end of a flow of datagrams.
pub(crate) struct DatagramSource {
    /// Sizes and times of the datagrams.
    pub datagrams: Datagrams,
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
            Transport::Closed | Transport::Source(_) => 0,
        }
    }
}
