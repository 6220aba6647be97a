//! Additive increase, multiplicative decrease in Rust:
//!
//!     rustc --edition 2021 -O --crate-type cdylib aimd.rs -o libaimd.so
//!     cwndlab run FILE --cc aimd=libaimd.so
use std::ffi::c_void;

/// `struct cwndlab_flow` of cwndlab_cc.h: bytes and seconds.
#[repr(C)]
pub struct Flow {
    size: u32,
    reserved: u32,
    seed: u64,
    now: f64,
    cwnd: f64,
    ssthresh: f64,
    mss: f64,
    srtt: f64,
    min_rtt: f64,
    rtt: f64,
    acked: f64,
    in_flight: f64,
}

type Hook = unsafe extern "C" fn(*mut c_void, *mut Flow);

/// `struct cwndlab_cc_ops` of cwndlab_cc.h.
#[repr(C)]
pub struct Interface {
    version: u32,
    size: u32,
    create: Option<unsafe extern "C" fn(*mut Flow) -> *mut c_void>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    on_ack: Option<Hook>,
    on_loss: Option<Hook>,
    on_rto: Option<Hook>,
    on_ecn: Option<Hook>,
}

struct Aimd;

impl Aimd {
    fn on_ack(&mut self, flow: &mut Flow) {
        if flow.cwnd < flow.ssthresh {
            flow.cwnd += flow.acked;
        } else {
            flow.cwnd += flow.mss * flow.acked / flow.cwnd;
        }
    }

    fn on_loss(&mut self, flow: &mut Flow) {
        flow.cwnd = (flow.cwnd / 2.0).max(2.0 * flow.mss);
    }
}

unsafe extern "C" fn create(_flow: *mut Flow) -> *mut c_void {
    Box::into_raw(Box::new(Aimd)).cast()
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    drop(Box::from_raw(this.cast::<Aimd>()));
}

unsafe extern "C" fn on_ack(this: *mut c_void, flow: *mut Flow) {
    (*this.cast::<Aimd>()).on_ack(&mut *flow);
}

unsafe extern "C" fn on_loss(this: *mut c_void, flow: *mut Flow) {
    (*this.cast::<Aimd>()).on_loss(&mut *flow);
}

static INTERFACE: Interface = Interface {
    version: 1,
    size: std::mem::size_of::<Interface>() as u32,
    create: Some(create),
    destroy: Some(destroy),
    on_ack: Some(on_ack),
    on_loss: Some(on_loss),
    on_rto: None,
    on_ecn: None,
};

#[no_mangle]
pub extern "C" fn cwndlab_cc() -> *const Interface {
    &INTERFACE
}
