//! TCP_INFO of a modelled connection.

use tcp::accecn::Seen;
use tcp::cc::Phase;
use tcp::endpoint::AccEcnInfo;
use tcp::{Nanos, State, cc};

use super::Connection;

/// TCP_INFO under Linux's names; windows in segments for Linux, in bytes for FreeBSD, as each shows them.
pub(super) fn tcp_info(connection: &mut Connection, now: Nanos, linux: bool) -> Vec<(&'static str, i64)> {
    let times = connection.times;
    let info = connection.endpoint.info(now);
    let sender = info.sender;
    let mss = u64::from(info.snd_mss.max(1));
    let unit = if linux { mss } else { 1 };
    let state = match info.state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    };
    let ca_state = match sender.phase {
        Phase::SlowStart | Phase::Avoidance => 0,
        Phase::Disorder => 1,
        Phase::Cwr => 2,
        Phase::Recovery => 3,
        Phase::Loss => 4,
    };
    let scales = connection.endpoint.scales_windows();
    let options = [info.timestamps, info.sack, scales, info.ecn]
        .into_iter()
        .rev()
        .fold(0, |bits, on| bits << 1 | i64::from(on));
    let options = options | i64::from(connection.endpoint.syn_data_taken()) << 5;
    let infinite =
        if linux { i64::from(cc::linux::INFINITE_SSTHRESH) } else { cc::freebsd::SSTHRESH_INFINITE as i64 };
    let opening = matches!(info.state, State::SynSent | State::SynReceived);
    let counted = info.segments.filter(|_| !opening);
    let unacknowledged =
        counted.map_or(info.outstanding.div_ceil(mss) as i64, |segments| i64::from(segments.out));
    let micros = |time: Option<Nanos>| (time.unwrap_or(0) / 1000) as i64;
    let syn_repeats = if linux { info.syn_repeats as i64 } else { 0 };
    let mut fields = vec![
        ("tcpi_state", state),
        ("tcpi_ca_state", ca_state),
        ("tcpi_options", options),
        ("tcpi_rto", micros(Some(sender.rto))),
        ("tcpi_snd_mss", mss as i64),
        ("tcpi_unacked", unacknowledged),
        ("tcpi_rtt", micros(sender.srtt)),
        ("tcpi_rttvar", micros(sender.rttvar)),
        ("tcpi_snd_ssthresh", sender.ssthresh.map_or(infinite, |bytes| (bytes / unit) as i64)),
        ("tcpi_snd_cwnd", (sender.cwnd / unit) as i64),
        ("tcpi_total_retrans", info.retransmits as i64 + syn_repeats),
        ("tcpi_bytes_acked", info.bytes_acked as i64),
        ("tcpi_data_segs_out", info.data_segments_out as i64),
        ("tcpi_snd_wnd", info.snd_wnd as i64),
        ("tcpi_total_rto", sender.timeouts as i64),
        ("tcpi_advmss", i64::from(info.announced_mss)),
        ("tcpi_busy_time", micros(Some(times.busy_at(now)))),
        ("tcpi_last_data_recv", ((now - times.data_received) / 1_000_000) as i64),
        ("tcpi_rwnd_limited", micros(Some(info.limited.rwnd))),
        ("tcpi_sndbuf_limited", micros(Some(info.limited.sndbuf))),
    ];
    if let Some(accecn) = info.accecn {
        fields.extend(accurate(&accecn));
    }
    if let Some(segments) = info.segments {
        fields.extend([
            ("tcpi_sacked", i64::from(segments.sacked)),
            ("tcpi_lost", i64::from(segments.lost)),
            ("tcpi_retrans", i64::from(segments.retransmitted)),
            ("tcpi_delivered", segments.delivered as i64),
            ("tcpi_delivered_ce", segments.delivered_ce as i64),
            ("tcpi_reordering", i64::from(segments.reordering)),
            ("tcpi_backoff", i64::from(segments.backoff)),
        ]);
    }
    fields
}

/// Figures of Accurate ECN under Linux's names.
fn accurate(info: &AccEcnInfo) -> [(&'static str, i64); 9] {
    let [received_e1, received_e0, received_ce] = info.received_bytes.map(i64::from);
    let [delivered_e1, delivered_e0, delivered_ce] = info.delivered_bytes.map(i64::from);
    let failures = info.failures;
    let bits = [failures.ace_sent, failures.ace_received, failures.option_sent, failures.option_received];
    let modes = bits.iter().enumerate().map(|(bit, &failed)| i64::from(failed) << bit).sum();
    let seen = match info.seen {
        Seen::Nothing => 0,
        Seen::Empty => 1,
        Seen::Counters => 2,
        Seen::Failed => 3,
    };
    [
        ("tcpi_received_ce", i64::from(info.received_ce)),
        ("tcpi_received_e1_bytes", received_e1),
        ("tcpi_received_e0_bytes", received_e0),
        ("tcpi_received_ce_bytes", received_ce),
        ("tcpi_delivered_e1_bytes", delivered_e1),
        ("tcpi_delivered_e0_bytes", delivered_e0),
        ("tcpi_delivered_ce_bytes", delivered_ce),
        ("tcpi_accecn_fail_mode", modes),
        ("tcpi_accecn_opt_seen", seen),
    ]
}
