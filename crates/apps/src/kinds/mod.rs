//! Every application: its parameters in the one table of them, and what its ends are. A file for each sort of ends.

use params::{Param, Unit};
use rand_xoshiro::Xoshiro256PlusPlus;

use self::datagrams::Drawn;
use crate::{End, Message, Nanos, Server, Sink};

mod background;
mod bulk;
mod datagrams;
mod draws;
mod incast;
mod load;
mod media;
mod on_off;
mod paced;
mod request_response;
mod video;

pub use background::{BACKGROUND_WRITE, Transfer, TransferSink, Transfers};
pub use bulk::Bulk;
pub use datagrams::{DATAGRAM_HEADER, Datagrams, STAMP, Sent};
pub use draws::Draws;
pub use incast::{Incast, Rounds};
pub use load::{Arrivals, Ping, Pinger};
pub use media::{Controller, Media, MediaReceiver, MediaSender, Outgoing, Report, Seen};
pub use on_off::{Lengths, OnOff};
pub use paced::{Paced, sent_in};
pub use request_response::Requests;
pub use video::{Player, chunk_bytes};

params::kinds! {
    /// Application of a flow.
    pub enum App {
        /// Writes as fast as the socket takes it.
        Bulk: "bulk" {
            /// Size of one write.
            write_bytes: u64 = write(),
        } with {
            /// Bytes to send, after which it closes. Null: no limit.
            bytes: Option<u64>,
        } besides {
            /// Interval of the tool's own report.
            Param::time("report").above_zero().default(1_000_000_000).live(),
            /// Program that sends on live testbeds.
            Param::choice("tool", &["iperf3", "iperf2", "own"]).otherwise("iperf3 where it can do what is asked").live(),
        }
        /// Sends one transfer of a fixed size, whose completion time counts.
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
            /// ECN field of the IP header.
            ecn: EcnField = ecn(),
        }
        /// Datagrams as of a voice call (G.711).
        Voip: "voip" {
            /// Time between datagrams.
            frame_ns: u64 = Param::time("frame").above_zero().default(20_000_000),
            /// Payload of a datagram.
            payload_bytes: u32 = payload(1).default(172),
            /// ECN field of the IP header.
            ecn: EcnField = ecn(),
        }
        /// Datagrams whose sizes and intervals follow distributions, or are those of a file.
        UdpVbr: "udp-vbr" {
            /// Payload of a datagram.
            size: Draws = Param::new("size", Unit::BytesDrawn).required(),
            /// Time from one datagram to the next.
            interval: Draws = Param::new("interval", Unit::NsDrawn).required(),
            /// Payload of the smallest; what is drawn below it is as large.
            least_bytes: u32 = Param::packet_bytes("least", 1, LARGEST_DATAGRAM).default(16),
            /// Payload of the largest; what is drawn above it is as large.
            payload_bytes: u32 = payload(1).default(1472),
            /// ECN field of the IP header.
            ecn: EcnField = ecn(),
        }
        /// Real-time media in datagrams, whose congestion control decides how much an encoder makes; reports come back.
        Media: "media" {
            /// Congestion control: SCReAM (RFC 8298) or Google's (draft-ietf-rmcat-gcc-02).
            controller: Controller = Param::choice("controller", Controller::WORDS).required(),
            /// Least target rate.
            min_bps: u64 = Param::rate("min_rate").default(150_000),
            /// Largest target rate.
            max_bps: u64 = Param::rate("max_rate").default(1_500_000),
            /// Target rate at first.
            start_bps: Option<u64> = Param::rate("start_rate").otherwise("min_rate"),
            /// Frames a second.
            fps: u32 = Param::count("fps", 1, 1000).default(30),
            /// Mean deviation of a frame's size from its share of the target rate.
            variation_ppb: u32 = Param::new("variation", Unit::Ppb).range(0, 500_000_000).default(50_000_000),
            /// Payload of a packet at most.
            payload_bytes: u32 = payload(100).default(1200),
            /// Time between two reports of the receiver.
            feedback_ns: Option<u64> = Param::time("feedback").above_zero().otherwise("as the controller's document has it"),
            /// ECN field of the IP header; scream reacts to marks.
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
        /// Cross traffic: Poisson arrivals of transfers, each with a connection of its own, whose sizes follow a distribution.
        Background: "background" {
            /// Mean rate of all transfers together.
            load_bps: u64 = Param::rate("load").required(),
            /// Mean size of a transfer, where `sizes` is not given.
            size_bytes: u64 = Param::bytes("size").above_zero().default(100_000),
            /// Shape of the Pareto distribution of sizes, where `sizes` is not given.
            shape_milli: u32 = Param::new("shape", Unit::Milli).range(1001, u32::MAX as u64).default(1500)
                .because("so that transfers have a mean size"),
            /// Distribution of sizes; of a file each is one of its sizes, as likely as any other.
            sizes: Option<Draws> = Param::new("sizes", Unit::BytesDrawn).otherwise("pareto of size and shape"),
            /// Transfers at a time at most; one that finds so many waits for its turn.
            connections: u32 = Param::count("connections", 1, 10_000).default(64),
        }
        /// A scenario of the loadlatency tool: uploads and downloads at once, and a pinger beside them.
        Loadlatency: "loadlatency" {
            /// Number of the tool's scenario, counted from 1.
            scenario: u32 = Param::count("scenario", 1, measure::SCENARIOS.len() as u64).required(),
            /// Size of one write of a flow of data.
            write_bytes: u64 = write(),
            /// Payload of a ping, and of its answer.
            ping_bytes: u64 = Param::bytes("ping").above_zero().default(16),
            /// Least time from one ping to the next; one at a time.
            interval_ns: u64 = Param::time("interval").above_zero().default(20_000_000),
        } with {
            /// Name of the experiment's flow, which is that of its pinger.
            group: String,
            /// Part of the flow in the scenario.
            part: LoadPart,
        } besides {
            /// Time that the pinger is alone, before the load.
            Param::time("idle").above_zero().default(2_000_000_000),
        }
    }
}

/// Payload of the largest UDP datagram, bytes (RFC 768 over RFC 791).
const LARGEST_DATAGRAM: u64 = 65_507;

/// Parameter for the bytes that an application hands to its socket at a time.
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

/// Traffic of a flow. Most applications are a [`Traffic::Connection`], which is all that drivers know of them.
pub enum Traffic {
    /// A bulk transfer to an end that reads what comes.
    Bulk(Bulk),
    /// Two ends of one connection.
    Connection {
        /// End that opens the connection.
        opening: Box<dyn End>,
        /// End that accepts the connection.
        accepting: Box<dyn End>,
        /// Whether the accepting end, which asks, is told to stop, and not the opening one. The other learns of it.
        accepting_stops: bool,
    },
    /// The client's end of a connection to one [`Server`] of an incast, and the rounds of its group.
    Incast {
        /// The end that accepts.
        client: Incast,
        /// Number of rounds. None: until stopped.
        rounds: Option<u64>,
        /// Time between two.
        think: Nanos,
    },
    /// Datagrams.
    Datagrams(Datagrams),
    /// Real-time media.
    Media(Media),
    /// Transfers over connections of their own, so many at a time.
    Background(Transfers, u32),
    /// A flow of data of a loadlatency scenario.
    Load(Bulk),
    /// The pinger of one.
    Pinger(Pinger),
}

impl Traffic {
    fn sent_by(opening: impl End + 'static) -> Traffic {
        Traffic::Connection { opening: Box::new(opening), accepting: Box::new(Sink), accepting_stops: false }
    }

    fn asked_for_by(accepting: impl End + 'static) -> Traffic {
        let opening = Box::new(Server::default());
        Traffic::Connection { opening, accepting: Box::new(accepting), accepting_stops: true }
    }
}

impl App {
    /// Traffic of a flow of this application that is told to stop at `stop`, in ns of the run; `streams` gives the
    /// random stream of a purpose.
    pub fn traffic(&self, stop: Nanos, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Traffic {
        match *self {
            App::Bulk { bytes, write_bytes } => Traffic::Bulk(Bulk::new(bytes, write_bytes)),
            App::Fixed { size_bytes, write_bytes } => Traffic::Bulk(Bulk::new(Some(size_bytes), write_bytes)),
            App::RateLimited { rate_bps, write_bytes } => {
                Traffic::sent_by(Paced::new(rate_bps, write_bytes, stop))
            }
            App::OnOff { on_ns, off_ns, rate_bps, write_bytes, distribution } => {
                let random = (distribution == Distribution::Exponential).then(|| streams("on-off"));
                let lengths = Lengths::new(on_ns, off_ns, random);
                Traffic::sent_by(OnOff::new(lengths, rate_bps, write_bytes, stop))
            }
            App::RequestResponse { requests, request_bytes, response_bytes, think_ns } => {
                Traffic::asked_for_by(Requests::new(requests, request_bytes, response_bytes, think_ns))
            }
            App::Incast { size_bytes, request_bytes, rounds, think_ns, .. } => {
                let client = Incast::new(rounds, request_bytes, size_bytes);
                Traffic::Incast { client, rounds, think: think_ns }
            }
            App::Video { rate_bps, chunk_ns, buffer_ns, request_bytes } => {
                Traffic::asked_for_by(Player::new(rate_bps, chunk_ns, buffer_ns, request_bytes))
            }
            App::UdpCbr { rate_bps, payload_bytes, ecn } => {
                Traffic::Datagrams(Datagrams::at_rate(rate_bps, payload_bytes).with_ecn(ecn))
            }
            App::Voip { frame_ns, payload_bytes, ecn } => {
                Traffic::Datagrams(Datagrams::every(frame_ns, payload_bytes, false).with_ecn(ecn))
            }
            App::UdpVbr { ref size, ref interval, least_bytes, payload_bytes, ecn } => {
                let drawn = Drawn::new(size.clone(), interval.clone(), least_bytes, streams);
                Traffic::Datagrams(Datagrams::drawn(drawn, payload_bytes).with_ecn(ecn))
            }
            App::Media {
                controller,
                min_bps,
                max_bps,
                start_bps,
                fps,
                variation_ppb,
                payload_bytes,
                feedback_ns,
                ecn,
            } => Traffic::Media(Media {
                controller,
                min_bps,
                max_bps,
                start_bps: start_bps.unwrap_or(min_bps),
                fps,
                variation_ppb,
                payload: payload_bytes,
                feedback: feedback_ns,
                ecn,
            }),
            App::Ping { interval_ns, payload_bytes } => {
                Traffic::Datagrams(Datagrams::every(interval_ns, payload_bytes, true))
            }
            App::Loadlatency { part: LoadPart::Pinger, ping_bytes, interval_ns, .. } => {
                Traffic::Pinger(Pinger::new(ping_bytes, interval_ns))
            }
            App::Loadlatency { write_bytes, .. } => Traffic::Load(Bulk::new(None, write_bytes)),
            App::Background { load_bps, connections, .. } => {
                let sizes = self.transfer_sizes().expect("the sizes of background traffic");
                Traffic::Background(Transfers::new(load_bps, sizes, streams), connections)
            }
        }
    }

    /// Whether the application ends by itself.
    pub fn is_limited(&self) -> bool {
        match self {
            App::Fixed { .. } => true,
            App::Bulk { bytes: limit, .. }
            | App::RequestResponse { requests: limit, .. }
            | App::Incast { rounds: limit, .. } => limit.is_some(),
            _ => false,
        }
    }

    /// Bytes of the application's smallest message, and how many of them what it says takes on a real connection.
    /// None: it says nothing.
    pub fn message(&self) -> Option<(u64, usize)> {
        let asks = |bytes, response| (bytes, Message::Request { bytes, response, last: true }.encode().1);
        match *self {
            App::RequestResponse { request_bytes, response_bytes, .. } => {
                Some(asks(request_bytes, response_bytes))
            }
            App::Incast { request_bytes, size_bytes, .. } => Some(asks(request_bytes, size_bytes)),
            App::Video { request_bytes, rate_bps, chunk_ns, .. } => {
                Some(asks(request_bytes, chunk_bytes(rate_bps, chunk_ns)))
            }
            App::UdpCbr { payload_bytes: least, .. }
            | App::Voip { payload_bytes: least, .. }
            | App::UdpVbr { least_bytes: least, .. } => Some((least.into(), STAMP)),
            App::Background { .. } => {
                let least = self.transfer_sizes()?.least();
                Some((least, Message::Transfer { arrived: u64::MAX }.encode().1))
            }
            _ => None,
        }
    }

    /// Distribution of the sizes of background traffic's transfers.
    fn transfer_sizes(&self) -> Option<Draws> {
        match *self {
            App::Background { sizes: Some(ref sizes), .. } => Some(sizes.clone()),
            App::Background { size_bytes: mean, shape_milli, .. } => {
                Some(Draws::Pareto { mean, shape_milli })
            }
            _ => None,
        }
    }
}
