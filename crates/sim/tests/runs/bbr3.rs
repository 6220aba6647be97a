//! BBRv3 beside its authors' code on a kernel.

use path::ShaperConfig;

use crate::support::{MS, carry_out, dumbbell, link_mut};

/// google/bbr's version 3 on Linux 6.12.117 (100 Mbit/s by HTB, 10 ms, a queue of 83 packets, 30 s) sends 463 to 564 packets again. A model in which
/// the bound that a probe leaves behind knows nothing of buffers that SACKs cut sends 290 to 330.
#[test]
fn probes_lose_as_much_as_the_kernels() {
    let rate_bps = 100_000_000;
    let mut scenario = dumbbell("linux-prague-testing", "bbr3", rate_bps, 10 * MS, 83, 30);
    for host in &mut scenario.hosts {
        host.nic.veth = true;
    }
    for link in &mut scenario.links {
        link.rate_bps = None;
    }
    link_mut(&mut scenario, "r1-r2").shaper =
        Some(ShaperConfig::Htb { rate_bps, ceil_bps: rate_bps, burst_bytes: 1514, cburst_bytes: 1514 });
    scenario.flows[0].sndbuf = None;
    scenario.flows[0].rcvbuf = None;
    let outcome = carry_out(&scenario, false);
    let retransmits = outcome.summary["flows"][0]["retransmits"].as_u64().expect("a number");
    println!("{retransmits}");
    assert!((400..=600).contains(&retransmits), "{retransmits}");
}
