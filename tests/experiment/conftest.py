"""Stands in for the engine's catalogue until the native module can be built."""

import importlib.util
import sys
import types
from pathlib import Path

if importlib.util.find_spec("cwndlab._native") is None:
    native = types.ModuleType("cwndlab._native")
    native.catalogue = Path(__file__).with_name("catalogue.json").read_text
    sys.modules["cwndlab._native"] = native
    import cwndlab

    cwndlab._native = native
