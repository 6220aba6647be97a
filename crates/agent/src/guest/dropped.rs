//! Packets that the kernel drops, with their headers and the time (linux/net_dropmon.h).

use std::io;
use std::os::fd::RawFd;

use live::taps::Dropped;

use super::netlink::{HEADER, Netlink, attributes};

/// GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// NET_DM_CMD_CONFIG, NET_DM_CMD_START, NET_DM_CMD_PACKET_ALERT.
const CONFIG: u8 = 2;
const START: u8 = 3;
const ALERT: u8 = 5;
/// NET_DM_ATTR_ALERT_MODE (NET_DM_ALERT_MODE_PACKET is 1), NET_DM_ATTR_TIMESTAMP, NET_DM_ATTR_PAYLOAD, NET_DM_ATTR_TRUNC_LEN,
/// NET_DM_ATTR_QUEUE_LEN.
const MODE: u16 = 1;
const TIMESTAMP: u16 = 5;
const PAYLOAD: u16 = 7;
const CUT: u16 = 9;
const QUEUE: u16 = 11;
/// NET_DM_GRP_ALERT.
const GROUP: libc::c_int = 1;
/// Bytes of each frame that are told: headers of Ethernet, IP and TCP, with all that tells packets apart.
const KEPT: u32 = 134;
/// Packets that wait to be told.
const WAITING: u32 = 1 << 20;
/// Bytes that wait for us.
const ROOM: libc::c_int = 64 << 20;
/// Bytes of struct genlmsghdr.
const GENERIC: usize = 4;
/// NLM_F_REQUEST, NLM_F_ACK.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

/// Hears of the packets that the kernel drops, in all namespaces.
pub(super) struct Drops {
    netlink: Netlink,
    heard: Vec<Dropped>,
}

impl Drops {
    /// Begins to listen, in a thread outside of all nodes.
    ///
    /// # Errors
    /// The kernel has no drop monitor.
    pub(super) fn begin() -> io::Result<Drops> {
        let mut netlink = Netlink::of(libc::NETLINK_GENERIC)?;
        let name = message(CONTROLLER, REQUEST, GET_FAMILY, &attribute(FAMILY_NAME, b"NET_DM\0"));
        let mut family = None;
        netlink.ask(&name, 1, &mut |body| {
            let told =
                attributes(body.get(GENERIC..).unwrap_or_default()).find(|(kind, _)| *kind == FAMILY_ID);
            family = told.and_then(|(_, id)| Some(u16::from_ne_bytes(id.try_into().ok()?)));
        })?;
        let family = family.ok_or_else(|| io::Error::other("the kernel has no drop monitor"))?;
        let settings = [
            attribute(MODE, &[1]),
            attribute(CUT, &KEPT.to_ne_bytes()),
            attribute(QUEUE, &WAITING.to_ne_bytes()),
        ];
        for (command, told) in [(CONFIG, settings.concat()), (START, Vec::new())] {
            netlink.ask(&message(family, REQUEST | ACKNOWLEDGE, command, &told), 1, &mut |_| ())?;
        }
        netlink.join(GROUP)?;
        netlink.set_room(ROOM)?;
        Ok(Drops { netlink, heard: Vec::new() })
    }

    /// Descriptor that can be read while a dropped packet is to be told.
    pub(super) fn descriptor(&self) -> RawFd {
        self.netlink.descriptor()
    }

    /// Packets dropped since the last call.
    ///
    /// # Errors
    /// Some could not be told.
    pub(super) fn take(&mut self) -> io::Result<&[Dropped]> {
        self.heard.clear();
        let heard = &mut self.heard;
        self.netlink.arrived(&mut |body| heard.extend(read(body)))?;
        Ok(heard)
    }
}

fn read(body: &[u8]) -> Option<Dropped> {
    if *body.first()? != ALERT {
        return None;
    }
    let (mut at, mut frame) = (None, None);
    for (kind, value) in attributes(body.get(GENERIC..)?) {
        match kind {
            TIMESTAMP => at = value.try_into().ok().map(u64::from_ne_bytes),
            PAYLOAD => frame = Some(value.to_vec()),
            _ => (),
        }
    }
    Some(Dropped { at: at?, frame: frame? })
}

fn message(family: u16, flags: u16, command: u8, told: &[u8]) -> Vec<u8> {
    let length = HEADER + GENERIC + told.len();
    let mut bytes = (length as u32).to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and port, which nobody looks at.
    bytes.extend([0; 8]);
    bytes.extend([command, 2, 0, 0]);
    bytes.extend(told);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_tells_when_and_what() {
        let mut body = vec![ALERT, 2, 0, 0];
        body.extend(attribute(TIMESTAMP, &7u64.to_ne_bytes()));
        body.extend(attribute(PAYLOAD, &[1, 2, 3]));
        let dropped = read(&body).expect("an alert");
        assert_eq!((dropped.at, dropped.frame), (7, vec![1, 2, 3]));
        body[0] = CONFIG;
        assert!(read(&body).is_none());
        assert!(read(&[]).is_none());
    }
}
