"""Lists in parts: how the next one is asked for, and when there is none."""

import json
from typing import Any

import pytest
from in_memory import spec

from planner.evidence.pages import Part, is_part, next_arguments
from planner.evidence.records import records

ENTRIES = [{"id": number} for number in range(1, 5)]


@pytest.mark.parametrize(
    ("takes", "given", "beside", "further"),
    [
        ("cursor", {}, {"next_cursor": "c4"}, {"cursor": "c4"}),
        ("start_cursor", {}, {"has_more": True, "next_cursor": "c4"}, {"start_cursor": "c4"}),
        ("pageToken", {}, {"nextPageToken": "c4"}, {"pageToken": "c4"}),
        ("page_token", {"page_token": "c1"}, {"nextPageToken": "c4"}, {"page_token": "c4"}),
        ("nextToken", {}, {"nextToken": "c4"}, {"nextToken": "c4"}),
        ("after", {}, {"pageInfo": {"hasNextPage": True, "endCursor": "c4"}}, {"after": "c4"}),
        ("cursor", {}, {"response_metadata": {"next_cursor": "c4"}}, {"cursor": "c4"}),
        ("skip", {}, {"@odata.nextLink": "https://x.example/a?$skip=4"}, {"skip": 4}),
        ("page", {}, {"next": "https://x.example/a?page=2&per=4"}, {"page": 2}),
        ("offset", {}, {"total": 9, "limit": 4}, {"offset": 4}),
        ("offset", {"offset": 4}, {"total": 9, "limit": 4}, {"offset": 8}),
        ("startAt", {}, {"startAt": 0, "maxResults": 4, "total": 9}, {"startAt": 4}),
        ("page", {"page": 2}, {"has_more": True}, {"page": 3}),
        ("page", {}, {"page": 0, "has_more": True}, {"page": 1}),
        ("page", {}, {"has_more": True}, None),  # it may begin with 0 or 1
        ("token", {}, {"nextPageToken": "c4"}, None),  # it may be a password
        ("query", {}, {"next_cursor": "c4"}, None),
    ],
)
def test_the_next_part_is_asked_for_as_the_tool_takes_it(
    takes: str, given: dict[str, Any], beside: dict[str, Any], further: dict[str, Any] | None
) -> None:
    result = json.dumps({"items": ENTRIES} | beside)
    arguments = {"state": "open"} | given
    told = next_arguments(spec("find", "state", f"{takes}?"), arguments, Part(result))
    assert told == (further and arguments | further)
    assert is_part(result)


@pytest.mark.parametrize(
    ("beside", "read", "ends"),
    [
        ({"next_cursor": None}, 4, True),
        ({"has_more": False, "next_cursor": "c4"}, 4, True),
        ({"total": 8, "limit": 4}, 4, False),
        ({"total": 8, "limit": 4}, 8, True),
        ({"page": 2, "total_pages": 2}, 8, True),
        ({"page": 1, "total_pages": 2}, 4, False),
        ({"has_more": True}, 4, False),
    ],
)
def test_where_a_list_ends(beside: dict[str, Any], read: int, ends: bool) -> None:
    assert Part(json.dumps({"items": ENTRIES} | beside)).ends(read) is ends


def test_all_parts_are_one_list() -> None:
    last = {"data": {"items": ENTRIES[2:], "page": 2, "total_pages": 2, "total": 4}}
    joined = Part(json.dumps(last)).joined(ENTRIES, whole=True)
    assert json.loads(joined) == {"data": {"items": ENTRIES, "page": 2, "total": 4}}
    assert records(joined) == ENTRIES
    assert is_part(Part(json.dumps(last)).joined(ENTRIES[:3], whole=False))


@pytest.mark.parametrize("result", ["", "no list", "[1, 2]", '{"a": [1], "b": [2]}', '{"a": {}}'])
def test_what_is_no_list_in_an_object_is_no_part(result: str) -> None:
    assert not is_part(result)
    assert Part(result).listed == []
