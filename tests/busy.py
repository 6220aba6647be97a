"""Runs a command again and again beside busy processes: do its tests hold where a machine has other work?

    python tests/busy.py [--times 10] [--load 4] COMMAND...

Prints a line for each time; exits 1 if the command failed once.
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def spin() -> None:
    """Keep a processor busy."""
    while True:
        pass


def main() -> int:
    """Run, count failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10, help="%(default)s")
    parser.add_argument("--load", type=int, default=4, help="busy processes (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("COMMAND: found none; expected a command to run")
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.load)]
    for process in busy:
        process.start()
    failures = 0
    logs = Path(tempfile.mkdtemp(prefix="busy-"))
    for turn in range(1, options.times + 1):
        log = logs / f"{turn}.log"
        began = time.monotonic()
        with log.open("wb") as out:
            code = subprocess.run(
                options.command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
            ).returncode
        failures += code != 0
        word = "passed" if code == 0 else f"failed with exit code {code}: {log}"
        print(f"{turn} of {options.times}, {time.monotonic() - began:.0f} s: {word}", flush=True)
    print(f"{failures} of {options.times} failed beside a load of {options.load}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
