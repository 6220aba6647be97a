//! Packet captures at hosts and links.

use path::Nanos;

use crate::packet::Packet;
use crate::scenario::Scenario;

/// The captures of a run.
pub struct Captures {}

impl Captures {
    pub fn new(scenario: &Scenario) -> Result<Captures, String> {
        if scenario.record.pcap.is_empty() {
            Ok(Captures {})
        } else {
            Err("record.pcap: not there yet".into())
        }
    }
    #[inline]
    pub fn at_host(&mut self, _now: Nanos, _host: u16, _packet: &Packet) {}
    pub fn settle(&mut self, _now: Nanos) {}
    pub fn finish(&mut self, _end: Nanos) {}
    pub fn take(&mut self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}
