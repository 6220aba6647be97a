//! Bytes in sliding windows.

use crate::Error;
use crate::error::MAX_STEPS;

/// Choice of the bytes of a packet that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Payload, repeated bytes too.
    Payload,
    /// Bytes from the IP header on.
    Ip,
    /// The frame as the capture gives its length.
    Frame,
}

/// Counts bytes in windows of `width_ns` that begin every `step_ns`: `from_ns + k step_ns <= t < from_ns + k step_ns +
/// width_ns` for k = 0, 1, … as long as the window ends by `to_ns`. The cost of a packet does not depend on the overlap.
#[derive(Clone, Debug)]
pub struct Windows {
    from_ns: u64,
    step_ns: u64,
    width_steps: usize,
    /// Bytes of each step.
    steps: Vec<u64>,
}

/// Window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Centre of the window, by which it is labelled, in ns (rounded down).
    pub centre_ns: u64,
    /// The bytes within; 0 if nothing came.
    pub bytes: u64,
}

impl Windows {
    /// Windows without bytes yet.
    ///
    /// # Errors
    ///
    /// If the width is not a multiple of the step, one of them is 0, or there are more than
    /// [`MAX_STEPS`] steps.
    pub fn new(width_ns: u64, step_ns: u64, from_ns: u64, to_ns: u64) -> Result<Windows, Error> {
        if step_ns == 0 || width_ns == 0 || !width_ns.is_multiple_of(step_ns) {
            return Err(Error::Width { width_ns, step_ns });
        }
        let count = to_ns.saturating_sub(from_ns) / step_ns;
        if count > MAX_STEPS {
            return Err(Error::Steps { count, step_ns });
        }
        let width_steps = usize::try_from(width_ns / step_ns).unwrap_or(usize::MAX);
        Ok(Windows { from_ns, step_ns, width_steps, steps: vec![0; count as usize] })
    }

    /// Counts bytes at a time; outside the windows they are left out.
    #[inline]
    pub fn add(&mut self, t_ns: u64, bytes: u64) {
        if let Some(since) = t_ns.checked_sub(self.from_ns)
            && let Some(step) = self.steps.get_mut((since / self.step_ns) as usize)
        {
            *step += bytes;
        }
    }

    /// All windows in order of time, also those in which nothing came.
    pub fn finish(&self) -> Vec<Window> {
        let half_width = self.width_steps as u64 * self.step_ns / 2;
        let mut bytes: u64 = self.steps.iter().take(self.width_steps.saturating_sub(1)).sum();
        let whole = self.steps.len().checked_sub(self.width_steps).map_or(0, |last| last + 1);
        (0..whole)
            .map(|first| {
                bytes += self.steps[first + self.width_steps - 1];
                let window =
                    Window { centre_ns: self.from_ns + first as u64 * self.step_ns + half_width, bytes };
                bytes -= self.steps[first];
                window
            })
            .collect()
    }
}
