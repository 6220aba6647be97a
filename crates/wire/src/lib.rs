//! TCP segments, options, sequence arithmetic, range sets; pcap and pcapng files
