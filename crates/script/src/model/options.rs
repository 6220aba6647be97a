//! Options of the model's sockets.

use tcp::Endpoint;
use tcp::fast_open::Style;
use tcp::stack::Family;

use super::{Connection, Kind, Model};
use crate::errno::Errno;
use crate::message::OPT_ID;
use crate::script::{OptionValue, SocketOption, bytes_of};

/// Largest value of an option that is a number without sign.
const MOST: i64 = 0xffff_ffff;

impl Model {
    pub(super) fn set_option(
        &mut self,
        fd: i32,
        option: SocketOption,
        value: OptionValue,
    ) -> Result<i64, Errno> {
        if option == SocketOption::FastOpenKey {
            let OptionValue::Text(key) = &value else { return Err(Errno::EINVAL) };
            let keys = super::fast_open::keys(&bytes_of(key)).ok_or(Errno::EINVAL)?;
            self.socket(fd)?.settings.fast_open_keys = Some(keys);
            return Ok(0);
        }
        let fast_open = self.profile.spec().fast_open;
        let linux = self.profile.spec().family == Family::Linux;
        let cc = match &value {
            OptionValue::Text(name) => self.congestion_control(name),
            _ => None,
        };
        let socket = self.sockets.get_mut(&fd).ok_or(Errno::EBADF)?;
        let fresh = !matches!(socket.kind, Kind::Connected(_));
        let settings = &mut socket.settings;
        let mut lower_mss = None;
        match (option, value) {
            (SocketOption::SendBuffer, OptionValue::Number(bytes)) => {
                settings.socket.sndbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::ReceiveBuffer, OptionValue::Number(bytes)) => {
                settings.socket.rcvbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::MaxSegment, OptionValue::Number(mss)) if fresh && (88..=65_495).contains(&mss) => {
                settings.mss = Some(mss as u16);
            }
            (SocketOption::Congestion, OptionValue::Text(_)) if fresh => {
                settings.cc = Some(cc.ok_or(Errno::ENOENT)?);
            }
            (SocketOption::RemoteUdpPort, OptionValue::Number(port)) => {
                let may = matches!(socket.kind, Kind::Fresh);
                settings.udp_port = self.tunnel.checked(self.profile.spec(), may, port)?;
            }
            (SocketOption::UseMinMtu, OptionValue::Number(on)) => settings.min_mtu = on != 0,
            (SocketOption::FunctionBlock, OptionValue::Text(name)) => {
                has_stack(self.profile.spec().family, &name)?;
            }
            (SocketOption::MaxSegment, OptionValue::Number(mss)) if !fresh => lower_mss = Some(mss),
            (SocketOption::Linger, OptionValue::Linger(on, seconds)) => settings.linger = Some((on, seconds)),
            (SocketOption::NoDelay, OptionValue::Number(on)) => settings.no_delay = on != 0,
            (SocketOption::ReuseAddr, OptionValue::Number(on)) => settings.reuse[0] = on != 0,
            (SocketOption::ReusePort, OptionValue::Number(on)) => settings.reuse[1] = on != 0,
            (option, OptionValue::Number(value)) if option.is_keep_alive() => {
                settings.keep_alive.set(self.profile.spec().family, option, value)?;
            }
            (SocketOption::FastOpen, OptionValue::Number(value)) if fresh && value >= 0 => {
                match fast_open.style {
                    Style::None => return Err(Errno::ENOPROTOOPT),
                    Style::FreeBsd if !fast_open.client && !fast_open.server => return Err(Errno::EPERM),
                    _ => settings.fast_open = value,
                }
            }
            (SocketOption::FastOpenConnect, OptionValue::Number(on))
                if fresh && fast_open.style == Style::Linux =>
            {
                if !fast_open.client {
                    return Err(Errno::EOPNOTSUPP);
                }
                settings.fast_open_connect = on != 0;
            }
            (SocketOption::SynCount, OptionValue::Number(count)) if (1..=127).contains(&count) => {
                settings.syn_retries = Some(count as usize);
            }
            // No router is modelled that would ask for smaller packets, or look at the type of service or the mark.
            (
                SocketOption::MtuDiscovery | SocketOption::TypeOfService | SocketOption::Mark,
                OptionValue::Number(_),
            ) => {}
            (option, OptionValue::Number(value)) if linux => settings.set_of_linux(option, value)?,
            _ => return Err(Errno::EINVAL),
        }
        if let Kind::Connected(index) = socket.kind {
            self.connections[index].settings = self.sockets[&fd].settings.clone();
            return self.apply_option(index, option, lower_mss);
        }
        Ok(0)
    }

    /// Hands an open connection an option that was set on its socket, of TCP_MAXSEG the lower value.
    fn apply_option(
        &mut self,
        index: usize,
        option: SocketOption,
        lower_mss: Option<i64>,
    ) -> Result<i64, Errno> {
        self.apply(index);
        if let Some(mss) = lower_mss {
            let now = self.now;
            let lowered = self.connections[index].endpoint.lower_mss(now, mss);
            return if lowered { Ok(0) } else { Err(Errno::EINVAL) };
        }
        if option.is_keep_alive() {
            self.apply_keep_alive(index);
        }
        let connection = &mut self.connections[index];
        if option == SocketOption::SynCount
            && let Some(retries) = connection.settings.syn_retries
        {
            connection.endpoint.set_syn_retries(retries);
        }
        if option == SocketOption::NoDelay
            && connection.settings.no_delay
            && self.profile.spec().family == Family::Linux
        {
            connection.endpoint.push_now();
        }
        if option == SocketOption::Timestamping && connection.settings.timestamping & OPT_ID != 0 {
            let acknowledged = connection.acknowledged();
            connection.reports.count_from(acknowledged);
        }
        if option == SocketOption::ReceiveBuffer {
            let settings = &self.connections[index].settings.socket;
            let (_, (bytes, _)) = self.profile.buffers(settings);
            self.connections[index].endpoint.set_receive_buffer(bytes);
        }
        Ok(0)
    }

    /// Hands a connection the options that work while it is open.
    pub(super) fn apply(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Connection { endpoint, settings, .. } = connection;
        endpoint.set_no_delay(settings.no_delay);
        settings.apply_of_linux(endpoint);
        if connection.settings.socket.sndbuf.is_some() {
            let ((bytes, _), _) = self.profile.buffers(&connection.settings.socket);
            connection.endpoint.set_send_buffer(bytes);
        }
    }

    pub(super) fn get_option(&mut self, fd: i32, option: SocketOption) -> Result<OptionValue, Errno> {
        let cc = self.cc.clone();
        let mss = self.mss;
        let socket = self.sockets.get(&fd).ok_or(Errno::EBADF)?;
        let settings = &socket.settings;
        let number = match option {
            SocketOption::Congestion => {
                return Ok(OptionValue::Text(settings.cc.clone().unwrap_or(cc)));
            }
            SocketOption::Linger => {
                let (on, seconds) = settings.linger.unwrap_or((false, 0));
                return Ok(OptionValue::Linger(on, seconds));
            }
            SocketOption::NoDelay => i64::from(settings.no_delay),
            SocketOption::FastOpen => settings.fast_open,
            SocketOption::FastOpenConnect => i64::from(settings.fast_open_connect),
            SocketOption::ReuseAddr => i64::from(settings.reuse[0]),
            SocketOption::ReusePort => i64::from(settings.reuse[1]),
            SocketOption::RemoteUdpPort if self.tunnel.known_to(self.profile.spec()) => {
                i64::from(settings.udp_port)
            }
            _ if option.is_keep_alive() => {
                return settings.keep_alive.get(self.profile.spec(), option).map(OptionValue::Number);
            }
            SocketOption::Cork => i64::from(settings.cork),
            SocketOption::UserTimeout => i64::from(settings.user_timeout_ms),
            SocketOption::NotSentLowWater => i64::from(settings.notsent_lowat),
            SocketOption::ZeroCopy => i64::from(settings.zero_copy),
            SocketOption::Timestamping => settings.timestamping,
            SocketOption::Unread => i64::from(settings.tells_unread),
            SocketOption::MaxSegment => match socket.kind {
                Kind::Connected(index) => i64::from(self.connections[index].endpoint.payload()),
                _ => i64::from(settings.mss.unwrap_or(mss)),
            },
            SocketOption::ReceiveBuffer => match socket.kind {
                Kind::Connected(index) => self.connections[index].endpoint.receive_buffer() as i64,
                _ => self.profile.buffers(&settings.socket).1.0 as i64,
            },
            SocketOption::SendBuffer => match socket.kind {
                Kind::Connected(index) => {
                    let now = self.now;
                    self.connections[index].endpoint.info(now).send_buffer as i64
                }
                _ => self.profile.buffers(&settings.socket).0.0 as i64,
            },
            SocketOption::Error => match socket.kind {
                Kind::Connected(index) => {
                    let connection = &mut self.connections[index];
                    // Linux tells of an error that has not ended the connection, too, and forgets it.
                    let soft = self.profile.spec().family == Family::Linux;
                    let take_soft = |c: &mut Connection| c.endpoint.take_soft_error().map(super::errno_of);
                    let errno =
                        connection.take_failure().or_else(|| if soft { take_soft(connection) } else { None });
                    errno.map_or(0, |errno| i64::from(errno.0))
                }
                _ => 0,
            },
            _ => return Err(Errno::EINVAL),
        };
        Ok(OptionValue::Number(number))
    }
}

/// Whether the system has the stack that a socket of FreeBSD asks for (TCP_FUNCTION_BLK).
fn has_stack(family: Family, name: &str) -> Result<(), Errno> {
    let stack = match family {
        Family::FreeBsd => "freebsd",
        Family::FreeBsdRack => "rack",
        _ => return Err(Errno::ENOPROTOOPT),
    };
    if name == stack { Ok(()) } else { Err(Errno::ENOENT) }
}

impl super::Settings {
    /// Sets an option that only Linux has.
    fn set_of_linux(&mut self, option: SocketOption, value: i64) -> Result<(), Errno> {
        let natural = u32::try_from(value & MOST);
        match option {
            SocketOption::Cork => self.cork = value != 0,
            SocketOption::NotSentLowWater => self.notsent_lowat = natural.map_err(|_| Errno::EINVAL)?,
            SocketOption::UserTimeout => {
                self.user_timeout_ms = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
            }
            SocketOption::ZeroCopy if value == 0 || value == 1 => self.zero_copy = value == 1,
            SocketOption::Timestamping => self.timestamping = value,
            SocketOption::Unread if value == 0 || value == 1 => self.tells_unread = value == 1,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Hands a connection the options that only Linux has.
    fn apply_of_linux(&self, endpoint: &mut Endpoint) {
        endpoint.set_cork(self.cork);
        endpoint.set_notsent_lowat(self.notsent_lowat);
        endpoint.set_user_timeout(u64::from(self.user_timeout_ms) * 1_000_000);
    }
}
