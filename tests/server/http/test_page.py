"""The live view in a real browser: over HTTP, and as an MCP App in a host's frame."""

import json
import os
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from fastmcp import Client
from jsonschema import Draft202012Validator
from ollama_replies import Answer, Drop, Hang
from paths import OUTSIDE
from playwright.async_api import Browser, Page, Route, async_playwright, expect
from recorded import MADE
from replies import found, nowhere, was_done, words
from replies import plan as one_step
from scripted_ollama import ScriptedOllama
from serving import FILES, Caller, Place, until

from planner.events import RunFinished, RunResumed, RunStarted
from planner.protocol import RunRequest
from server.journal.records import Entry, NewRun
from server.journal.sqlite import SqliteJournal
from server.text import duration

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CHROMIUM = "/usr/bin/chromium"
MODULES = OUTSIDE / "view" / "node_modules"
AXE = MODULES / "axe-core" / "axe.min.js"
VIOLATIONS = "axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)"
"""What was kept to takes as long to describe as it takes to check."""
APPS = MODULES / "@modelcontextprotocol/ext-apps/dist/src/generated/schema.json"
PATIENCE = 60_000
"""Milliseconds; nothing waits for them to pass."""
PICTURE = os.environ.get("VIEW_PICTURE")
"""Where a picture for the README is to go (`make docs/view.png`); others go beside it."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (390, 1024, 1600)
HEIGHT = 900
QUESTION = "How long does an upload wait, and what is the caller told when it is given up?"
FIRST = "An upload waits 45 s (`UPLOAD_SECONDS` in transfer/limits.py, line 3)."
ANSWER = (
    f"{FIRST} Then `send_part` raises `UploadExpired`, and the caller is told that "
    '"the other side did not take the part in time" (transfer/parts.py, line 14).'
)
PROJECT = {
    "transfer/limits.py": '''"""Limits of a transfer."""

UPLOAD_SECONDS = 45
PARTS_AT_ONCE = 4
''',
    "transfer/parts.py": '''"""Sends the parts of an upload."""

import anyio

from transfer.limits import UPLOAD_SECONDS


async def send_part(part: bytes, receiver: "Receiver") -> None:
    """Send one part. Raises `UploadExpired`."""
    try:
        with anyio.fail_after(UPLOAD_SECONDS):
            await receiver.take(part)
    except TimeoutError:
        raise UploadExpired("the other side did not take the part in time") from None


class UploadExpired(Exception):
    """The receiver was too slow."""
''',
    "notes/changes.md": "# Changes\n\n- Uploads are given up after a while.\n",
}
NOTE = "Uploads wait 45 s:\n- see transfer/limits.py\n- and what is raised then"
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><b id=bold>**</b>"
LATER = ["Read what is raised then", "See where it is told to the caller", "Look into the notes"]


def timed(reply: dict[str, Any] | list[Any]) -> Answer:
    """A reply that says how long it took. It does take that long where a picture shows it."""
    fields = {"load_duration": 0, "prompt_eval_duration": 210_000_000, "eval_duration": 640_000_000}
    words = len(json.dumps(reply)) / 4
    return Answer(reply, fields=fields, gap_seconds=0.85 / words if PICTURE else 0)


def read_as(wants: str) -> Answer:
    """How the request is read."""
    return timed({"search": ["upload"], "wants": wants})


def move_on(objective: str, tool: str, notes: str) -> Answer:
    return timed(
        {
            "decision": "move_on",
            "later_steps": [],
            "notes": notes,
            "objective": objective,
            "tool_calls": [{"prompt": objective, "tool": tool}],
        }
    )


def plan(
    objective: str = "Find the constant that limits an upload",
) -> Answer:
    return timed(
        {
            "steps": [
                {"objective": objective, "tool": "read_file"},
                *({"objective": each, "tool": None} for each in LATER),
            ],
        }
    )


def script(ollama: ScriptedOllama) -> None:
    """Two steps of a plan, and an answer that is half written when the model holds on."""
    ollama.expect(read_as("short answer"))
    ollama.expect(timed(nowhere()))
    ollama.expect(timed(words("deadline", "patience", "elapsed", "allowance")))
    ollama.expect(plan())
    ollama.expect(timed({"path": "transfer/limits.py", "start_line": 1}))
    ollama.expect(
        move_on(LATER[0], "read_file", "UPLOAD_SECONDS = 45 in transfer/limits.py, line 3.")
    )
    ollama.expect(timed({"path": "transfer/parts.py", "start_line": 1}))
    whole = json.dumps(found(ANSWER))
    half = whole.index("Then `send_part` raises ") + len("Then `send_part` raises ")
    ollama.expect(Hang(after=whole[:half], then=whole[half:]))


@pytest.fixture
def place(tmp_path: Path, ollama: ScriptedOllama) -> Place:
    place = Place(tmp_path, ollama)
    for name, text in PROJECT.items():
        file = place.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for all tests, and so one browser."""
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """A headless Chromium."""
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        await browser.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page that knows nothing of others. What a script on it throws fails the test."""
    async with await browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        thrown: list[Any] = []
        page.on("pageerror", lambda error: thrown.append(error))
        yield page
        assert thrown == []


@asynccontextmanager
async def served(place: Place) -> AsyncIterator[tuple[Client[Any], str]]:
    """A client of an HTTP server on this place, and the address of its view."""
    with place.http() as (_, port):
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            yield client, f"http://127.0.0.1:{port}/view"


async def begin(client: Client[Any], prompt: str = QUESTION) -> str:
    given = {"prompt": prompt, "wait_s": 0}
    begun = await client.call_tool("plan_and_answer", given, raise_on_error=False)
    return str((begun.structured_content or {})["run_id"])


async def accessible(page: Page) -> None:
    """No rule of axe-core is broken."""
    if not await page.evaluate("'axe' in window"):
        # As a script of its own it is not bound by the page's policy.
        await page.evaluate(AXE.read_text("utf-8"))
    found = await page.evaluate(VIOLATIONS)
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


CLIPPED = """[...document.querySelectorAll("main *")]
    .filter((each) => !each.closest("pre, h1.long, input, select, svg"))
    .filter((each) => {
        const { clientWidth, clientHeight, scrollWidth, scrollHeight } = each;
        const hides = getComputedStyle(each).overflowY !== "visible";
        const below = hides && scrollHeight > clientHeight + 1;
        return clientWidth && (scrollWidth > clientWidth + 1 || below);
    })
    .map((each) => each.outerHTML.slice(0, 200))"""
"""What is larger than its room; blocks of text are scrolled."""
BROKEN = """[...document.querySelectorAll("#top a, .badge, .outcome, time, .kinds li, dd, button")]
    .filter((each) => each.textContent && !each.closest(".call dl"))
    .filter((each) => {
        const text = document.createRange();
        text.selectNodeContents(each);
        const lines = [...text.getClientRects()].filter(({ width }) => width);
        const [first, last] = [lines[0], lines.at(-1)];
        return lines.length && last.top > first.bottom;
    })
    .map((each) => each.outerHTML.slice(0, 200))"""
"""Names and figures with their units that take more than one line."""


async def looked_at(page: Page, name: str, picture: str | None = None) -> None:
    """Held against axe-core and for what is clipped, light and dark, at each width. With a picture
    of each for a person (`VIEW_PICTURES`, a folder), and all of them as `picture` of the docs."""
    taken: list[bytes] = []
    await page.mouse.move(0, 0)  # what it points at has a link beside it
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            if width != 1024:
                await accessible(page)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate(CLIPPED) == []
            assert await page.evaluate(BROKEN) == []
            if folder := os.environ.get("VIEW_PICTURES"):
                await page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
            if PICTURE and picture:
                await page.evaluate("scrollTo(0, 0)")
                taken.append(await page.screenshot())
    await page.emulate_media(color_scheme="light")
    if PICTURE and picture:
        await side_by_side(page, taken, Path(PICTURE).with_stem(picture))


async def side_by_side(page: Page, pictures: list[bytes], file: Path) -> None:
    """One picture of all, half as large: a row for each scheme."""
    shown = [
        f'<img height="{HEIGHT // 2}" src="data:image/png;base64,{b64encode(each).decode()}">'
        for each in pictures
    ]
    rows = (shown[: len(WIDTHS)], shown[len(WIDTHS) :])
    sheet = await page.context.new_page()
    await sheet.set_viewport_size({"width": sum(WIDTHS) // 2 + 64, "height": HEIGHT + 48})
    style = "margin: 16px; display: grid; gap: 16px; background: #888"
    body = "".join(f'<div style="display: flex; gap: 16px">{"".join(row)}</div>' for row in rows)
    await sheet.set_content(f'<body style="{style}">{body}')
    await sheet.screenshot(path=file)
    await sheet.close()


async def test_a_run_is_seen_as_it_goes_on(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    script(ollama)
    async with served(place) as (client, view):
        run_id = await begin(client)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
        writing = page.get_by_role("region", name="Answer, being written")
        await expect(writing).to_contain_text("Then send_part raises")
        assert place.token not in page.url
        assert await page.evaluate("location.hash + JSON.stringify(localStorage)") == "{}"

        region = page.get_by_role("region", name="Plan")
        await expect(region.get_by_role("heading", level=3)).to_have_text(
            [
                "Look around done",
                "Find the constant that limits an upload done",
                f"{LATER[0]} in progress",
            ]
        )
        await expect(page.get_by_role("status").last).to_have_text(
            "Step 2 of 2: an answer is being written"
        )
        call = region.locator("summary").last
        await expect(call).to_contain_text("read_file transfer/parts.py (start_line 1)")
        if PICTURE:
            await page.set_viewport_size({"width": 1080, "height": 900})
            await page.screenshot(path=PICTURE, full_page=True)
        await call.focus()
        await page.keyboard.press("Enter")
        await expect(region.locator("details[open]")).to_contain_text(
            "with anyio.fail_after(UPLOAD_SECONDS)"
        )
        await looked_at(page, "running")

        ollama.release()
        answer = page.get_by_role("region", name="Answer", exact=True)
        await expect(answer).to_contain_text("the other side did not take the part in time")
        await expect(region.locator("details[open]")).to_contain_text(
            "with anyio.fail_after(UPLOAD_SECONDS)"
        )
        evidence = page.get_by_role("region", name="Evidence")
        await expect(evidence).to_contain_text("UPLOAD_SECONDS = 45")
        await expect(evidence.locator(".source").first).to_contain_text("transfer/")
        cost = page.get_by_role("region", name="Cost")
        await expect(cost).to_contain_text("Prompt tokens")
        await expect(cost).to_contain_text("did not have to read some")
        timeline = page.get_by_role("region", name="Where the time went")
        await timeline.get_by_text("made a plan").click()
        await expect(timeline).to_contain_text("Make a plan for the request: How long")
        await expect(timeline).to_contain_text('"objective":"Find the constant that limits')
        await looked_at(page, "answered", "view-run-widths")

        await page.get_by_role("link", name="All runs").click()
        link = page.get_by_role("link", name=QUESTION)
        await expect(link).to_be_visible()
        await looked_at(page, "list")
        await page.get_by_label("Search the runs").fill("nothing of the kind")
        await expect(page.get_by_text("No run is like that.")).to_be_visible()
        await page.get_by_label("Search the runs").fill("upload wait")
        await page.get_by_label("State", exact=True).select_option("Answered")
        await page.get_by_label("Project", exact=True).select_option(str(place.project))
        await link.click()
        await expect(answer).to_be_visible()

        # A link to a place of the page opens it.
        await page.goto("about:blank")
        await page.goto(f"{view}?run={run_id[:8]}#call-1")
        await expect(page.locator("#call-1 details[open]")).to_contain_text("Result, from files")


async def test_the_list_of_runs_stays_when_it_is_drawn_again(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    ollama.expect(found(FIRST))
    async with served(place) as (client, view):
        await begin(client)
        await page.goto(f"{view}#token={place.token}")
        link = page.get_by_role("link", name=QUESTION)
        await expect(link).to_be_visible()
        for _ in range(3):
            async with page.expect_response("**/view/runs"):
                pass
        assert await link.count() == 1
        await expect(page.get_by_label("State", exact=True)).to_have_value("")


async def test_without_a_token_there_is_nothing_to_see(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    async with served(place) as (_, view):
        await page.goto(view)
        token = page.get_by_label("Token")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        await expect(page.get_by_text("planloom token prints yours")).to_be_visible()
        await token.fill("not-the-token-0123456789")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The server does not know this token.")).to_be_visible()
        await looked_at(page, "token")
        await token.fill(place.token)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("No runs yet.")).to_be_visible()
        await page.goto(f"{view}?run={'0' * 32}")
        await expect(page.get_by_text("There is no run")).to_be_visible()


async def test_what_models_and_tools_say_is_text(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    (place.project / "transfer" / "limits.py").write_text(f"UPLOAD_SECONDS = 45  # {HOSTILE}\n")
    ollama.expect(nowhere())
    ollama.expect(plan(HOSTILE))
    ollama.expect({"path": "transfer/limits.py", "start_line": 1})
    answer = f"It is 45:\n- {HOSTILE}\n- raised then"
    ollama.expect(move_on(HOSTILE, "say", HOSTILE))
    ollama.expect({"text": HOSTILE})
    ollama.expect(found(answer))
    async with served(place) as (client, view):
        run_id = await begin(client, f"{QUESTION} {HOSTILE}")
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        region = page.get_by_role("region", name="Answer", exact=True)
        await expect(region.get_by_role("listitem")).to_have_text([HOSTILE, "raised then"])
        await page.evaluate(
            "document.querySelectorAll('details').forEach((each) => (each.open = true))"
        )
        await expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
        assert await page.locator("main img, #bold").count() == 0
        assert "taken" not in await page.title()
        refused = page.evaluate("document.body.innerHTML = '<p>'")
        with pytest.raises(Exception, match="TrustedHTML"):
            await refused


async def test_a_person_says_something_to_a_run_and_stops_it(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    ollama.expect(nowhere())
    ollama.expect(plan())
    ollama.expect(Hang())
    async with served(place) as (client, view):
        run_id = await begin(client)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        all_said = anyio.Event()

        async def held(route: Route) -> None:
            await all_said.wait()
            await route.continue_()

        await page.route("**/steer", held)
        await page.get_by_role("button", name=f"Skip: {LATER[2]}").click()
        await page.get_by_role("button", name=f"Do next: {LATER[1]}").click()
        await page.get_by_label("A hint for the next decision").fill("Leave the notes alone")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")
        all_said.set()
        said = page.get_by_role("region", name="Said while it ran").get_by_role("listitem")
        await expect(said).to_have_text(
            [
                f"skip: {LATER[2]} (by hand, waits for the next decision)",
                f"first: {LATER[1]} (by hand, waits for the next decision)",
                "“Leave the notes alone” (by hand, waits for the next decision)",
            ]
        )
        await looked_at(page, "steered")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".state")).to_contain_text("Cancelled")
        report = (await client.call_tool("get_run", {"run_id": run_id})).structured_content or {}
        assert report["status"] == "cancelled"


async def test_a_person_approves_a_call_and_asks_in_the_browser(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    """The run was asked for on the page; its client cannot ask."""
    place.upstreams = {"files": FILES | {"policy": "ask"}}
    place.approval = {"timeout_s": 600}  # it does not lapse on a busy machine
    ollama.expect(read_as("action"))
    ollama.expect(timed(one_step("append_note", objective="Append a note")))
    ollama.expect(timed({"text": NOTE}))
    ollama.expect(timed(was_done("It is noted.")))
    async with served(place) as (client, view):
        await page.goto(f"{view.removesuffix('/view')}/#token={place.token}")
        assert page.url.startswith(view)
        await page.get_by_label("Ask about project").fill("Note that uploads wait 45 s")
        await page.get_by_role("button", name="Ask").click()
        region = page.get_by_role("region", name="Approval needed")
        await expect(region).to_contain_text("append_note of files")
        await expect(region).to_contain_text(" s left")
        for line in NOTE.splitlines():
            await expect(region).to_contain_text(line)
        await expect(page.locator(".state")).to_contain_text("Waits for approval")
        await looked_at(page, "approval", "view-approval-widths")
        if PICTURE:
            await page.set_viewport_size({"width": 1080, "height": 900})
            await page.screenshot(path=Path(PICTURE).with_stem("view-approval"))
        run = page.url

        await page.get_by_role("link", name="All runs").click()
        await expect(page.locator(".runs li.waits")).to_contain_text("append_note of files")
        await expect(page).to_have_title("(1) Runs – Planloom")
        await looked_at(page, "list-approval")
        if PICTURE:
            await page.set_viewport_size({"width": 1080, "height": 900})
            await page.screenshot(path=Path(PICTURE).with_stem("view-list"))

        await page.goto(run)
        await region.get_by_role("button", name="Approve").click()
        await expect(page.locator(".state")).to_contain_text("Answered")
        await expect(region).to_be_hidden()
        run_id = run.partition("run=")[2]
        asked = {"run_id": run_id, "whole": True}
        report = (await client.call_tool("get_run", asked)).structured_content or {}
        decided = [
            call["approval"]["reason"]
            for action in report["actions"]
            for call in action["tool_calls"]
            if call["approval"]
        ]
        assert decided == ["the user approved it in the browser"]
        shown = page.locator(".calls .outcome")
        assert await shown.all_text_contents() == [
            f"{call['outcome_text']}, {duration(call['execution_time'])}"
            for action in report["actions"]
            for call in action["tool_calls"]
        ]


async def test_a_person_declines_a_call_in_the_browser(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    place.upstreams = {"files": FILES | {"policy": "ask"}}
    place.approval = {"timeout_s": 600}
    ollama.expect(read_as("action"))
    ollama.expect(one_step("append_note", objective="Append a note"))
    ollama.expect({"text": NOTE})
    ollama.expect(was_done("It is noted."))
    async with served(place) as (_, view):
        await page.goto(f"{view}#token={place.token}")
        await page.get_by_label("Ask about project").fill("Note that uploads wait 45 s")
        await page.keyboard.press("Enter")
        region = page.get_by_role("region", name="Approval needed")
        await region.get_by_role("button", name="Decline").click()
        await expect(page.locator(".state")).to_contain_text("Refused")
        answer = page.get_by_role("region", name="Answer", exact=True)
        await expect(answer).to_contain_text("Nothing was changed")
        await expect(page.locator(".calls .outcome").last).to_have_text("not approved")


async def test_what_is_pressed_twice_is_done_once_and_no_call_is_approved_unread(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    place.upstreams = {"files": FILES | {"policy": "ask"}}
    place.approval = {"timeout_s": 600}
    objectives = ("Append a note", "Append another note")
    steps = [{"objective": each, "tool": "append_note"} for each in objectives]
    ollama.expect(read_as("action"))
    ollama.expect({"steps": steps})
    ollama.expect({"text": NOTE})
    ollama.expect({"text": "Another note"})
    ollama.expect(was_done("Both are noted."))
    posts: list[str] = []
    page.on("request", lambda each: posts.append(each.url) if each.method == "POST" else None)
    async with served(place) as (_, view):
        await page.goto(f"{view}#token={place.token}")
        question = page.get_by_label("Ask about project")

        # An error stays until something else is done, and so does what was written.
        await question.fill("   ")
        await page.keyboard.press("Enter")
        refused = page.locator("#notice").get_by_text("prompt")
        await expect(refused).to_be_in_viewport()
        for _ in range(2):
            async with page.expect_response("**/view/runs"):
                pass
        await expect(refused).to_be_visible()
        posts.clear()

        await question.fill("Note that uploads wait 45 s, twice")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")
        region = page.get_by_role("region", name="Approval needed")
        await expect(region).to_contain_text("see transfer/limits.py")
        assert [each.rpartition("/")[2] for each in posts] == ["runs"]

        # That it waits is in view wherever one reads.
        await expect(page.get_by_role("status").filter(has_text="Waits")).to_be_in_viewport()
        await page.set_viewport_size({"width": 390, "height": 300})
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        await expect(region).not_to_be_in_viewport()
        await expect(page.locator(".badge.waits")).to_be_in_viewport()

        # The next call stands where the first one stood, and cannot be approved at once.
        await page.evaluate(
            """() => new MutationObserver(() => {
                const button = document.querySelector(".approve");
                const shown = document.querySelector("#approval pre")?.textContent;
                if (shown?.includes("Another")) window.early ??= button.disabled;
            }).observe(document, { subtree: true, childList: true, characterData: true })"""
        )
        await region.get_by_role("button", name="Approve").dblclick()
        await expect(region).to_contain_text("Another note")
        assert await page.evaluate("window.early") is True
        await expect(page.locator("#notice")).to_be_empty()
        assert [each.rpartition("/")[2] for each in posts] == ["runs", "approval"]
        await region.get_by_role("button", name="Approve").click()
        await expect(page.locator(".badge.answered")).to_be_visible()


async def test_a_call_that_is_opened_while_it_is_under_way_shows_its_result(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    """In a browser that does not iterate over streams (Safari), of a question in Arabic."""
    asked = "كم من الوقت ينتظر upload؟"
    await page.add_init_script("delete ReadableStream.prototype[Symbol.asyncIterator]")
    ollama.expect(nowhere())
    ollama.expect(words("deadline", "patience", "elapsed", "allowance"))
    ollama.expect(one_step("sleep"))
    ollama.expect({"seconds": 3})
    ollama.expect(found(FIRST))
    async with served(place) as (client, view):
        run_id = await begin(client, asked)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        call = page.locator(".calls li").filter(has_text="sleep")
        await call.locator("summary").click()
        await expect(call).to_contain_text("under way")
        await expect(call).to_contain_text("slept")
        await expect(call).not_to_contain_text("(nothing)")
        places = """(heading) => [0, heading.textContent.length - 1].map((at) => {
            const range = document.createRange();
            range.setStart(heading.firstChild, at);
            range.setEnd(heading.firstChild, at + 1);
            return range.getBoundingClientRect().x;
        })"""
        first, last = await page.get_by_role("heading", level=1).evaluate(places)
        assert last < first


async def test_what_is_chosen_stays_chosen_when_the_runs_change(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    """In a tab behind others, too, whose title tells of a call that waits."""
    await page.add_init_script("Object.defineProperty(document, 'hidden', { value: true })")
    states = ["answered", "running"]

    async def listed(route: Route) -> None:
        runs = [
            {"id": each * 4, "status": each, "prompt": each, "project": "/p", "created": 0}
            for each in states
        ]
        await route.fulfill(json={"runs": runs, "project": "/p"})

    async with served(place) as (_, view):
        await page.route("**/view/runs", listed)
        await page.goto(view)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        # The address that the server printed, opened in the same tab, signs in.
        await page.evaluate("token => { location.hash = `token=${token}` }", place.token)
        state = page.get_by_label("State", exact=True)
        await state.select_option("Running")
        await expect(page.locator(".runs li")).to_have_count(1)
        assert place.token not in page.url
        states.append("failed")
        async with page.expect_response("**/view/runs"):
            pass
        await expect(state.locator("option")).to_have_count(4)
        await expect(state).to_have_value("Running")
        await expect(page.locator(".runs li")).to_have_count(1)


async def test_a_server_that_falls_silent_is_told(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    """In a browser whose clock is behind, too."""
    ollama.expect(Hang())
    await page.clock.install(time=0)
    with place.http() as (process, port):
        view = f"http://127.0.0.1:{port}/view"
        async with Client(f"http://127.0.0.1:{port}/mcp", auth=place.token) as client:
            run_id = await begin(client)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        await expect(page.locator(".badge.running")).to_be_visible()
        await expect(page.locator(".state time")).to_have_text("0.0 s")
        await ollama.arrived()
        process.send_signal(signal.SIGSTOP)
        try:
            await page.clock.run_for(60_000)
            await expect(page.get_by_text("Connection lost; trying again.")).to_be_visible()
        finally:
            process.send_signal(signal.SIGCONT)


async def test_a_result_is_shown_whole_and_what_code_noted_is_a_note(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    file = place.project / "transfer" / "limits.py"
    file.write_text(file.read_text() + "# And so on.\n" * 200 + "# The end of it.\n")
    read = {"path": "transfer/limits.py", "start_line": 1}
    ollama.expect(nowhere())
    ollama.expect(words("deadline", "patience", "elapsed", "allowance"))
    ollama.expect(plan())
    ollama.expect(read)
    ollama.expect(move_on(LATER[0], "read_file", "It is read."))
    ollama.expect(read)
    ollama.expect(found(FIRST))
    async with served(place) as (client, view):
        run_id = await begin(client)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        await expect(page.locator(".state")).to_contain_text("Answered")
        await expect(page.locator(".calls .outcome").last).to_have_text("205 lines")
        await expect(page.locator(".alarm")).to_have_count(0)
        notes = page.get_by_role("region", name="Notes of the checks")
        await notes.get_by_text("1 note", exact=True).click()
        await expect(notes).to_contain_text("repeated")
        call = page.locator(".calls li").filter(has_text="read_file").first
        await call.locator("summary").click()
        await expect(call).to_contain_text("# The end of it.")


async def test_a_run_that_failed_says_why(place: Place, ollama: ScriptedOllama, page: Page) -> None:
    place.upstreams = {"files": {key: FILES[key] for key in FILES if key != "tools"}}
    ollama.expect(read_as("short answer"))
    ollama.expect(timed({"lists": None, "reads": None}))
    ollama.expect(plan())
    ollama.expect(Drop())  # nothing is found yet that the run could end with
    async with served(place) as (client, view):
        run_id = await begin(client)
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        await expect(page.locator(".state")).to_contain_text("Failed")
        answer = page.get_by_role("region", name="Answer", exact=True)
        await expect(answer).to_contain_text("Could not find out: The connection to Ollama")
        await expect(answer).to_contain_text("see whether the server still runs")
        await expect(page.locator(".calls .outcome")).to_have_text("not made")
        await looked_at(page, "failed", "view-failed-widths")
        await page.get_by_role("link", name="All runs").click()
        failed = page.locator(".runs .badge.failed")
        await expect(failed).to_have_text("Failed")
        await expect(failed).to_have_css("color", "rgb(150, 51, 40)")


async def test_a_lost_connection_is_told_and_taken_up_again(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    async with served(place) as (_, view):
        await page.goto(f"{view}#token={place.token}")
        await expect(page.get_by_text("No runs yet.")).to_be_visible()

        async def cut(route: Route) -> None:
            await route.abort()

        await page.route("**/view/runs", cut)
        await expect(page.get_by_text("Connection lost; trying again.")).to_be_visible()
        await page.get_by_label("Ask about project").fill(QUESTION)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The server does not answer.")).to_be_visible()
        await expect(page.get_by_label("Ask about project")).to_have_value(QUESTION)
        await page.unroute("**/view/runs")
        await expect(page.get_by_text("Connection lost; trying again.")).to_be_hidden()


# As an MCP App

HOST = """<!doctype html><title>A host</title>
<iframe sandbox="allow-scripts" style="width: 600px; height: 700px; border: 0"></iframe>
<script>
  const frame = document.querySelector("iframe");
  const seen = [];
  const tell = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  addEventListener("message", async ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    seen.push(data);
    const { id, method, params } = data;
    if (id !== undefined) tell({ id, result: await answer(method, params) });
  });
</script>"""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""What a host imposes on an app that names no domains."""


@asynccontextmanager
async def hosted(
    page: Page, caller: Caller, *can: Literal["serverResources", "serverTools"]
) -> AsyncIterator[list[str]]:
    """A host that shows the app of `plan_and_answer` in a frame; yields what the app asked it."""
    tools = {tool.name: tool for tool in await caller.client.list_tools()}
    uri = (tools["plan_and_answer"].meta or {})["ui"]["resourceUri"]
    (content,) = await caller.client.read_resource(uri)
    asked: list[str] = []

    async def answer(method: str, params: dict[str, Any]) -> Any:
        asked.append(f"{method} {params.get('uri') or params.get('name') or ''}".strip())
        match method:
            case "ui/initialize":
                return {
                    "protocolVersion": "2026-01-26",
                    "hostInfo": {"name": "host", "version": "1"},
                    "hostCapabilities": {each: {} for each in can},
                    "hostContext": {
                        "theme": "dark",
                        "styles": {"variables": {"--color-background-primary": "#202030"}},
                    },
                }
            case "tools/call":
                result = await caller.call(params["name"], **params["arguments"])
                return {"structuredContent": result.structured_content, "content": []}
            case _:
                read = await caller.client.read_resource(params["uri"])
                contents = [each.model_dump(mode="json", by_alias=True) for each in read]
                return {"contents": contents}

    await page.expose_function("answer", answer)
    await page.set_content(HOST)
    html = content.text  # type: ignore[union-attr]
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    await page.evaluate(
        "html => { frame.srcdoc = html }", html.replace("<title>", f"{policy}<title>")
    )
    await page.wait_for_function(
        "seen.some((each) => each.method === 'ui/notifications/initialized')"
    )
    yield asked
    names = {
        "ui/initialize": "McpUiInitializeRequest",
        "ui/notifications/initialized": "McpUiInitializedNotification",
        "ui/notifications/size-changed": "McpUiSizeChangedNotification",
    }
    told = await page.evaluate("seen")
    assert names.keys() <= {each["method"] for each in told}
    for message in told:
        if name := names.get(message["method"]):
            body = {key: value for key, value in message.items() if key not in ("jsonrpc", "id")}
            known = json.loads(APPS.read_text("utf-8"))["$defs"]
            Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": known}).validate(body)


async def tell(page: Page, method: str, params: dict[str, Any]) -> None:
    await page.evaluate("message => tell(message)", {"method": method, "params": params})


async def test_an_app_shows_the_run_of_a_call_while_it_goes_on(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    script(ollama)
    async with (
        place.client() as caller,
        hosted(page, caller, "serverResources", "serverTools") as asked,
    ):
        app = page.frame_locator("iframe")
        await tell(page, "ui/notifications/tool-input", {"arguments": {"prompt": QUESTION}})
        await expect(app.get_by_role("heading", level=1)).to_have_text(QUESTION)
        await begin(caller.client)
        writing = app.get_by_role("region", name="Answer, being written")
        await expect(writing).to_contain_text("Then send_part raises")
        await expect(app.locator("html")).to_have_css("background-color", "rgb(32, 32, 48)")
        if folder := os.environ.get("VIEW_PICTURES"):
            await page.screenshot(path=f"{folder}/app.png")
        ollama.release()
        answer = app.get_by_role("region", name="Answer", exact=True)
        await expect(answer).to_contain_text("did not take the part in time")
    assert {each.partition("run://")[0].strip() for each in asked} == {
        "ui/initialize",
        "resources/read runs://newest",
        "resources/read",
    }


async def test_an_app_in_a_host_that_only_calls_tools_follows_a_run_from_its_first_report(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    ollama.expect(Hang())
    async with place.client() as caller, hosted(page, caller, "serverTools") as asked:
        app = page.frame_locator("iframe")
        await tell(page, "ui/notifications/tool-input", {"arguments": {"prompt": QUESTION}})
        begun = await caller.call("plan_and_answer", prompt=QUESTION, wait_s=0)
        result: dict[str, Any] = {"content": [], "structuredContent": begun.structured_content}
        await tell(page, "ui/notifications/tool-result", result)
        await ollama.arrived()
        await until(lambda: "tools/call get_run" in asked)
        await app.get_by_role("button", name="Stop").click()
        await expect(app.locator(".state")).to_contain_text("Cancelled")
    assert "tools/call cancel_run" in asked


async def test_an_app_that_may_ask_nothing_shows_the_result(
    place: Place, ollama: ScriptedOllama, page: Page
) -> None:
    ollama.expect(found("UPLOAD_SECONDS is in transfer/limits.py, line 3."))
    async with place.client() as caller, hosted(page, caller) as asked:
        done = await caller.call("plan_and_answer", prompt=QUESTION)
        await tell(page, "ui/notifications/tool-input", {"arguments": {"prompt": QUESTION}})
        result: dict[str, Any] = {"content": [], "structuredContent": done.structured_content}
        await tell(page, "ui/notifications/tool-result", result)
        app = page.frame_locator("iframe")
        await expect(app.get_by_role("region", name="Answer", exact=True)).to_contain_text("line 3")
        await expect(app.get_by_role("button")).to_have_count(0)
    assert asked == ["ui/initialize"]


async def test_a_pause_is_no_part_of_the_time_that_was_spent(place: Place, page: Page) -> None:
    """It was taken from the rest, so that nothing was left of it."""
    request, run_id = RunRequest(prompt=QUESTION), "0" * 32
    nothing: dict[str, Any] = {"listing": None, "tools": [], "offered": [], "upstreams": []}
    started = RunStarted(at=1000.0, request=request, **nothing)
    resumed = RunResumed(at=1100.0, paused=90.0)
    finished = RunFinished(at=1120.0, status="answered", answer=ANSWER)
    async with SqliteJournal(place.settings.runs) as journal:
        writer = await journal.begin(NewRun(run_id, "", request, MADE))
        for event in (started, resumed, finished):
            writer.append(Entry.of(event, 0.0))
    async with served(place) as (_, view):
        await page.goto(f"{view}?run={run_id}#token={place.token}")
        timeline = page.get_by_role("region", name="Where the time went")
        kinds = timeline.locator(".kinds li")
        await expect(kinds).to_have_text(["Interrupted 90 s", "Everything else 30 s"])
