//! Message at the beginning of a payload, and how it is written there.

use thiserror::Error;

use crate::Nanos;

/// The most bytes that a message begins with.
pub const HEADER: usize = 1 + 2 * VARINT;

/// The most bytes of a number: seven bits in each.
const VARINT: usize = 10;

/// The first byte of each kind of message; filler is of zeros.
const NOTHING: u8 = 0;
const REQUEST: u8 = 1;
const LAST_REQUEST: u8 = 2;
const ANSWER: u8 = 3;
const TRANSFER: u8 = 4;

/// Message in the first bytes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Payload too small to say anything.
    Nothing,
    /// A request of so many bytes asks for a response.
    Request {
        /// All bytes of the request.
        bytes: u64,
        /// Bytes of the response, above zero.
        response: u64,
        /// No further request comes.
        last: bool,
    },
    /// The answer to a request that was read then, by the answering end's clock.
    Answer {
        /// Time when the request was read.
        read_at: Nanos,
    },
    /// A transfer that arrived at its sender then, by a clock that both ends share.
    Transfer {
        /// Time when the transfer arrived.
        arrived: Nanos,
    },
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Byte that no kind of message begins with.
    #[error("no message begins with the byte {0}")]
    Kind(u8),
    /// Request that asks for nothing, or answer without a byte.
    #[error("a request or its response of no byte")]
    NoByte,
    /// A number is too large.
    #[error("a number of more than 64 bits in a message")]
    Number,
}

impl Message {
    /// The bytes that say it: a byte for what it is, and its numbers, seven bits a byte, the lowest first (LEB128).
    pub fn encode(self) -> ([u8; HEADER], usize) {
        let (kind, numbers): (u8, [Option<u64>; 2]) = match self {
            Message::Nothing => (NOTHING, [None, None]),
            Message::Request { bytes, response, last } => {
                (if last { LAST_REQUEST } else { REQUEST }, [Some(bytes), Some(response)])
            }
            Message::Answer { read_at } => (ANSWER, [Some(read_at), None]),
            Message::Transfer { arrived } => (TRANSFER, [Some(arrived), None]),
        };
        let mut header = [0; HEADER];
        header[0] = kind;
        let mut length = 1;
        for mut number in numbers.into_iter().flatten() {
            loop {
                let rest = number >> 7;
                header[length] = (number & 0x7f) as u8 | if rest > 0 { 0x80 } else { 0 };
                length += 1;
                number = rest;
                if rest == 0 {
                    break;
                }
            }
        }
        (header, length)
    }

    /// Reads what the bytes of a stream say from their beginning: None while there are too few.
    ///
    /// # Errors
    /// They are no message.
    pub fn decode(bytes: &[u8]) -> Result<Option<Message>, Malformed> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
        let mut rest = rest;
        let message = match kind {
            NOTHING => Message::Nothing,
            REQUEST | LAST_REQUEST => {
                let (Some(bytes), Some(response)) = (varint(&mut rest)?, varint(&mut rest)?) else {
                    return Ok(None);
                };
                if bytes == 0 || response == 0 {
                    return Err(Malformed::NoByte);
                }
                Message::Request { bytes, response, last: kind == LAST_REQUEST }
            }
            ANSWER | TRANSFER => {
                let Some(at) = varint(&mut rest)? else { return Ok(None) };
                if kind == ANSWER {
                    Message::Answer { read_at: at }
                } else {
                    Message::Transfer { arrived: at }
                }
            }
            _ => return Err(Malformed::Kind(kind)),
        };
        Ok(Some(message))
    }
}

fn varint(bytes: &mut &[u8]) -> Result<Option<u64>, Malformed> {
    let mut number = 0_u64;
    for place in 0..VARINT {
        let Some((&byte, rest)) = bytes.split_first() else { return Ok(None) };
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * place);
        if shifted >> (7 * place) != bits {
            break;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Ok(Some(number));
        }
    }
    Err(Malformed::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_said_is_heard(first in 1..=u64::MAX, second in 1..=u64::MAX, last: bool, kind in 0..3) {
            let message = match kind {
                0 => Message::Request { bytes: first, response: second, last },
                1 => Message::Answer { read_at: first },
                _ => Message::Transfer { arrived: first },
            };
            let (header, length) = message.encode();
            prop_assert_eq!(Message::decode(&header[..length]), Ok(Some(message)));
            for short in 0..length {
                prop_assert_eq!(Message::decode(&header[..short]), Ok(None));
            }
        }

        #[test]
        fn any_bytes_are_a_message_or_none(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes);
        }
    }

    #[test]
    fn a_small_request_says_it_in_few_bytes() {
        assert_eq!(Message::Request { bytes: 64, response: 1_000_000, last: false }.encode().1, 5);
        assert_eq!(Message::decode(&[REQUEST, 0x80, 0x80]), Ok(None));
        assert!(Message::decode(&[9]).is_err(), "no such kind");
        assert!(Message::decode(&[REQUEST, 0, 1]).is_err(), "a request of no byte");
        assert!(
            Message::decode(&[ANSWER, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).is_err(),
            "65 bits"
        );
    }
}
