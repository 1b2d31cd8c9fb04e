"""Which parts of a long file a model is shown, to write them again."""

from planner.evidence.file_parts import MAX_CHARS, parts

PATH = "shop/rates.py"


def test_what_defines_a_name_of_the_request_is_written_before_what_uses_it() -> None:
    uses = "".join(
        f"def use{n}():\n    # rename this Toll, the Toll to rename\n    raise Toll({n})\n\n\n"
        for n in range(40)
    )
    text = f"class Toll(Exception):\n    pass\n\n\n{uses}"
    first, *_ = parts("a.py", text, "rename the Toll to Charge", [], {"Toll", "Charge"})
    assert first.text.startswith("class Toll")


def test_a_long_file_is_written_in_parts_that_have_a_name_of_the_request() -> None:
    units = [f"def make_{number}():\n    return {number} * {'x' * 80}\n" for number in range(40)]
    text = "\n\n".join(units)
    (part,) = parts(PATH, text, "make_7 should return 8", [], {"make_7"})
    assert part.text.startswith("def make_7():")
    assert text.splitlines()[part.first - 1 : part.last] == part.text.splitlines()
    assert sum(len(each.text) for each in parts(PATH, text, "make", [], set())) < 2 * MAX_CHARS


def test_in_a_file_of_its_name_a_class_is_all_of_it() -> None:
    text = "class Rates {\n" + "".join(
        f"  static final int RATE_{n} = {n};\n\n  /** Rates {n}. */\n" for n in range(60)
    )
    text += "  static final int DEFAULT_WIDTH = 74;\n}\n"
    shown = parts("shop/Rates.java", text, "Set the default width of Rates", [], {"Rates"})
    assert any("DEFAULT_WIDTH" in part.text for part in shown)


def test_a_default_that_the_first_parts_mention_is_shown_second() -> None:
    """Where it is defined may say less of the request than what uses it."""
    uses = "".join(
        f"def open_{n}(hours: int = OPEN_HOURS) -> None:\n"
        f'    """Open the gate number {n} for so many hours."""\n\n\n'
        for n in range(40)
    )
    text = f'"""Gates."""\n\nOPEN_HOURS = 8\n\n\n{uses}'
    shown = parts("gates.py", text, "Open gates for 9 hours", [], set())
    assert "OPEN_HOURS = 8" in shown[0].text
    shown = parts("gates.py", text.replace("OPEN_HOURS", "LIMIT"), "Open gates", [], set())
    assert "LIMIT = 8" not in shown[0].text
