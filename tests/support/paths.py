"""Where the files are that tests read and start."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
DATA = ROOT / "tests" / "data"
OUTSIDE = ROOT / "tests" / "outside"
