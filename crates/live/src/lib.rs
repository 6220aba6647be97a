//! Linux only: real-time path emulator, TCP_INFO sampler, endpoints over TUN
