"""The live lab: one experiment on one screen, run in the browser by the engine as WebAssembly (docs/live.md).

`page/` is what a browser loads. `make web` puts the engine and the templates beside what is written by hand.
"""
