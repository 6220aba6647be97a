//! Options at the beginning of a script: `--NAME=VALUE`.

use super::cursor::is_word;
use super::{Parsed, Parser, Problem};
use crate::script::Options;

impl Parser<'_> {
    /// Reads an option and applies it.
    pub(super) fn option(&mut self, options: &mut Options) -> Parsed<()> {
        let (name, value) = self.option_text()?;
        match name.as_str() {
            "tolerance_usecs" => options.tolerance = number(&name, &value, 600_000_000)? * 1000,
            "tolerance_percent" => {
                let percent = value.parse::<f64>().ok().filter(|p| (0.0..=1000.0).contains(p));
                let wrong = || {
                    Problem::value(format!("--{name}"), format!("`{value}`"), "a percentage from 0 to 1000")
                };
                let percent = percent.ok_or_else(wrong)?;
                options.tolerance_permille = (percent * 10.0) as u64;
            }
            "tcp_ts_tick_usecs" => {
                let tick = number(&name, &value, 1_000_000)? * 1000;
                options.timestamp_tick = Some(tick).filter(|&tick| tick > 0);
            }
            "strict_segments" => options.strict_segments = value != "0",
            "mtu" => {
                let mtu = number(&name, &value, 65_535)?;
                if mtu < 68 {
                    return Err(Problem::value("--mtu", mtu.to_string(), "68 to 65535"));
                }
                options.mtu = mtu as u16;
            }
            "ip_version" => match &*value {
                // Sockets of IPv6 that carry packets of IPv4 differ in nothing that a script sees.
                "ipv4" | "ipv4-mapped-ipv6" => options.ipv6 = false,
                "ipv6" => options.ipv6 = true,
                _ => {
                    return Err(Problem::value(
                        "--ip_version",
                        format!("`{value}`"),
                        "ipv4, ipv4-mapped-ipv6 or ipv6",
                    ));
                }
            },
            "udp_encapsulation" => match &*value {
                // Each packet says whether it travels in UDP.
                "tcp" => {}
                _ => return Err(Problem::value("--udp_encapsulation", format!("`{value}`"), "tcp")),
            },
            // Only cookies depend on them.
            "local_ip" => options.local = value.parse().unwrap_or(options.local),
            "remote_ip" => options.remote = value.parse().unwrap_or(options.remote),
            "non_fatal" => {
                for kind in value.split(',').map(str::trim) {
                    match kind {
                        "packet" => options.packets_may_differ = true,
                        "syscall" => options.calls_may_differ = true,
                        _ => {
                            return Err(Problem::value(
                                "--non_fatal",
                                format!("`{kind}`"),
                                "packet or syscall",
                            ));
                        }
                    }
                }
            }
            "define" => match value.split_once('=') {
                Some((symbol, value)) if is_word(symbol) => {
                    // What the caller defines comes before what the script defines.
                    self.defines.entry(symbol.to_string()).or_insert(value.to_string());
                }
                _ => return Err(Problem::value("--define", format!("`{value}`"), "NAME=VALUE")),
            },
            _ => return without_effect(&name, &value),
        }
        Ok(())
    }

    /// The name and the value of an option.
    fn option_text(&mut self) -> Parsed<(String, String)> {
        let end = self.rest().find(char::is_whitespace).unwrap_or(self.rest().len());
        let mut word = self.rest()[..end].to_string();
        // A value may be quoted and hold blanks: --define=CMD=`sysctl -q a.b=1`.
        let quote = word.find(['`', '"']).map(|at| (at, word.as_bytes()[at] as char));
        if let Some((at, mark)) = quote {
            self.at += at;
            let inside = self.quoted(mark)?;
            word = format!("{}{mark}{inside}{mark}", &word[..at]);
        } else {
            self.at += end;
        }
        let (name, mut value) = match word[2..].split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (word[2..].to_string(), String::new()),
        };
        if name == "define" && value.is_empty() {
            self.space()?;
            let end = self.rest().find(char::is_whitespace).unwrap_or(self.rest().len());
            value = self.rest()[..end].to_string();
            self.at += end;
        }
        Ok((name, value))
    }
}

fn number(name: &str, value: &str, max: u64) -> Parsed<u64> {
    let number = value.parse::<u64>().ok().filter(|&number| number <= max);
    number.ok_or_else(|| {
        Problem::value(format!("--{name}"), format!("`{value}`"), format!("a whole number up to {max}"))
    })
}

/// Accepts options that change nothing here, and refuses all others.
fn without_effect(name: &str, value: &str) -> Parsed<()> {
    match name {
        "code_format" if value != "python" => {
            Err(Problem::refused(format!("--code_format={value}"), "only python is understood"))
        }
        // These say where the real tool's interface is and what it prints; nothing here depends on them.
        "bind_port" | "connect_port" | "gateway_ip" | "netmask_ip" | "code_command" | "code_format"
        | "code_sockopt" | "debug" | "verbose" | "is_anyip" | "send_omit_free" | "dry_run" => Ok(()),
        "init_scripts" | "so_filename" | "so_flags" => {
            Err(Problem::refused(format!("--{name}"), "no other programs are run"))
        }
        "wire_client" | "wire_server" | "wire_server_ip" | "wire_server_at" | "wire_server_port"
        | "wire_client_dev" | "wire_server_dev" | "speed" | "mss" | "tcp_ts_ecr_scaled" => {
            Err(Problem::NotSupported(format!("--{name}")))
        }
        _ => Err(Problem::refused(format!("--{name}"), "no such option")),
    }
}
