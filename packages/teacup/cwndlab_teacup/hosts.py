"""Hosts of TEACUP configurations: their systems, congestion controls and sysctls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cwndlab.errors import shown, unknown
from cwndlab.experiment.catalogue import catalogue
from cwndlab_teacup.reader import Reader, safe
from cwndlab_teacup.sweep import Leaves
from cwndlab_teacup.values import as_text, refuse


@dataclass
class Hosts(Reader):
    """TPCONF_hosts, and what is set of them."""

    def _host(self, host: str, variables: Mapping[str, Any]) -> Leaves:
        name = safe(host)
        stack = self._stack(host)
        algorithm = self._algorithm(host, stack, variables)
        leaves: Leaves = {f"hosts.{name}.stack": stack, f"hosts.{name}.cc": algorithm}
        ecn = as_text(variables.get("V_ecn", "0"))
        if "V_ecn" in variables:
            leaves[f"hosts.{name}.ecn"] = "on" if ecn == "1" else "off"
        params = self.source.get("TPCONF_host_TCP_algo_params", {})
        wanted = params.get(host, {}) if isinstance(params, dict) else {}
        settings = {}
        place = self.source.place("TPCONF_host_TCP_algo_params")
        for entry in wanted.get(algorithm) or wanted.get(as_text(variables.get("V_tcp_cc_algo", ""))) or []:
            key, equals, value = str(entry).partition("=")
            if not equals:
                refuse(place, f"{shown(str(entry))}: expected SYSCTL = VALUE")
            _, found = self._arguments(f"value={value.strip()}", variables, place)
            settings[key.strip()] = as_text(found.get("value"))
        known = catalogue().stacks[stack].settable() if stack in catalogue().stacks else []
        for key in [key for key in settings if key not in known]:
            self._say("dropped", place, f"{key}: no model here has this sysctl ({stack})")
            del settings[key]
        if any(wanted.values()):
            leaves[f"hosts.{name}.sysctl"] = settings
            self._say("mapped", place, f"TPCONF_host_TCP_algo_params: hosts.{name}.sysctl")
        return leaves

    def _stack(self, host: str) -> str:
        systems = self.source.get("TPCONF_host_os", {})
        place = self.source.place("TPCONF_host_os")
        system = systems.get(host) if isinstance(systems, dict) else None
        if system is None:
            stack = self.stack or "freebsd-9.2"
            where = self.source.place("TPCONF_hosts")
            self._say(
                "approximated",
                where,
                f"host {host}: the configuration does not say its system; {stack} (--stack)",
            )
            return stack
        if system == "Linux":
            kernel = str(self.source.get("TPCONF_linux_kern_hosts", ""))
            version = re.match(r"(\d+)\.(\d+)", kernel)
            stack = "linux-3.9" if not version or int(version[1]) < 5 else "linux-6.8"
            if not kernel.startswith(stack.removeprefix("linux-")):
                self._say(
                    "approximated", place, f"host {host}: Linux {kernel or 'of any version'} as {stack}"
                )
            else:
                self._say("mapped", place, f"host {host}: {stack}")
            return stack
        stacks = {"FreeBSD": "freebsd-9.2", "CYGWIN": "windows-7"}
        if system not in stacks:
            self._say("approximated", place, f"host {host}: {system} as freebsd-9.2")
            return "freebsd-9.2"
        self._say("approximated", place, f"host {host}: {system} of any version as {stacks[system]}")
        return stacks[system]

    def _algorithm(self, host: str, stack: str, variables: Mapping[str, Any]) -> str:
        name = as_text(variables.get("V_tcp_cc_algo", "default"))
        place = self.source.place("TPCONF_TCP_algos")
        if number := re.fullmatch("host([0-9]{1,4})", name):
            algorithms = self.source.get("TPCONF_host_TCP_algos", {}).get(host) or ["default"]
            chosen = int(number[1])
            name = as_text(algorithms[chosen] if chosen < len(algorithms) else algorithms[0])
        known = catalogue().stacks.get(stack)
        if known is None:
            raise unknown("stack", stack, catalogue().stacks)
        if name == "default":
            return known.default_cc
        if name not in known.cc and name not in known.cc_alias:
            self._say(
                "dropped",
                place,
                f"{name} on {stack}: no model here; the file has it, and running it is refused",
            )
        return name
