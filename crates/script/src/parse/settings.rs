//! Commands in a script, of which only settings of sysctls are read; no command is run.

use super::{Parsed, Problem};
use crate::script::Setting;

/// Settings in a command that sets sysctls: `sysctl -q a.b=1`, several commands with `;`, `&&` or line ends between.
///
/// # Errors
/// What is no setting. Such a command is never run.
pub(super) fn settings(command: &str, line: u32) -> Parsed<Vec<Setting>> {
    let mut found = Vec::new();
    let mut restores = false;
    let refused = |what: &str| Problem::Command(what.to_string());
    for part in command.replace("&&", ";").split([';', '\n']) {
        let part = part.split(" #").next().unwrap_or("").trim();
        if part.is_empty() || part.starts_with('#') {
            continue;
        }
        let words = words(part).ok_or_else(|| refused(part))?;
        let program = words[0].rsplit('/').next().unwrap_or("");
        if program == "defaults.sh" && words.len() == 1 {
            let usual = |(name, value): &(&str, &str)| Setting {
                line,
                name: (*name).into(),
                value: (*value).into(),
                optional: true,
            };
            found.extend(DEFAULTS.iter().map(usual));
            continue;
        }
        if program.starts_with("sysctl_restore_") && words.len() == 1 {
            // Each script runs on a system of its own: nothing has to be restored.
            restores = true;
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
            found.push(Setting { line, name, value, optional: false });
        }
        if found.len() == before {
            return Err(refused(part));
        }
    }
    if found.is_empty() && !restores { Err(refused(command.trim())) } else { Ok(found) }
}

/// What `defaults.sh` sets: the settings with which scripts of the public collections for Linux begin.
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
