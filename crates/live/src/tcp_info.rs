//! Fields that the kernel tells of a TCP connection: struct tcp_info and struct tcp_bbr_info
//! (include/uapi/linux/tcp.h, inet_diag.h). Older kernels have shorter structs; what is missing is not told.

/// A struct tcp_info.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpInfo<'a>(pub(crate) &'a [u8]);

impl TcpInfo<'_> {
    /// A field by its name in C. None if this kernel has none.
    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        let &(_, at, size) = FIELDS.iter().find(|(field, ..)| *field == name)?;
        self.0.get(at..at + size).map(number)
    }

    /// All fields that this kernel has.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FIELDS.iter().filter_map(|&(name, at, size)| Some((name, number(self.0.get(at..at + size)?))))
    }
}

/// A number in the machine's byte order.
fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("a field of 1, 2, 4 or 8 bytes"),
    }
}

/// Name, offset, size in bytes.
const FIELDS: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_fackets", 40, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rcv_ssthresh", 64, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_rcv_rtt", 92, 4),
    ("tcpi_rcv_space", 96, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_pacing_rate", 104, 8),
    ("tcpi_max_pacing_rate", 112, 8),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivery_rate", 160, 8),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
    ("tcpi_rcv_wnd", 232, 4),
    ("tcpi_total_rto", 240, 2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_with_its_size() {
        let info = [1; 248];
        for (name, value) in TcpInfo(&info).fields() {
            assert!([1, 0x0101, 0x0101_0101, 0x0101_0101_0101_0101].contains(&value), "{name}: {value:#x}");
        }
        assert_eq!(TcpInfo(&info).fields().count(), FIELDS.len());
    }
}
