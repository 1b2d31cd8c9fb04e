"""What a result really is: nothing, a fault, or new lines."""

import re
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from xml.etree import ElementTree

from planner.checks.guards.arguments import takes_path, takes_paths
from planner.checks.guards.no_effect import changed_nothing
from planner.evidence.context import readable
from planner.evidence.records import RESULTS_KEPT, value_of
from planner.state import Iteration
from planner.tools import EMPTY, Arguments, ToolSpec

MAX_FAULT_CHARS = 1000
"""Characters of a result that is nothing but an error."""
MAX_FAULT_LINES = 3
"""Lines of such a result, unless it is a traceback."""
NOTHING = "Nothing for the arguments above"
"""The beginning of the result of a widened call."""
BROADER = re.compile(rf"{NOTHING}; for (\{{.*\}}):\n")
"""The same, if it found something, with the arguments that did."""
_COUNT = re.compile(r"^(?:(?:count|total|num)(?:of)?)+|(?:count|total)$")
"""What makes the name of a count of the name of a list: `table_count` of `tables`."""
_EMPTY = re.compile(
    r"[\s\[\]{}()\"':,.]*|null|none|[\w \t.'-]*:\s*"
    r"|(?!\s*\[?\s*\{[^{}]*\}\s*,?\s*[\]{]|\s*- \w+:)"  # no records
    r"(?:.*(?:[\n\"!.:]|\b(?:found|returned|with|were|has|have|contains))\s*)??"
    r"(?:[^\w\n]*(?:\w+[.!]? ){0,4})?no (?:results|matches|files)\b(?! changed).{0,80}",
    re.IGNORECASE | re.DOTALL,
)


def empty(result: str) -> bool:
    """Whether a successful result contains nothing: `[]`, "no matches", a heading alone."""
    if result.startswith(f"{NOTHING}, nor for "):
        return True
    bare = re.sub(r'"\w+"\s*:', "", result)
    return len(bare) < 200 and (_EMPTY.fullmatch(bare) is not None or _only_counts(result))


def found_something(call: Iteration) -> bool:
    return call.succeeded and not empty(call.result)


def _only_counts(result: str) -> bool:
    """Whether a result is an object with an empty list, zeros, and objects of plain numbers such as
    the bounds of a page; beside a count of 0, also texts and flags, as of what was looked in."""
    value = _object(result.strip())
    inner = [each for part in value.values() if isinstance(part, dict) for each in part.values()]
    lists = [name for name, each in value.items() if each == []]
    counts = [
        _COUNT.sub("", name) for name, each in value.items() if each == 0 and each is not False
    ]
    none = any(each.startswith(name) for each in lists for name in counts)
    beside = (dict, str, bool) if none else dict
    told = [each for each in value.values() if not isinstance(each, beside)]
    return [] in told and not any(told) and all(type(each) in (bool, int) for each in inner)


_FAULT = re.compile(
    r"(?:MCP )?(?:Error|ERROR|error)(?::(?:\s|$)| - | -?\d+: "
    r"| (?:accessing|calling|connecting|executing|fetching|loading|opening|reading|searching) )"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): |[A-Z][a-z]+ error: "
    r"|(?:Unknown|Invalid) tool\b|Tool \S+ (?:not found|does not exist|is not available)"
)
_TRACEBACK = "Traceback (most recent call last):"
_FAILED = re.compile(r"(?:Failed|Unable) to |[Ee]rror [a-z]+ing ")
"""How it is said that a change was not made; what a tool reads may begin so too."""
_MARK = re.compile(r"[^\w\x00-\x7f]+\s*")
"""What may stand before an error, such as a cross."""
_FAULT_KEYS = {
    *("code", "details", "error", "errors", "iserror", "message", "ok", "reason", "status"),
    *("statuscode", "success"),
}
_DESCRIBES = {"description", "jsonrpc"}
"""What may stand beside an error, as OAuth's do; alone, it is of anything."""
_PROBLEM_KEYS = {
    *("detail", "documentationurl", "instance", "object", "path", "requestid", "timestamp"),
    *("title", "traceid", "type"),
}
"""What errors of HTTP have besides as objects, those of RFC 9457 among them."""
_ERROR_KEY = re.compile(r"err(?:or|no|code|msg)?s?(?=$|code|message|description|type)")
"""`error`, `errorMessages`, `errcode`; not `errand`."""
_FAILURES = ("fail", "failed", "failure")
FLAGS = {"true": True, "false": False}
_EXIT = re.compile(r"(?:exit|return|^)(?:code|status)$")
_HTTP_ERROR = re.compile(r"[45]\d\d")
_STATUS_LINE = re.compile(r"(?:<.*?<title>\s*)?(?:HTTP\S* )?([45]\d\d)\W+(\D+)", re.DOTALL)
"""`403 Forbidden`, as a text, a message, or the title of a page."""
_PHRASES = {str(each.value): each.phrase.lower() for each in HTTPStatus}
_SHOWS_FILES = re.compile(
    r"(?<![a-z])(?:read|cat|view|search|grep|contents?)(?![a-z])", re.IGNORECASE
)
"""The names of tools that show the text of files, if they take paths: `read_query` shows none."""
_SHOWS_LOGS = re.compile(r"(?<![a-z])logs?(?![a-z])", re.IGNORECASE)


def fault(tool: ToolSpec, arguments: Arguments, result: str) -> bool:
    """Whether a result that is marked as a success is nothing but a short error, or an object that
    says that a change failed. If the tool shows the project's own text, the error has to name the
    tool or the path: a log may be one line that says "Error: disk full"."""
    text = result.strip()
    is_short = len(text) <= MAX_FAULT_CHARS
    data = {} if tool.read_only and (not is_short or text.startswith("[")) else _object(text)
    given = _spelled_alike(arguments)
    flagged = not tool.read_only and (
        _is_flagged(data) or _tells_of_errors(data, given) or changed_nothing(tool, arguments, text)
    )
    if not (flagged or (is_short and _is_fault(tool, given, text, data))):
        return False
    of_files = takes_paths(tool) and _SHOWS_FILES.search(tool.name)
    if not (tool.file_argument or tool.text_argument or of_files or _SHOWS_LOGS.search(tool.name)):
        return True
    places = [str(value).strip("./") for name, value in arguments.items() if takes_path(name)]
    return any(name and name in text for name in (tool.name, *places))


def _object(text: str) -> dict[str, Any]:
    """The object that a text is, or the only one of a list, in JSON or as Python prints it; empty
    if it is none."""
    if text.startswith("<"):
        small = len(text) <= MAX_FAULT_CHARS and "<!ENTITY" not in text  # which may grow
        return _of_xml(text) if small else {}
    data = value_of(text) if text.startswith(("{", "[")) else None
    if isinstance(data, list) and len(data) == 1:
        [data] = data
    return _spelled_alike(data) if isinstance(data, dict) else {}


def _of_xml(text: str) -> dict[str, Any]:
    """The innermost element of XML that has several, and its attributes, as an object; an `error`
    if it is a fault of SOAP or is named so."""
    try:
        element = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return {}
    names = [_local(element)]
    while len(element) and len(element[-1]):  # a header stands before a body
        element = element[-1]
        names.append(_local(element))
    told = element.attrib | {_local(each): each.text for each in element}
    data = {name: FLAGS.get(str(value).strip(), value) for name, value in told.items()}
    fails = not {"fault", "error"}.isdisjoint(map(str.lower, names))
    return _spelled_alike({"error": text} if fails else data)


def _local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _spelled_alike(data: dict[str, Any]) -> dict[str, Any]:
    """An object with its names as `statuscode`, which services spell in several ways."""
    return {str(name).replace("_", "").lower(): value for name, value in data.items()}


def _is_fault(tool: ToolSpec, arguments: Arguments, text: str, data: dict[str, Any]) -> bool:
    """Whether a text is an error, or an object that says one and nothing else but the arguments."""
    bare = text[begins.end() :] if (begins := _MARK.match(text)) else text
    begins_so = _FAULT.match(bare) is not None or _is_status_line(bare)
    begins_so = begins_so or (not tool.read_only and _FAILED.match(bare) is not None)
    if text.startswith(_TRACEBACK) or (begins_so and len(text.splitlines()) <= MAX_FAULT_LINES):
        return True
    if text.startswith("<") and _is_status_line(text):
        return True
    more = {
        name for name, value in data.items() if name not in arguments or arguments[name] != value
    }
    more -= _FAULT_KEYS | _DESCRIBES | {*filter(_ERROR_KEY.match, data)}
    if _is_flagged(data):  # beside what was looked in, the default of an argument too
        more -= _spelled_alike(tool.parameters).keys()
    more = {name for name in more if data[name] not in EMPTY}
    message = data.get("message")
    said = _says_error(data) or (isinstance(message, str) and _is_status_line(message))
    status = data.get("status")
    return bool(
        (not more and (said or status == "error" or _is_flagged(data)))
        or (data.keys() <= _FAULT_KEYS and str(status).lower() in _FAILURES)  # else of what it is
        or (_is_http_error(data) and more <= _PROBLEM_KEYS)
    )


def _is_status_line(text: str) -> bool:
    """Whether a text begins with the status of an HTTP error and its name in the standard."""
    found = _STATUS_LINE.match(text)
    return found is not None and found[2].lower().startswith(_PHRASES.get(found[1], "\n"))


def _says_error(data: dict[str, Any]) -> bool:
    """Whether an object has an error, or its number or code; 0 and a message beside it say that
    there is none."""
    told = {name: value for name, value in data.items() if _ERROR_KEY.match(name) and value != "0"}
    return any(
        value and not (isinstance(value, str) and name.endswith(("msg", "message", "description")))
        for name, value in told.items()
    )


def _is_http_error(data: dict[str, Any]) -> bool:
    """Whether an object has the status of an HTTP error, and says why."""
    has = [name for name in ("status", "statuscode", "code") if name in data]
    told = ("title", "detail", "message", "error", "errors")[2 * (has == ["code"]) :]
    status = any(_HTTP_ERROR.fullmatch(str(data[name])) for name in has)
    return status and any(data.get(name) for name in told)


def _is_flagged(data: dict[str, Any]) -> bool:
    """Whether an object says in so many words that a call failed. Another object may have an error
    or a status of its own, such as a build that was marked as failed. A command that ends otherwise
    than with 0 may have found something; if it has only complained, it failed."""
    failed = data.get("success") is False or data.get("ok") is False
    if data.get("stdout") == "" and data.get("stderr"):
        failed = any(each not in (0, None) for name, each in data.items() if _EXIT.search(name))
    return failed or data.get("iserror") is True or data.get("errors") is True


def _tells_of_errors(data: dict[str, Any], arguments: Arguments) -> bool:
    """Whether what came of a change is nothing but errors, at any depth, as for a mutation of
    GraphQL, or an error with its message, as JSend has it, or with its status of HTTP, and nothing
    that the call named."""
    told = "message" in data or _says_error(data)
    status = str(data.get("status")).lower()
    if told and (
        status in ("error", *_FAILURES) or (status[:1].isdigit() and _is_http_error(data))
    ):
        return "id" not in data and data.keys() & arguments.keys() <= {"status", "message"}
    only = {name: each for name, each in data.items() if each and name != "extensions"}
    return bool(only) and all(
        name.lower().endswith("errors")
        or (isinstance(each, dict) and _tells_of_errors(each, arguments))
        for name, each in only.items()
    )


def new_lines(iterations: Sequence[Iteration]) -> Sequence[int]:
    """For each iteration, how many lines of its result are new; a change counts as one at least."""
    told = ((each.result, each.changes) if each.succeeded else ("", False) for each in iterations)
    return _new_lines(*told)


@lru_cache(maxsize=128)
def _new_lines(*results: tuple[str, bool]) -> tuple[int, ...]:
    seen: set[str] = set()
    counts = []
    for result, changed in results:
        lines = _lines(result)
        counts.append(max(len(lines - seen), int(changed)))
        seen |= lines
    return tuple(counts)


@lru_cache(maxsize=RESULTS_KEPT)
def _lines(result: str) -> frozenset[str]:
    if empty(result):
        return frozenset()
    lines = {line.strip() for line in readable(result).splitlines()} - {""}
    return frozenset(line for line in lines if not line.startswith(NOTHING))
