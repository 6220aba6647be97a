"""Bundles: results as the artifact of a paper, with all it takes to run them again, in one archive.

A bundle is a .tar.gz: `results/NAME`, `experiments/NAME` (the experiment, and files that it names),
`expected/NAME.sha256` (what every machine gets), the environment, a script that does it all again, and
SHA256SUMS of all files.
A stranger's bundle is data: its paths are checked, its sums, its results; nothing of it is executed.
"""

FORMAT = 1
"""Version of the form of bundle.json."""

CLOCKED = "runs.jsonl"
"""The one file of a part with clock times and facts of a machine; its sums are the other."""
