//! A node's ring, and the packets that are in the node.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;

use path::Nanos;

use super::Config;
use crate::emulator::FlowKey;
use crate::emulator::flows::{Flows, Owner};
use crate::emulator::frame::{Headers, IP};
use crate::ring::Ring;
use crate::sys::{self, check, own, set_option};
use crate::tun::VNET_HEADER;

/// Bytes of a frame that are enough to know a packet: Ethernet, IPv4 and TCP with all options.
const START: usize = 14 + 60 + 60;
/// Bytes that a ring's place has besides the packet.
const PLACE_HEADER: usize = 96;
/// Bytes of a place for a short packet.
const SHORT: usize = 256;
/// `lo`.
const LOOPBACK: i32 = 1;

/// A packet that comes into a node, leaves it, or was dropped there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) headers: Headers,
    /// See [`Headers::identity`].
    pub(super) identity: u64,
    pub(super) owner: Option<Owner>,
    /// Number of payload bytes in the stream before the packet.
    pub(super) offset: Option<u64>,
    pub(super) interface: i32,
    pub(super) leaving: bool,
    /// Hardware address from which it was sent, or would have been.
    pub(super) address: [u8; 6],
}

/// Function that is handed each packet: the time (CLOCK_REALTIME), the event, and the bytes from IP on as far as they are kept.
pub(super) type Each<'a> = dyn FnMut(Nanos, Event, &[u8]) -> io::Result<()> + 'a;

/// A packet between two places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) event: Event,
    /// Time of the run when the packet passed the first tap, in ns. None before it.
    pub(super) since: Option<Nanos>,
    /// Time that the packet has waited in queues. None if nobody knows.
    pub(super) waited: Option<Nanos>,
    /// The delay of the data for which it is an acknowledgement.
    pub(super) echo: Option<Nanos>,
}

/// Packets of a flow in one direction between two places, in the order in which they passed the first.
#[derive(Debug, Default)]
pub(super) struct Between {
    /// Identity of each packet: one behind a queue is looked for among all that are ahead of it.
    identities: VecDeque<u64>,
    packets: VecDeque<Inside>,
}

impl Between {
    pub(super) fn enter(&mut self, inside: Inside) {
        self.identities.push_back(inside.event.identity);
        self.packets.push_back(inside);
    }

    /// The packet, where it is.
    pub(super) fn find(&mut self, identity: u64) -> Option<&mut Inside> {
        let place = self.place(identity)?;
        self.packets.get_mut(place)
    }

    /// Takes the packet out. It is the first, unless it overtakes.
    pub(super) fn leave(&mut self, identity: u64) -> Option<Inside> {
        let place = self.place(identity)?;
        self.identities.remove(place);
        self.packets.remove(place)
    }

    fn place(&self, identity: u64) -> Option<usize> {
        self.identities.iter().position(|each| *each == identity)
    }
}

/// The place of a flow's direction among those of all flows; the last is everybody else's.
pub(super) fn lane(owner: Option<Owner>, flows: usize) -> usize {
    owner.map_or(2 * flows, |owner| 2 * usize::from(owner.flow) + usize::from(owner.forward))
}

/// A node.
pub(super) struct Node {
    pub(super) number: usize,
    /// Whether a flow ends at the node.
    pub(super) is_host: bool,
    /// Packets that came in and have not left, by `lane`; nothing where the node has no queue.
    pub(super) inside: Vec<Between>,
    ring: Ring,
    flows: Flows,
}

impl Node {
    /// Listens at every interface of the calling thread's namespace.
    ///
    /// # Errors
    /// Not enough rights, or memory.
    pub(super) fn listen(number: usize, config: &Config) -> io::Result<Node> {
        let captured = config.captures.iter().filter(|capture| capture.node == number);
        let longest = captured.map(|capture| capture.snaplen as usize + 14).max().unwrap_or(0);
        let kept = START.max(longest.min(1 << 15));
        let queued = config.queues.iter().any(|queue| queue.node == number);
        let lanes = if queued { 2 * config.flows.len() + 1 } else { 0 };
        Ok(Node {
            number,
            is_host: config.flows.iter().any(|flow| flow.from == number || flow.to == number),
            inside: (0..lanes).map(|_| Between::default()).collect(),
            ring: listen(kept, config.places)
                .map_err(|error| sys::about(&format!("packets of node {number}"), &error))?,
            flows: Flows::new(keys(config)),
        })
    }

    /// Hands every packet that has passed to `each`.
    ///
    /// # Errors
    /// Those of `each`.
    pub(super) fn take(&mut self, each: &mut Each<'_>) -> io::Result<()> {
        while let Some(at) = self.ring.head() {
            let front = self.ring.front();
            let told = if front.interface == LOOPBACK {
                None
            } else {
                read(front.bytes, &mut self.flows, front.interface, front.leaving)
            };
            let result = told.map_or(Ok(()), |event| each(at, event, &front.bytes[IP..]));
            self.ring.release();
            result?;
        }
        Ok(())
    }

    /// Packets that found no place since the last call. It takes a system call.
    pub(super) fn missed(&self) -> u64 {
        self.ring.drops()
    }
}

/// The flows' packets, with their numbers; those that have ports first.
fn keys(config: &Config) -> Vec<(u16, FlowKey)> {
    let mut keys: Vec<_> =
        (0u16..).zip(&config.flows).map(|(number, flow)| (number, flow.key.clone())).collect();
    keys.sort_by_key(|(_, key)| key.dport.is_none());
    keys
}

/// The beginning of a frame as an event, whose flow is not looked for.
pub(super) fn dropped(frame: &[u8]) -> Option<Event> {
    let mut bytes = vec![0; VNET_HEADER];
    bytes.extend_from_slice(frame);
    read(&bytes, &mut Flows::new(Vec::new()), 0, false)
}

fn read(bytes: &[u8], flows: &mut Flows, interface: i32, leaving: bool) -> Option<Event> {
    let headers = Headers::read_start(bytes)?;
    let (owner, offset) = flows.find(&headers, bytes);
    let address = bytes.get(VNET_HEADER + 6..VNET_HEADER + 12)?.try_into().ok()?;
    Some(Event { identity: headers.identity(bytes), headers, owner, offset, interface, leaving, address })
}

/// A ring of what comes in and goes out, of each packet so many bytes; as large as so many places for short packets.
fn listen(kept: usize, places: usize) -> io::Result<Ring> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain call; the descriptor is new. Without a protocol, nothing comes in until it is bound.
    let socket = unsafe { own(libc::socket(libc::AF_PACKET, kind, 0)) }?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    // BPF_RET | BPF_K: of each packet the first bytes.
    let mut filter = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: kept as u32 }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    set_option(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    let place = (kept + PLACE_HEADER).next_power_of_two();
    let ring = Ring::new(socket, place, places * SHORT / place)?;
    // SAFETY: a sockaddr_ll is plain data for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call and has the length given.
    check(unsafe { libc::bind(ring.socket().as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(ring)
}
