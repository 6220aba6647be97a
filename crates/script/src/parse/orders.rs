//! Commands in a script, out of which settings of sysctls and a few other orders are read; no command is run.

use super::{Parsed, Problem};
use crate::script::{Order, Setting};

/// Orders in a command: `sysctl -q a.b=1`, several commands with `;`, `&&`, `||` or line ends between.
///
/// # Errors
/// What is not understood. Such a command is never run.
pub(super) fn orders(command: &str, line: u32) -> Parsed<Vec<Order>> {
    let mut found = Vec::new();
    let mut understood = false;
    let refused = |what: &str| Problem::Command(what.to_string());
    let command = command.replace("\\\n", " ");
    for part in command.replace("&&", ";").replace("||", ";").split([';', '\n']) {
        let part = part.split(" #").next().unwrap_or("").trim();
        if part.is_empty() || part.starts_with('#') {
            continue;
        }
        let heard = QUIET.iter().fold(part.to_string(), |part, quiet| part.replace(quiet, ""));
        let words = words(&heard).ok_or_else(|| refused(part))?;
        if let Some(order) = about_states(&words, line).or_else(|| about_interface(&words, line)) {
            found.push(order);
            continue;
        }
        let program = words[0].rsplit('/').next().unwrap_or("");
        if program == "defaults.sh" && words.len() == 1 {
            let usual = |(name, value): &(&str, &str)| Setting {
                line,
                name: (*name).into(),
                value: (*value).into(),
                optional: true,
            };
            found.extend(DEFAULTS.iter().map(usual).map(Order::Set));
            continue;
        }
        if program == "ip" && words[1..] == ["tcp_metrics", "flush", "all"] {
            found.push(Order::Forget { line });
            continue;
        }
        if without_effect(program, &words[1..]) {
            understood = true;
            continue;
        }
        if let ("echo", [_, value, _, file]) = (program, words.as_slice())
            && let Some(setting) = module_parameter(value, file, line)
        {
            found.push(Order::Set(setting));
            continue;
        }
        if program != "sysctl" && program != "set_sysctls.py" {
            return Err(refused(part));
        }
        let before = found.len();
        for word in &words[1..] {
            if matches!(word.as_str(), "-q" | "-w" | "-e" | "-qw" | "-wq") {
                continue;
            }
            let Some((path, value)) = word.split_once('=') else { return Err(refused(part)) };
            let name = path.strip_prefix("/proc/sys/").unwrap_or(path).replace('/', ".");
            let name_ok = name.split('.').all(|piece| {
                !piece.is_empty()
                    && piece.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            });
            let value_ok = !value.trim().is_empty()
                && value.bytes().all(|b| b.is_ascii_alphanumeric() || b" \t_-.,".contains(&b));
            if !name.contains('.') || !name_ok || !value_ok {
                return Err(refused(part));
            }
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(Order::Set(Setting { line, name, value, optional: false }));
        }
        if found.len() == before {
            return Err(refused(part));
        }
    }
    if found.is_empty() && !understood { Err(refused(command.trim())) } else { Ok(found) }
}

/// Redirections of a command's output, which are of no interest.
const QUIET: &[&str] = &["2>&1", "&> /dev/null", "2> /dev/null", "2>/dev/null", "> /dev/null", ">/dev/null"];

/// Whether a command changes nothing here: each script runs on a system of its own, with nothing to restore.
fn without_effect(program: &str, arguments: &[String]) -> bool {
    program.starts_with("sysctl_restore_") && arguments.is_empty()
}

/// `echo VALUE > /sys/module/MODULE/parameters/NAME`, as a setting of that file's name.
fn module_parameter(value: &str, file: &str, line: u32) -> Option<Setting> {
    let (module, name) = file.strip_prefix("/sys/module/")?.split_once("/parameters/")?;
    let plain = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let whole = [value, module, name].into_iter().all(plain);
    whole.then(|| Setting { line, name: format!("{module}.{name}"), value: value.into(), optional: false })
}

/// `tc qdisc replace dev DEVICE root fq`, `tc qdisc delete dev DEVICE root`, `ethtool -K DEVICE tso off gso off`.
fn about_interface(words: &[String], line: u32) -> Option<Order> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tc", "qdisc", "add" | "replace", "dev", _, "root", "fq"] => {
            Some(Order::Queue { line, paces: true })
        }
        ["tc", "qdisc", "del" | "delete", "dev", _, "root"] => Some(Order::Queue { line, paces: false }),
        ["ethtool", "-K", _, "tso", tso @ ("on" | "off"), "gso", gso] if tso == gso => {
            Some(Order::Offload { line, on: *tso == "on" })
        }
        _ => None,
    }
}

/// `sockstat … | grep -c STATE | grep N`, `tcpdrop -s STATE` and `nstat | grep NAME`.
fn about_states(words: &[String], line: u32) -> Option<Order> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["nstat"] => Some(Order::Counted { line, name: None }),
        ["nstat", "|", "grep", name] => Some(Order::Counted { line, name: Some((*name).into()) }),
        ["tcpdrop", "-s", state] => Some(Order::Drop { line, state: (*state).into() }),
        ["sockstat", .., "|", "grep", "-c", state, "|", "grep", count] => {
            Some(Order::CountStates { line, state: (*state).into(), count: count.parse().ok()? })
        }
        _ => None,
    }
}

/// Settings of `defaults.sh`, with which scripts of the public collections for Linux begin.
const DEFAULTS: &[(&str, &str)] = &[
    ("net.ipv4.tcp_rmem", "4096 540000 15728640"),
    ("net.ipv4.tcp_wmem", "4096 262144 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_syn_retries", "5"),
    ("net.ipv4.tcp_synack_retries", "5"),
    ("net.ipv4.tcp_frto", "2"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_fack", "0"),
    ("net.ipv4.tcp_reordering", "3"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_early_retrans", "4"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_tso_win_divisor", "3"),
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_pacing_ss_ratio", "200"),
    ("net.ipv4.tcp_pacing_ca_ratio", "120"),
    ("net.ipv4.tcp_fastopen", "0x70403"),
    ("net.ipv4.tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4"),
];

/// Words of a command; quotes hold blanks together. None: a quote without an end, or no word.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    (quote.is_none() && !words.is_empty()).then_some(words)
}
