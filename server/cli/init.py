"""`planloom init`: an `upstreams.yaml` with the shipped upstreams and the servers of other clients,
and a client's entry for Planloom."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
import yaml

from planner.errors import ConfigError
from server import config_schema
from server.client_configs import clients, entries, files
from server.client_configs.clients import CLIENTS, SUFFIXES
from server.client_configs.documents import MAX_WIDTH
from server.client_configs.files import short
from server.client_configs.importing import (
    ImportedServer,
    SkippedServer,
    Source,
    import_servers,
    missing_variables,
)
from server.config_file import named_variables, own_file, shipped_file
from server.environment import TOKEN
from server.project import expanded, is_folder
from server.text import one_line


def write_upstreams(given: Sequence[Path], *, dry_run: bool, force: bool) -> None:
    """Write the file, or print it, and report what was imported, what was not, and what to set.
    `given`: files or folders of clients; none means all that are found. Raises `ConfigError`."""
    if given:
        sources = [source for path in given for source in _named(path)]
    else:
        sources = [Source(each.title, file) for each in CLIENTS.values() for file in each.files()]
    shipped = shipped_file().read_text("utf-8")
    imported, skipped = import_servers(sources, yaml.safe_load(shipped)["upstreams"])
    text = upstreams_text(shipped, imported, skipped)
    target = own_file()
    if dry_run:
        typer.echo(text, nl=False)
    else:
        if target.exists() and not force:
            raise ConfigError(
                f"{target} already exists. `planloom init --dry-run` shows what would be "
                "written; --force replaces it and keeps a copy of it."
            )
        kept = files.replace(target, text)
        files.replace(target.with_name(config_schema.NAME), config_schema.schema_text(), keep=False)
        typer.echo(
            f"Wrote {short(target)}" + (f"; the old file is {short(kept)}" if kept else ""),
            err=True,
        )
    lines = _report(sources, imported, skipped)
    lines.append(
        f"Nothing was written. Without --dry-run this goes into {short(target)}."
        if dry_run
        else "Next: planloom doctor"
    )
    typer.echo("\n".join(lines), err=True)


def client_entry(client: str, project: Path | None, address: str | None, *, write: bool) -> None:
    """Print or write the entry of a client, and say what is left to do. Raises `ConfigError`."""
    if address is None:
        entry = entries.over_stdio(client, project)
    else:
        entry = entries.over_http(client, address)
    title, place = CLIENTS[client].title, short(entry.file)
    if write:
        name, kept = entries.write(entry)
        called = "" if name == entries.NAME else f", as {name}"
        was = f"; the old file is {short(kept)}" if kept else ""
        lines = [f"Wrote Planloom's entry into {place}{called}{was}", f"Restart {title}."]
    else:
        typer.echo(entries.printed(entry), nl=False)
        lines = [f"This goes into {place}; --write puts it there."]
    if not CLIENTS[client].tried:
        lines.append(
            f"This entry follows {title}'s documentation but was never tried. If the tools do not "
            f"appear in {title}, please report it."
        )
    if address:
        needs = "asks for the token" if entry.inputs else f"needs the token in {TOKEN}"
        lines.append(f"{title} {needs}: `planloom token` prints it.")
    elif variables := named_variables(own_file()):
        lines.append(
            f"Your upstreams.yaml uses these environment variables: {', '.join(variables)}. If "
            f"{title} is started without them, set them under `env` in its entry for Planloom."
        )
    typer.echo("\n".join(lines), err=True)


def _named(path: Path) -> list[Source]:
    path = expanded(path)
    if is_folder(path):
        try:
            inside = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        except OSError as error:
            why = error.strerror
            raise ConfigError(f"{path}: cannot be read: {why}; name a readable folder") from None
        if not inside:
            ends = ", ".join(SUFFIXES)
            raise ConfigError(f"{path}: no file in it ends in {ends}; name a client's file")
        return [Source(each.name, each) for each in inside]
    if not clients.servers(path):
        keys = ", ".join(f"`{key}`" for key in clients.KEYS)
        raise ConfigError(f"{path}: no MCP servers found under {keys}; name a client's file")
    return [Source(path.name, path)]


def upstreams_text(
    shipped: str, imported: Sequence[ImportedServer], skipped: Sequence[SkippedServer]
) -> str:
    """The shipped file's text with the imported servers and comments."""
    parts = [shipped.rstrip("\n"), *map(_entry, imported)]
    if skipped:
        lines = ["  # Left out:", *(f"  #   {_line(each)}" for each in skipped)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _entry(imported: ImportedServer) -> str:
    comments = [f"From {imported.source.title}, {short(imported.source.file)}"]
    comments += [f"Imported {note}" for note in imported.notes]
    if imported.variables:
        comments.append(f"Set {', '.join(imported.variables)}")
    data = _dumped({imported.name: imported.settings})
    lines = [*(f"# {one_line(comment)}." for comment in comments), *data.splitlines()]
    return "\n".join(f"  {each}" for each in lines)


def _dumped(data: dict[str, Any]) -> str:
    """As YAML, lists on one line. PyYAML writes a few characters so that it reads others, unless it
    escapes all that are not ASCII."""
    options: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "width": MAX_WIDTH}
    text: str = yaml.safe_dump(data, allow_unicode=True, **options)
    if yaml.safe_load(text) == data:
        return text
    return str(yaml.safe_dump(data, **options))


def _report(
    sources: Sequence[Source], imported: Sequence[ImportedServer], skipped: Sequence[SkippedServer]
) -> list[str]:
    lines = [f"Read {source.title}: {short(source.file)}" for source in sources]
    if not sources:
        looked = ", ".join(client.title for client in CLIENTS.values())
        lines.append(f"No file of a client was found ({looked}); --from FILE names one.")
    if imported:
        lines.append("Imported:")
        for each in imported:
            said = ", ".join([f"{each.name} ({each.source.title})", *each.notes])
            lines.append(f"  {one_line(said)}")
    if skipped:
        lines += ["Left out:", *(f"  {_line(each)}" for each in skipped)]
    if variables := missing_variables(imported):
        lines.append("Set these variables where Planloom is started; no value was copied:")
        lines += [f"  {name}: {one_line('; '.join(each))}" for name, each in variables.items()]
    if named := os.environ.get("PLANLOOM_UPSTREAMS"):
        lines.append(f"PLANLOOM_UPSTREAMS names {named}, which is read instead.")
    return lines


def _line(left: SkippedServer) -> str:
    return one_line(f"{left.name} ({left.source.title}): {left.why}")
