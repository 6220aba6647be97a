//! `cwndlab._native.Reference`: a congestion control fed with what another sender saw.

use pyo3::prelude::*;
use tcp::cc::replay::{Compared, Notice, Replay, Seen};
use tcp::profile;

use crate::Result;
use crate::error::Error;

/// Numbers of 64 bits in a row.
const FIELDS: usize = 10;
/// Value that is not known.
const UNKNOWN: u64 = u64::MAX;
/// Notices by their numbers.
const NOTICES: [Notice; 10] = [
    Notice::Ack,
    Notice::Loss,
    Notice::Timeout,
    Notice::Ecn,
    Notice::Recovered,
    Notice::Undo,
    Notice::Exit,
    Notice::AppLimited,
    Notice::Followed,
    Notice::Unclear,
];

/// Stretch that has come to an end: kind, its beginning and end in ns, the window before, the other sender's and the reference's after,
/// and what was acknowledged in between, in bytes; the slow-start threshold; whether the window was never used up.
type Row = (&'static str, u64, u64, u64, u64, u64, u64, Option<u64>, bool);

/// A congestion control of a stack beside another sender; raises ValueError, with one line, where there is no such reference.
#[pyclass(module = "cwndlab._native")]
pub(crate) struct Reference {
    // The mutex is never locked: every method has the object to itself. It makes the class one that threads may share.
    replay: std::sync::Mutex<Replay>,
}

#[pymethods]
impl Reference {
    #[new]
    fn new(cc: &str, stack: &str, mss: u32, told: bool) -> Result<Reference> {
        let made = profile::find(stack).filter(|_| mss > 0).and_then(|known| known.reference(cc, mss, told));
        let replay = made.ok_or_else(|| Error::NoReference(format!("{cc}@{stack}")))?;
        Ok(Reference { replay: std::sync::Mutex::new(replay) })
    }

    /// Takes in rows, each of ten numbers of 64 bits: time in ns, notice (its place in `NOTICES` of the stub), bytes
    /// acknowledged or lost, round trip in ns, bytes in flight before, window and slow-start threshold after, smoothed round
    /// trip in ns, bytes in flight after, and before at most; 2^64 - 1: not known. Returns what has come to an end.
    fn feed(&mut self, py: Python<'_>, rows: &[u8]) -> Result<Vec<Row>> {
        let replay = self.replay.get_mut().map_err(|_| Error::FailedEarlier)?;
        let mut seen = Vec::with_capacity(rows.len() / (8 * FIELDS));
        for row in rows.chunks_exact(8 * FIELDS) {
            let field = |place: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&row[8 * place..8 * (place + 1)]);
                u64::from_ne_bytes(bytes)
            };
            let known = |place: usize| Some(field(place)).filter(|&value| value != UNKNOWN);
            let notice = usize::try_from(field(1)).ok().and_then(|place| NOTICES.get(place).copied());
            seen.push(Seen {
                now: field(0),
                notice: notice.ok_or(Error::Notice(field(1)))?,
                bytes: known(2).unwrap_or(0),
                rtt: known(3),
                flight: known(4),
                cwnd: field(5),
                ssthresh: known(6),
                srtt: known(7),
                left: known(8),
                most: known(9),
            });
        }
        Ok(py.detach(|| {
            let ended = seen.iter().filter_map(|seen| replay.step(seen));
            ended
                .map(|v| {
                    (
                        word(v.compared),
                        v.since,
                        v.now,
                        v.before,
                        v.found,
                        v.expected,
                        v.acked,
                        v.threshold,
                        v.unused,
                    )
                })
                .collect()
        }))
    }
}

/// The congestion controls that can be references, as `CC@STACK`.
#[pyfunction]
pub(crate) fn references() -> Vec<String> {
    let of = |stack: &dyn tcp::stack::Profile| {
        let name = stack.spec().name;
        stack.references().iter().map(|cc| format!("{cc}@{name}")).collect::<Vec<_>>()
    };
    profile::all().iter().flat_map(|stack| of(&**stack)).collect()
}

fn word(compared: Compared) -> &'static str {
    match compared {
        Compared::SlowStart => "slow-start",
        Compared::Avoidance => "avoidance",
        Compared::Loss => "loss",
        Compared::Ecn => "ecn",
        Compared::Timeout => "timeout",
        Compared::Threshold => "threshold",
        Compared::Exit => "exit",
    }
}
