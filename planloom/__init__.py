"""The one name that an installed Planloom has in its environment.

The wheel holds `server` and `planner` in this folder, beside which other packages may have those
names; a process of ours finds ours first. In a checkout they stand beside this folder.
"""

import sys
from pathlib import Path

_here = Path(__file__).parent
_code = str(_here if (_here / "server").is_dir() else _here.parent)
__path__ = [_code]  # so that `python -m planloom.server.cli` finds them, too
sys.path.insert(0, _code)


def main() -> None:
    """The command `planloom`."""
    from server.cli.commands import main

    main()
