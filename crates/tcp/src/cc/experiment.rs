//! Built-in congestion controls with constants that an experiment changes.

use std::sync::Arc;

use params::cc::CcParams;

use super::freebsd::{self, CdgTuning, CubicEra, NewReno};
use super::linux::{self, cubic::Constants, reno::Reno};
use super::{Lifecycle, Module};
use crate::linux_config::Shared;

/// The built-in congestion control `cc` of a family, by its word in the catalogue, with these constants. None: it has none such.
pub fn module(params: &CcParams, cc: &str, family: &str) -> Option<Module> {
    if cc != params.kind() {
        return None;
    }
    let varied = Varied(params.clone());
    match (params, family) {
        (CcParams::Cubic { .. } | CcParams::Reno { .. }, "linux") => Some(Module::Linux(Arc::new(varied))),
        (CcParams::Cubic { .. } | CcParams::NewReno { .. }, "freebsd") => {
            Some(Module::FreeBsd(Arc::new(varied)))
        }
        _ => None,
    }
}

/// A built-in congestion control with other constants.
struct Varied(CcParams);

impl Lifecycle for Varied {}

impl linux::Module for Varied {
    fn connect(&self, config: &Shared) -> Box<dyn linux::CongestionControl> {
        match self.0 {
            CcParams::Reno { beta } | CcParams::NewReno { beta } => {
                Box::new(Reno::with(config, beta.unwrap_or(500)))
            }
            CcParams::Cubic { beta, c, fast_convergence } => {
                let kernel = Constants::KERNEL;
                let constants = Constants::new(
                    beta.map_or(kernel.beta, |beta| rounded(beta, 1024) as u32),
                    c.map_or(kernel.cube_rtt_scale, |c| rounded(c, 1024)),
                    fast_convergence.unwrap_or(true),
                );
                Box::new(linux::cubic::Cubic::with(config, constants))
            }
        }
    }
}

impl freebsd::Module for Varied {
    fn connect(&self, era: CubicEra, _cdg: &CdgTuning, _random: u64) -> Box<dyn freebsd::CongestionControl> {
        match self.0 {
            CcParams::Reno { beta } | CcParams::NewReno { beta } => {
                Box::new(NewReno::with(beta.map(|beta| rounded(beta, 100))))
            }
            CcParams::Cubic { beta, c, fast_convergence } => {
                let mut curve = era.curve();
                if let Some(beta) = beta {
                    curve = curve.with_beta(rounded(beta, 256));
                }
                if let Some(c) = c {
                    curve = curve.with_c(rounded(c, 256) as i64);
                }
                if fast_convergence == Some(false) {
                    curve.fast_convergence = 256;
                }
                Box::new(freebsd::Cubic::with(era, curve))
            }
        }
    }
}

/// Thousandths in parts of `scale`, at least one.
fn rounded(thousandths: u64, scale: u64) -> u64 {
    ((thousandths * scale + 500) / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freebsd::cubic_math::Curve;

    #[test]
    fn the_kernels_own_values_are_the_kernels_constants() {
        assert_eq!(Constants::new(rounded(700, 1024) as u32, rounded(400, 1024), true), Constants::KERNEL);
        let curve = Curve::RFC.with_beta(rounded(700, 256));
        assert_eq!((curve.beta, curve.fast_convergence), (Curve::RFC.beta, Curve::RFC.fast_convergence));
        let c = Curve::RFC.with_c(rounded(400, 256) as i64);
        assert_eq!(c.c, Curve::RFC.c);
        assert!(c.largest_cubed.abs_diff(Curve::RFC.largest_cubed) <= 1);
    }

    #[test]
    fn no_cube_overflows() {
        for c in [1, 102, 2560] {
            let most = Curve::RFC.with_c(c).largest_cubed;
            assert!(most.checked_pow(3).and_then(|cube| cube.checked_mul(c)).is_some());
        }
    }
}
