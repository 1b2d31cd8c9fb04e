"""JSON Schemas for the replies of models, from which model servers make grammars."""

from collections.abc import Iterable, Sequence

from planner.grammar import MAX_STRING_CHARS, Schema, for_grammar
from planner.protocol import Mode, PlanFor

MAX_CONCLUSION = 1200
"""Characters of an answer that a conclusion gives."""
MAX_SQL = 300
MAX_STEPS = 6
"""Steps of one plan; more can follow after these."""
MAX_CALLS = 3
"""Tool calls that one decision may name."""


def text(longest: int) -> Schema:
    return {"type": "string", "maxLength": longest}


def closed(**properties: Schema) -> Schema:
    return _object(properties, required=list(properties))


def _object(properties: dict[str, Schema], required: Iterable[str]) -> Schema:
    """An object with its keys in alphabetical order."""
    return _in_order(dict(sorted(properties.items())), required)


def _in_order(properties: dict[str, Schema], required: Iterable[str]) -> Schema:
    """An object whose keys are written in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }


def one_of(names: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(names)}


def or_none(names: Sequence[str]) -> Schema:
    return {"enum": [*names, None]}


def several(item: Schema, least: int = 1, most: int = 6) -> Schema:
    return {"type": "array", "items": item, "minItems": least, "maxItems": most}


def file_tools(lists: Sequence[str], reads: Sequence[str]) -> Schema:
    return closed(lists=or_none(lists), reads=or_none(reads))


SEARCH_WORD: Schema = {"type": "string", "pattern": "^[0-9A-Za-z_@./-][0-9A-Za-z_@./ -]{0,29}$"}
"""In Latin letters: a small model copies the words of a Chinese request, and code is written in
English. The request's own words are searched for as well."""

MAX_QUESTION = 160
"""Characters of a question that is made of a part of the request."""


def brief(acting: bool = True) -> Schema:
    """The search words come first, and a reply is possible only if there are none: a model that may
    reply at once does so to any question. `acting`: whether the request may be for an action."""
    wants = ["short answer", "long answer", *(["action"] if acting else [])]
    search, question = several(SEARCH_WORD), text(MAX_QUESTION)
    sorted_ = _in_order(
        {"search": search, "wants": one_of(wants), "first": question, "then": question},
        required=["search", "wants"],
    )
    talk = _in_order({"search": {"const": []}, "reply": text(300)}, required=["search", "reply"])
    return {"anyOf": [sorted_, talk] if acting else [sorted_]}


def language() -> Schema:
    """The name of a language other than English, which a small model takes many a text for."""
    other = "^([A-DF-Z][a-z]{2,19}|E[a-mo-z][a-z]{2,19})$"
    return closed(language={"type": "string", "pattern": other})


def sql(things: str | None = None) -> Schema:
    """A query. With a table of `things`, it is of this table alone, for their names or an
    aggregate: a small model joins the table with the results that it was made of."""
    rest = f'[^"\\\\\\n]{{1,{MAX_SQL}}}'
    if things:
        selected = r"(name|(COUNT|SUM|AVG|MIN|MAX)\([a-zA-Z_*]{1,40}\))"
        rest = f"{selected} FROM {things} (WHERE|ORDER BY) {rest}"
    return {"type": "string", "pattern": f"^SELECT {rest}$"}


def answer(longest: int) -> Schema:
    return closed(
        assessment=text(300), final_answer=text(longest), found_in=one_of(["results", "nowhere"])
    )


def summary(tools: Sequence[str]) -> Schema:
    missing = {"anyOf": [{"type": "null"}, text(160)]}
    return closed(final_answer=text(800), missing=missing, tool=or_none(tools))


def conclude() -> Schema:
    return closed(
        decision={"const": "conclude"},
        final_answer=text(MAX_CONCLUSION),
        success={"type": "boolean"},
    )


def plan(tools: Sequence[str], purpose: PlanFor) -> Schema:
    """Steps with the tool that each calls; only those of a question may have none."""
    step = closed(
        objective=text(160), tool=or_none(tools) if purpose == "question" else one_of(tools)
    )
    return closed(steps=several(step, most=MAX_STEPS))


def iteration_decision(
    choice: Schema, mode: Mode, noted: bool = False, planned: bool = False
) -> Schema:
    """`choice` is that of the next tool. `noted`: with notes also where the step goes on.
    `planned`: the next step is known, and need not be said again. In deep mode, every branch has
    three fields more: they are written first, and would rule out a branch without them."""
    calls = several(closed(prompt=text(240), tool=choice), most=MAX_CALLS)
    later_steps = {"type": "array", "items": text(120), "maxItems": 4}
    assessed: Schema = {}
    if mode == "deep":
        assessed = {"assessment": text(240), "belief": text(160), "critique": text(160)}
    notes = {"notes": text(MAX_STRING_CHARS)}
    goes_on = assessed | {"later_steps": later_steps, "tool_calls": calls}
    stay = goes_on | {"decision": {"const": "stay"}} | (notes if noted else {})
    ends = {"decision": one_of(["move_on", "give_up"]), "objective": text(160)}
    move_on = goes_on | notes | ends
    conclusion = assessed | conclude()["properties"]
    optional = {"later_steps", "objective"} if planned else {"later_steps"}
    return {
        "anyOf": [
            _object(branch, required=branch.keys() - optional)
            for branch in (conclusion, stay, move_on)
        ]
    }


def formatted(data_schema: Schema) -> Schema:
    """The caller's schema inside an object, so that its root may be anything."""
    return closed(data=for_grammar(data_schema))
