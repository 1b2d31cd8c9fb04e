"""Kill a real server at random, again and again, and say what was lost or done twice: nothing.

python -m benchmarks.kills [--kills 200] [--seed 1]
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import anyio
from killing import Kills, ScriptedModels, entry
from serving import Place


async def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--minutes", type=float, default=60, help="At most so many.")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ScriptedModels() as ollama:
        root = Path(folder)
        log = root / "calls"
        place = Place(root, ollama, {"counting": entry(log)})
        kills = Kills(place, log, random.Random(chosen.seed))
        ends = began + 60 * chosen.minutes
        while kills.kills < chosen.kills and time.monotonic() < ends:
            await kills.kill_one()
            print(f"\r{kills.kills} kills", end="", file=sys.stderr, flush=True)
        await kills.finish()
        made = kills.made()
    reads = sum(n for line, n in made.items() if line.startswith("begin find"))
    writes = sum(n for line, n in made.items() if line.startswith("begin note"))
    print(f"\n{kills.kills} kills in {time.monotonic() - began:.0f} s, {kills.begun} runs")
    print(f"{reads} reads and {writes} writes were made; of the reads {reads - 6 * kills.begun}")
    print("were made again, since a kill came before their result was on record")
    print(f"{kills.in_doubt} writes are told as of unknown outcome, and were not made again")
    print(f"{kills.orphans} processes outlived a killed server by 3 s")
    print("\n".join(kills.problems) or "nothing lost, no write and no finished call repeated")
    return 1 if kills.problems else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main))
