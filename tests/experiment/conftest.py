"""Stands in for the engine's catalogue until the native module can be built."""

import sys
import types
from pathlib import Path

try:
    from cwndlab._native import catalogue as _catalogue  # noqa: F401
except ImportError:
    native = types.ModuleType("cwndlab._native")
    native.catalogue = Path(__file__).with_name("catalogue.json").read_text
    sys.modules["cwndlab._native"] = native
    import cwndlab

    cwndlab._native = native
