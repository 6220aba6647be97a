"""What a kernel has and lacks, found out and put into words, on kernels that are not this one."""

from pathlib import Path

import pytest

from cwndlab.testbeds.netns import machine

AVAILABLE = "net.ipv4.tcp_available_congestion_control"
CHOSEN = "net.ipv4.tcp_congestion_control"


class Modular:
    """Stands for the sysctls of a kernel whose other congestion controls are modules not loaded yet."""

    def __init__(self, chosen: Path, modules: set[str], restricted: set[str]) -> None:
        self.listed, self.asked = ["reno", "cubic"], list[str]()
        self._chosen, self._modules, self._restricted = chosen, modules, restricted

    def path(self, name: str) -> "Sysctl":
        return Sysctl(self, name)

    def read(self, name: str) -> str:
        return " ".join(self.listed if name == AVAILABLE else ["reno", "cubic"]) + "\n"

    def choose(self, cc: str) -> None:
        self.asked.append(cc)
        if cc not in self._modules:
            raise FileNotFoundError(2, "No such file or directory")
        self.listed.append(cc)
        if cc in self._restricted:
            raise PermissionError(1, "Operation not permitted")
        self._chosen.write_text(cc, encoding="ascii")


class Sysctl:
    """One of them, as a file."""

    def __init__(self, kernel: Modular, name: str) -> None:
        self._kernel, self._name = kernel, name

    def read_text(self) -> str:
        return self._kernel.read(self._name)

    def write_text(self, text: str, encoding: str) -> None:
        assert (self._name, encoding) == (CHOSEN, "ascii")
        self._kernel.choose(text)


def test_congestion_controls_that_are_modules_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "net/ipv4/tcp_congestion_control"
    chosen.parent.mkdir(parents=True)
    chosen.write_text("cubic\n", encoding="ascii")
    modular = Modular(chosen, modules={"bbr", "dctcp"}, restricted={"bbr"})
    monkeypatch.setattr(machine, "SYSCTLS", tmp_path)
    monkeypatch.setattr(machine, "path", modular.path)
    found = machine._kernel()
    assert {"reno", "cubic", "bbr"} <= set(found.congestion_controls)
    assert not {"reno", "cubic"} & set(modular.asked), "what is there needs no module"
    assert found.sysctls[CHOSEN] == "cubic", "the default is the kernel's own, not the last one tried"
