"""Changes files of the user: completely or not at all, and with a copy of the old content."""

import os
import shutil
from codecs import BOM_UTF8
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile

from planner.errors import ConfigError


def replace(file: Path, text: str, *, keep: bool = True) -> Path | None:
    """Write `text` as the file; returns where its former content is kept, if it is. A link stays a
    link, and permissions and a byte order mark stay; a new file is its owner's only. Raises
    `ConfigError`."""
    target = Path(os.path.realpath(file))  # `resolve` raises for a circle of links
    new: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = _keep(target) if keep and target.exists() else None
        marked = target.exists() and target.read_bytes().startswith(BOM_UTF8)
        with NamedTemporaryFile(
            "wb", dir=target.parent, prefix=f".{target.name}-", delete=False
        ) as temporary:
            new = Path(temporary.name)
            temporary.write(marked * BOM_UTF8 + text.encode())  # ends of lines as they are
            temporary.flush()
            os.fsync(temporary.fileno())
        if kept:
            shutil.copymode(kept, new)
        new.replace(target)
    except OSError as error:
        if new:
            new.unlink(missing_ok=True)
        raise ConfigError(f"{file}: cannot be written ({os.strerror(error.errno or 0)})") from None
    return kept


def _keep(file: Path) -> Path:
    """Copy the file into its folder, under the first free name."""
    names = (file.with_name(f"{file.name}.bak{number or ''}") for number in count())
    kept = next(each for each in names if not each.exists())
    shutil.copy2(file, kept)
    return kept


def short(file: Path) -> str:
    """A path as a person writes it."""
    try:
        return str(Path("~") / file.relative_to(Path.home()))
    except ValueError:
        return str(file)
