//! Who may use a server: proofs of a shared secret by HMAC-SHA256 (RFC 2104) over both ends' nonces.
//!
//! The secret never crosses the network, a recorded proof is of no use in another session, and each end proves that it knows
//! it. An end without a secret makes its proofs with an empty one, and checks none. What is measured afterwards is not
//! encrypted.

use std::io;

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

/// So many bytes that nobody can guess.
///
/// # Errors
/// When the system has none to give.
pub fn unguessable<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
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
