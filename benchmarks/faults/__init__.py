"""Faults and load on the real server: `python -m benchmarks.faults`."""

import sys
from pathlib import Path

# The catalogue, the scripted model server and the faulty upstream are the tests'.
sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))
