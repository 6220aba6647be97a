"""A Rust file can be read in one sitting. (clippy.toml bounds functions.)"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 700


def test_rust_files_are_short() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in sorted((ROOT / "crates").rglob("*.rs"))
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) >= MAX_LINES
    }
    assert long == {}
