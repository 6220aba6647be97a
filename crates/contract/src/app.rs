//! What any testbed refuses of an application: every refusal is one line.

use apps::sent_in;
use thiserror::Error;

use crate::scenario::App;

/// Payload of the largest UDP datagram, bytes (RFC 768 over RFC 791).
const LARGEST_DATAGRAM: u32 = 65_507;

/// Why an application cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppError {
    /// No write would be within a time of sending.
    #[error("write_bytes: found {found}; expected at most {most}, what on_ns sends at rate_bps")]
    WriteBytes {
        /// Bytes of a write.
        found: u64,
        /// Bytes of the time of sending.
        most: u64,
    },
    /// Background transfers without a mean size, or without connections.
    #[error("shape_milli must be above 1000 and connections above zero")]
    Background,
    /// loadlatency has only so many scenarios.
    #[error("scenario must be at most {0}")]
    Scenario(usize),
    /// Nothing would ever happen, or everything at once.
    #[error("a size, rate, number or length of its app is zero")]
    Zero,
    /// No datagram holds so much.
    #[error("payload_bytes must be at most {LARGEST_DATAGRAM}")]
    Payload,
}

/// Checks the numbers of an application, whoever carries it out.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_app(app: &App) -> Result<(), AppError> {
    let (positive, payload): (&[u64], u32) = match app {
        App::Bulk { bytes, write_bytes } => (&[bytes.unwrap_or(1), *write_bytes], 0),
        App::Fixed { size_bytes, write_bytes } => (&[*size_bytes, *write_bytes], 0),
        App::RateLimited { rate_bps, write_bytes } => (&[*rate_bps, *write_bytes], 0),
        App::OnOff { on_ns, off_ns, rate_bps, write_bytes, .. } => {
            let most = rate_bps.map_or(u64::MAX, |rate| sent_in(*on_ns, rate));
            if *write_bytes > most {
                return Err(AppError::WriteBytes { found: *write_bytes, most });
            }
            (&[*on_ns, *off_ns, rate_bps.unwrap_or(1), *write_bytes], 0)
        }
        App::RequestResponse { requests, request_bytes, response_bytes, .. } => {
            (&[requests.unwrap_or(1), *request_bytes, *response_bytes], 0)
        }
        App::Incast { size_bytes, request_bytes, rounds, .. } => {
            (&[*size_bytes, *request_bytes, rounds.unwrap_or(1)], 0)
        }
        App::UdpCbr { rate_bps, payload_bytes, .. } => {
            (&[*rate_bps, u64::from(*payload_bytes)], *payload_bytes)
        }
        App::Voip { frame_ns, payload_bytes, .. } => {
            (&[*frame_ns, u64::from(*payload_bytes)], *payload_bytes)
        }
        App::Ping { interval_ns, payload_bytes } => (&[*interval_ns], *payload_bytes),
        App::Video { rate_bps, chunk_ns, request_bytes, .. } => {
            let bytes = u128::from(*rate_bps) * u128::from(*chunk_ns) / 8_000_000_000;
            (&[*request_bytes, bytes as u64], 0)
        }
        App::Background { load_bps, size_bytes, shape_milli, connections } => {
            if *shape_milli <= 1000 || *connections == 0 {
                return Err(AppError::Background);
            }
            (&[*load_bps, *size_bytes], 0)
        }
        App::Loadlatency { scenario, write_bytes, ping_bytes, interval_ns, .. } => {
            let scenarios = loadlatency::SCENARIOS.len();
            if *scenario as usize > scenarios {
                return Err(AppError::Scenario(scenarios));
            }
            (&[u64::from(*scenario), *write_bytes, *ping_bytes, *interval_ns], 0)
        }
    };
    if positive.contains(&0) {
        return Err(AppError::Zero);
    }
    if payload > LARGEST_DATAGRAM {
        return Err(AppError::Payload);
    }
    Ok(())
}
