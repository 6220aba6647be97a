//! The wire format, version 1: every integer in network byte order, every length checked before a byte is read for it.
//!
//! Nothing here reads a socket.
#![doc = include_str!("wire.md")]

use measure::Direction;

/// First bytes of every greeting.
pub const MAGIC: [u8; 4] = *b"LDLT";
/// Version of this format; an end that speaks another is refused.
pub const VERSION: u16 = 1;
/// Port of the server unless another is given. Not registered with IANA for anything.
pub const PORT: u16 = 55_011;

/// Length of a nonce, bytes.
pub const NONCE: usize = 16;
/// Length of the name of a session, bytes.
pub const SESSION: usize = 16;
/// Length of a proof (HMAC-SHA256), bytes.
pub const PROOF: usize = 32;

/// Length of a greeting of either end, bytes.
pub const GREETING: usize = 8;
/// Length of what follows the greeting of a flow, bytes.
pub const FLOW: usize = SESSION + 6 + PROOF;
/// Length of the header of a block of payload, bytes.
pub const BLOCK: usize = 24;
/// Payload bytes of a block at most.
pub const MAX_BLOCK: u32 = 1 << 20;
/// Length of a note, what a receiver sends on a flow's connection, bytes.
pub const NOTE: usize = 16;
/// Length of the header of a message of the pinger's connection, bytes.
pub const HEADER: usize = 5;
/// Bytes of a client's message at most.
pub const MAX_REQUEST: u32 = 64;
/// Bytes of a server's message at most.
pub const MAX_REPLY: u32 = 8 << 20;
/// Bytes of the name of a system, of a congestion control, of a reason, at most.
pub const MAX_TEXT: usize = 200;

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The pinger, which also carries the commands.
    Pinger,
    /// A flow.
    Flow,
}

/// Answer of a server to a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Go on.
    Fine,
    /// Another client is being served.
    Busy,
    /// The client speaks another version.
    Version,
    /// The proof is wrong: the secrets differ.
    Secret,
    /// Bytes of another protocol.
    Malformed,
    /// The flow belongs to no session that is there, or the session has too many.
    NoSession,
}

impl Status {
    const ALL: [Status; 6] =
        [Status::Fine, Status::Busy, Status::Version, Status::Secret, Status::Malformed, Status::NoSession];

    /// Words for a client's user.
    pub fn in_words(self) -> &'static str {
        match self {
            Status::Fine => "accepted",
            Status::Busy => "the server serves another client; try again later",
            Status::Version => "the server speaks another version of the protocol",
            Status::Secret => "the server refused the secret (--secret)",
            Status::Malformed => "the server did not understand the greeting",
            Status::NoSession => "the server knows no such session",
        }
    }
}

/// The greeting of a client: magic, version, role, a zero.
pub fn greeting(role: Role) -> [u8; GREETING] {
    greet(match role {
        Role::Pinger => 1,
        Role::Flow => 2,
    })
}

/// The greeting of a server: magic, version, status, a zero.
pub fn answer(status: Status) -> [u8; GREETING] {
    greet(status as u8)
}

fn greet(byte: u8) -> [u8; GREETING] {
    let [high, low] = VERSION.to_be_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], high, low, byte, 0]
}

/// Reads a client's greeting.
///
/// # Errors
/// What to answer to one that is refused.
pub fn read_greeting(bytes: &[u8; GREETING]) -> Result<Role, Status> {
    if bytes[..4] != MAGIC {
        return Err(Status::Malformed);
    }
    if u16::from_be_bytes([bytes[4], bytes[5]]) != VERSION {
        return Err(Status::Version);
    }
    match bytes[6] {
        1 => Ok(Role::Pinger),
        2 => Ok(Role::Flow),
        _ => Err(Status::Malformed),
    }
}

/// Reads a server's answer. None if it is not one.
pub fn read_answer(bytes: &[u8; GREETING]) -> Option<Status> {
    let status = Status::ALL.get(usize::from(bytes[6])).copied();
    match u16::from_be_bytes([bytes[4], bytes[5]]) {
        _ if bytes[..4] != MAGIC => None,
        VERSION => status,
        _ => Some(Status::Version),
    }
}

/// Opening of a flow, without its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Session of the flow.
    pub session: [u8; SESSION],
    /// Number of the flow, used once in a session.
    pub id: u32,
    /// Direction of the flow's data.
    pub direction: Direction,
    /// Code point that the flow's sender shall use, below 64.
    pub dscp: u8,
}

impl Opening {
    /// Bytes as sent, without the proof, which covers them.
    pub fn to_bytes(self) -> [u8; SESSION + 6] {
        let mut bytes = [0; SESSION + 6];
        bytes[..SESSION].copy_from_slice(&self.session);
        bytes[SESSION..SESSION + 4].copy_from_slice(&self.id.to_be_bytes());
        bytes[SESSION + 4] = u8::from(self.direction == Direction::Down);
        bytes[SESSION + 5] = self.dscp;
        bytes
    }

    /// Reads an opening. None if a field is out of range.
    pub fn read(bytes: &[u8; SESSION + 6]) -> Option<Opening> {
        let (session, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let direction = match rest[0] {
            0 => Direction::Up,
            1 => Direction::Down,
            _ => return None,
        };
        let dscp = Some(rest[1]).filter(|dscp| *dscp < 64)?;
        Some(Opening { session: *session, id: u32::from_be_bytes(*id), direction, dscp })
    }
}

/// Header of a block's payload: its length, and two time stamps of the client's clock, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Payload bytes that follow.
    pub length: u32,
    /// Time stamp to answer by a note with the same echo.
    pub probe: u64,
    /// Answer to a note's probe.
    pub echo: u64,
}

impl Block {
    /// Bytes as sent.
    pub fn to_bytes(self) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.probe.to_be_bytes());
        bytes[16..].copy_from_slice(&self.echo.to_be_bytes());
        bytes
    }

    /// Reads a block's header. None if the bytes are none.
    pub fn read(bytes: &[u8; BLOCK]) -> Option<Block> {
        let mut rest = Reader(bytes);
        let length = rest.u32()?;
        let zero = rest.u32()?;
        let block = Block { length, probe: rest.u64()?, echo: rest.u64()? };
        (zero == 0 && (1..=MAX_BLOCK).contains(&length)).then_some(block)
    }
}

/// Note of a receiver on a flow's connection. The first note of a download asks it to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Time stamp to answer by a block with the same echo, 0 for none.
    pub probe: u64,
    /// Answer to a block's probe, 0 for none.
    pub echo: u64,
}

impl Note {
    /// Bytes as sent.
    pub fn to_bytes(self) -> [u8; NOTE] {
        let mut bytes = [0; NOTE];
        bytes[..8].copy_from_slice(&self.probe.to_be_bytes());
        bytes[8..].copy_from_slice(&self.echo.to_be_bytes());
        bytes
    }

    /// Reads a note.
    pub fn read(bytes: &[u8; NOTE]) -> Note {
        let half = |from: usize| u64::from_be_bytes(std::array::from_fn(|k| bytes[from + k]));
        Note { probe: half(0), echo: half(8) }
    }
}

/// Question of a client on the pinger's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A ping with its number.
    Ping(u32),
    /// Question for a report of the flows.
    Report,
    /// End all flows.
    Stop,
    /// The run is over.
    Bye,
}

impl Request {
    /// Bytes as sent.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Request::Ping(number) => message(1, &number.to_be_bytes()),
            Request::Report => message(2, &[]),
            Request::Stop => message(3, &[]),
            Request::Bye => message(4, &[]),
        }
    }

    /// Reads a request. None if the bytes are none.
    pub fn read(kind: u8, body: &[u8]) -> Option<Request> {
        let mut rest = Reader(body);
        let request = match kind {
            1 => Request::Ping(rest.u32()?),
            2 => Request::Report,
            3 => Request::Stop,
            4 => Request::Bye,
            _ => return None,
        };
        rest.0.is_empty().then_some(request)
    }
}

/// Answer of a server on the pinger's connection. Times are ns of the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answer to a ping: its number, when it came, when the answer was sent.
    Pong(u32, u64, u64),
    /// Answer to a question for a report: when it was made, and all flows but those an earlier report already told
    /// the end of.
    Report(u64, Vec<FlowReport>),
    /// All flows have ended.
    Stopped,
    /// The server ends the session, and why.
    Ending(String),
}

/// Report of the server about a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Number of the flow.
    pub id: u32,
    /// Congestion control at the server, if the system says.
    pub cc: Option<String>,
    /// Whether the server's end negotiated ECN, if the system says.
    pub ecn: Option<bool>,
    /// Reason why the connection ended before it was told to. None if it did not.
    pub killed: Option<String>,
    /// Number of bytes read so far, of an upload.
    pub bytes: u64,
    /// Time when the first byte came; 0 before it.
    pub first_ns: u64,
    /// Time when the last byte came; 0 before it.
    pub last_ns: u64,
    /// Time when the flow ended; 0 before that.
    pub end_ns: u64,
    /// Longest time between two arrivals.
    pub gap_ns: u64,
    /// Place of the first of `bins`, counted from the first arrival.
    pub bins_from: u32,
    /// Bytes in intervals of 100 ms that have passed since the last report.
    pub bins: Vec<u64>,
}

impl Reply {
    /// Bytes as sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Reply::Pong(number, came, sent) => {
                let mut body = number.to_be_bytes().to_vec();
                body.extend(came.to_be_bytes());
                body.extend(sent.to_be_bytes());
                message(129, &body)
            }
            Reply::Report(now_ns, flows) => {
                let mut body = now_ns.to_be_bytes().to_vec();
                body.extend((flows.len() as u16).to_be_bytes());
                for flow in flows {
                    flow.write(&mut body);
                }
                message(130, &body)
            }
            Reply::Stopped => message(131, &[]),
            Reply::Ending(why) => {
                let mut body = Vec::new();
                write_text(&mut body, why);
                message(132, &body)
            }
        }
    }

    /// Reads a reply. None if the bytes are none.
    pub fn read(kind: u8, body: &[u8]) -> Option<Reply> {
        let mut rest = Reader(body);
        let reply = match kind {
            129 => Reply::Pong(rest.u32()?, rest.u64()?, rest.u64()?),
            130 => {
                let (now_ns, count) = (rest.u64()?, rest.u16()?);
                Reply::Report(now_ns, (0..count).map(|_| FlowReport::read(&mut rest)).collect::<Option<_>>()?)
            }
            131 => Reply::Stopped,
            132 => Reply::Ending(rest.text()?),
            _ => return None,
        };
        rest.0.is_empty().then_some(reply)
    }
}

impl FlowReport {
    fn write(&self, body: &mut Vec<u8>) {
        body.extend(self.id.to_be_bytes());
        write_text(body, self.cc.as_deref().unwrap_or_default());
        body.push(self.ecn.map_or(2, u8::from));
        write_text(body, self.killed.as_deref().unwrap_or_default());
        for value in [self.bytes, self.first_ns, self.last_ns, self.end_ns, self.gap_ns] {
            body.extend(value.to_be_bytes());
        }
        body.extend(self.bins_from.to_be_bytes());
        body.extend((self.bins.len() as u32).to_be_bytes());
        for bin in &self.bins {
            body.extend(bin.to_be_bytes());
        }
    }

    fn read(rest: &mut Reader<'_>) -> Option<FlowReport> {
        let id = rest.u32()?;
        let cc = Some(rest.text()?).filter(|text| !text.is_empty());
        let ecn = match rest.u8()? {
            2 => None,
            value => Some(value == 1),
        };
        let killed = Some(rest.text()?).filter(|text| !text.is_empty());
        let [bytes, first_ns, last_ns, end_ns, gap_ns] =
            [rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?];
        let bins_from = rest.u32()?;
        let count = rest.u32()? as usize;
        // No memory is allocated for a count that the message cannot hold.
        let (bins, left) = rest.0.split_at_checked(count.checked_mul(8)?)?;
        rest.0 = left;
        let bins =
            bins.chunks_exact(8).filter_map(|bin| Some(u64::from_be_bytes(bin.try_into().ok()?))).collect();
        Some(FlowReport { id, cc, ecn, killed, bytes, first_ns, last_ns, end_ns, gap_ns, bins_from, bins })
    }
}

/// Reads the header of a message: its kind and the length of its body.
pub fn read_header(bytes: [u8; HEADER]) -> (u8, u32) {
    let [kind, length @ ..] = bytes;
    (kind, u32::from_be_bytes(length))
}

/// A text as it is sent: a byte of length, then UTF-8, cut where it is too long.
pub fn write_text(body: &mut Vec<u8>, text: &str) {
    let cut = (0..=MAX_TEXT.min(text.len())).rfind(|&end| text.is_char_boundary(end)).unwrap_or(0);
    body.push(cut as u8);
    body.extend(&text.as_bytes()[..cut]);
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    /// Control characters are replaced: what the other end says is printed.
    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(printable(text))
    }
}

/// Bytes of the other end as text that is safe to print on one line.
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_reads_back_as_itself() {
        for role in [Role::Pinger, Role::Flow] {
            assert_eq!(read_greeting(&greeting(role)), Ok(role));
        }
        for status in Status::ALL {
            assert_eq!(read_answer(&answer(status)), Some(status));
        }
        let opening =
            Opening { session: [7; SESSION], id: 0x0102_0304, direction: Direction::Down, dscp: 46 };
        assert_eq!(Opening::read(&opening.to_bytes()), Some(opening));
        let block = Block { length: 4096, probe: 1 << 60, echo: 3 };
        assert_eq!(Block::read(&block.to_bytes()), Some(block));
        let note = Note { probe: 5, echo: u64::MAX };
        assert_eq!(Note::read(&note.to_bytes()), note);
        for request in [Request::Ping(9), Request::Report, Request::Stop, Request::Bye] {
            let (bytes, kind) = split(&request.to_bytes());
            assert_eq!(Request::read(kind, &bytes), Some(request));
        }
        let flow = FlowReport {
            id: 3,
            cc: Some("cubic".into()),
            ecn: Some(true),
            killed: None,
            bytes: 1 << 40,
            bins_from: 17,
            bins: vec![0, 1 << 33],
            ..FlowReport::default()
        };
        for reply in [
            Reply::Pong(1, 2, 3),
            Reply::Report(1, vec![flow, FlowReport::default()]),
            Reply::Stopped,
            Reply::Ending("over".into()),
        ] {
            let (bytes, kind) = split(&reply.to_bytes());
            assert_eq!(Reply::read(kind, &bytes), Some(reply));
        }
    }

    fn split(bytes: &[u8]) -> (Vec<u8>, u8) {
        let (header, body) = bytes.split_first_chunk().expect("a header");
        let (kind, length) = read_header(*header);
        assert_eq!(length as usize, body.len());
        (body.to_vec(), kind)
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        assert_eq!(greeting(Role::Flow), *b"LDLT\x00\x01\x02\x00");
        assert_eq!(answer(Status::Busy), *b"LDLT\x00\x01\x01\x00");
        assert_eq!(Request::Ping(0x0102).to_bytes(), [1, 0, 0, 0, 4, 0, 0, 1, 2]);
        let block = Block { length: 0x0102, probe: 3, echo: 4 }.to_bytes();
        assert_eq!(block, [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        assert_eq!(read_greeting(b"HTTP/1.1"), Err(Status::Malformed));
        assert_eq!(read_greeting(b"LDLT\x00\x02\x01\x00"), Err(Status::Version));
        assert_eq!(read_greeting(b"LDLT\x00\x01\x09\x00"), Err(Status::Malformed));
        assert_eq!(read_answer(b"LDLT\x00\x07\x63\x00"), Some(Status::Version));
        let good = Opening { session: [0; SESSION], id: 1, direction: Direction::Up, dscp: 0 }.to_bytes();
        for (place, value) in [(SESSION + 4, 2), (SESSION + 5, 64)] {
            let mut bad = good;
            bad[place] = value;
            assert_eq!(Opening::read(&bad), None);
        }
        for length in [0, MAX_BLOCK + 1, u32::MAX] {
            assert_eq!(Block::read(&Block { length, probe: 0, echo: 0 }.to_bytes()), None);
        }
        assert_eq!(Request::read(1, &[0; 3]), None);
        assert_eq!(Request::read(2, &[0]), None, "nothing may follow");
        assert_eq!(Reply::read(130, &[255; 10]), None, "more flows than bytes");
    }

    #[test]
    fn what_the_other_end_says_prints_on_one_line() {
        assert_eq!(printable(b"cubic\n\x1b[2J\xff"), "cubic??[2J\u{fffd}");
        let mut long = Vec::new();
        write_text(&mut long, &"\u{e4}".repeat(300));
        assert_eq!((long.len(), long[0]), (201, 200));
    }
}
