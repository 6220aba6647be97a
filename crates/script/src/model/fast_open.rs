//! TCP Fast Open on the model: calls that send with the SYN, and what a listener makes of a SYN.

use tcp::fast_open::{Attempt, Host, Style, Welcome};
use tcp::stack::Family;
use tcp::{Endpoint, State};
use wire::Segment;

use super::{Kind, Model, Settings};
use crate::errno::Errno;

/// Number under which the host remembers the one peer there is.
pub(super) const PEER: u64 = 0;
/// Key of the host's cookies until a script sets one.
pub(super) const KEY: [u64; 2] = [0x6b65_7920_6f66_2074, 0x6865_206d_6f64_656c];

/// Keys of 16 bytes: one, or the one that makes cookies and one that did. None: other lengths.
pub(super) fn keys(bytes: &[u8]) -> Option<Vec<[u64; 2]>> {
    let word = |at: &[u8]| u64::from_le_bytes(at.try_into().unwrap_or([0; 8]));
    let right = bytes.len() == 16 || bytes.len() == 32;
    right.then(|| bytes.chunks(16).map(|key| [word(&key[..8]), word(&key[8..])]).collect())
}

impl Model {
    /// Way in which a connection opens whose socket asks for Fast Open.
    pub(super) fn fast_open_attempt(&mut self) -> Option<Attempt> {
        let settings = self.profile.spec().fast_open;
        self.fast_open.attempt(&settings, PEER, self.now)
    }

    /// Verdict of the host on a SYN to a listener with these options.
    pub(super) fn welcome(&self, syn: &Segment, listener: &Settings) -> Welcome {
        let asked = listener.fast_open;
        let settings = self.profile.spec().fast_open;
        let waiting = self.connections.iter().filter(|connection| connection.endpoint.opened_early());
        let takes = match settings.style {
            Style::None => false,
            Style::Linux if asked > 0 => (waiting.count() as i64) < asked,
            Style::Linux => settings.every_listener,
            Style::FreeBsd => asked != 0,
        };
        if !takes {
            return Welcome::Plain(None);
        }
        let [own, peer] = self.addresses.map(|address| address.octets());
        let addresses: [&[u8]; 2] = [&peer, &own];
        let Some(keys) = &listener.fast_open_keys else {
            return self.fast_open.welcome(&settings, syn, addresses);
        };
        let mut host = Host::default();
        host.set_keys(keys.clone());
        host.welcome(&settings, syn, addresses)
    }

    /// Hands what connections have found out to their host.
    pub(super) fn learn_of_peer(&mut self) {
        let spec = self.profile.spec();
        for connection in &mut self.connections {
            while let Some(news) = connection.endpoint.fast_open_news() {
                self.fast_open.learn(&spec.fast_open, PEER, self.now, &news);
            }
            if let Some(lesson) = connection.endpoint.lesson() {
                self.peers.learn(&spec.peers, PEER, self.now, lesson);
            }
        }
    }

    /// `sendto` to an address, of a socket without a connection: it connects, and its data leaves with the SYN where that may
    /// be. None: the call blocks.
    pub(super) fn send_opening(
        &mut self,
        fd: i32,
        len: u64,
        (dont_wait, fast_open): (bool, bool),
        written: &mut u64,
    ) -> Option<Result<i64, Errno>> {
        let Some(socket) = self.sockets.get(&fd) else { return Some(Err(Errno::EBADF)) };
        let (deferred, blocks) = (socket.deferred, !socket.nonblocking && !dont_wait);
        let wanted = socket.settings.fast_open != 0;
        let family = self.profile.spec().family;
        if matches!(family, Family::FreeBsd | Family::FreeBsdRack) {
            let attempt = if wanted { self.fast_open_attempt() } else { None };
            let index = self.open_connection(fd, attempt);
            // It waits in the buffer, whatever the handshake does.
            return Some(Ok(self.connections[index].endpoint.write(len) as i64));
        }
        if !fast_open && !deferred {
            return Some(Err(Errno::EPIPE));
        }
        if !self.profile.spec().fast_open.client {
            return Some(Err(Errno::EOPNOTSUPP));
        }
        let attempt = self.fast_open_attempt();
        let index = self.open_connection(fd, attempt);
        let endpoint: &mut Endpoint = &mut self.connections[index].endpoint;
        *written = endpoint.write(len.min(u64::from(endpoint.room_on_syn())));
        endpoint.set_write_pending(blocks);
        match *written {
            _ if blocks => None,
            0 => Some(Err(Errno::EINPROGRESS)),
            taken => Some(Ok(taken as i64)),
        }
    }

    /// `connect` of a socket with TCP_FASTOPEN_CONNECT: put off until there is something to send, if a SYN may carry data.
    pub(super) fn defers_connect(&mut self, fd: i32, attempt: Option<Attempt>) -> bool {
        let defers = attempt.is_some_and(|attempt| attempt.data);
        if defers && let Some(socket) = self.sockets.get_mut(&fd) {
            socket.deferred = true;
        }
        defers
    }

    /// Whether a second Fast Open is tried while the first is under way.
    pub(super) fn opens_already(&self, fd: i32) -> bool {
        let kind = self.sockets.get(&fd).map(|socket| &socket.kind);
        matches!(kind, Some(&Kind::Connected(index)) if self.connections[index].endpoint.state() == State::SynSent)
    }
}
