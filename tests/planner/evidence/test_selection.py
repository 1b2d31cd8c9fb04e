"""What is shown for a request."""

import pytest

from planner.evidence.passages import of_file
from planner.evidence.selection import MAX_WHOLE, foremost, selected, subjects, valued
from planner.passage import Passage
from planner.prompts.texts import passage

TOLLS = "\n".join(f"    total += {day}  # the toll of day {day}" for day in range(30))
CROSS = f"def cross(total):\n    begin(total)\n{TOLLS}\n    return total\n"
ROOM = 6000


def passages(**files: str) -> list[Passage]:
    return [each for name, text in files.items() for each in of_file(f"{name}.py", text)]


def shown(question: str, *search: str, room: int = ROOM, **files: str) -> str:
    found = selected(passages(**files), question, search, room, [], whole=True)
    return "\n".join(map(passage, found))


def test_a_definition_in_two_files_leaves_room_for_what_documents_it() -> None:
    guide = "\n\n".join(f"# How many cars cross on day {day}\n{'_' * 300}" for day in range(3))
    long = CROSS.replace(TOLLS, f"{TOLLS}\n{TOLLS}")
    text = shown("Explain how `cross` works", "cars", room=4800, one=long, two=long, guide=guide)
    assert "one.py:1-63" in text
    assert text.count("_" * 300) == 3


def test_a_definition_that_is_named_is_shown_whole_before_anything_else() -> None:
    noise = "\n\n".join(f"# cars cross here, {place}\nPLACE_{place} = 1" for place in range(60))
    text = shown("Explain how `cross` works", "cross", noise=noise, gates=CROSS)
    assert text.startswith("gates.py:1-33 (defines cross)\ndef cross(total):\n    begin(total)")
    assert text.index("    return total") < text.index("noise.py")


def test_each_name_is_defined_among_the_first() -> None:
    """However many better places define another one of them."""
    ranked = passages(a="port = 1\n", b="port = 2\n", c="def gate(port):\n    pass\n")
    first, second, *_ = foremost(ranked, {"port", "gate"})
    assert [first.source, second.source] == ["a.py", "c.py"]


def test_of_a_class_its_best_lines_come_before_its_constructors() -> None:
    makers = "\n\n".join(
        f"    public LockGate(int port{number}) {{\n        this.port = port{number};\n    }}"
        for number in range(9)
    )
    fields = "    static final int WIDEST = 40;\n    private int width = WIDEST;"
    gate = f"public class LockGate {{\n    private int port;\n\n{makers}\n\n{fields}\n}}\n"
    found = selected(of_file("Gate.java", gate), "widest width of a LockGate?", [], ROOM, [])
    assert found[0].text.startswith("public class LockGate {")
    assert fields in found[1].text
    uses = "class Ferry {\n    void cross() {\n        new LockGate(3);\n    }\n}\n"
    pool = [*of_file("Ferry.java", uses), *of_file("Gate.java", gate)]
    _, after, *_ = selected(pool, "What does Ferry do?", [], ROOM, [])
    assert (after.first, after.relation) == (1, "defines LockGate")


def test_of_many_names_in_a_class_those_are_told_that_share_words_with_the_request() -> None:
    many = "\n".join(f"    def signal_{number:02}(self): ..." for number in range(60))
    tower = f"class Tower:\n{many}\n    def raise_flag(self): ...\n"
    [first, *_] = selected(of_file("tower.py", tower), "How does Tower raise a flag?", [], ROOM, [])
    assert first.inside.startswith("61 functions in it: signal_00, signal_01, ")
    assert first.inside.endswith(", raise_flag, …")


def test_a_heading_is_shown_with_what_stands_below_it() -> None:
    noise = "\n\n".join(f"# workers {place}\nPLACE_{place} = 1" for place in range(60))
    text = "=head2 workers\n\n  $depot->workers;\n\nThe default is 4.\n"
    found = [*of_file("depot.pod", text, "files"), *passages(noise=noise)]
    texts = [each.text for each in selected(found, "workers", [], 900, [])]
    assert any("workers" in each and "The default is 4." in each for each in texts)


def test_the_lines_that_use_it_are_shown() -> None:
    """However many other lines have words of the request."""
    noise = "\n\n".join(f"# which calls are made, {place}\nCALL_{place} = 1" for place in range(60))
    uses = (
        "from gates import cross\n\n\ndef pay(sum):\n    total = sum + 1\n    return cross(total)\n"
    )
    text = shown("Which functions call `cross`?", "call", noise=noise, gates=CROSS, tolls=uses)
    assert "tolls.py:6 (pay uses cross)\ndef pay(sum):\n...\n    return cross(total)" in text


def long_class(name: str, method: str) -> str:
    """One whose methods are passages of their own."""
    body = TOLLS.replace("    total", "        self.total")
    return f"class {name}:\n    def begin(self):\n{body}\n\n    def {method}(self):\n{body}\n"


def test_of_several_names_that_of_the_fewest_definitions_comes_first() -> None:
    others = "\n\n".join(long_class(f"Lift{number}", "open_all") for number in range(3))
    first, *others_ = subjects(
        passages(lifts=others, gates="class Gate:\n    def open_all(self):\n        pass\n"),
        "How many methods has `Gate`, `open_all` included?",
    )
    assert first.source == "gates.py"
    assert others_


def test_a_base_is_followed_and_no_method_that_a_class_has_itself() -> None:
    gate = "@final\nclass LiftGate(BaseGate):\n    def __init__(self):\n        pass\n"
    base = "\n\n".join(long_class(f"Base{kind}", "close") for kind in ("Gate", "Door"))
    found = selected(
        passages(other=long_class("Other", "__init__"), lifts=gate, base=base),
        "Where is the base of LiftGate?",
        ["LiftGate"],
        3000,
        [],
    )
    sources = [each.source for each in found]
    assert sources[:2] == ["lifts.py", "base.py"]
    assert "other.py" not in sources


def test_a_definition_that_is_too_long_is_shown_up_to_a_bound() -> None:
    long = CROSS.replace(TOLLS, "\n\n".join([TOLLS] * 9))
    (definition,) = subjects(passages(gates=long), "Explain how cross works")
    assert 0 < len(definition.text) <= MAX_WHOLE


def test_the_best_passage_comes_before_the_lines_of_others() -> None:
    """However many names have one of the request's words."""
    others = "\n".join(f"class Lift{place}:\n    ferry_number = {place}\n" for place in range(30))
    rule = "def moor(wind):\n    if wind > 7:\n        raise Storm('the ferry stays moored')\n"
    text = shown("When does the ferry stay moored?", "ferry", "moor", lifts=others, harbour=rule)
    assert text.startswith("harbour.py:1-3")
    assert "ferry_number = 1\n" in text


WAIT = """
def wait_for_calm(seconds=PATIENCE_LIMIT):
    # how long the ferry waits for calm weather
    sleep(seconds * MOON_TIDE)
"""


def test_the_value_of_a_constant_stands_directly_after_what_uses_it() -> None:
    """However many other passages speak of the same words."""
    noise = "\n\n".join(
        f"def ferry_{place}():\n    # the ferry waits at place {place}, weather or not\n"
        f"    {'moor()' * 30}"
        for place in range(20)
    )
    found = selected(
        passages(noise=noise, weather=WAIT, limits="MOON_TIDE = 10\nPATIENCE_LIMIT = 90\n"),
        "How long does the ferry wait for calm weather?",
        ["wait", "calm", "weather"],
        3000,
        [],
    )
    assert found[0].source == "weather.py"
    assert found[2].text == "PATIENCE_LIMIT = 90"


@pytest.mark.parametrize(
    "line",
    [
        "    max_wait: float = PATIENCE_LIMIT,",
        "    max_wait: PATIENCE_LIMIT,",
        "    this.max_wait = options.max_wait ?? Limits.PATIENCE_LIMIT;",
        "    'max_wait': PATIENCE_LIMIT",
        "    ferry->max_wait = PATIENCE_LIMIT;",
    ],
)
def test_what_a_name_has_as_its_value_follows_it(line: str) -> None:
    """However many passages define the name before that one does."""
    told = "\n".join(
        f"class Ferry{number}:\n    max_wait = {number}  # the longest wait of a ferry\n\n"
        for number in range(9)
    )
    found = selected(
        passages(told=told, ferry=f"moor(\n{line}\n)", limits="A = 1\nPATIENCE_LIMIT = 90\n"),
        "What is the longest max_wait of a ferry?",
        ["max_wait", "longest", "ferry"],
        3000,
        [],
    )
    assert [each.text for each in found[2:4]] == [line, "PATIENCE_LIMIT = 90"]


@pytest.mark.parametrize("line", ["max_wait: FerryWait", "max_wait == TOLL", "max_wait = 3"])
def test_a_type_or_a_comparison_is_no_value(line: str) -> None:
    assert valued([Passage(source="ferry.py", first=1, last=1, text=line)], {"max_wait"}) == []


def test_what_a_passage_defines_says_more_than_what_it_mentions() -> None:
    """Of two passages with the same words, the one comes first that defines their name."""
    uses = "moor(max_gust)\nsail(max_gust)\n"
    found = selected(
        passages(a=uses, b="port = there()\nmax_gust = read()\n"),
        "What is the maximum gust?",
        ["max_gust"],
        3000,
        [],
    )
    assert found[0].source == "b.py"


SERVICE = """public class UserService {
    private final Map<String, User> users = new HashMap<>();
    private final List<String> names;

    public UserService(List<String> names) {
        this.names = names;
    }

    public Optional<User> findUser(Long id) {
        return Optional.ofNullable(users.get(id));
    }

    List<User> all() {
        return new ArrayList<>(users.values());
    }
}
"""
QUEUE = """pub struct Queue {
    max: usize,
}

impl Queue {
    /// Makes an empty one.
    pub fn new() -> Self {
        Queue { max: 3 }
    }

    pub fn push(&mut self, x: u32) -> bool {
        true
    }
}
"""
TIDE = """public enum Tide {
    LOW(1) {
        @Override
        int metres() {
            return 1;
        }
    },
    MIDDLE(3),
    HIGH(7);

    Tide(int metres) {
    }

    static int level(String name) {
        return 0;
    }
}
"""
HULL = """class Hull : public Ship {
 public:
  explicit Hull(int bits) : bits_(bits) {}

  int length() const {
    return 3;
  }

 private:
  int bits_ = 0;
};
"""
SETUP = """export function setup(app) {
  register(app, {
    a: 1,
  })
  return app
}
"""


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        (
            "UserService.java",
            SERVICE,
            ["3 functions in it: UserService, findUser, all; 2 other names in it: users, names"],
        ),
        ("queue.rs", QUEUE, ["1 name in it: max", "2 functions in it: new, push"]),
        ("setup.js", SETUP, []),
        ("hull.cc", HULL, ["2 functions in it: Hull, length; 1 other name in it: bits_"]),
        (
            "Tide.java",
            TIDE,
            ["2 functions in it: Tide, level; 3 other names in it: LOW, MIDDLE, HIGH"],
        ),
    ],
)
def test_what_a_definition_holds_is_counted_in_any_language(
    file: str, text: str, told: list[str]
) -> None:
    found = selected(
        of_file(file, text), "What do UserService, Queue, Hull, Tide and setup have?", [], ROOM, []
    )
    assert [each.inside for each in found if each.inside] == told
