"""The process at a host that carries out the ends of flows there: the engine's agent (crates/agent).

Started as `python -m cwndlab.testbeds.live.traffic.agent [--limit SECONDS] NAME`; elsewhere the program
`cwndlab-agent` is the same. It takes orders as lines of JSON from standard input, answers each with one, and
ends with all it started when its input does. Whoever lists processes sees by the name whose it is.
"""

import sys

from cwndlab import _native

if __name__ == "__main__":
    _native.agent(sys.argv[1:])
