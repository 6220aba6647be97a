"""Waits for the end of the process that started it, however that ends, and removes what its run left.

Started as `python -m cwndlab.testbeds.netns.reaper RUN` with a pipe as standard input, of which the run's
process alone holds the other end. It is in a session of its own, so that a terminal's Ctrl-C does not reach
it.
"""

import signal
import subprocess
import sys
import time

from cwndlab.testbeds.netns import namespaces

RELEASE_S = 10.0
"""Seconds within which the kernel gives back the lock of a process whose pipe is closed."""


def start(run: str) -> "subprocess.Popen[bytes]":
    """Start the reaper of a run; closing its `stdin` tells it that the run is over."""
    command = [sys.executable, "-m", "cwndlab.testbeds.netns.reaper", run]
    silent = subprocess.DEVNULL  # it must not hold open what somebody reads to its end
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
    )


def release(reaper: "subprocess.Popen[bytes]") -> None:
    """Tell a reaper that the run is over, and wait for it."""
    if reaper.stdin is not None:
        reaper.stdin.write(b"over")
        reaper.stdin.close()
    reaper.wait()


def main(run: str) -> None:
    """Wait and clean."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == b"over":
        return  # whoever made the namespaces removes them
    deadline = time.monotonic() + RELEASE_S
    while namespaces.is_owned(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    namespaces.clean(run)


if __name__ == "__main__":
    main(sys.argv[1])
