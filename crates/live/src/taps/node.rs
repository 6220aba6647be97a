//! A node's ring, and the packets that are in the node.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, RawFd};

use path::Nanos;

use super::Config;
use super::backlog::Entry;
use crate::emulator::FlowKey;
use crate::emulator::flows::{Flows, Owner};
use crate::emulator::frame::{Headers, IP};
use crate::ring::Ring;
use crate::sys::{self, check, own, set_option};
use crate::tun::VNET_HEADER;

/// Bytes of a frame that are enough to know a packet: Ethernet, IPv6, and what [`Headers::identity`] covers of the transport.
const START: usize = 14 + 40 + 40;
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
    /// The packet's entry into the queue of the node, where that is recorded.
    pub(super) queued: Option<Entry>,
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
    /// Place in the configuration of the queue that is ahead of packets that come in, by `lane`.
    ahead: Vec<Option<usize>>,
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
        let mut ahead = vec![None; lanes];
        for (place, queue) in config.queues.iter().enumerate().filter(|(_, queue)| queue.node == number) {
            for &(flow, forward) in &queue.flows {
                ahead[2 * flow + usize::from(forward)] = Some(place);
            }
        }
        let wanted = Wanted::at(number, config);
        Ok(Node {
            number,
            is_host: is_host(number, config),
            inside: (0..lanes).map(|_| Between::default()).collect(),
            ahead,
            ring: listen(kept, config.places, &wanted)
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
            let told = read(front.bytes, &mut self.flows, front.interface, front.leaving);
            let result = told.map_or(Ok(()), |event| each(at, event, &front.bytes[IP..]));
            self.ring.release();
            result?;
        }
        Ok(())
    }

    /// Place in the configuration of the queue that is ahead of a packet that comes in. None: it passes none here.
    pub(super) fn ahead(&self, lane: usize) -> Option<usize> {
        self.ahead.get(lane).copied().flatten()
    }

    /// Descriptor that can be read while a packet waits in the ring.
    pub(super) fn descriptor(&self) -> RawFd {
        self.ring.socket().as_raw_fd()
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

fn is_host(number: usize, config: &Config) -> bool {
    config.flows.iter().any(|flow| flow.from == number || flow.to == number)
}

/// Packets of a node that are of interest; the kernel puts no others into the ring. All of a host are, but `lo`'s. Of a router
/// those are that leave by an interface with a queue, and those that may come to it.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// Interfaces by which packets leave. None: every one.
    leaving: Option<Vec<i32>>,
    /// Interface by which no packet of interest comes in.
    except: Option<i32>,
}

impl Wanted {
    fn at(number: usize, config: &Config) -> Wanted {
        let captures = config.captures.iter().filter(|capture| capture.node == number);
        let captured: Vec<(i32, bool)> = captures.map(|each| (each.interface, each.leaving)).collect();
        let queues = config.queues.iter().filter(|queue| queue.node == number);
        let queues: Vec<i32> = queues.map(|queue| queue.interface).collect();
        if is_host(number, config) {
            return Wanted { leaving: None, except: None };
        }
        let only = if let [only] = queues[..] { Some(only) } else { None };
        let leaves = captured.iter().filter(|(_, leaving)| *leaving).map(|(interface, _)| *interface);
        Wanted {
            leaving: Some(queues.iter().copied().chain(leaves).collect()),
            except: only.filter(|only| !captured.contains(&(*only, false))),
        }
    }

    /// As a program of the kernel's (bpf(4)) that keeps so many bytes of each packet.
    fn program(&self, kept: usize) -> Vec<libc::sock_filter> {
        /// BPF_LD | BPF_W | BPF_ABS with SKF_AD_OFF + SKF_AD_IFINDEX and SKF_AD_PKTTYPE, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K.
        const LOAD: u16 = 0x20;
        const INTERFACE: u32 = (-0x1000_i32 + 8) as u32;
        const KIND: u32 = (-0x1000_i32 + 4) as u32;
        const IS: u16 = 0x15;
        const RETURN: u16 = 6;
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let keep = |bytes: usize| step(RETURN, 0, 0, bytes as u32);
        let of = |interface: i32, bytes: usize| [step(IS, 0, 1, interface as u32), keep(bytes)];
        let mut incoming = vec![step(LOAD, 0, 0, INTERFACE)];
        incoming.extend([LOOPBACK].into_iter().chain(self.except).flat_map(|each| of(each, 0)));
        incoming.push(keep(kept));
        let mut program =
            vec![step(LOAD, 0, 0, KIND), step(IS, incoming.len() as u8, 0, u32::from(libc::PACKET_OUTGOING))];
        program.append(&mut incoming);
        program.push(step(LOAD, 0, 0, INTERFACE));
        let listed = self.leaving.as_deref().unwrap_or(&[LOOPBACK]);
        let (found, else_) = if self.leaving.is_some() { (kept, 0) } else { (0, kept) };
        program.extend(listed.iter().flat_map(|interface| of(*interface, found)));
        program.push(keep(else_));
        program
    }
}

/// A ring of what comes in and goes out and is wanted, of each packet so many bytes; as large as so many places for short packets.
fn listen(kept: usize, places: usize, wanted: &Wanted) -> io::Result<Ring> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain call; the descriptor is new. Without a protocol, nothing comes in until it is bound.
    let socket = unsafe { own(libc::socket(libc::AF_PACKET, kind, 0)) }?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    let mut filter = wanted.program(kept);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a program keeps of a packet (bpf(4)), of the instructions there are here.
    fn kept(program: &[libc::sock_filter], interface: i32, leaving: bool) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match (step.code, step.k as i32 + 0x1000) {
                (0x20, 8) => loaded = interface as u32,
                (0x20, 4) => loaded = u32::from(if leaving { libc::PACKET_OUTGOING } else { 0 }),
                (0x15, _) => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                (6, _) => return step.k,
                other => panic!("{other:?}"),
            }
        }
    }

    fn seen(wanted: &Wanted) -> [Vec<i32>; 2] {
        let program = wanted.program(74);
        [false, true].map(|leaving| (1..6).filter(|each| kept(&program, *each, leaving) == 74).collect())
    }

    #[test]
    fn the_kernel_keeps_what_is_of_interest() {
        assert_eq!(seen(&Wanted { leaving: None, except: None }), [vec![2, 3, 4, 5], vec![2, 3, 4, 5]]);
        let one = Wanted { leaving: Some(vec![3]), except: Some(3) };
        assert_eq!(seen(&one), [vec![2, 4, 5], vec![3]]);
        let two = Wanted { leaving: Some(vec![3, 5]), except: None };
        assert_eq!(seen(&two), [vec![2, 3, 4, 5], vec![3, 5]]);
    }

    #[test]
    fn what_is_of_interest_is_what_hosts_queues_and_captures_need() {
        let queue = |node, interface| {
            serde_json::json!({"link": 0, "node": node, "interface": interface, "address": "000000000000",
                "delays": [], "overhead": 14, "flows": [[0, true]], "changes": false})
        };
        let capture = |node, interface, leaving| serde_json::json!({"node": node, "interface": interface, "leaving": leaving, "snaplen": 100, "file": "x"});
        let key =
            serde_json::json!({"flow": "f", "src": "10.0.0.1", "dst": "10.0.0.2", "sport": 1, "dport": 2});
        let config: Config = serde_json::from_value(serde_json::json!({
            "run_id": 0,
            "flows": [{"key": key, "from": 0, "to": 1, "overhead": 14}],
            "links": ["l"],
            "queues": [queue(2, 3), queue(3, 2), queue(3, 3), queue(4, 2)],
            "measure": [0, 1],
            "captures": [capture(4, 2, false), capture(5, 4, true)],
            "places": 2048,
        }))
        .expect("a configuration");
        let at = |number| Wanted::at(number, &config);
        assert_eq!(at(0), Wanted { leaving: None, except: None });
        assert_eq!(at(2), Wanted { leaving: Some(vec![3]), except: Some(3) });
        assert_eq!(at(3), Wanted { leaving: Some(vec![2, 3]), except: None });
        assert_eq!(at(4), Wanted { leaving: Some(vec![2]), except: None });
        assert_eq!(at(5), Wanted { leaving: Some(vec![4]), except: None });
    }
}
