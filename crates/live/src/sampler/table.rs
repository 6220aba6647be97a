//! The `tcp` table of live sockets: the simulator's columns, and what else TCP_INFO tells.

use contract::table::{Batch, MAX_ROWS};
use contract::tables::{RunNames, TcpInfoRow, TcpInfoTable, TcpRow, TcpTable};
use path::Nanos;
use tcp::cc::Phase;

use super::diag::Found;
use crate::tcp_info::TcpInfo;

/// TCP_INFINITE_SSTHRESH of Linux.
const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;
/// Linux's states of a socket whose handshake is not over: TCP_SYN_SENT, TCP_SYN_RECV, TCP_NEW_SYN_RECV.
const OPENING: [u64; 3] = [2, 3, 12];

/// Rows, and the batches finished so far.
pub(super) struct Table {
    run_id: u32,
    tcp: TcpTable,
    info: TcpInfoTable,
    done: Vec<(&'static str, Batch)>,
}

impl Table {
    pub(super) fn new(run_id: u32, flows: &[String]) -> Table {
        let names = RunNames::new(flows.iter().map(String::as_str), []);
        Table { run_id, tcp: TcpTable::new(&names), info: TcpInfoTable::new(&names), done: Vec::new() }
    }

    /// The row of a socket, with its flow's newest round trip and how often its namespace has entered fast recovery.
    ///
    /// None while its handshake is under way: window and segment size are not those of the connection yet, and a model
    /// has no row then either.
    pub(super) fn push(
        &mut self,
        t: Nanos,
        flow: u32,
        socket: &Found,
        rtt: Option<Nanos>,
        recoveries: Option<u64>,
    ) {
        let state = TcpInfo(&socket.info).get("tcpi_state");
        if state.is_some_and(|state| OPENING.contains(&state)) {
            return;
        }
        self.tcp.push(&TcpRow { rtt, ..tcp_row(t, flow, socket) });
        if self.info.push(&info_row(t, flow, socket, recoveries)) >= MAX_ROWS {
            self.cut();
        }
    }

    /// Batches that are complete.
    pub(super) fn take(&mut self) -> Vec<(&'static str, Batch)> {
        std::mem::take(&mut self.done)
    }

    /// All batches.
    pub(super) fn finish(&mut self) -> Vec<(&'static str, Batch)> {
        self.cut();
        std::mem::take(&mut self.done)
    }

    fn cut(&mut self) {
        let mut batch = self.tcp.finish(self.run_id);
        if batch.rows > 0 {
            let known: Vec<&str> = batch.columns.iter().map(|column| column.name).collect();
            let more = self.info.finish(self.run_id).columns;
            batch.columns.extend(more.into_iter().filter(|column| !known.contains(&column.name)));
            self.done.push((TcpTable::NAME, batch));
        }
    }
}

fn tcp_row(t: Nanos, flow: u32, socket: &Found) -> TcpRow {
    let info = TcpInfo(&socket.info);
    let known = |name: &str| info.get(name).unwrap_or(0);
    let (mss, cwnd, ssthresh) = (known("tcpi_snd_mss"), known("tcpi_snd_cwnd"), known("tcpi_snd_ssthresh"));
    // Packets in flight by Linux's own estimate (tcp_packets_in_flight).
    let left = known("tcpi_sacked") + known("tcpi_lost");
    let inflight = (known("tcpi_unacked") + known("tcpi_retrans")).saturating_sub(left);
    // The kernel's own count has the SYN and the FIN in it.
    let sent = info.get("tcpi_bytes_sent").map(|sent| sent.saturating_sub(known("tcpi_bytes_retrans")));
    TcpRow {
        t,
        flow,
        cwnd: Some(cwnd * mss),
        ssthresh: (ssthresh < INFINITE_SSTHRESH).then_some(ssthresh * mss),
        srtt: time(&info, "tcpi_rtt").filter(|&rtt| rtt > 0),
        rtt: None,
        inflight: inflight * mss,
        delivered: known("tcpi_bytes_acked").min(sent.unwrap_or(u64::MAX)),
        // What arrives is the other end's to tell.
        arrived: None,
        retransmits: known("tcpi_total_retrans"),
        pacing_bps: rate(&info, "tcpi_pacing_rate"),
        rto: time(&info, "tcpi_rto"),
        send_window: info.get("tcpi_snd_wnd"),
        receive_window: info.get("tcpi_rcv_wnd"),
        send_buffer: socket.buffers.map(|(send, _)| send),
        receive_buffer: socket.buffers.map(|(_, receive)| receive),
        phase: Some(phase(known("tcpi_ca_state"), cwnd < ssthresh)),
    }
}

fn info_row(t: Nanos, flow: u32, socket: &Found, recoveries: Option<u64>) -> TcpInfoRow {
    let info = TcpInfo(&socket.info);
    // These are 32 bits wide in struct tcp_info.
    let word = |name: &str| info.get(name).map(|value| value as u32);
    let bbr = |at: usize| {
        let bytes = socket.bbr.as_deref()?.get(4 * at..4 * at + 4)?;
        Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)))
    };
    TcpInfoRow {
        t,
        flow,
        local_port: socket.identity.local_port().into(),
        remote_port: socket.identity.remote_port().into(),
        mss: word("tcpi_snd_mss").unwrap_or(0),
        rttvar: time(&info, "tcpi_rttvar"),
        // Not measured yet: all ones.
        min_rtt: info.get("tcpi_min_rtt").filter(|&rtt| rtt != u64::from(u32::MAX)).map(|us| us * 1000),
        delivery_bps: rate(&info, "tcpi_delivery_rate"),
        busy: time(&info, "tcpi_busy_time"),
        rwnd_limited: time(&info, "tcpi_rwnd_limited"),
        sndbuf_limited: time(&info, "tcpi_sndbuf_limited"),
        lost: word("tcpi_lost"),
        reordering: word("tcpi_reordering"),
        sent: info.get("tcpi_bytes_sent"),
        sent_segments: info.get("tcpi_data_segs_out"),
        retransmitted: info.get("tcpi_bytes_retrans"),
        notsent: info.get("tcpi_notsent_bytes"),
        received: info.get("tcpi_bytes_received"),
        received_segments: info.get("tcpi_data_segs_in"),
        delivered_ce: word("tcpi_delivered_ce"),
        // struct tcp_bbr_info: bandwidth in bytes per second in two words, round trip in microseconds.
        bbr_bandwidth_bps: bbr(0).zip(bbr(1)).and_then(|(low, high)| (high << 32 | low).checked_mul(8)),
        bbr_min_rtt: bbr(2).map(|us| us * 1000),
        recoveries,
        timeouts: word("tcpi_total_rto"),
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

/// A rate that the kernel gives in bytes per second, in bits per second. None: unlimited.
fn rate(info: &TcpInfo<'_>, name: &str) -> Option<u64> {
    info.get(name).and_then(|bytes| bytes.checked_mul(8))
}

#[cfg(test)]
mod tests {
    use contract::table::ColumnData;

    use super::*;
    use crate::sampler::diag::Found;

    #[test]
    fn a_handshake_has_no_rows() {
        let mut table = Table::new(1, &["f1".to_string()]);
        for state in [2, 1, 12, 3, 4] {
            let mut info = vec![0; 104];
            info[0] = state;
            table.push(state.into(), 0, &Found { info, ..Found::nobody() }, None, None);
        }
        let batch = table.finish().remove(0).1;
        let times = &batch.columns.iter().find(|column| column.name == "t_ns").unwrap().data;
        assert_eq!(*times, ColumnData::U64(vec![1, 4]));
    }

    #[test]
    fn an_old_kernel_tells_less() {
        // An old kernel: the struct ends behind tcpi_total_retrans.
        let mut info = vec![0; 104];
        info[16..20].copy_from_slice(&1448u32.to_ne_bytes());
        info[80..84].copy_from_slice(&10u32.to_ne_bytes());
        info[76..80].copy_from_slice(&0x7fff_ffffu32.to_ne_bytes());
        let mut table = Table::new(1, &["f1".to_string()]);
        table.push(1, 0, &Found { info, ..Found::nobody() }, None, None);
        let (name, batch) = table.finish().remove(0);
        assert_eq!(name, "tcp");
        // The number of the run, and the time and the flow of both, once.
        assert_eq!(batch.columns.len(), 1 + TcpTable::COLUMNS.len() + TcpInfoTable::COLUMNS.len() - 2);
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
