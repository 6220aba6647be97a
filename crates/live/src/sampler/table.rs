//! The `tcp` table of live sockets: the simulator's columns, and what else TCP_INFO tells.

use std::sync::Arc;

use path::Nanos;
use sim::table::{Batch, Column, ColumnData, Dict, MAX_ROWS, Values};
use tcp::cc::Phase;

use super::diag::Found;
use crate::tcp_info::TcpInfo;

/// States, in the order of their indices.
const PHASES: [Phase; 6] =
    [Phase::SlowStart, Phase::Avoidance, Phase::Recovery, Phase::Loss, Phase::Cwr, Phase::Disorder];
/// TCP_INFINITE_SSTHRESH of Linux.
const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;
/// Columns behind the simulator's that hold a number each.
const MORE: [&str; 21] = [
    "local_port",
    "remote_port",
    "mss_bytes",
    "rttvar_ns",
    "min_rtt_ns",
    "delivery_bps",
    "busy_ns",
    "rwnd_limited_ns",
    "sndbuf_limited_ns",
    "lost_packets",
    "reordering_packets",
    "sent_bytes",
    "sent_segments",
    "retransmitted_bytes",
    "notsent_bytes",
    "received_bytes",
    "received_segments",
    "delivered_ce_packets",
    "bbr_bandwidth_bps",
    "bbr_min_rtt_ns",
    "recoveries",
];

/// Rows, and the batches finished so far.
pub(super) struct Table {
    run_id: u32,
    t: Values<u64>,
    flow: Dict,
    cwnd: Values<u64>,
    ssthresh: Values<u64>,
    srtt: Values<u64>,
    rtt: Values<u64>,
    inflight: Values<u64>,
    delivered: Values<u64>,
    arrived: Values<u64>,
    retransmits: Values<u64>,
    pacing: Values<u64>,
    rto: Values<u64>,
    send_window: Values<u64>,
    receive_window: Values<u64>,
    send_buffer: Values<u64>,
    receive_buffer: Values<u64>,
    state: Dict,
    more: [Values<u64>; MORE.len()],
    done: Vec<(&'static str, Batch)>,
}

impl Table {
    pub(super) fn new(run_id: u32, flows: &[String]) -> Table {
        let states = PHASES.iter().map(|phase| phase.as_str().to_string()).collect();
        Table {
            run_id,
            t: Values::new(),
            flow: Dict::new(Arc::new(flows.to_vec())),
            cwnd: Values::new(),
            ssthresh: Values::new(),
            srtt: Values::new(),
            rtt: Values::new(),
            inflight: Values::new(),
            delivered: Values::new(),
            arrived: Values::new(),
            retransmits: Values::new(),
            pacing: Values::new(),
            rto: Values::new(),
            send_window: Values::new(),
            receive_window: Values::new(),
            send_buffer: Values::new(),
            receive_buffer: Values::new(),
            state: Dict::new(Arc::new(states)),
            more: [(); MORE.len()].map(|()| Values::new()),
            done: Vec::new(),
        }
    }

    /// The row of a socket, with how often its namespace has entered fast recovery.
    pub(super) fn push(&mut self, t: Nanos, flow: u32, socket: &Found, recoveries: Option<u64>) {
        let info = TcpInfo(&socket.info);
        let known = |name: &str| info.get(name).unwrap_or(0);
        let (mss, cwnd, ssthresh) =
            (known("tcpi_snd_mss"), known("tcpi_snd_cwnd"), known("tcpi_snd_ssthresh"));
        // Packets in flight by Linux's own estimate (tcp_packets_in_flight).
        let left = known("tcpi_sacked") + known("tcpi_lost");
        let inflight = (known("tcpi_unacked") + known("tcpi_retrans")).saturating_sub(left);
        self.t.push(t);
        self.flow.push(flow);
        self.cwnd.push(cwnd * mss);
        self.ssthresh.push_option((ssthresh < INFINITE_SSTHRESH).then_some(ssthresh * mss));
        self.srtt.push_option(time(&info, "tcpi_rtt").filter(|&rtt| rtt > 0));
        self.rtt.push_option(None);
        self.inflight.push(inflight * mss);
        // The kernel's own count has the SYN and the FIN in it.
        let sent = info.get("tcpi_bytes_sent").map(|sent| sent.saturating_sub(known("tcpi_bytes_retrans")));
        self.delivered.push(known("tcpi_bytes_acked").min(sent.unwrap_or(u64::MAX)));
        // What arrives is the other end's to tell.
        self.arrived.push_option(None);
        self.retransmits.push(known("tcpi_total_retrans"));
        self.pacing.push_option(rate(&info, "tcpi_pacing_rate"));
        self.rto.push_option(time(&info, "tcpi_rto"));
        self.send_window.push_option(info.get("tcpi_snd_wnd"));
        self.receive_window.push_option(info.get("tcpi_rcv_wnd"));
        self.send_buffer.push_option(socket.buffers.map(|(send, _)| send));
        self.receive_buffer.push_option(socket.buffers.map(|(_, receive)| receive));
        let phase = phase(known("tcpi_ca_state"), cwnd < ssthresh);
        self.state.push(PHASES.iter().position(|&known| known == phase).unwrap_or(0) as u32);
        let bbr = socket.bbr.as_deref();
        let word = |at: usize| {
            let bytes = bbr.and_then(|bytes| bytes.get(4 * at..4 * at + 4))?;
            Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)))
        };
        // struct tcp_bbr_info: bandwidth in bytes per second in two words, round trip in microseconds.
        let bandwidth = word(0).zip(word(1)).and_then(|(low, high)| (high << 32 | low).checked_mul(8));
        let more = [
            Some(u64::from(socket.identity.local_port())),
            Some(u64::from(socket.identity.remote_port())),
            Some(mss),
            time(&info, "tcpi_rttvar"),
            // Not measured yet: all ones.
            info.get("tcpi_min_rtt").filter(|&rtt| rtt != u64::from(u32::MAX)).map(|us| us * 1000),
            rate(&info, "tcpi_delivery_rate"),
            time(&info, "tcpi_busy_time"),
            time(&info, "tcpi_rwnd_limited"),
            time(&info, "tcpi_sndbuf_limited"),
            info.get("tcpi_lost"),
            info.get("tcpi_reordering"),
            info.get("tcpi_bytes_sent"),
            info.get("tcpi_data_segs_out"),
            info.get("tcpi_bytes_retrans"),
            info.get("tcpi_notsent_bytes"),
            info.get("tcpi_bytes_received"),
            info.get("tcpi_data_segs_in"),
            info.get("tcpi_delivered_ce"),
            bandwidth,
            word(2).map(|us| us * 1000),
            recoveries,
        ];
        self.more.iter_mut().zip(more).for_each(|(column, value)| column.push_option(value));
        if self.t.len() >= MAX_ROWS {
            self.cut();
        }
    }

    /// All batches.
    pub(super) fn finish(&mut self) -> Vec<(&'static str, Batch)> {
        self.cut();
        std::mem::take(&mut self.done)
    }

    fn cut(&mut self) {
        let rows = self.t.len();
        if rows == 0 {
            return;
        }
        let run_id =
            Column { name: "run_id", data: ColumnData::U32(vec![self.run_id; rows]), validity: None };
        let mut columns = vec![
            run_id,
            self.t.finish("t_ns"),
            self.flow.finish("flow"),
            self.cwnd.finish("cwnd_bytes"),
            self.ssthresh.finish("ssthresh_bytes"),
            self.srtt.finish("srtt_ns"),
            self.rtt.finish("rtt_ns"),
            self.inflight.finish("inflight_bytes"),
            self.delivered.finish("delivered_bytes"),
            self.arrived.finish("arrived_bytes"),
            self.retransmits.finish("retransmits"),
            self.pacing.finish("pacing_bps"),
            self.rto.finish("rto_ns"),
            self.send_window.finish("send_window_bytes"),
            self.receive_window.finish("receive_window_bytes"),
            self.send_buffer.finish("send_buffer_bytes"),
            self.receive_buffer.finish("receive_buffer_bytes"),
            self.state.finish("state"),
        ];
        columns.extend(self.more.iter_mut().zip(MORE).map(|(column, name)| column.finish(name)));
        self.done.push(("tcp", Batch { rows, columns }));
    }
}

/// Linux's state of congestion control (TCP_CA_*) in the table's words.
fn phase(state: u64, below_ssthresh: bool) -> Phase {
    match state {
        1 => Phase::Disorder,
        2 => Phase::Cwr,
        3 => Phase::Recovery,
        4 => Phase::Loss,
        _ if below_ssthresh => Phase::SlowStart,
        _ => Phase::Avoidance,
    }
}

/// A time that the kernel gives in microseconds, in nanoseconds.
fn time(info: &TcpInfo<'_>, name: &str) -> Option<u64> {
    info.get(name).map(|us| us.saturating_mul(1000))
}

/// A rate that the kernel gives in bytes per second, in bits per second; None: unlimited.
fn rate(info: &TcpInfo<'_>, name: &str) -> Option<u64> {
    info.get(name).and_then(|bytes| bytes.checked_mul(8))
}

#[cfg(test)]
mod tests {
    use sim::record::{Recorder, TcpRow};

    use super::*;
    use crate::sampler::diag::Found;

    #[test]
    fn the_table_begins_as_the_simulators() {
        let mut recorder = Recorder::new(1, ["f1"], []);
        recorder.tcp(&TcpRow {
            t: 1,
            flow: 0,
            cwnd: 1,
            ssthresh: None,
            srtt: None,
            rtt: None,
            inflight: 0,
            delivered: 0,
            arrived: 0,
            retransmits: 0,
            pacing_bps: None,
            rto: 0,
            send_window: 0,
            receive_window: None,
            send_buffer: 0,
            receive_buffer: None,
            phase: Phase::Avoidance,
        });
        recorder.finish(2);
        let (name, wanted) = recorder.take().remove(0);
        // An old kernel: the struct ends behind tcpi_total_retrans.
        let mut info = vec![0; 104];
        info[16..20].copy_from_slice(&1448u32.to_ne_bytes());
        info[80..84].copy_from_slice(&10u32.to_ne_bytes());
        info[76..80].copy_from_slice(&0x7fff_ffffu32.to_ne_bytes());
        let mut table = Table::new(1, &["f1".to_string()]);
        table.push(1, 0, &Found { info, ..Found::nobody() }, None);
        let (own, batch) = table.finish().remove(0);
        assert_eq!(own, name);
        assert_eq!(batch.columns.len(), wanted.columns.len() + MORE.len());
        for (own, wanted) in batch.columns.iter().zip(&wanted.columns) {
            assert_eq!(own.name, wanted.name);
            assert_eq!(
                std::mem::discriminant(&own.data),
                std::mem::discriminant(&wanted.data),
                "{}",
                own.name
            );
            if let (ColumnData::Dict { values: own, .. }, ColumnData::Dict { values: wanted, .. }) =
                (&own.data, &wanted.data)
            {
                assert_eq!(own, wanted);
            }
        }
        let column = |name: &str| batch.columns.iter().find(|column| column.name == name).unwrap();
        assert_eq!(column("cwnd_bytes").data, ColumnData::U64(vec![14_480]));
        assert_eq!(column("ssthresh_bytes").validity, Some(vec![0]));
        assert_eq!(column("busy_ns").validity, Some(vec![0]), "this kernel does not tell");
        assert_eq!(column("state").data, {
            let ColumnData::Dict { values, .. } = &column("state").data else { panic!("names") };
            ColumnData::Dict { indices: vec![0], values: values.clone() }
        });
    }
}
