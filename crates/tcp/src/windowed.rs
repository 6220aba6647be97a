//! The least or greatest value of a sliding window of time (Linux's lib/minmax.c).

/// The least or greatest value of a sliding window, in constant space (after Kathleen Nichols). It keeps the best value
/// of the window and the best of its later parts, one of which follows when the best grows old. The caller's `better`
/// decides which of the two it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windowed {
    best: [(u64, u64); 3],
    filled: bool,
}

impl Windowed {
    /// The best value of the window (0 before the first).
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Starts anew with one value.
    pub(crate) fn reset(&mut self, time: u64, value: u64) -> u64 {
        self.best = [(time, value); 3];
        self.filled = true;
        value
    }

    /// Adds `value` at `time`, for a window of length `window`; returns the best. `better(a, b)`: a is at least as
    /// good as b.
    pub(crate) fn update(
        &mut self,
        window: u64,
        time: u64,
        value: u64,
        better: impl Fn(u64, u64) -> bool,
    ) -> u64 {
        if !self.filled || better(value, self.best[0].1) || time - self.best[2].0 > window {
            return self.reset(time, value);
        }
        if better(value, self.best[1].1) {
            self.best[1] = (time, value);
            self.best[2] = (time, value);
        } else if better(value, self.best[2].1) {
            self.best[2] = (time, value);
        }
        let age = time - self.best[0].0;
        if age > window {
            self.best = [self.best[1], self.best[2], (time, value)];
            if time - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], (time, value)];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = (time, value);
            self.best[2] = (time, value);
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = (time, value);
        }
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windowed_minimum_forgets() {
        let mut min = Windowed::default();
        let better = |a, b| a <= b;
        assert_eq!(min.update(10, 0, 5, better), 5);
        assert_eq!(min.update(10, 4, 7, better), 5);
        assert_eq!(min.update(10, 8, 6, better), 5);
        assert_eq!(min.update(10, 11, 9, better), 6);
        assert_eq!(min.update(10, 30, 9, better), 9);
    }
}
