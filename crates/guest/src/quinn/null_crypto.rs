//! Cryptography that encrypts nothing and takes no time, by quinn's own traits. Packets are as long as with AES-128-GCM, and a
//! handshake has the messages of TLS 1.3 at their levels of encryption (RFC 9001 section 4), so that packets and round trips are
//! as many.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey,
    KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

/// Bytes that AES-128-GCM adds to a packet (RFC 5116 section 5.1).
const TAG: usize = 16;
/// Bytes of a packet from which the mask of its header is made (RFC 9001 section 5.4.2).
const SAMPLE: usize = 16;
/// Length of a ServerHello with an X25519 share, bytes (RFC 8446 section 4.1.3).
const SERVER_HELLO: usize = 90;
/// Length of a server's messages from EncryptedExtensions to Finished, bytes: with one certificate of P-256.
const SERVER_FLIGHT: usize = 900;
/// Length of a client's Finished, bytes: its header and a SHA-256 (RFC 8446 section 4.4.4).
const FINISHED: usize = 36;
/// Alert of TLS for a message out of turn (RFC 8446 section 6).
const UNEXPECTED_MESSAGE: u8 = 10;
/// Length of the kind and the length before a message.
const PREFIX: usize = 3;

/// Key of every kind, which does nothing.
pub(super) struct NullKey;

impl PacketKey for NullKey {
    /// The tag is the packet's number, which with real keys is a part of what is authenticated.
    fn encrypt(&self, packet: u64, buf: &mut [u8], _header_len: usize) {
        if let Some(tag) = buf.last_chunk_mut::<TAG>() {
            *tag = tag_of(packet);
        }
    }

    /// A number that was completed wrongly, as of a packet that many others have overtaken, is found out (RFC 9000 appendix A.3).
    fn decrypt(&self, packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        if payload[length..] != tag_of(packet) {
            return Err(CryptoError);
        }
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

fn tag_of(packet: u64) -> [u8; TAG] {
    let mut tag = [0; TAG];
    tag[..8].copy_from_slice(&packet.to_le_bytes());
    tag
}

impl HeaderKey for NullKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE
    }
}

impl HmacKey for NullKey {
    /// Different for different data, as the tokens made of it have to be (FNV-1a).
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |byte: u8| {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            hash
        };
        for &byte in data {
            mix(byte);
        }
        for (place, out) in (0u8..).zip(signature_out) {
            *out = (mix(place) >> 32) as u8;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = [0; 32];
        self.sign(data, &mut own);
        if own[..] == *signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for NullKey {
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(NullKey)
    }
}

impl AeadKey for NullKey {
    fn seal(&self, _data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) }
}

fn keys() -> Keys {
    let header = KeyPair::<Box<dyn HeaderKey>> { local: Box::new(NullKey), remote: Box::new(NullKey) };
    Keys { header, packet: packet_keys() }
}

/// Configuration of both sides.
pub(super) struct NullTls;

impl ClientConfig for NullTls {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl ServerConfig for NullTls {
    fn initial_keys(&self, _version: u32, _dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

/// Messages of a handshake, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The client says hello.
    Hello = 1,
    /// The server says hello: both have the keys of the handshake.
    ServerHello = 2,
    /// The server proves who it is: it has the keys of the connection.
    ServerFlight = 3,
    /// The client has finished: both have the keys of the connection.
    Finished = 4,
    /// Nothing is left to be said.
    Done = 5,
}

/// A handshake at one side.
struct Handshake {
    side: Side,
    /// Own parameters, encoded.
    own: Vec<u8>,
    /// Message to be written or read next.
    step: Step,
    /// Keys to be handed out with what is written next.
    has_keys: bool,
    /// Bytes of a message that is not complete.
    heard: Vec<u8>,
    peer: Option<TransportParameters>,
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Handshake {
        let mut own = Vec::new();
        params.write(&mut own);
        Handshake { side, own, step: Step::Hello, has_keys: false, heard: Vec::new(), peer: None }
    }

    /// Whether it is this side's turn to write.
    fn writes(&self) -> bool {
        let client = matches!(self.step, Step::Hello | Step::Finished);
        self.step != Step::Done && client == self.side.is_client()
    }

    fn next(&mut self) {
        self.step = match self.step {
            Step::Hello => Step::ServerHello,
            Step::ServerHello => Step::ServerFlight,
            Step::ServerFlight => Step::Finished,
            Step::Finished | Step::Done => Step::Done,
        };
    }

    /// Writes a message of at least `least` bytes.
    fn say(&self, buf: &mut Vec<u8>, content: &[u8], least: usize) {
        let length = (PREFIX + content.len()).max(least) - PREFIX;
        buf.push(self.step as u8);
        buf.extend_from_slice(&(length as u16).to_be_bytes());
        buf.extend_from_slice(content);
        buf.resize(buf.len() + length - content.len(), 0);
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.heard.extend_from_slice(buf);
        while let [kind, high, low, rest @ ..] = &self.heard[..] {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if rest.len() < length {
                break;
            }
            if *kind != self.step as u8 || self.writes() {
                return Err(TransportErrorCode::crypto(UNEXPECTED_MESSAGE).into());
            }
            if matches!(self.step, Step::Hello | Step::ServerFlight) {
                // What follows the parameters is filler, without their length.
                let parameters = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
                let mut content = &rest[2..2 + parameters];
                self.peer = Some(TransportParameters::read(self.side, &mut content)?);
            }
            // A client has the next keys when the server has said hello, and after its flight.
            self.has_keys |= self.step == Step::ServerHello;
            self.heard.drain(..PREFIX + length);
            self.next();
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        if std::mem::take(&mut self.has_keys) {
            return Some(keys());
        }
        if !self.writes() {
            return None;
        }
        let mut parameters = (self.own.len() as u16).to_be_bytes().to_vec();
        parameters.extend_from_slice(&self.own);
        let (has_keys, content, least) = match self.step {
            Step::Hello => (false, &parameters[..], 0),
            Step::ServerHello => (true, &[][..], SERVER_HELLO),
            Step::ServerFlight => (true, &parameters[..], SERVER_FLIGHT),
            Step::Finished | Step::Done => (true, &[][..], FINISHED),
        };
        self.say(buf, content, least);
        self.next();
        has_keys.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }

    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        true
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_by_its_own_number_alone() {
        let mut packet = [7; 3 + TAG];
        PacketKey::encrypt(&NullKey, 300, &mut packet, 1);
        let taken = |number| {
            let mut payload = BytesMut::from(&packet[1..]);
            PacketKey::decrypt(&NullKey, number, &packet[..1], &mut payload).map(|()| payload.to_vec())
        };
        assert_eq!(taken(300).ok(), Some(vec![7, 7]));
        assert!(taken(44).is_err() && taken(556).is_err());
    }
}
