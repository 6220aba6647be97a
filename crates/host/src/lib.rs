//! What surrounds an endpoint in one machine: clock, NIC, offloads, applications
