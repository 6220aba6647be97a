"""Damages results at random and looks at what the commands that read them print.

`python tests/results/damage.py --count 10000` flips bits of, and cuts, every file of results that it makes
first: each time a command prints what it printed before or refuses in one line, and `show --verify` refuses
whatever SHA256SUMS lists. With `--altered`, values inside the files are changed, as somebody with a purpose
would, and every SHA256SUMS is made anew: nothing is known of what is printed then, but there is no traceback.
"""

import argparse
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import typer

# Called by hand, nothing else puts the tests' own modules in the way.
sys.path.insert(0, str(Path(__file__).parents[1]))

import stored_results
from cwndlab.cli import application as cli
from cwndlab.errors import InputError
from cwndlab.results import catalogue

EXPERIMENT = """\
experiment: fuzzed
duration: 300ms
hosts:
  a: {stack: freebsd-13}
  b: {stack: linux-6.8}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 5mbit, delay: 5ms, queue: {kind: pfifo, limit: 10p}}
flows:
  - {name: f1, from: a, to: b, app: bulk}
  - {name: load, from: a, to: b, app: {kind: loadlatency, scenario: 1, idle: 100ms}}
sweep:
  - {hosts.a.cc: [newreno, cubic]}
repeat: 2
record: {tcp: per-ack, queue: 10ms, pcap: [{at: a, snaplen: 96}]}
"""

FALLBACK = "a fault of cwndlab"
"""What the last resort of the command line says: no traceback, but nobody thought of it either."""


@dataclass(frozen=True)
class Printed:
    """What a command printed and wrote, or the line with which it refused."""

    code: int
    text: str
    files: dict[str, bytes]


def commands(out: Path) -> dict[str, Callable[[Path], list[str]]]:
    """The commands that read results, each with what it writes below `out`."""
    return {
        "show": lambda results: ["show", str(results), "--all"],
        "json": lambda results: ["show", str(results), "--json"],
        "csv": lambda results: ["data", "export", str(results), "-o", str(out / "csv")],
        "by": lambda results: ["compare", str(results), "--by", "cc"],
        "siftr": lambda results: [
            "data",
            "export",
            str(results),
            "--format",
            "siftr",
            "-o",
            str(out / "siftr"),
        ],
        "cwnd": lambda results: ["plot", str(results), "-o", str(out / "cwnd.svg")],
        "sequence": lambda results: [
            *["plot", str(results), "--kind", "sequence", "--run", "0", "-o", str(out / "sequence.svg")]
        ],
        "report": lambda results: ["report", str(results), "-o", str(out / "report.html")],
    }


OFTEN = ("json", "csv", "by", "siftr") * 20 + ("cwnd", "sequence", "report")
"""What is tried after `show`: drawing takes long."""


class Fuzzer:
    """Results that are damaged again and again; every answer is compared with that of the whole ones."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Make results below `directory`."""
        self.random = random.Random(seed)
        # As `cli.main` calls it, but not made anew each time, which takes longer than most commands.
        self.app = typer.main.get_command(cli.app)
        self.whole, self.damaged, self.out = directory / "whole", directory / "damaged", directory / "out"
        file = directory / "fuzzed.yaml"
        file.write_text(EXPERIMENT)
        made = self._run(["run", str(file), "-o", str(self.whole), "-j", "1", "-q"])
        assert made.code == 0, made.text
        self.files = sorted(
            path.relative_to(self.whole)
            for path in self.whole.rglob("*")
            if path.is_file() and path.stat().st_size
        )
        self.commands = commands(self.out)
        self.before = {name: self._answer(name, self.whole) for name in self.commands}
        for name, answer in self.before.items():
            assert answer.code == 0, f"{name}: {answer.text}"
        self.refused: Counter[str] = Counter()

    def flip(self) -> str:
        """Damage a random file by some bits or a cut; returns what is wrong with the answers, or nothing."""
        with self._copy() as results:
            name = self.random.choice(self.files)
            what = self._spoil(results / name)
            wrong = self._compared(["show", self.random.choice(OFTEN)], results)
            if str(name) != "report.html":
                wrong += self._verified(results)
            self.refused["files damaged"] += 1
            return f"{name}, {what}: {wrong}" if wrong else ""

    def alter(self) -> str:
        """Change values, and the digests; returns the traceback's last line or a refusal of several lines."""
        with self._copy() as results:
            try:
                what = self.random.choice([self._alter_record, self._alter_catalogue, self._alter_bytes])(
                    results
                )
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                return ""  # nothing that can be written
            stored_results.seal(results)
            self.refused["results altered"] += 1
            for name in ("show", self.random.choice(OFTEN)):
                answer = self._answer(name, results)
                self.refused["refused"] += answer.code == InputError.exit_code
                self.refused["of which by the last resort"] += FALLBACK in answer.text
                fault = FALLBACK in answer.text or answer.code not in (0, 1, 2)
                if fault or (answer.code and not _is_refusal(answer)):
                    return f"{what}: {name}: {answer.code} {answer.text}"
        return ""

    def _compared(self, names: list[str], results: Path) -> str:
        for name in names:
            answer = self._answer(name, results)
            refusal = (
                answer.code == InputError.exit_code and _is_refusal(answer) and FALLBACK not in answer.text
            )
            self.refused["refused by a plain read"] += refusal
            if not refusal and answer != self._named(self.before[name], results):
                return f"{name}: {answer.code} {answer.text}"
        return ""

    def _verified(self, results: Path) -> str:
        answer = self._run(["show", str(results), "--verify"])
        if answer.code == InputError.exit_code and _is_refusal(answer):
            self.refused["refused by --verify"] += 1
            return ""
        return f"show --verify: {answer.code} {answer.text}"

    def _spoil(self, file: Path) -> str:
        data = bytearray(file.read_bytes())
        if self.random.random() < 0.2:
            length = self.random.randrange(len(data))
            file.write_bytes(data[:length])
            return f"cut to {length} bytes"
        bits = sorted(self.random.sample(range(8 * len(data)), self.random.choice([1, 1, 1, 2, 8])))
        for bit in bits:
            data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        return f"bits {bits}"

    def _alter_record(self, results: Path) -> str:
        file = self.random.choice(sorted(results.rglob("runs.jsonl")))
        records = [json.loads(line) for line in file.read_text().splitlines()]
        what = self._change(records)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        return f"{file.name}: {what}"

    def _alter_catalogue(self, results: Path) -> str:
        _, table = catalogue.read(results)
        if self.random.random() < 0.5:
            header = json.loads(table.schema.metadata[b"cwndlab"])
            what = self._change(header)
            stored_results.exchange(results, table.replace_schema_metadata({"cwndlab": json.dumps(header)}))
            return f"header: {what}"
        name = self.random.choice(table.schema.names)
        values = table[name].to_pylist()
        row = self.random.randrange(len(values))
        values[row] = self.random.choice(SCALARS)
        column = pa.array(values, table[name].type if self.random.random() < 0.8 else None)
        stored_results.exchange(results, table.set_column(table.schema.get_field_index(name), name, column))
        return f"{name} of row {row}: {values[row]!r}"

    def _alter_bytes(self, results: Path) -> str:
        name = self.random.choice(
            [name for name in self.files if name.suffix in (".jsonl", ".json", ".yaml")]
        )
        return f"{name}, {self._spoil(results / name)}"

    def _change(self, tree: Any) -> str:
        """Change one value somewhere in a tree of JSON, or take it away."""
        places: list[tuple[Any, Any, str]] = []

        def gather(node: Any, path: str) -> None:
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                places.append((node, key, f"{path}.{key}"))
                if isinstance(value, dict | list):
                    gather(value, f"{path}.{key}")

        gather(tree, "")
        node, key, path = self.random.choice(places)
        if self.random.random() < 0.2:
            del node[key]
            return f"{path} taken away"
        node[key] = self.random.choice([*SCALARS, [], {}, [1], {"name": "x"}, [None], [{}]])
        return f"{path} = {node[key]!r}"

    def _answer(self, name: str, results: Path) -> Printed:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        printed = self._run(self.commands[name](results))
        written = {
            str(file.relative_to(self.out)): file.read_bytes()
            for file in sorted(self.out.rglob("*"))
            if file.is_file()
        }
        return Printed(printed.code, printed.text, written)

    def _named(self, answer: Printed, results: Path) -> Printed:
        """An answer about the whole results as it would be about others: they say their directory."""
        old, new = str(self.whole), str(results)
        files = {name: data.replace(old.encode(), new.encode()) for name, data in answer.files.items()}
        return Printed(answer.code, answer.text.replace(old, new), files)

    def _run(self, arguments: list[str]) -> Printed:
        printed, said = io.StringIO(), io.StringIO()
        code: Any = None
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
            mock.patch.object(cli, "app", self.app),
        ):
            try:
                cli.main(arguments)
            except SystemExit as ended:
                code = ended.code
            except BaseException as error:
                return Printed(99, f"{type(error).__name__}: {error}", {})
        text = said.getvalue() if code else printed.getvalue()
        return Printed(code, text, {})

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Path]:
        shutil.rmtree(self.damaged, ignore_errors=True)
        shutil.copytree(self.whole, self.damaged)
        yield self.damaged


SCALARS = (
    *(None, True, -1, 0, 1, 255, 2**31, 2**63, 2**70, 0.5, -1e308, float("nan")),
    *("", "x", "../../x", "a\nb", "\x00", "\x1b[2J", "é" * 5000, "now", "1", "=1+1", "tcp", "f1"),
)


def _is_refusal(answer: Printed) -> bool:
    """Whether a command said one line about an error, and left no file."""
    line = answer.text
    return line.startswith("error: ") and line.count("\n") == 1 and not answer.files


def main() -> None:
    """Parse the arguments, damage, and say what came of it; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many damages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--altered", action="store_true", help="change values and make SHA256SUMS anew")
    chosen = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        fuzzer = Fuzzer(Path(directory), chosen.seed)
        for number in range(chosen.count):
            found = fuzzer.alter() if chosen.altered else fuzzer.flip()
            if found:
                wrong += 1
                print(f"{number}: {found}", flush=True)
        print(f"{len(fuzzer.files)} files: {', '.join(map(str, fuzzer.files))}")
    print(", ".join(f"{name}: {count}" for name, count in fuzzer.refused.items()))
    print(f"{wrong} of {chosen.count} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
