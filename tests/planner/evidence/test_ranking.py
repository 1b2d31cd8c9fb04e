"""What defines a name, by its line, in languages that the planner does not know; short forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.evidence.passages import of_file
from planner.evidence.ranking import defined, ranked
from planner.passage import Passage


def names(text: str) -> list[str]:
    lines = text.count("\n") + 1
    return list(defined(Passage(source="file", first=1, last=lines, text=text)))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("async def run(self) -> None:", "run"),
        ("class Depot(Store):", "Depot"),
        ("self.max_retries = 5", "max_retries"),
        ("public final class Depot extends Store implements Closeable {", "Depot"),
        ("private static final int MAX_SIZE = 3;", "MAX_SIZE"),
        ("public void onReceive(Context context, Intent intent) {", "onReceive"),
        ("fun load(url: String): Depot {", "load"),
        ("export const produce: Produce = (base) => {", "produce"),
        ("  produce(base) {", "produce"),
        ("interface Produce {", "Produce"),
        ("type Server struct {", "Server"),
        ("func (s *Server) Start(ctx context.Context) error {", "Start"),
        ("pub(crate) const DEFAULT_LIMIT: u8 = 200;", "DEFAULT_LIMIT"),
        ("struct depot {", "depot"),
        ("#define KEEPALIVE_INTERVAL 15 /* seconds */", "KEEPALIVE_INTERVAL"),
        ("depotContext *depotConnect(const char *ip, int port) {", "depotConnect"),
        ("void Depot::close(int how) {", "close"),
        ("timeout: 30", "timeout"),
    ],
)
def test_a_line_defines_the_name_that_it_is_about(line: str, name: str) -> None:
    assert names(line) == [name]


@pytest.mark.parametrize(
    "line",
    [
        "    return keepAlive(c, INTERVAL);",
        "    await fetch_data(x)",
        "    depot.close(now)",
        "  close_it(now);",
        "        DEFAULT_LIMIT,",
        "if (max_size == limit) {",
        "else if (is_open) {",
        "from store import Depot",
        "The parser reads its_limit once in a run",
    ],
)
def test_a_use_defines_nothing(line: str) -> None:
    assert names(line) == []


@given(st.text(max_size=2000))
def test_whatever_the_text_its_names_stand_in_it(text: str) -> None:
    assert all(name in text for name in names(text))


@pytest.mark.parametrize(
    ("question", "best"),
    [("When does the ferry sail?", "harbour"), ("Wann fährt die Fähre?", "hull")],
)
def test_words_that_a_model_added_count_less_than_those_it_chose(question: str, best: str) -> None:
    """Of a request in another language it can only add words, and they count in full."""
    texts = {"hull": "vessel departure\n", "harbour": "ferry sail\n", "quay": "nothing\n"}
    passages = [each for path, text in texts.items() for each in of_file(path, text)]
    assert ranked(passages, question, "ferry sail vessel departure")[0].source == best
