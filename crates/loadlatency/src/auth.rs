//! Who may use a server: proofs of a shared secret by HMAC-SHA256 (RFC 2104) over both ends' nonces.
//!
//! The secret never crosses the network, a recorded proof is of no use in another session, and each end proves that it knows
//! it. An end without a secret makes its proofs with an empty one, and checks none. What is measured afterwards is not
//! encrypted.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::wire::PROOF;

/// A proof that one who knows `secret` saw `parts`; `role` keeps the proof of one purpose from serving another.
pub fn proof(secret: &str, role: &str, parts: &[&[u8]]) -> [u8; PROOF] {
    mac(secret, role, parts).finalize().into_bytes().into()
}

/// Whether a proof is right, compared in constant time.
pub fn proves(secret: &str, role: &str, parts: &[&[u8]], proof: &[u8; PROOF]) -> bool {
    mac(secret, role, parts).verify_slice(proof).is_ok()
}

/// Returns bytes that nobody can guess.
///
/// # Errors
///
/// When the system has none to give.
pub fn unguessable<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Number of wrong proofs from one address that cost nothing: secrets are mistyped.
const FREE_GUESSES: u32 = 3;

/// Time in ns after the first wrong proof that costs something; each further one doubles it.
const FIRST_PAUSE_NS: u64 = 500_000_000;

/// The longest pause after a wrong proof, ns, after which as much time again makes an address a new one.
const LONGEST_PAUSE_NS: u64 = 300_000_000_000;

/// The longest that a proof is kept waiting, ns; one that would wait longer is refused unseen.
const LONGEST_WAIT_NS: u64 = 2_000_000_000;

/// Number of addresses whose wrong proofs are remembered.
const MAX_ADDRESSES: usize = 1024;

/// Wrong proofs by the address they came from, each of which makes the next proof from there wait longer.
#[derive(Default)]
pub struct Guesses {
    by: BTreeMap<IpAddr, Guesser>,
}

#[derive(Default)]
struct Guesser {
    wrong: u32,
    /// Time from which the next proof is looked at.
    free_ns: u64,
}

impl Guesses {
    /// The time in ns until which a proof that comes now has to wait; None where it is refused unseen.
    pub fn admit(&mut self, from: IpAddr, now_ns: u64) -> Option<u64> {
        let Some(guesser) = self.by.get_mut(&network(from)) else { return Some(now_ns) };
        let at_ns = guesser.free_ns.max(now_ns);
        if at_ns - now_ns > LONGEST_WAIT_NS {
            return None;
        }
        // Proofs over many connections at once wait for each other.
        guesser.free_ns = at_ns + guesser.pause_ns();
        Some(at_ns)
    }

    /// A proof from there was wrong.
    pub fn wrong(&mut self, from: IpAddr, now_ns: u64) {
        self.by.retain(|_, guesser| now_ns < guesser.free_ns.saturating_add(LONGEST_PAUSE_NS));
        let oldest = self.by.iter().min_by_key(|(_, guesser)| guesser.free_ns).map(|(address, _)| *address);
        if let (Some(oldest), true) = (oldest, self.by.len() >= MAX_ADDRESSES) {
            self.by.remove(&oldest);
        }
        let guesser = self.by.entry(network(from)).or_default();
        guesser.wrong += 1;
        guesser.free_ns = guesser.free_ns.max(now_ns + guesser.pause_ns());
    }

    /// A proof from there was right.
    pub fn right(&mut self, from: IpAddr) {
        self.by.remove(&network(from));
    }
}

impl Guesser {
    fn pause_ns(&self) -> u64 {
        match self.wrong.checked_sub(FREE_GUESSES) {
            None | Some(0) => 0,
            Some(more) => (FIRST_PAUSE_NS << (more - 1).min(20)).min(LONGEST_PAUSE_NS),
        }
    }
}

/// The network of 64 bits that an IPv6 address is in, as one end has all of it; an IPv4 address is itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn mac(secret: &str, role: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    // Every part has a fixed length but the role, which ends with a zero.
    mac.update(role.as_bytes());
    mac.update(&[0]);
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Number of wrong proofs out of `tries`, one every 10 ms, that were looked at in time.
    fn looked_at(guesses: &mut Guesses, from: &str, tries: u64) -> usize {
        let from: IpAddr = from.parse().expect("an address");
        let look = |number: &u64| {
            let now_ns = number * SECOND / 100;
            let admitted = guesses.admit(from, now_ns).is_some();
            if admitted {
                guesses.wrong(from, now_ns);
            }
            admitted
        };
        (0..tries).filter(look).count()
    }

    #[test]
    fn who_guesses_is_slowed_and_nobody_else() {
        let mut guesses = Guesses::default();
        // An hour of guesses, a hundred a second.
        let seen = looked_at(&mut guesses, "10.0.0.1", 360_000);
        assert!((10..40).contains(&seen), "{seen}");
        let (other, now_ns) = ("10.0.0.2".parse().expect("an address"), 3600 * SECOND);
        assert_eq!(guesses.admit(other, now_ns), Some(now_ns));
        // Who is silent for ten minutes after that is new.
        let (guesser, later_ns) = ("10.0.0.1".parse().expect("an address"), 4200 * SECOND);
        guesses.wrong(other, later_ns);
        assert_eq!(guesses.admit(guesser, later_ns), Some(later_ns));
    }

    #[test]
    fn a_mistyped_secret_costs_nothing_and_a_right_one_clears() {
        let (mut guesses, from) = (Guesses::default(), "2001:db8::1".parse().expect("an address"));
        for _ in 0..FREE_GUESSES {
            assert_eq!(guesses.admit(from, 7), Some(7));
            guesses.wrong(from, 7);
        }
        assert_eq!(guesses.admit("2001:db8::2".parse().expect("an address"), 7), Some(7));
        guesses.wrong(from, 7);
        assert_eq!(guesses.admit("2001:db8::2".parse().expect("an address"), 7), Some(7 + FIRST_PAUSE_NS));
        guesses.right(from);
        assert_eq!(guesses.admit(from, 7), Some(7));
    }

    #[test]
    fn addresses_without_number_take_no_memory() {
        let mut guesses = Guesses::default();
        for number in 0..10_000 {
            guesses.wrong(IpAddr::from(std::net::Ipv4Addr::from_bits(number)), u64::from(number));
        }
        assert!(guesses.by.len() <= MAX_ADDRESSES);
    }

    #[test]
    fn a_proof_holds_for_its_secret_role_and_nonces_only() {
        let made = proof("open sesame", "client", &[&[1; 16], &[2; 16]]);
        assert!(proves("open sesame", "client", &[&[1; 16], &[2; 16]], &made));
        assert!(!proves("open sesam", "client", &[&[1; 16], &[2; 16]], &made));
        assert!(!proves("open sesame", "server", &[&[1; 16], &[2; 16]], &made));
        assert!(!proves("open sesame", "client", &[&[1; 16], &[3; 16]], &made));
        let mut other = made;
        other[31] ^= 1;
        assert!(!proves("open sesame", "client", &[&[1; 16], &[2; 16]], &other));
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(unguessable::<16>().expect("random bytes"), unguessable::<16>().expect("random bytes"));
    }
}
