//! A kernel's module on a host, whichever hooks it has.

use std::ffi::c_void;
use std::fmt::Display;
use std::ptr;
use std::sync::Arc;

use tcp::Nanos;
use tcp::cc::Lifecycle;
use tcp::cc::foreign::{Failure, Host, Trouble};

use crate::library::Library;

/// A host's copy of a module; its connections have clones of this.
#[derive(Clone)]
pub(crate) struct OnHost {
    name: String,
    copy: Arc<Library>,
    trouble: Trouble,
    boot: Nanos,
}

impl OnHost {
    pub(crate) fn new(name: String, library: Library, host: &Host<'_>) -> OnHost {
        OnHost { name, copy: Arc::new(library), trouble: host.trouble.clone(), boot: host.boot }
    }

    /// Room for the kernel's structures of a connection.
    pub(crate) fn memory(&self) -> Box<[u64]> {
        // SAFETY: nothing is asked of it but a number.
        let size = self.copy.ask(|module| unsafe { (module.size)() });
        vec![0; size.div_ceil(8) as usize].into_boxed_slice()
    }

    /// Bits of the hooks that the module has.
    pub(crate) fn hooks(&self) -> u32 {
        // SAFETY: no connection: those of the module.
        self.copy.ask(|module| unsafe { (module.hooks)(ptr::null_mut()) })
    }

    /// Bits of the hooks that a connection has, whose memory this is.
    pub(crate) fn hooks_of(&self, memory: &mut [u64]) -> u32 {
        let memory = memory.as_mut_ptr().cast::<c_void>();
        // SAFETY: the memory is of the size that the module asked for.
        self.copy.ask(|module| unsafe { (module.hooks)(memory) })
    }

    /// Calls a hook for a connection at a time of the host's clock; returns its value.
    ///
    /// # Safety
    /// The memory is that of [`OnHost::memory`], the exchange and the hook's number are those of the module's family.
    pub(crate) unsafe fn call<T>(
        &self,
        now: Nanos,
        hook: (u32, &str),
        memory: &mut [u64],
        exchange: &mut T,
        arguments: [i64; 2],
    ) -> Result<i64, Failure> {
        let (memory, exchange) =
            (memory.as_mut_ptr().cast::<c_void>(), ptr::from_mut(exchange).cast::<c_void>());
        let mut value = 0;
        let at = now.saturating_sub(self.boot);
        let called = crate::witness::during(&self.name, hook.1, at, || {
            // SAFETY: the caller's.
            self.copy.enter(|module| unsafe {
                (module.call)(memory, exchange, hook.0, arguments.as_ptr(), &raw mut value)
            })
        });
        called.map(|()| value)
    }

    /// Fails the run: what a hook did at a time of the host's clock.
    pub(crate) fn fail(&self, now: Nanos, hook: &str, what: &dyn Display) {
        let at = crate::seconds(now.saturating_sub(self.boot));
        self.trouble.report(format!("{}: {hook} {what}, at {at}", self.name));
    }
}

impl Lifecycle for OnHost {
    fn mod_destroy(&self) {
        // The run is over: whatever becomes of it changes no result.
        let _ = crate::witness::during(&self.name, "its exit", crate::witness::NEVER, || {
            // SAFETY: nothing is asked of it but that.
            self.copy.enter(|module| unsafe { (module.stop)() })
        });
    }
}
