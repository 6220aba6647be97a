//! Controllers of a shared library that exports `cwndlab_cc` (`cwndlab_cc.h`), called through `c/plain/runtime.c`.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;

use tcp::cc::foreign::{Failure, Host};

use super::{Controller, Event, Flow, Load, Maker};
use crate::exchange;
use crate::library::Library;

/// Loads the library that is in `file`, whose bytes have this hash.
pub(crate) fn load(file: PathBuf, sha256: String) -> Box<Load> {
    Box::new(move |host: &Host<'_>| {
        let library = Library::open(&file, &sha256)?;
        let clock = exchange::Host { now_ns: host.boot, hz: host.hz, ..exchange::Host::default() };
        // SAFETY: the pointer is valid during the call.
        library
            .enter(|module| unsafe { (module.start)(&raw const clock) })
            .map_err(|why| why.at("its library"))?;
        Ok(Arc::new(OnHost(Arc::new(library))))
    })
}

struct OnHost(Arc<Library>);

impl Maker for OnHost {
    fn connect(&self, flow: &mut Flow) -> Result<Box<dyn Controller>, Failure> {
        let mut made = Connection { module: self.0.clone(), own: 0 };
        made.tell(Event::Create, flow)?;
        Ok(Box::new(made))
    }
}

struct Connection {
    module: Arc<Library>,
    /// The pointer that `create` returned, which the library alone follows.
    own: u64,
}

impl Controller for Connection {
    fn tell(&mut self, event: Event, flow: &mut Flow) -> Result<(), Failure> {
        let own = (&raw mut self.own).cast::<c_void>();
        let flow = std::ptr::from_mut(flow).cast::<c_void>();
        let (arguments, mut value) = ([0; 2], 0);
        // SAFETY: the connection is of the size that the module says, and the exchange is this interface's.
        self.module.enter(|module| unsafe {
            (module.call)(own, flow, event as u32, arguments.as_ptr(), &raw mut value)
        })
    }
}
