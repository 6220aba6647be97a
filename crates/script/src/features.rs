//! Features that a script needs and nothing here has: found by its words, so that a collection's scripts can be
//! sorted before any runs.

use std::collections::BTreeSet;

use crate::parse::CALLS;
use crate::script::SOCKET_OPTIONS;

/// Systems that have a feature which others lack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HadBy {
    None,
    Models,
}

/// Something that scripts speak of and that is missing.
struct Feature {
    name: &'static str,
    /// Systems that have the feature.
    had_by: HadBy,
    /// Words of which any needs the feature.
    words: &'static [&'static str],
    /// Phrases of which any needs the feature; blanks count as one.
    phrases: &'static [&'static str],
}

const fn nowhere(
    name: &'static str,
    words: &'static [&'static str],
    phrases: &'static [&'static str],
) -> Feature {
    Feature { name, had_by: HadBy::None, words, phrases }
}

const fn models_only(
    name: &'static str,
    words: &'static [&'static str],
    phrases: &'static [&'static str],
) -> Feature {
    Feature { name, had_by: HadBy::Models, words, phrases }
}

const FEATURES: &[Feature] = &[
    nowhere("settings of IPv6", &["IPV6_UNICAST_HOPS", "IPV6_TCLASS", "SOL_IPV6"], &["ip -6 "]),
    models_only("epoll", &["epoll_create", "epoll_ctl", "epoll_wait"], &[]),
    models_only("zero-copy", &["SO_ZEROCOPY", "MSG_ZEROCOPY"], &[]),
    models_only("timestamping calls", &["SO_TIMESTAMPING", "SCM_TIMESTAMPING"], &[]),
    models_only(
        "UDP encapsulation",
        &["udp", "udp_encapsulation", "TCP_REMOTE_UDP_ENCAPS_PORT", "udp_tunneling_port"],
        &[],
    ),
    nowhere("MD5 signatures", &["md5", "TCP_MD5SIG", "tcp_md5_secret", "setkey"], &[]),
    models_only("messages with headers", &["sendmsg", "recvmsg"], &[]),
    nowhere("splice and sendfile", &["splice", "sendfile"], &[" pipe("]),
    models_only("TCP_INQ", &["TCP_INQ", "TCP_CM_INQ"], &[]),
    nowhere("urgent data", &["urg", "MSG_OOB", "SO_OOBINLINE"], &[]),
    nowhere("a queue at the interface", &[], &["root pfifo"]),
    nowhere("settings of the interface", &[], &["ip route", "--mss"]),
    models_only("a queue or offloads of the interface", &["ethtool"], &["tc qdisc"]),
    models_only("reading counters", &["nstat"], &[]),
    nowhere("reading /proc", &[], &["/proc/net/"]),
    nowhere("TTL and type of service in packets", &["IP_TTL", "ttl", "tos"], &[]),
    models_only("choosing a TCP stack by socket", &["TCP_FUNCTION_BLK"], &[]),
    nowhere("TCP_NOOPT", &["TCP_NOOPT"], &[]),
];

/// Names of what `text` needs and the system lacks; `kernel` says whether that is this host's kernel, else a model.
/// Calls and socket options that the language here does not have are named as such.
#[must_use]
pub fn missing(text: &str, kernel: bool) -> Vec<String> {
    let text = without_comments(text);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words: BTreeSet<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found: Vec<String> = FEATURES
        .iter()
        .filter(|feature| kernel || feature.had_by != HadBy::Models)
        .filter(|feature| {
            feature.words.iter().any(|word| words.contains(word))
                || feature.phrases.iter().any(|phrase| flat.contains(phrase))
        })
        .map(|feature| feature.name.to_string())
        .collect();
    if found.is_empty() {
        found.extend(unknown_calls(&text));
    }
    found
}

/// Calls and socket options of the events that the language here has no name for.
fn unknown_calls(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        // `TIME call(arguments…`, `TIME...TIME call(arguments…`
        let mut pieces = line.trim().splitn(2, char::is_whitespace);
        let time = pieces.next().unwrap_or("");
        let rest = pieces.next().unwrap_or("").trim();
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let timed = time.starts_with(|c: char| c == '+' || c == '.' || c.is_ascii_digit());
        if !timed
            || length == 0
            || !rest.starts_with(|c: char| c.is_ascii_alphabetic())
            || !rest[length..].starts_with('(')
        {
            continue;
        }
        let call = &rest[..length];
        if !CALLS.contains(&call) {
            found.insert(format!("the call {call}"));
        } else if call.ends_with("etsockopt") {
            let arguments: Vec<&str> = rest[length + 1..].split(',').map(str::trim).collect();
            let name = arguments.get(2).copied().unwrap_or("");
            if !SOCKET_OPTIONS.iter().any(|(_, known, _)| *known == name) {
                found.insert(format!("the socket option {name}"));
            }
        }
    }
    found
}

/// The text with comments left out.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        let line = rest[..at].rfind('\n').map_or(0, |start| start + 1);
        if rest[line..at].contains("//") {
            let end = rest[at..].find('\n').map_or(rest.len(), |end| at + end);
            kept.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        kept.push_str(&rest[..at]);
        rest = rest[at..].find("*/").map_or("", |end| &rest[at + end + 2..]);
    }
    kept.push_str(rest);
    kept.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn features_are_found_by_their_words() {
        let found = |text: &str| missing(text, false);
        assert_eq!(found("0 < S 0:0(0) win 1 <FO 1234,nop,nop>"), [""; 0]);
        assert_eq!(
            found("+0 setsockopt(3, SOL_IPV6, 1, [0], 4) = 0\n+0 splice(3, NULL, 6, NULL, 1, 0) = 1"),
            ["settings of IPv6", "splice and sendfile"]
        );
        assert_eq!(found("`tc  qdisc\treplace dev tun0 root  pfifo limit 0`"), ["a queue at the interface"]);
        assert_eq!(found("// ipv6\n/* splice\n */ +0 close(3) = 0 // urg"), [""; 0]);
        assert_eq!(found("+0 setsockopt(3, SOL_SOCKET, SO_KEEPALIVE, [1], 4) = 0"), [""; 0]);
    }

    #[test]
    fn models_have_what_is_not_asked_of_a_kernel() {
        let text = "+0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_flags=0}, 0) = 0";
        assert_eq!(missing(text, false), [""; 0]);
        assert_eq!(missing(text, true), ["messages with headers"]);
    }

    #[test]
    fn unknown_calls_and_options_are_named() {
        assert_eq!(missing("+0 mmap(3) = 0", false), ["the call mmap"]);
        let text = "+0...0.1 getsockopt(4, SOL_TCP, TCP_ULP, [1], [4]) = 0";
        assert_eq!(missing(text, false), ["the socket option TCP_ULP"]);
    }
}
