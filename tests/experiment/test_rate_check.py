"""A live path that carries more than the file declares is said."""

from typing import Any

from cwndlab import load
from cwndlab.experiment.scenario import rate_check
from experiments import dumbbell

HOST = "stack: linux-6.8, cc: cubic"


def said(carried_mbps: int) -> list[str]:
    text = dumbbell("x", duration="10s", a=HOST, bottleneck="rate: 100mbit, delay: 5ms")
    summary: Any = {"flows": [{"flow": "f1", "wire_bytes": carried_mbps * 10**6 * 10 // 8}]}
    scenario: Any = load(text).plan().runs[0].scenario
    assert list(rate_check.warnings(scenario, summary)) == [], "of a model"
    return list(rate_check.warnings({**scenario, "live": {}}, summary))


def test_a_path_faster_than_declared_is_said() -> None:
    (warning,) = said(1215)
    assert warning.startswith("bottleneck is declared with 100mbit and carried 1215 Mbit/s: ")
    assert said(100) == []
