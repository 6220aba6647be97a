//! Random numbers that the recorded hosts drew: they were those of the C library's random(), seeded alike in nearly
//! all runs.

use std::sync::Arc;

use tcp::cc::freebsd::{Cdg, CdgTuning, CongestionControl, CubicEra, Module};
use tcp::cc::{self, Lifecycle};
use tcp::profile::freebsd::{FreeBsd, release};
use tcp::stack::Profile;

/// glibc's random() after srandom(seed): the sum of the numbers 3 and 31 before, without its lowest bit.
pub(crate) fn numbers(seed: u32) -> impl FnMut() -> u32 + Send {
    const DEGREE: usize = 31;
    const SEPARATION: usize = 3;
    let mut last = [seed; DEGREE];
    for i in 1..DEGREE {
        last[i] = (u64::from(last[i - 1]) * 16_807 % 0x7fff_ffff) as u32;
    }
    let mut at = SEPARATION;
    let mut next = move || {
        last[at] = last[at].wrapping_add(last[(at + DEGREE - SEPARATION) % DEGREE]);
        let sum = last[at];
        at = (at + 1) % DEGREE;
        sum >> 1
    };
    for _ in 0..10 * DEGREE {
        next();
    }
    next
}

/// A release whose `cdg` draws these numbers.
pub(crate) fn host(name: &str, seed: u32) -> FreeBsd {
    let mut release = release(name).expect("a release");
    let module = cc::Module::FreeBsd(Arc::new(AsRecorded(seed)));
    release.register("drawn", &module).expect("a name of its own");
    release
}

struct AsRecorded(u32);

impl Lifecycle for AsRecorded {}

impl Module for AsRecorded {
    fn connect(&self, _: CubicEra, cdg: &CdgTuning, _: u64) -> Box<dyn CongestionControl> {
        Box::new(Cdg::with_random(*cdg, Box::new(numbers(self.0))))
    }
}

#[test]
fn the_numbers_are_those_of_the_c_library() {
    let mut next = numbers(2);
    assert_eq!([next(), next(), next()], [1_505_335_290, 1_738_766_719, 190_686_788]);
}
