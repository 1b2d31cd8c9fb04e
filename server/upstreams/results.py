"""What upstreams say, as the planner reads it: tools to specs, results to harmless plain text."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import mcp_types

from planner.tools import ROLES, Safety, ToolSpec
from server.config import ToolSettings, UpstreamSettings
from server.text import clean, cleaned, each_text, one_line

MAX_TEXT_CHARS = 2_000_000
"""Of a result; a longer one is cut, and the text says so."""
MAX_LINES = 20_000
"""Of a result; each of its lines is examined."""
MAX_ENTRIES = 60
"""Of a directory listing that is shown."""
MAX_NAME_CHARS = 255
"""Of a file; no system allows longer names."""

MAX_COMPARED_VALUES = 50
"""Values of structured content that are looked for in the text beside it."""
SAID_SHARE = 0.9
"""The share of them that a text contains if it says the same."""

_TOOL_NAME = re.compile(r"[\w./:-]{1,128}")
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_LAST_ZEROS = re.compile(r"^(\d+)(?:\.0+|(\.\d*[1-9])0+)$")
_ARGUMENT_NAME = re.compile(r"[\w.$@:/\[\]-]{1,64}")


def redact_tool(tool: mcp_types.Tool, redact: Callable[[str], str]) -> mcp_types.Tool:
    """The tool with `redact` applied to all its texts, names and keys."""
    data = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return mcp_types.Tool.model_validate(each_text(data, redact, keys=True))


def log_text(data: Any) -> str:
    if isinstance(data, dict) and isinstance(data.get("msg"), str):
        data = data["msg"]  # as FastMCP's servers wrap it
    return clean(data if isinstance(data, str) else _json(data))


def skeleton(name: str) -> str:
    """A key that is the same for names that look alike."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", name)).casefold()


def cut(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """The text, or its first `MAX_LINES` lines or `limit` characters and how many are missing."""
    if (lines := text.count("\n") + 1) > MAX_LINES:
        first = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])
        text = f"{first}\n[cut here: {lines - MAX_LINES} of {lines} lines left out]"
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {len(text) - limit} of {len(text)} characters left out]"


def content_text(content: Iterable[mcp_types.ContentBlock], structured: Any) -> str:
    """A result's blocks as one text. MCP asks servers to say in it what `structured` has; where
    they sum it up instead, or have no block, `structured` follows as JSON."""
    blocks = [*content]
    several = sum(isinstance(block, mcp_types.EmbeddedResource) for block in blocks) > 1
    text = "\n".join(_block_text(block, several) for block in blocks)
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        structured = structured["result"]  # servers wrap what is not an object like this
    if binary := {block.data: _block_text(block) for block in blocks if isinstance(block, _BINARY)}:
        structured = each_text(structured, lambda value: binary.get(value, value))
    if structured is None or (text and _says(text, structured)):
        return text
    data = structured if isinstance(structured, str) else _json(structured)
    return f"{text}\n{data}" if text else data


def _says(text: str, structured: Any) -> bool:
    """Whether a text has nearly all words and numbers of structured content, in plain or as JSON,
    by their length: those of some of its values, from its beginning to its end, are looked for."""
    values = [*_values(structured)]
    values = values[:: max(1, len(values) // MAX_COMPARED_VALUES)]
    wanted = [word for value in values for word in _words(value) or [value]]
    unescaped = _JSON_ESCAPE.sub(lambda escape: chr(int(escape[1] or "20", 16)), text)
    said = {word for each in {text, unescaped} for word in _words(each)}
    told = sum(len(each) for each in wanted if each in said)
    return told >= SAID_SHARE * sum(map(len, wanted))


def _words(text: str) -> list[str]:
    """The words and numbers of a text. A 7 is no part of 2027, and 3.50 is 3.5."""
    words = (each.strip(".-") for each in re.findall(r"[\w.-]+", text))
    return [_LAST_ZEROS.sub(r"\1\2", each) if "." in each else each for each in words if each]


def _values(data: Any) -> Iterator[str]:
    match data:
        case dict():
            for each in data.values():
                yield from _values(each)
        case list():
            for each in data:
                yield from _values(each)
        case None | bool():
            return
        case _:
            yield str(data)


_BINARY = mcp_types.ImageContent | mcp_types.AudioContent


def _block_text(block: mcp_types.ContentBlock, several: bool = False) -> str:
    """`several`: whether the result has other resources, so that each is shown with its URI."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, _BINARY):
        return _placeholder(block.mime_type, block.data)
    if isinstance(block, mcp_types.ResourceLink):
        about = ": ".join(filter(None, [block.title, block.description]))
        return f"[{block.name}: {block.uri}] {about}".strip()
    resource = block.resource
    text = (
        resource.text
        if isinstance(resource, mcp_types.TextResourceContents)
        else _placeholder(resource.mime_type, resource.blob)
    )
    return f"[{resource.uri}]\n{text}" if several else text


def _placeholder(mime_type: str | None, base64: str) -> str:
    return f"[{mime_type or 'binary data'}, {-(-len(base64) * 3 // 4000)} kB]"


def _as_list(value: Any) -> list[Any]:
    """What an upstream should give as a list; nothing if it is something else."""
    return value if isinstance(value, list) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def is_sendable(arguments: Mapping[str, Any]) -> bool:
    """Whether these are JSON in UTF-8. Sending anything else would break the connection."""
    try:
        _json(arguments).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def is_tool_name(name: str) -> bool:
    """Whether a tool of this name can be offered to a model, and called."""
    return _TOOL_NAME.fullmatch(name) is not None


def unusable(tool: mcp_types.Tool) -> str | None:
    """Why a valid tool cannot be offered to a model, whose prompts have its names; else None."""
    shown = one_line(tool.name)
    if not is_tool_name(tool.name):
        return f"{shown}: the name of the tool has other characters than names in code"
    arguments = tool.input_schema.get("properties", {})
    named = arguments if isinstance(arguments, dict) else {}
    wrong = [each for each in named if not _ARGUMENT_NAME.fullmatch(each)]
    if wrong:
        name = one_line(wrong[0])
        return f"{shown}: the argument {name!r} has other characters than names in code"
    return None


def is_allowed(tool: mcp_types.Tool, settings: UpstreamSettings) -> bool:
    denied = any(fnmatchcase(tool.name, pattern) for pattern in settings.deny)
    return not denied and any(fnmatchcase(tool.name, pattern) for pattern in settings.allow)


def tool_spec(tool: mcp_types.Tool, upstream: str, settings: UpstreamSettings) -> ToolSpec | None:
    """The tool with the operator's settings, under its bare name; None if it is not allowed."""
    if not is_allowed(tool, settings) or unusable(tool):
        return None
    chosen = settings.tools.get(tool.name, ToolSettings())
    description = chosen.description or clean(tool.description or "")
    schema = cleaned(tool.input_schema)
    if not isinstance(schema.get("properties", {}), dict):
        schema = {"type": "object"}  # malformed: the tool itself has to judge the arguments
    if settings.lines_from == 0:
        description = description.replace("0-based line", "1-based line")
        schema = one_based_schema(schema)
    required = [name for name in _as_list(schema.get("required")) if isinstance(name, str)]
    gone = chosen.arguments.keys() | (set(chosen.hide) - set(required))
    properties = {k: v for k, v in schema.get("properties", {}).items() if k not in gone}
    schema = {**schema, "properties": properties}
    if required:
        schema["required"] = [name for name in required if name not in gone]
    else:
        schema.pop("required", None)
    return ToolSpec(
        name=tool.name,
        upstream=upstream,
        description=description,
        input_schema=schema,
        safety=chosen.safety or safety_of(tool.annotations, settings.trust_annotations),
        policy=chosen.policy or settings.policy,
        fixed_arguments=chosen.arguments,
        priority=settings.priority if chosen.priority is None else chosen.priority,
        **{
            role: argument
            for role in ROLES
            if (argument := getattr(chosen, role)) is not None and argument in properties
        },
    )


def safety_of(annotations: mcp_types.ToolAnnotations | None, trusted: bool) -> Safety:
    """What a tool may do according to its upstream: the worst, without annotations or trust in
    them; a missing hint counts as the protocol's default, the worse one. A read-only tool with
    `openWorldHint` stays `READ_ONLY`: as Context7's, it looks things up and changes nothing."""
    if annotations is None or not trusted:
        return Safety.DESTRUCTIVE
    if annotations.read_only_hint:
        return Safety.READ_ONLY
    if annotations.read_only_hint is not False or annotations.destructive_hint is not False:
        return Safety.DESTRUCTIVE
    return Safety.WRITE if annotations.open_world_hint is False else Safety.OPEN_WORLD


# Lines counted from 0, as Serena 2.1 does (its TextLine.format_line and body_location).

_LINE_ARGUMENTS = frozenset({"start_line", "end_line", "line"})
_LINE_KEYS = _LINE_ARGUMENTS | {"reference_line"}
_JSON_START = re.compile(r"^[\[{]", re.MULTILINE)
_NUMBERED = re.compile(r"(  >|\.\.\.)( *\d+)(?=:)")


def lines_from_one(text: str) -> str:
    """A result whose lines count from 0, with lines counting from 1: the integers under
    `_LINE_KEYS`, strings with numbered lines (`"  > 237:def f():"`), and Serena's `Match lines per
    file` lists. Only JSON is changed, with or without a heading above it: in plain text a line
    number looks like any other number."""
    start = _JSON_START.search(text)
    if not start:
        return text
    heading = text[: start.start()]
    try:
        data = json.loads(text[start.start() :])
        return heading + _json(_raised(data, bare=heading.endswith("Match lines per file:\n")))
    except (ValueError, RecursionError):
        return text


def _raised(value: Any, bare: bool, key: str = "") -> Any:
    """`bare`: integers outside of known keys are line numbers too."""
    if isinstance(value, dict):
        return {name: _raised(item, bare, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_raised(item, bare) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return value + 1 if bare or key in _LINE_KEYS else value
    if isinstance(value, str):
        lines = value.split("\n")
        if all(_NUMBERED.match(line) for line in lines):
            return "\n".join(_NUMBERED.sub(_next_number, line, count=1) for line in lines)
    return value


def _next_number(match: re.Match[str]) -> str:
    mark, number = match.groups()
    return f"{mark}{int(number) + 1:>{len(number)}}"


def lines_from_zero(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments whose line numbers count from 1, counting from 0; 0 and negatives stay."""
    return {
        name: value - 1 if name in _LINE_ARGUMENTS and type(value) is int and value > 0 else value
        for name, value in arguments.items()
    }


def one_based_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments' schema of a tool that counts lines from 0, as if it counted from 1."""
    properties = dict(schema.get("properties", {}))
    for name in _LINE_ARGUMENTS & properties.keys():
        if not isinstance(properties[name], dict):
            continue
        entry = dict(properties[name])
        if isinstance(described := entry.get("description"), str):
            entry["description"] = described.replace("0-based", "1-based")
        default = entry.get("default")
        if isinstance(default, int) and default >= 0:
            entry["default"] = default + 1
        properties[name] = entry
    return {**schema, "properties": properties}


def listing_text(text: str) -> str:
    """A directory listing, one entry a line, directories with a slash, at most `MAX_ENTRIES`. It
    may be Serena's `{"dirs": [..], "files": [..]}`, a JSON list of names, or lines."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = text.splitlines()
    if isinstance(data, dict):
        dirs, files = (_as_list(data.get(key)) for key in ("dirs", "files"))
        data = [f"{name}/" for name in dirs] + files
    entries = [str(entry) for entry in data] if isinstance(data, list) else [text]
    entries = [entry.replace("\n", " ")[:MAX_NAME_CHARS] for entry in entries]
    entries = [entry for entry in entries if entry.strip()]
    rest = len(entries) - MAX_ENTRIES
    return "\n".join(entries[:MAX_ENTRIES] + ([f"… and {rest} more"] if rest > 0 else []))
