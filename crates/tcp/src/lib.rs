//! A TCP endpoint without I/O: FreeBSD, Linux and Windows senders and receivers
