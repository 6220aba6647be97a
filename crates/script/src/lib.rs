//! packetdrill scripts against an endpoint
