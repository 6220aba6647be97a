"""The engine, written in Rust (crates/python); docs/architecture.md says what crosses."""

from typing import final

@final
class RecordBatch:
    """Rows of one table; `pyarrow.record_batch()` and `polars.from_arrow()` take it without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __len__(self) -> int: ...

@final
class Simulation:
    """One run of a Scenario (JSON); raises ValueError, with one line, if the engine refuses it."""

    def __new__(cls, scenario: str, run_id: int) -> Simulation: ...
    @property
    def now_ns(self) -> int:
        """Virtual time reached, nanoseconds."""

    def advance(self, events: int) -> bool:
        """Run at most so many events, with the GIL released. True when the run is over."""

    def take(self) -> list[tuple[str, RecordBatch]]:
        """Record batches finished since the last call: (table, rows)."""

    def captures(self) -> list[tuple[str, bytes]]:
        """Bytes of captures finished since the last call: (capture point, bytes to append to its file)."""

    def summary(self) -> str:
        """JSON: counters and distributions of each flow and link over the measurement window."""

def catalogue() -> str:
    """JSON: every stack, congestion control, sysctl, queue kind, loss kind and app the engine knows."""

def check(scenario: str) -> None:
    """Raise ValueError, with one line, if the engine would refuse this Scenario (JSON)."""

def run_script(
    text: str, name: str, stack: str, defines: list[tuple[str, str]], tolerance_usecs: int | None = None
) -> tuple[int, str | None, list[str]]:
    """Run the packetdrill script `text`, called `name` in messages, against a modelled stack or `live`.

    `tolerance_usecs` takes the place of the script's. Returns (exit code, message or None, printed lines);
    the exit code is 0 if it passed, 1 if the stack did something else, 2 if the script or the stack's name
    is wrong.
    """

def version() -> str:
    """Version of the engine, and whether it was built with overflow checks and assertions."""

def replay_cc_vectors(text: str, stack: str, cc: str) -> tuple[int, int, int, int, list[str]]:
    """Play recorded events of a FreeBSD congestion-control module (JSON Lines) to ours.

    Returns events, events after which cwnd and ssthresh are equal to the byte, largest difference of cwnd
    and of ssthresh in bytes, first differences in words. Raises ValueError, with one line, where the text is
    no recording.
    """

def replay_cubic_functions(text: str, header: str) -> tuple[int, int, int, int, list[str]]:
    """Compare CUBIC's window functions with recorded values of the header called `header`.

    Returns and raises as replay_cc_vectors.
    """
