"""Print the test vectors of a queue discipline, from plain models that share no code with the crate.

`python3 vectors.py codel`, which `../disciplines.rs` calls. It prints of each vector the lines

    vector NAME
    link RATE_BPS OVERHEAD_BYTES MTU_BYTES
    queue JSON                                   the configuration
    in START_NS GAP_NS COUNT BYTES FLOW SRC DST ECN    packets numbered in order of time, then of these lines
    drop AT_NS PACKET REASON                     what happened, in order
    mark AT_NS PACKET
    start AT_NS PACKET                           the transmission starts

Each model, in its discipline's file, follows the document named in its docstring with lists and floats;
time is in nanoseconds.
"""

import sys

from cake import cake
from choke import choke
from codel import codel, fq_codel
from fq import fq
from pie import dualpi2, fq_pie, pie
from red import red

if __name__ == "__main__":
    disciplines = (codel, red, fq_codel, pie, fq_pie, cake, dualpi2, choke, fq)
    {write.__name__: write for write in disciplines}[sys.argv[1]]()
