"""A small Python project whose names and values nobody can guess, written from a seed.

It does what ordinary projects do (components in packages, limits, helpers, configuration, a
README, tests), in invented words: an answer about it can only come from reading it. Another seed
gives other words, other values and another layout, and seeds of the other parity other components,
so that nothing tuned on one split's project helps on the other's.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent

from benchmarks.eval.case import Split

SEEDS: dict[Split, int] = {"dev": 4112, "report": 7305}


@dataclass(frozen=True)
class Theme:
    """What a component is about, and the questions people would ask of it without its names."""

    role: str
    verb: str
    noun: str
    about: str
    """Its module's docstring."""
    limit: str
    limit_about: str
    limit_question: str
    parameter: str
    parameter_question: str
    option: str
    """A configuration key."""
    option_question: str
    file_question: str


THEMES: tuple[Theme, ...] = (
    Theme(
        "uploader", "upload", "parcel",
        "Uploads parcels to the remote store.",
        "ATTEMPTS", "Attempts of the uploader before it gives a parcel up.",
        "How many attempts does the uploader make before giving up?",
        "chunk_size", "How large is a chunk for the uploader if nobody says otherwise?",
        "retention_days", "For how many days is the uploader configured to keep what it sent?",
        "Which file contains the code that sends parcels to the remote store?",
    ),
    Theme(
        "scheduler", "schedule", "job",
        "Decides which job of the waiting ones runs next.",
        "QUEUE_LENGTH", "Jobs that may wait in the scheduler's queue at one time.",
        "What is the largest number of jobs that can wait in the queue of the scheduler?",
        "tick_ms", "How long is a tick of the scheduler by default, in milliseconds?",
        "worker_count", "How many workers is the scheduler configured with?",
        "In which file is it decided which waiting job runs next?",
    ),
    Theme(
        "thumbnailer", "shrink", "picture",
        "Makes small previews of pictures.",
        "WIDTH", "Width in pixels of the widest preview the thumbnailer makes.",
        "How wide can a preview made by the thumbnailer get, in pixels?",
        "quality", "Which quality does the thumbnailer use if none is given?",
        "cache_megabytes", "How many megabytes of cache is the thumbnailer configured to use?",
        "Which file makes small previews of pictures?",
    ),
    Theme(
        "translator", "translate", "phrase",
        "Turns phrases into the reader's own language.",
        "PHRASE_LENGTH", "Characters of the longest phrase the translator takes.",
        "How many characters may a phrase have at most to be taken by the translator?",
        "beam", "What is the translator's beam when the caller leaves it out?",
        "glossary_size", "What glossary size is configured for the translator?",
        "Where, in which file, are phrases turned into the language of the reader?",
    ),
    Theme(
        "indexer", "index", "page",
        "Collects the words of pages, to find pages by them.",
        "BATCH", "Pages that the indexer takes in one batch.",
        "How many pages does the indexer handle per batch?",
        "min_length", "What is the default minimum length of a word for the indexer?",
        "refresh_minutes", "How many minutes pass between refreshes of the indexer, as configured?",
        "Which file has the code that collects the words of pages?",
    ),
    Theme(
        "pricer", "price", "order",
        "Computes what an order costs, discounts included.",
        "DISCOUNT", "Percent of the highest discount that the pricer grants.",
        "What is the highest discount, in percent, that the pricer gives?",
        "rounding", "To what does the pricer round when no rounding is passed?",
        "currency_code", "What currency code is set for the pricer in the configuration?",
        "In what file is the cost of an order computed?",
    ),
    Theme(
        "archiver", "archive", "record",
        "Packs old records away and drops them from the live table.",
        "AGE_DAYS", "Age in days from which the archiver takes a record.",
        "How many days old must a record be for the archiver to take it?",
        "level", "Which compression level does the archiver use by default?",
        "volume_count", "How many volumes is the archiver configured for?",
        "Which file packs old records away?",
    ),
    Theme(
        "greeter", "greet", "visitor",
        "Welcomes visitors at the door, each by name.",
        "NAME_LENGTH", "Letters of a visitor's name that the greeter says aloud.",
        "How many letters of a name does the greeter pronounce at most?",
        "pause_ms", "How many milliseconds does the greeter pause by default?",
        "door_number", "Which door number is the greeter configured for?",
        "Which file has the code that welcomes people at the door?",
    ),
    Theme(
        "throttle", "admit", "request",
        "Admits requests at a steady pace and turns the others away.",
        "BURST", "Requests the throttle admits at once before it slows down.",
        "How many requests at once does the throttle let through before slowing down?",
        "window_s", "How many seconds long is the throttle's window unless given?",
        "penalty_seconds", "How many seconds of penalty are configured for the throttle?",
        "In which file are requests admitted at a steady pace?",
    ),
    Theme(
        "mailroom", "deliver", "letter",
        "Hands letters to the right desk.",
        "WEIGHT", "Grams of the heaviest letter the mailroom takes.",
        "How heavy, in grams, can a letter for the mailroom be?",
        "tray", "Into which tray does the mailroom put a letter if none is named?",
        "desk_count", "How many desks does the configuration give the mailroom?",
        "Which file has the code that hands letters to the right desk?",
    ),
    Theme(
        "tokenbox", "mint", "token",
        "Issues tokens that let a caller in for a while.",
        "LIFETIME", "Seconds for which a token from the tokenbox is good.",
        "For how many seconds is a token of the tokenbox valid?",
        "digits", "How many digits does a token of the tokenbox have by default?",
        "rotation_hours", "After how many hours does the tokenbox rotate, as configured?",
        "Where are the tokens issued that let a caller in? Name the file.",
    ),
    Theme(
        "composter", "sort", "scrap",
        "Sorts kitchen scraps by how fast they rot.",
        "CAPACITY", "Litres that fit into the composter.",
        "How many litres does the composter hold?",
        "moisture", "What moisture does the composter assume if not told?",
        "turn_interval", "What interval for turning is configured for the composter?",
        "Which file sorts scraps from the kitchen by how fast they rot?",
    ),
)  # fmt: skip

_ONSETS = "b br ch d dr f fl g gr h j k kl l m n p pl qu r s sk t tr v vr w y z zh".split()  # noqa: SIM905
_VOWELS = "a e i o u ae oi".split()  # noqa: SIM905
_CODAS = "b d k l lm m n nd r rv sk st th x".split()  # noqa: SIM905


class Words:
    """Invented words and numbers, none of them twice."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._given: set[str | int] = set()

    def word(self) -> str:
        def made() -> str:
            pick = self.random.choice
            return pick(_ONSETS) + pick(_VOWELS) + pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS)

        return str(self._new(made))

    def number(self) -> int:
        """Larger than any line number and than what one would guess."""
        return int(self._new(lambda: self.random.randrange(203, 9900)))

    def _new(self, made: Callable[[], str | int]) -> str | int:
        while (found := made()) in self._given:
            pass
        self._given.add(found)
        return found


@dataclass(frozen=True)
class Component:
    theme: Theme
    module: str
    """Its path."""
    class_name: str
    function: str
    constant: str
    limit: int
    default: int
    option: int
    section: str
    """Of the configuration."""
    config: str
    """The path of the configuration file."""
    helper: str
    helper_constant: str
    helper_limit: int


@dataclass(frozen=True)
class Project:
    files: dict[str, str]
    components: tuple[Component, ...]
    package: str
    starter: str
    """The function that puts the first component together and runs it."""
    facts: dict[str, str]
    """What only the README says."""
    other_roles: tuple[str, ...]
    """Roles that no component of this project has."""


def generate(seed: int) -> Project:
    """The project of this seed: the same on every machine and with every Python."""
    words = Words(seed)
    themes = list(THEMES[seed % 2 :: 2])
    words.random.shuffle(themes)
    package = words.word()
    folders = [f"{package}/{words.word()}" for _ in range(3)]
    core = f"{package}/{words.word()}"
    base, limits, *helper_files = (f"{core}/{words.word()}.py" for _ in range(4))
    helpers = [
        (f"{words.word()}_{words.word()}", f"{words.word().upper()}_{kind}", words.number(), path)
        for kind, path in zip(("CEILING", "MARGIN", "FLOOR"), [*helper_files, limits], strict=True)
    ]
    base_class = f"{words.word().title()}{words.word().title()}"
    error = f"{words.word().title()}Error"
    configs = [f"config/{words.word()}{end}" for end in (".yaml", ".toml", ".ini")]
    components = []
    for index, theme in enumerate(themes):
        helper, helper_constant, helper_limit, _ = helpers[index % 2]
        components.append(
            Component(
                theme=theme,
                module=f"{folders[index % 3]}/{words.word()}.py",
                class_name=f"{words.word().title()}{theme.role.title()}",
                function=f"{theme.verb}_{words.word()}",
                constant=f"{words.word().upper()}_{theme.limit}",
                limit=words.number(),
                default=words.number(),
                option=words.number(),
                section=words.word(),
                config=configs[index % 3],
                helper=helper,
                helper_constant=helper_constant,
                helper_limit=helper_limit,
            )
        )
    starter = f"start_{words.word()}"
    facts = {"channel": f"#{words.word()}-{words.word()}", "town": words.word().title()}

    files = {f"{folder}/__init__.py": "" for folder in [core, *folders]}
    files[f"{package}/__init__.py"] = f'"""{package}: small services behind one door."""\n'
    files[base] = _base(base_class, error)
    files[limits] = _limits(components, helpers)
    for helper, constant, _, path in helpers[:2]:
        files[path] = _helper(helper, constant, limits)
    for index, each in enumerate(components):
        path = helpers[index % 2][3]
        files[each.module] = _component(each, base, base_class, error, limits, path)
    files[f"{package}/{words.word()}.py"] = _starter(starter, components)
    files[f"{package}/{words.word()}.py"] = _loader(words.word())
    entries = [f"run_{words.word()}" for _ in components[2:]]
    entry_file = f"{package}/{words.word()}.py"
    files[entry_file] = _entries(list(zip(entries, components[2:], strict=True)))
    for entry in entries[:3]:
        files[f"tests/test_{words.word()}.py"] = _test(entry, entry_file, words.word())
    files |= _configuration(components, configs)
    files["README.md"] = _readme(package, components, facts)
    files["pyproject.toml"] = f'[project]\nname = "{package}"\nversion = "0.{words.number()}.0"\n'
    return Project(
        files=dict(sorted(files.items())),
        components=tuple(components),
        package=package,
        starter=starter,
        facts=facts,
        other_roles=tuple(theme.role for theme in THEMES if theme not in themes),
    )


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _base(base_class: str, error: str) -> str:
    return dedent(f'''\
        """What every component has in common."""


        class {error}(Exception):
            """A component could not do its work."""


        class {base_class}:
            """Something with a name that can be started and stopped."""

            def __init__(self, name: str) -> None:
                self.name = name
                self.running = False

            def start(self) -> None:
                self.running = True

            def stop(self) -> None:
                self.running = False
        ''')


def _limits(components: list[Component], helpers: list[tuple[str, str, int, str]]) -> str:
    parts = ['"""Limits, all in one place."""\n']
    parts += [
        f'{each.constant} = {each.limit}\n"""{each.theme.limit_about}"""' for each in components
    ]
    parts += [f"{constant} = {value}" for _, constant, value, _ in helpers]
    return "\n".join(parts) + "\n"


def _helper(helper: str, constant: str, limits: str) -> str:
    return dedent(f'''\
        """Small sums that several components need."""

        from {_dotted(limits)} import {constant}


        def {helper}(amount: int, weight: int) -> bool:
            """Whether there is room for so much more."""
            return amount * weight < {constant}
        ''')


def _component(
    each: Component, base: str, base_class: str, error: str, limits: str, helper_file: str
) -> str:
    theme = each.theme
    return dedent(f'''\
        """{theme.about}"""

        from {_dotted(base)} import {base_class}, {error}
        from {_dotted(helper_file)} import {each.helper}
        from {_dotted(limits)} import {each.constant}


        class {each.class_name}({base_class}):
            """The {theme.role}. One per process."""

            def __init__(self, name: str, {theme.parameter}: int = {each.default}) -> None:
                super().__init__(name)
                self.{theme.parameter} = {theme.parameter}
                self.done: list[str] = []

            def take(self, {theme.noun}: str) -> None:
                """Take one {theme.noun} and note it."""
                if len(self.done) >= {each.constant}:
                    raise {error}(f"no more: {{{theme.noun}}}")
                self.done.append({theme.noun})

            def report(self) -> str:
                return f"{{self.name}}: {{len(self.done)}}"


        def {each.function}({theme.noun}s: list[str]) -> int:
            """Run the {theme.role} over all of the {theme.noun}s that there is room for."""
            {theme.role} = {each.class_name}("{theme.role}")
            for position, {theme.noun} in enumerate({theme.noun}s):
                if {each.helper}(position, len({theme.noun})):
                    {theme.role}.take({theme.noun})
            return len({theme.role}.done)
        ''')


def _starter(starter: str, components: list[Component]) -> str:
    first, second = components[:2]
    return dedent(f'''\
        """Puts the parts together."""

        from {_dotted(first.module)} import {first.class_name}
        from {_dotted(second.module)} import {second.function}


        def {starter}(items: list[str]) -> str:
            """Start what has to run first."""
            worker = {first.class_name}("first")
            worker.start()
            {second.function}(items)
            return worker.report()
        ''')


def _loader(word: str) -> str:
    return dedent(f'''\
        """Reads the configuration."""

        from pathlib import Path


        def load_{word}(folder: Path) -> dict[str, str]:
            """The text of each configuration file, by its name."""
            return {{path.name: path.read_text() for path in sorted(folder.iterdir())}}
        ''')


def _entries(pairs: list[tuple[str, Component]]) -> str:
    imports = [f"from {_dotted(each.module)} import {each.function}" for _, each in pairs]
    functions = [
        f"def {entry}(lines: str) -> int:\n"
        f'    """One {each.theme.noun} per line."""\n'
        f"    return {each.function}(lines.splitlines())\n"
        for entry, each in pairs
    ]
    head = '"""What the command line runs."""\n\n'
    return head + "\n".join(imports) + "\n\n\n" + "\n\n".join(functions)


def _test(entry: str, path: str, word: str) -> str:
    return dedent(f"""\
        from {_dotted(path)} import {entry}


        def test_{word}_takes_nothing() -> None:
            assert {entry}("") == 0
        """)


def _configuration(components: list[Component], configs: list[str]) -> dict[str, str]:
    files = {}
    for path in configs:
        sections = []
        for each in components:
            key, value = each.theme.option, each.option
            if each.config != path:
                continue
            comment = f"# The {each.theme.role}."
            if path.endswith(".yaml"):
                sections.append(f"{comment}\n{each.section}:\n  enabled: true\n  {key}: {value}\n")
            else:
                sections.append(f"{comment}\n[{each.section}]\nenabled = true\n{key} = {value}\n")
        files[path] = "\n".join(sections)
    return files


def _readme(package: str, components: list[Component], facts: dict[str, str]) -> str:
    parts = "\n".join(f"- the {each.theme.role}" for each in components)
    return dedent(f"""\
        # {package}

        Small services behind one door. Its parts:

        {{parts}}

        Questions about it are welcome in the chat channel {facts["channel"]}.

        The first release was made on a boat in {facts["town"]}. Settings are in `config/`.
        """).format(parts=parts)
