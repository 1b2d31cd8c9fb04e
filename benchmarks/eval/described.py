"""Questions about the generated project: named ones as of any code base, and described ones, which
name no identifier."""

from benchmarks.eval.check import number, whole
from benchmarks.eval.generated import Component, Project
from benchmarks.eval.lookup import Asker
from benchmarks.eval.question import Proof, Question


def ask(project: Project, asker: Asker) -> list[Question]:
    parts = project.components
    return [
        *asker.make("definition", 2),
        *asker.make("caller", 2),
        *asker.make("base", 1),
        *asker.make("uses", 1),
        *asker.make("default", 1),
        *asker.make("methods", 1),
        *_values(project, asker),
        *_defaults(parts, asker),
        *_chains(project, asker),
        *_counts(project, asker),
        *_files(parts, asker),
        *_nothing(project, asker),
    ]


def _values(project: Project, asker: Asker) -> list[Question]:
    parts, half = project.components, asker.half
    questions = [
        _of_number("value", each.theme.limit_question, each.limit, _limit_proof(each, asker), asker)
        for each in parts[:2]
    ]
    questions += [
        _of_number(
            "value", each.theme.option_question, each.option, _option_proof(each, asker), asker
        )
        for each in parts[2:4]
    ]
    name, text = (
        ("channel", "In which chat channel may one ask about this project?"),
        ("town", "In which place was the first release made?"),
    )[half]
    fact = project.facts[name]
    return [
        *questions,
        asker.question(
            "value", text, fact, [[whole(fact.removeprefix("#"))]], proofs=[asker.proof(fact)]
        ),
    ]


def _of_number(kind: str, text: str, value: int, proof: Proof, asker: Asker) -> Question:
    return asker.question(kind, text, str(value), [number(value)], proofs=[proof])


def _limit_proof(each: Component, asker: Asker) -> Proof:
    return asker.proof(f"{each.constant} = {each.limit}")


def _option_proof(each: Component, asker: Asker) -> Proof:
    separator = ": " if each.config.endswith(".yaml") else " = "
    return asker.proof(f"{each.theme.option}{separator}{each.option}", each.config)


def _default_proof(each: Component, asker: Asker) -> Proof:
    return asker.proof(f"{each.theme.parameter}: int = {each.default}", each.module)


def _defaults(parts: tuple[Component, ...], asker: Asker) -> list[Question]:
    return [
        _of_number(
            "default",
            each.theme.parameter_question,
            each.default,
            _default_proof(each, asker),
            asker,
        )
        for each in parts[2:4]
    ]


def _chains(project: Project, asker: Asker) -> list[Question]:
    """Three steps each: function, what it calls or makes, and the value found there."""
    first = project.components[0]
    # One whose helper no other question has asked for.
    last = next(each for each in project.components if each.helper not in asker.asked)
    through_helper = (
        f"`{last.function}` asks another function whether there is room. Against which number does "
        "that other function compare?",
        f"{last.function} calls a small function that checks for room. What limit, as a number, is "
        "checked there?",
    )[asker.half]
    through_class = (
        f"`{project.starter}` creates an object. What is the default of that object's "
        f"{first.theme.parameter}?",
        f"{project.starter} makes an object of some class without giving it a "
        f"{first.theme.parameter}. Which {first.theme.parameter} does the object get?",
    )[asker.half]
    return [
        asker.question(
            "chain",
            through_helper,
            f"{last.helper_limit} ({last.helper}, {last.helper_constant})",
            [number(last.helper_limit)],
            proofs=[
                asker.proof(f"if {last.helper}(", last.module),
                asker.proof(f"< {last.helper_constant}"),
                asker.proof(f"{last.helper_constant} = {last.helper_limit}"),
            ],
        ),
        asker.question(
            "chain",
            through_class,
            f"{first.default} ({first.class_name})",
            [number(first.default)],
            proofs=[
                asker.proof(f"worker = {first.class_name}("),
                _default_proof(first, asker),
            ],
        ),
    ]


def _counts(project: Project, asker: Asker) -> list[Question]:
    count = len(project.components)
    config = project.components[0].config
    sections = sum(each.config == config for each in project.components)
    text, expected, proof = (
        (
            "How many parts of the project does the README list?",
            count,
            asker.proof("Its parts:", "README.md"),
        ),
        (
            f"How many sections does the configuration file {config} have?",
            sections,
            asker.proof("enabled", config),
        ),
    )[asker.half]
    return [_of_number("count", text, expected, proof, asker)]


def _files(parts: tuple[Component, ...], asker: Asker) -> list[Question]:
    """One by what the code is for, one by what is configured in it."""
    code, config = parts[4], parts[5]
    text = (
        "Which configuration file is the {role} configured in?",
        "In what file are the settings of the {role}?",
    )[asker.half].format(role=config.theme.role)
    return [
        asker.question(
            "file",
            code.theme.file_question,
            code.module,
            [asker.file(code.module)],
            proofs=[asker.proof(code.theme.about, code.module)],
        ),
        asker.question(
            "file",
            text,
            config.config,
            [asker.file(config.config)],
            proofs=[_option_proof(config, asker)],
        ),
    ]


def _nothing(project: Project, asker: Asker) -> list[Question]:
    part, role = project.components[1].theme, project.other_roles[0]
    unknowable = (
        (
            f"How many {part.noun}s did the {part.role} handle in production last week?",
            "What is the name of the person who wrote the README?",
        ),
        (
            f"What did it cost to run the {part.role} last year?",
            f"Who is on duty when the {part.role} breaks at night?",
        ),
    )[asker.half]
    claims = ((rf"\d (?:\w+ )?{part.noun}s", r"(?:handled|was|were|is) \d"), (r"[$€£] ?\d",))
    article = "an" if role[0] in "aeiou" else "a"
    existence = (
        f"Is there {article} {role} in this project?",
        f"Does this project have {article} {role}?",
    )
    return [
        asker.none(existence[asker.half], role),
        *asker.make("absence", 1),
        asker.unknowable(unknowable[0], claims[asker.half]),
        asker.unknowable(unknowable[1]),
    ]
