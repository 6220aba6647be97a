"""`cwndlab` and `python -m cwndlab`: the command line as a process of its own."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

# Before anything reads them. OpenBLAS would start a thread for each processor, and they turn in circles until
# there is work, for matrices as small as ours; pydantic would look for plugins in all that is installed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")

from cwndlab.cli import main


def command() -> NoReturn:
    """Run the command of `sys.argv`; the process ends here.

    It ends without the interpreter taking itself apart: that ends threads of libraries which still run
    wherever they are, and C++ code that this happens to calls abort.
    """
    # A command makes hundreds of thousands of small objects that stay, and ends: looking for garbage after
    # every 700 of them takes a tenth of its time.
    gc.set_threshold(100_000, 20, 20)
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    command()
