//! Captures to RTT, throughput, loss and retransmission series
