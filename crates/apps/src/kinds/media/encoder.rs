//! An encoder that follows a target rate: frames at equal intervals, whose sizes vary about their share of the rate.

use path::{exponential, uniform};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Media;
use crate::Nanos;

/// Largest deviation of a frame, as a share of its size.
const MOST: f64 = 0.5;
/// A second, in parts that a mean deviation is given in.
const BILLION: u64 = 1_000_000_000;

/// Source of frames. Deviations follow a Laplace distribution that is cut off at half the size (after RFC 8593 section 5.1), and each
/// frame makes up for what the one before it was too large or too small, so that they stay near the rate (RFC 8867 section 4.3).
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    fps: u64,
    variation_ppb: u64,
    random: Xoshiro256PlusPlus,
    made: u64,
    began: Option<Nanos>,
    /// Bytes by which the frames so far exceed the rate.
    ahead: f64,
}

impl Encoder {
    pub(super) fn new(media: &Media, random: Xoshiro256PlusPlus) -> Encoder {
        let (fps, variation_ppb) = (u64::from(media.fps), u64::from(media.variation_ppb));
        Encoder { fps, variation_ppb, random, made: 0, began: None, ahead: 0.0 }
    }

    /// Bytes of the frame at `now`, and the time of the next one.
    pub(super) fn frame(&mut self, now: Nanos, target_bps: u64) -> (u32, Nanos) {
        let began = *self.began.get_or_insert(now);
        self.made += 1;
        let share = target_bps as f64 / 8.0 / self.fps as f64;
        let wanted = share * (1.0 + self.deviation()) - self.ahead;
        let bytes = libm::round(wanted.clamp(1.0, 1e9));
        self.ahead = (self.ahead + bytes - share).clamp(-share, share);
        let next = began + (u128::from(self.made) * 1_000_000_000 / u128::from(self.fps)) as Nanos;
        (bytes as u32, next)
    }

    fn deviation(&mut self) -> f64 {
        if self.variation_ppb == 0 {
            return 0.0;
        }
        let sign = if uniform(&mut self.random) < 0.5 { -1.0 } else { 1.0 };
        let size = exponential(&mut self.random, self.variation_ppb) as f64 / BILLION as f64;
        sign * size.min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::media;
    use super::*;

    fn frames(variation_ppb: u32) -> Vec<u32> {
        let media = Media { fps: 25, variation_ppb, ..media() };
        let mut encoder = Encoder::new(&media, path::stream(1, 0, "frames", "f"));
        let mut now = 7;
        (0..1000)
            .map(|_| {
                let (bytes, next) = encoder.frame(now, 1_000_000);
                assert_eq!(next - now, 40_000_000);
                now = next;
                bytes
            })
            .collect()
    }

    #[test]
    fn frames_have_their_share_of_the_rate() {
        // 1 Mbit/s in 25 frames: 5000 bytes.
        assert!(frames(0).iter().all(|&bytes| bytes == 5000));
        let varied = frames(100_000_000);
        let far = varied.iter().map(|&bytes| (f64::from(bytes) - 5000.0).abs()).sum::<f64>() / 1000.0;
        assert!((400.0..1000.0).contains(&far), "{far}");
        // Every second is within 5 % of the rate (RFC 8867 section 4.3), as no deviation outlasts a frame.
        for second in varied.chunks(25) {
            let sum: u32 = second.iter().sum();
            assert!(sum.abs_diff(125_000) < 6250, "{sum}");
        }
    }
}
