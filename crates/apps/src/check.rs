//! Checks of an application for any testbed: every refusal is one line.

use params::ParamError;
use thiserror::Error;

use crate::{App, sent_in};

/// Reason why an application cannot be.
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
    /// A parameter is out of its range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Application that would send nothing.
    #[error("bytes: found 0; expected above 0")]
    NoBytes,
    /// Target rates of media that are not in order.
    #[error("{field}: found {found}; expected at most {most}, {than}")]
    Rates {
        /// Rate that is too high.
        field: &'static str,
        /// That rate.
        found: u64,
        /// The most it may be.
        most: u64,
        /// Rate that it may not exceed.
        than: &'static str,
    },
    /// A chunk of a video without a byte.
    #[error("chunk_ns: found {0}; expected so long that rate_bps makes a byte of it")]
    Chunk(u64),
}

/// Checks the numbers of an application, and what has to hold between them, whoever carries it out.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_app(app: &App) -> Result<(), AppError> {
    app.check()?;
    match *app {
        App::Bulk { bytes: Some(0), .. } => Err(AppError::NoBytes),
        App::OnOff { on_ns, rate_bps: Some(rate), write_bytes, .. } if write_bytes > sent_in(on_ns, rate) => {
            Err(AppError::WriteBytes { found: write_bytes, most: sent_in(on_ns, rate) })
        }
        App::Video { rate_bps, chunk_ns, .. } if sent_in(chunk_ns, rate_bps) == 0 => {
            Err(AppError::Chunk(chunk_ns))
        }
        App::Media { min_bps, max_bps, start_bps, .. } => {
            let start = start_bps.unwrap_or(min_bps);
            let ordered = |field, found, most, than| match found > most {
                true => Err(AppError::Rates { field, found, most, than }),
                false => Ok(()),
            };
            ordered("min_bps", min_bps, max_bps, "max_bps")?;
            ordered("start_bps", start, max_bps, "max_bps")?;
            ordered("min_bps", min_bps, start, "start_bps")
        }
        App::UdpVbr { ref size, ref interval, least_bytes, payload_bytes, .. } => {
            size.check("size")?;
            interval.check("interval")?;
            if least_bytes > payload_bytes {
                return Err(
                    ParamError::new("least_bytes", least_bytes, format!("at most {payload_bytes}")).into()
                );
            }
            Ok(())
        }
        App::Background { sizes: Some(ref sizes), .. } => Ok(sizes.check("sizes")?),
        _ => Ok(()),
    }
}
