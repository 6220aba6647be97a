//! Applications and their parameters: the one table of them.

use params::{Param, Unit};

params::kinds! {
    /// What a flow's application does.
    pub enum App {
        /// Writes as fast as the socket takes it.
        Bulk: "bulk" {
            /// Size of one write.
            write_bytes: u64 = write(),
        } with {
            /// Bytes to send, after which it closes; null: no limit.
            bytes: Option<u64>,
        } besides {
            /// Interval of the tool's own report.
            Param::time("report").above_zero().default(1_000_000_000).live(),
            /// What sends on live testbeds.
            Param::choice("tool", &["iperf3", "iperf2", "own"]).otherwise("iperf3 where it can do what is asked").live(),
        }
        /// One transfer of a fixed size, whose completion time counts.
        Fixed: "fixed" {
            /// Bytes of the transfer.
            size_bytes: u64 = Param::bytes("size").above_zero().required(),
            /// Size of one write.
            write_bytes: u64 = write(),
        }
        /// Writes blocks at a steady rate, the first at once, and catches up when it was blocked.
        RateLimited: "rate-limited" {
            /// Rate of the application.
            rate_bps: u64 = Param::rate("rate").required(),
            /// Size of one write.
            write_bytes: u64 = write(),
        }
        /// Sends for a while, rests for a while.
        OnOff: "on-off" {
            /// Length of sending.
            on_ns: u64 = Param::time("on").above_zero().required(),
            /// Length of resting.
            off_ns: u64 = Param::time("off").above_zero().required(),
            /// Rate while on.
            rate_bps: Option<u64> = Param::rate("rate").otherwise("as fast as the socket takes it"),
            /// Size of one write.
            write_bytes: u64 = write(),
            /// Distribution of both lengths.
            distribution: Distribution = Param::choice("distribution", Distribution::WORDS).default(0),
        }
        /// The receiver asks, waits for the answer, thinks.
        RequestResponse: "request-response" {
            /// Number of requests.
            requests: Option<u64> = Param::count("requests", 1, 1_000_000_000).otherwise("until stopped"),
            /// Size of a request.
            request_bytes: u64 = request(),
            /// Size of a response.
            response_bytes: u64 = Param::bytes("response").above_zero().required(),
            /// Time between a response and the next request.
            think_ns: u64 = Param::time("think").default(0),
        }
        /// The receiver asks all senders of the flow at once, and waits for all; they are as many as the copies of their host.
        Incast: "incast" {
            /// Bytes from each sender in a round.
            size_bytes: u64 = Param::bytes("size").above_zero().required(),
            /// Size of a request.
            request_bytes: u64 = request(),
            /// Number of rounds.
            rounds: Option<u64> = Param::count("rounds", 1, 1_000_000_000).otherwise("until stopped"),
            /// Time between rounds.
            think_ns: u64 = Param::time("think").default(0),
        } with {
            /// Flows of one group are asked together.
            group: String,
        }
        /// Datagrams at a constant rate.
        UdpCbr: "udp-cbr" {
            /// Rate of the payload.
            rate_bps: u64 = Param::rate("rate").required(),
            /// Payload of a datagram.
            payload_bytes: u32 = payload(1).default(1472),
            /// What its IP header says of ECN.
            ecn: EcnField = ecn(),
        }
        /// Datagrams as of a voice call (G.711).
        Voip: "voip" {
            /// Time between datagrams.
            frame_ns: u64 = Param::time("frame").above_zero().default(20_000_000),
            /// Payload of a datagram.
            payload_bytes: u32 = payload(1).default(172),
            /// What its IP header says of ECN.
            ecn: EcnField = ecn(),
        }
        /// A probe that the receiver sends back.
        Ping: "ping" {
            /// Time between probes.
            interval_ns: u64 = Param::time("interval").above_zero().default(100_000_000),
            /// Payload of a probe.
            payload_bytes: u32 = payload(0).default(56),
        }
        /// A player, the receiver, fetches chunks until its buffer is full, then one whenever there is room.
        Video: "video" {
            /// Rate of the video.
            rate_bps: u64 = Param::rate("rate").required(),
            /// Play time of a chunk.
            chunk_ns: u64 = Param::time("chunk").above_zero().default(4_000_000_000),
            /// Play time held at most.
            buffer_ns: u64 = Param::time("buffer").above_zero().default(30_000_000_000),
            /// Size of the request for a chunk.
            request_bytes: u64 = request(),
        }
        /// Cross traffic: Poisson arrivals of transfers, each with a connection of its own, of Pareto-distributed sizes.
        Background: "background" {
            /// Mean rate of all transfers together.
            load_bps: u64 = Param::rate("load").required(),
            /// Mean size of a transfer.
            size_bytes: u64 = Param::bytes("size").above_zero().default(100_000),
            /// Shape of the distribution of sizes.
            shape_milli: u32 = Param::new("shape", Unit::Milli).range(1001, u32::MAX as u64).default(1500)
                .because("so that transfers have a mean size"),
            /// Transfers at a time at most; one that finds so many waits for its turn.
            connections: u32 = Param::count("connections", 1, 10_000).default(64),
        }
        /// A scenario of the loadlatency tool: uploads and downloads at once, and a pinger beside them.
        Loadlatency: "loadlatency" {
            /// Which of the tool's scenarios, counted from 1.
            scenario: u32 = Param::count("scenario", 1, loadlatency::SCENARIOS.len() as u64).required(),
            /// Size of one write of a flow of data.
            write_bytes: u64 = write(),
            /// Payload of a ping, and of its answer.
            ping_bytes: u64 = Param::bytes("ping").above_zero().default(16),
            /// From one ping to the next at least; one at a time.
            interval_ns: u64 = Param::time("interval").above_zero().default(20_000_000),
        } with {
            /// The flow of the experiment it belongs to, which is the name of its pinger.
            group: String,
            /// What it does there.
            part: LoadPart,
        } besides {
            /// How long the pinger is alone, before the load.
            Param::time("idle").above_zero().default(2_000_000_000),
        }
    }
}

/// Payload of the largest UDP datagram, bytes (RFC 768 over RFC 791).
const LARGEST_DATAGRAM: u64 = 65_507;

/// What an application hands to its socket at a time.
const fn write() -> Param {
    Param::bytes("write").above_zero().default(131_072)
}

const fn request() -> Param {
    Param::bytes("request").above_zero().default(100)
}

const fn payload(least: u64) -> Param {
    Param::packet_bytes("payload", least, LARGEST_DATAGRAM)
}

const fn ecn() -> Param {
    Param::choice("ecn", EcnField::WORDS).default(0)
}

params::words! {
    /// The ECN field of a datagram as it is sent; nobody reacts to its marks.
    pub enum EcnField {
        /// Not ECN-capable.
        Off = "off",
        /// ECT(0), classic ECN (RFC 3168).
        Ect0 = "ect0",
        /// ECT(1), L4S (RFC 9331).
        Ect1 = "ect1",
    }
}

params::words! {
    /// A connection's part in a scenario of the loadlatency tool.
    pub enum LoadPart {
        /// Short requests with NODELAY, which its sender asks and times.
        Pinger = "pinger",
        /// Data from the client.
        Upload = "upload",
        /// Data to the client.
        Download = "download",
    }
}

params::words! {
    /// Distribution of lengths of time.
    pub enum Distribution {
        /// Always the same.
        Fixed = "fixed",
        /// Exponential.
        Exponential = "exponential",
    }
}
