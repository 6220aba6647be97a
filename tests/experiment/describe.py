"""A Scenario in a few lines that a reviewer can read, for snapshots."""

from typing import Any


def describe(scenario: dict[str, Any]) -> str:
    """Return a line per host, node, link, flow and change; links with rate, delay (ns), queue and flags."""
    lines = [f"jitter {scenario['start_jitter_ns']}"]
    for host in scenario["hosts"]:
        lines.append(f"host {host['name']} {host['stack']} mss {host['mss']} txq {host['nic']['tx_queue']}")
    if scenario["nodes"]:
        lines.append("nodes " + " ".join(node["name"] for node in scenario["nodes"]))
    lines += [_link(link) for link in scenario["links"]]
    for flow in scenario["flows"]:
        window = f"{flow['start_ns']}..{'' if flow['stop_ns'] is None else flow['stop_ns']}"
        buffers = f"{flow['sndbuf']}/{flow['rcvbuf']}"
        lines.append(f"flow {flow['name']} {flow['from']}->{flow['to']} {flow['cc']} {window} {buffers}")
    for change in scenario["schedule"]:
        what = " ".join(f"{key}={value}" for key, value in change.items() if value is not None)
        lines.append(f"change {what}")
    return "\n".join(lines) + "\n"


def _link(link: dict[str, Any]) -> str:
    queue = "/".join(str(value) for value in link["queue"].values())
    words = [
        f"link {link['name']} {link['from']}->{link['to']}",
        str(link["rate_bps"]),
        str(link["delay_ns"]),
        queue,
    ]
    words += [f"{key} {link[key]}" for key in ("loss",) if link[key]]
    words += [
        f"{key} {link[key]}" for key, default in (("mtu", 1500), ("overhead", 14)) if link[key] != default
    ]
    words += [key for key in ("observe", "bottleneck") if link[key]]
    return " ".join(words)
