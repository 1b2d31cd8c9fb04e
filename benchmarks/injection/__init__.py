"""Hostile text in tool results, and whether it gets a write call through (docs/security.md)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))  # serves the suite's tools
