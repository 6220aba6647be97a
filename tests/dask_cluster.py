"""A Dask scheduler and its workers on this machine, for tests."""

import json
import os
import subprocess
import sys
import time

from patience import PATIENCE

WORKERS = 3


class DaskCluster:
    """A scheduler and workers as processes of their own, on loopback; workers without a nanny, so that a kill
    is a death."""

    def __init__(self, directory, *permissions, workers=WORKERS):
        self.directory = directory
        self.permissions = permissions
        self.file = directory / "scheduler.json"
        self.processes = []
        self.scheduler = self.start(
            "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", str(self.file),
        )  # fmt: skip
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self, *before, **environment):
        """Start a worker, by a command that is put before it if one is given."""
        deadline = time.monotonic() + PATIENCE
        while not self.file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return self.start(
            "dask", "worker", json.loads(self.file.read_text())["address"], "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--local-directory", str(self.directory), *self.permissions, before=before,
            **environment,
        )  # fmt: skip

    def start(self, *arguments, before=(), **environment):
        process = subprocess.Popen(
            [*before, sys.executable, "-m", *arguments],
            cwd=self.directory,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def wait_for_workers(self, count=None):
        from distributed import Client

        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(count or len(self.workers), timeout=PATIENCE)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
