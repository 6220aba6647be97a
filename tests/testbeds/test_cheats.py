"""A receiver that cheats, from the experiment file to the packets; and where it is refused."""

import pytest
import short_runs

from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.testbeds import loader

PATH = """\
experiment: cheats
duration: 3s
hosts:
  a: {stack: linux-6.18, cc: reno}
  b: {stack: linux-6.18}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 20mbit, delay: 20ms, queue: {kind: pfifo, limit: 20000p}}
flows: [{name: f, from: a, to: b}]
start_jitter: 0s
"""


def acks(cheats: str | None) -> tuple[int, float]:
    """Packets that are no data segments, and how many there are for each segment that was delivered."""
    run = short_runs.run(PATH, **({"hosts__b__cheats": cheats} if cheats else {}))
    found = run.summary["packets"] - run.flow("f")["segments_sent"]
    return found, found * 1448 / run.flow("f")["goodput_bytes"]


@pytest.mark.parametrize(("cheats", "times"), [("{ack_division: 4}", 4), ("{duplicate_acks: 2}", 3)])
def test_so_many_acknowledgements_leave_for_each(cheats: str, times: int) -> None:
    assert acks(cheats)[1] / acks(None)[1] == pytest.approx(times, rel=0.2)


def test_optimistic_acknowledgements_leave_at_their_rate() -> None:
    # One for each 1448 bytes, from the first data on.
    assert acks("{optimistic_acks: 10mbit}")[0] == pytest.approx(10e6 * 3 / 8 / 1448, rel=0.05)


@pytest.mark.parametrize(
    ("cheats", "said"),
    [
        ("{ack_division: 1}", "found '1'; expected a whole number from 2 to 10000"),
        ("{ack_division: 4, duplicate_acks: 2}", "ack_division and duplicate_acks; expected exactly one of"),
        ("{}", "found nothing; expected exactly one of ack_division, duplicate_acks, optimistic_acks"),
        ("{optimistic_acks: 5}", "rate"),
    ],
)
def test_a_cheat_that_is_none_is_refused_in_a_line(cheats: str, said: str) -> None:
    with pytest.raises(ExperimentError) as error:
        short_runs.run(PATH, hosts__b__cheats=cheats)
    [line] = str(error.value).splitlines()
    assert said in line and "hosts.b.cheats" in line


def test_a_guest_does_not_cheat() -> None:
    with pytest.raises(ExperimentError, match=r"hosts\.b\.cheats: not for smoltcp"):
        short_runs.run(PATH, hosts__b="{stack: smoltcp, cheats: {ack_division: 4}}")


@pytest.mark.parametrize("testbed", ["netns", "ssh", "kernel"])
def test_other_testbeds_refuse_it(testbed: str) -> None:
    text = PATH.replace("b: {stack: linux-6.18}", "b: {stack: linux-6.18, cheats: {ack_division: 4}}")
    refused = list(loader.support(testbed).refused(load(text).spec))
    assert ("hosts", "b", "cheats") in refused
