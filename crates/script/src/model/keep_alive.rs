//! Keep-alive as sockets set it.

use tcp::stack::{Family, KeepAlive, StackSpec};

use super::Model;
use crate::errno::Errno;
use crate::script::SocketOption;

/// A second, in ns.
const SECOND: u64 = 1_000_000_000;

/// Options of a socket; None: the host's sysctl.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeepAliveOptions {
    on: bool,
    idle: Option<i64>,
    interval: Option<i64>,
    count: Option<i64>,
    attempt: Option<i64>,
}

impl KeepAliveOptions {
    /// Sets an option; times are seconds.
    pub(super) fn set(&mut self, family: Family, option: SocketOption, value: i64) -> Result<(), Errno> {
        let linux = family == Family::Linux;
        // Linux's MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL and MAX_TCP_KEEPCNT; FreeBSD takes what its ticks can count.
        let most = match option {
            SocketOption::KeepCount if linux => 127,
            _ if linux => 32_767,
            _ => i64::from(u32::MAX) / 1000,
        };
        let field = match option {
            SocketOption::KeepIdle => &mut self.idle,
            SocketOption::KeepInterval => &mut self.interval,
            SocketOption::KeepCount => &mut self.count,
            SocketOption::KeepInit if !linux => &mut self.attempt,
            SocketOption::KeepAlive => {
                self.on = value != 0;
                return Ok(());
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        if value < i64::from(linux) || value > most {
            return Err(Errno::EINVAL);
        }
        // FreeBSD takes 0 for the sysctl.
        *field = Some(value).filter(|&value| value > 0);
        Ok(())
    }

    /// The value of an option; times are seconds.
    pub(super) fn get(self, spec: &StackSpec, option: SocketOption) -> Result<i64, Errno> {
        let times = self.times(spec);
        let seconds = |time: u64| (time / SECOND) as i64;
        match option {
            SocketOption::KeepAlive => Ok(i64::from(self.on)),
            SocketOption::KeepIdle => Ok(seconds(times.idle)),
            SocketOption::KeepInterval => Ok(seconds(times.interval)),
            SocketOption::KeepCount => Ok(i64::from(times.count)),
            _ => times.attempt.map(seconds).ok_or(Errno::ENOPROTOOPT),
        }
    }

    /// Times that a connection goes by.
    fn times(self, spec: &StackSpec) -> KeepAlive {
        let host = spec.keep_alive;
        let time = |own: Option<i64>, host: u64| own.map_or(host, |seconds| seconds as u64 * SECOND);
        KeepAlive {
            always: host.always,
            idle: time(self.idle, host.idle),
            interval: time(self.interval, host.interval),
            count: self.count.map_or(host.count, |count| count as u32),
            attempt: host.attempt.map(|attempt| time(self.attempt, attempt)),
        }
    }
}

impl Model {
    /// Hands a connection what its socket and the host's sysctls say of keep-alive.
    pub(super) fn apply_keep_alive(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let own = connection.settings.keep_alive;
        let times = own.times(self.profile.spec());
        connection.endpoint.set_keep_alive(self.now, times, times.always || own.on);
    }
}
