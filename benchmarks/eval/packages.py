"""Sources of real packages, fetched from the registries by name and pinned version.

They are kept in the user's cache and never committed. pip asks a package's build backend for its
metadata before it hands over an archive, which would need compilers and run strangers' code;
`nobuild.py` stands in for the backends, so that nothing of a package runs.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Literal

from planner.errors import PlanloomError

NOBUILD = Path(__file__).with_name("nobuild.py")
BACKENDS = ("maturin", "setuptools.build_meta", "hatchling.build", "flit_core.buildapi")
"""Of the packages that are fetched."""


@dataclass(frozen=True)
class Package:
    """What a code base is made of: the files of an archive that match `keep`."""

    registry: Literal["npm", "pypi"]
    name: str
    version: str
    keep: tuple[str, ...]
    """Globs of paths below that folder; `dir/` stands for every file in a folder."""
    below: str = ""
    """The folder within the archive's only one that becomes the code base's top."""

    def files(self, cache: Path) -> dict[str, str]:
        """Text by path. Raises `PlanloomError` if the archive cannot be fetched."""
        found = {}
        with tarfile.open(self._archive(cache / "packages")) as archive:
            for member in archive:
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                if member.isfile() and ".." not in path.parts and self._kept(path):
                    content = archive.extractfile(member)
                    assert content is not None
                    found[str(path.relative_to(self.below))] = content.read().decode("utf-8")
        return dict(sorted(found.items()))

    def _kept(self, path: PurePosixPath) -> bool:
        if not path.is_relative_to(self.below):
            return False
        inner = str(path.relative_to(self.below))
        return any(
            inner.startswith(each) if each.endswith("/") else fnmatch(inner, each)
            for each in self.keep
        )

    def _archive(self, cache: Path) -> Path:
        folder = cache / f"{self.registry}-{self.name.replace('/', '-')}-{self.version}"
        if not list(folder.glob("*gz")):
            folder.mkdir(parents=True, exist_ok=True)
            self._fetch(folder)
        (archive,) = folder.glob("*gz")
        return archive

    def _fetch(self, folder: Path) -> None:
        if self.registry == "npm":
            command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination"]
            command += [str(folder), f"{self.name}@{self.version}"]
        else:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
            command += ["--dest", str(folder), f"{self.name}=={self.version}"]
        with TemporaryDirectory() as stubs:
            for backend in BACKENDS:
                stub = Path(stubs, *backend.split(".")).with_suffix(".py")
                stub.parent.mkdir(parents=True, exist_ok=True)
                if "." in backend:  # else an installed package of this name comes first
                    (stub.parent / "__init__.py").touch()
                shutil.copyfile(NOBUILD, stub)
            ran = subprocess.run(
                command,
                env=os.environ | {"PYTHONPATH": stubs},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        if ran.returncode:
            raise PlanloomError(
                f"{self.name} {self.version} could not be fetched; {' '.join(command[:3])} said:\n"
                + ran.stderr[-2000:]
            )
