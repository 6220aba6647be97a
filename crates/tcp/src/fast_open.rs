//! TCP Fast Open (RFC 7413) of a host: its settings, the cookies it has been given, and those it gives.
//!
//! A driver keeps a [`Host`] for each host. A client asks it how to open a connection ([`Host::attempt`]) and hands it what
//! came of that ([`Host::learn`]); a server asks it what a SYN is worth ([`Host::welcome`]).

use std::collections::BTreeMap;

use wire::fast_open::siphash;
use wire::{Cookie, Segment};

use crate::clock::{Nanos, SECOND};

/// System whose rules a host follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No Fast Open.
    None,
    /// Linux's (tcp_fastopen.c, tcp_metrics.c).
    Linux,
    /// FreeBSD's (tcp_fastopen.c).
    FreeBsd,
}

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The system's rules.
    pub style: Style,
    /// Connections may be opened with it.
    pub client: bool,
    /// Listeners may take it.
    pub server: bool,
    /// A SYN carries data without a cookie.
    pub client_needs_no_cookie: bool,
    /// Data of a SYN is taken without a cookie, or with any.
    pub server_needs_no_cookie: bool,
    /// Every listener takes it, without being asked to.
    pub every_listener: bool,
    /// Time for which a failure switches it off: the first one on Linux (0: never), any one of a path on FreeBSD.
    pub disabled_for: Nanos,
}

impl Settings {
    /// A system without Fast Open.
    pub const NONE: Settings = Settings {
        style: Style::None,
        client: false,
        server: false,
        client_needs_no_cookie: false,
        server_needs_no_cookie: false,
        every_listener: false,
        disabled_for: 0,
    };
    /// Linux's of version 5.14 and later: clients may, and black holes are not looked for.
    pub const LINUX: Settings = Settings { style: Style::Linux, client: true, ..Settings::NONE };
    /// FreeBSD's of version 13 and later: clients may; 900 s (TCP_FASTOPEN_PATH_DISABLE_TIME_DEFAULT).
    pub const FREEBSD: Settings =
        Settings { style: Style::FreeBsd, client: true, disabled_for: 900 * SECOND, ..Settings::NONE };

    /// The bits of net.ipv4.tcp_fastopen (ip-sysctl).
    #[must_use]
    pub fn linux_bits(&self) -> i64 {
        let bits = [
            (self.client, 0x1),
            (self.server, 0x2),
            (self.client_needs_no_cookie, 0x4),
            (self.server_needs_no_cookie, 0x200),
            (self.every_listener, 0x400),
        ];
        bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
    }

    /// Sets what the bits of net.ipv4.tcp_fastopen say; others mean nothing.
    pub fn set_linux_bits(&mut self, bits: i64) {
        self.client = bits & 0x1 != 0;
        self.server = bits & 0x2 != 0;
        self.client_needs_no_cookie = bits & 0x4 != 0;
        self.server_needs_no_cookie = bits & 0x200 != 0;
        self.every_listener = bits & 0x400 != 0;
    }
}

/// Way in which a client opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The option of the SYN: a cookie, or the request for one. None: no option.
    pub option: Option<Cookie>,
    /// The SYN carries data.
    pub data: bool,
    /// The server's MSS as it was last time; 0 where that is not known.
    pub mss: u16,
}

/// Treatment of a SYN by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The handshake goes on without early data; the SYN-ACK carries this cookie, if any.
    Plain(Option<Cookie>),
    /// The connection is open to the application at once, with the data of the SYN.
    Open(Option<Cookie>),
}

/// Content of the SYN-ACK to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The cookie in it.
    pub cookie: Option<Cookie>,
    /// The server's MSS.
    pub mss: u16,
    /// Demand of the SYN.
    pub attempt: Attempt,
    /// The SYN carried data.
    pub sent_data: bool,
    /// Acknowledgement of all of that data.
    pub acknowledged: bool,
    /// The SYN was sent again.
    pub repeated: bool,
}

/// News of a connection for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The SYN-ACK came.
    Answered(Answer),
    /// The path seems to swallow connections of this kind.
    BlackHole,
    /// Data came on a connection of this kind.
    Works,
}

/// Knowledge of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    cookie: Option<Cookie>,
    mss: u16,
    /// Linux: 1 when the next request is to be made with the experimental option, 2 when that was in vain too.
    experimental: u8,
    /// FreeBSD: since when the path does without.
    disabled_since: Option<Nanos>,
}

/// Memory of a host between connections. Servers are known by numbers that the driver gives.
#[derive(Clone, Debug, Default)]
pub struct Host {
    servers: BTreeMap<u64, Entry>,
    /// Linux: when black holes switched it off, and how often since it worked.
    black_holes: Option<(Nanos, u32)>,
    /// Keys of the server's cookies: the one that makes them, and one that was.
    keys: Vec<[u64; 2]>,
}

impl Host {
    /// A host whose cookies are made with `key`.
    #[must_use]
    pub fn new(key: [u64; 2]) -> Host {
        Host { keys: vec![key], ..Host::default() }
    }

    /// The keys from now on; the first makes cookies, all of them are taken.
    pub fn set_keys(&mut self, keys: Vec<[u64; 2]>) {
        self.keys = keys;
    }

    /// Forgets all servers.
    pub fn forget(&mut self) {
        self.servers.clear();
    }

    /// Way in which a connection to a server opens whose application asks for Fast Open. None: as without.
    pub fn attempt(&mut self, settings: &Settings, server: u64, now: Nanos) -> Option<Attempt> {
        if !settings.client {
            return None;
        }
        match settings.style {
            Style::None => None,
            Style::Linux => self.linux_attempt(settings, server, now),
            Style::FreeBsd => {
                let entry = self.servers.get_mut(&server);
                let mut attempt = Attempt { option: Some(Cookie::request(false)), data: false, mss: 0 };
                let Some(entry) = entry else { return Some(attempt) };
                if let Some(since) = entry.disabled_since {
                    if now - since <= settings.disabled_for {
                        return None;
                    }
                    *entry = Entry::default();
                }
                if let Some(cookie) = entry.cookie {
                    attempt = Attempt { option: Some(cookie), data: true, mss: entry.mss };
                }
                Some(attempt)
            }
        }
    }

    fn linux_attempt(&self, settings: &Settings, server: u64, now: Nanos) -> Option<Attempt> {
        if let Some((at, times)) = self.black_holes
            && settings.disabled_for > 0
            && now < at.saturating_add(settings.disabled_for.saturating_mul(1 << (times - 1).min(6)))
        {
            return None;
        }
        let entry = self.servers.get(&server).copied().unwrap_or_default();
        if settings.client_needs_no_cookie {
            return Some(Attempt { option: None, data: true, mss: entry.mss });
        }
        let option = entry.cookie.unwrap_or(Cookie::request(entry.experimental == 1));
        Some(Attempt { option: Some(option), data: !option.is_request(), mss: entry.mss })
    }

    /// Takes news of a connection to a server.
    pub fn learn(&mut self, settings: &Settings, server: u64, now: Nanos, news: &News) {
        match (settings.style, news) {
            (Style::Linux, News::BlackHole) if settings.disabled_for > 0 => {
                let times = self.black_holes.map_or(0, |(_, times)| times);
                self.black_holes = Some((now, times + 1));
            }
            (Style::Linux, News::Works) => self.black_holes = None,
            (Style::Linux, News::Answered(answer)) => self.learn_as_linux(server, answer),
            (Style::FreeBsd, News::Answered(answer)) => {
                let entry = self.servers.entry(server).or_default();
                match answer.cookie.filter(Cookie::is_valid) {
                    Some(cookie) => {
                        *entry = Entry { cookie: Some(cookie), mss: answer.mss, ..Entry::default() };
                    }
                    // Also where data was acknowledged: a server that gives no cookie ends it for this path.
                    None => {
                        let since = entry.disabled_since.unwrap_or(now);
                        *entry = Entry { disabled_since: Some(since), ..Entry::default() };
                    }
                }
            }
            _ => {}
        }
    }

    /// tcp_rcv_fastopen_synack and tcp_fastopen_cache_set.
    fn learn_as_linux(&mut self, server: u64, answer: &Answer) {
        let entry = self.servers.entry(server).or_default();
        entry.mss = answer.mss;
        let Some(asked) = answer.attempt.option else { return };
        // A cookie of another length than is allowed counts as none.
        match answer.cookie.filter(Cookie::is_valid) {
            Some(cookie) => entry.cookie = Some(cookie),
            None if !answer.repeated && !answer.sent_data && entry.cookie.is_none() => {
                entry.experimental = entry.experimental.max(if asked.is_experimental() { 2 } else { 1 });
            }
            None => {}
        }
    }

    /// Worth of a SYN at a listener that takes Fast Open. `addresses` are the client's and the server's, in the bytes of
    /// the wire.
    #[must_use]
    pub fn welcome(&self, settings: &Settings, syn: &Segment, [client, server]: [&[u8]; 2]) -> Welcome {
        let Some(key) = self.keys.first().filter(|_| settings.server) else { return Welcome::Plain(None) };
        let (hashed, any) = match settings.style {
            Style::None => return Welcome::Plain(None),
            Style::Linux => ([client, server].concat(), true),
            // With the address of the client alone; its SYN must have the option.
            Style::FreeBsd => (client.to_vec(), false),
        };
        let given = syn.cookie();
        if settings.server_needs_no_cookie
            && (given.is_some_and(|cookie| !cookie.is_request()) || any && (syn.len > 0 || given.is_some()))
        {
            let answer =
                given.filter(|_| !any).map(|_| Cookie::new(&siphash(*key, &hashed).to_le_bytes(), false));
            return Welcome::Open(answer);
        }
        let Some(given) = given else { return Welcome::Plain(None) };
        let made =
            |key: &[u64; 2]| Cookie::new(&siphash(*key, &hashed).to_le_bytes(), given.is_experimental());
        match self.keys.iter().position(|key| made(key) == given) {
            // FreeBSD's SYN-ACK always has the cookie; Linux's where the key has changed.
            Some(position) => Welcome::Open((position > 0 || !any).then(|| made(key))),
            None => Welcome::Plain(Some(made(key))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn answer(cookie: Option<Cookie>, attempt: Attempt) -> News {
        let sent_data = attempt.data;
        News::Answered(Answer { cookie, mss: 1400, attempt, sent_data, acknowledged: true, repeated: false })
    }

    #[test]
    fn a_client_asks_once_and_then_sends_what_it_was_given() {
        let mut host = Host::new(KEY);
        let cookie = Cookie::new(&[1, 2, 3, 4, 5, 6, 7, 8], false);
        for settings in [Settings::LINUX, Settings::FREEBSD] {
            host.forget();
            let first = host.attempt(&settings, 1, 0).expect("clients may");
            assert_eq!((first.option, first.data), (Some(Cookie::request(false)), false));
            host.learn(&settings, 1, 0, &answer(Some(cookie), first));
            let second = host.attempt(&settings, 1, 0).expect("clients may");
            assert_eq!(second, Attempt { option: Some(cookie), data: true, mss: 1400 });
            assert_eq!(host.attempt(&settings, 2, 0), Some(Attempt { mss: 0, ..first }));
        }
    }

    /// RFC 7413 section 4.1.3 allows the option of RFC 6994 to be tried where a server does not answer.
    #[test]
    fn linux_tries_the_experimental_option_once() {
        let mut host = Host::new(KEY);
        let mut tried = Vec::new();
        for _ in 0..4 {
            let attempt = host.attempt(&Settings::LINUX, 1, 0).expect("clients may");
            tried.push(attempt.option.expect("it asks").is_experimental());
            host.learn(&Settings::LINUX, 1, 0, &answer(None, attempt));
        }
        assert_eq!(tried, [false, true, false, false]);
    }

    #[test]
    fn freebsd_leaves_a_path_alone_for_as_long_as_is_set() {
        let (mut host, settings) = (Host::new(KEY), Settings::FREEBSD);
        let first = host.attempt(&settings, 1, 0).expect("clients may");
        host.learn(&settings, 1, 5 * SECOND, &answer(Some(Cookie::new(&[1; 3], false)), first));
        assert_eq!(host.attempt(&settings, 1, 905 * SECOND), None);
        assert_eq!(host.attempt(&settings, 1, 906 * SECOND), Some(first));
    }

    /// One hour, then two, and again from one after it worked.
    #[test]
    fn linux_stays_off_for_longer_with_each_black_hole() {
        let (mut host, hour) = (Host::new(KEY), 3600 * SECOND);
        let settings = Settings { disabled_for: hour, ..Settings::LINUX };
        let off = |host: &mut Host, at| host.attempt(&settings, 1, at).is_none();
        host.learn(&settings, 1, 0, &News::BlackHole);
        assert!(off(&mut host, hour - 1) && !off(&mut host, hour));
        host.learn(&settings, 1, hour, &News::BlackHole);
        assert!(off(&mut host, 3 * hour - 1) && !off(&mut host, 3 * hour));
        host.learn(&settings, 1, 3 * hour, &News::Works);
        host.learn(&settings, 1, 3 * hour, &News::BlackHole);
        assert!(!off(&mut host, 4 * hour));
        host.learn(&Settings::LINUX, 1, 9 * hour, &News::BlackHole);
        assert!(
            host.attempt(&Settings::LINUX, 1, 9 * hour).is_some(),
            "by default black holes are not looked for"
        );
    }

    #[test]
    fn a_server_takes_the_cookie_it_made_and_that_of_the_key_before() {
        let mut host = Host::new(KEY);
        let settings = Settings { server: true, ..Settings::LINUX };
        let addresses: [&[u8]; 2] = [&[192, 0, 2, 1], &[192, 168, 0, 1]];
        let syn = |cookie: Cookie| {
            let mut syn = Segment::default();
            syn.set_cookie(cookie);
            syn
        };
        let Welcome::Plain(Some(given)) = host.welcome(&settings, &syn(Cookie::request(false)), addresses)
        else {
            panic!("a request gets a cookie")
        };
        assert_eq!(host.welcome(&settings, &syn(given), addresses), Welcome::Open(None));
        let elsewhere: [&[u8]; 2] = [&[192, 0, 2, 2], &[192, 168, 0, 1]];
        assert!(
            matches!(host.welcome(&settings, &syn(given), elsewhere), Welcome::Plain(Some(other)) if other != given)
        );
        host.set_keys(vec![[1, 2], KEY]);
        assert!(
            matches!(host.welcome(&settings, &syn(given), addresses), Welcome::Open(Some(new)) if new != given)
        );
        assert_eq!(host.welcome(&Settings::LINUX, &syn(given), addresses), Welcome::Plain(None));
    }
}
