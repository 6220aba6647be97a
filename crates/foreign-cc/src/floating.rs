//! The control word of the floating-point unit, which code from outside must leave as it was: rounding, subnormals, traps.

/// Calls code from outside and puts the control back: with another one the engine's own results would change without a word.
pub(crate) fn kept<T>(call: impl FnOnce() -> T) -> T {
    let before = unit::control();
    let value = call();
    if unit::control() != before {
        unit::set(before);
    }
    value
}

#[cfg(target_arch = "x86_64")]
mod unit {
    use std::arch::asm;

    /// Exceptions that were raised so far: a status, no control.
    const RAISED: u32 = 0x3f;

    /// Control of SSE and of the x87.
    pub(super) fn control() -> (u32, u16) {
        let (mut sse, mut x87) = (0u32, 0u16);
        // SAFETY: writes the two words.
        unsafe {
            asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut sse, in(reg) &raw mut x87, options(nostack));
        }
        (sse & !RAISED, x87)
    }

    pub(super) fn set((sse, x87): (u32, u16)) {
        // SAFETY: reads the two words, which the unit had before.
        unsafe {
            asm!("fnclex", "ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const sse, in(reg) &raw const x87, options(nostack));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod unit {
    use std::arch::asm;

    pub(super) fn control() -> u64 {
        let control;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack)) };
        control
    }

    pub(super) fn set(control: u64) {
        // SAFETY: what the register had before.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unit {
    pub(super) fn control() {}

    pub(super) fn set((): ()) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) mod tests {
    use std::arch::asm;
    use std::hint::black_box;

    use super::unit::control;

    /// Rounds up from now on, and takes subnormals for 0.
    pub(crate) fn spoil() -> (u32, u16) {
        let (sse, x87) = (0x1f80 | 0x4000 | 0x8040, 0x0b7fu16);
        // SAFETY: reads two valid words.
        unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const sse, in(reg) &raw const x87) };
        control()
    }

    #[test]
    fn what_a_call_sets_is_put_back() {
        let before = control();
        assert_ne!(super::kept(spoil), before);
        assert_eq!(control(), before);
        assert!(black_box(f64::MIN_POSITIVE) / black_box(2.0) > 0.0);
    }
}
