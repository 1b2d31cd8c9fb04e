"""A small project with names that no model can guess."""

from pathlib import Path

CLASS = "VeryUniqueClassName_Phoenix_2025_QW3RTY"
FUNCTION = "standalone_unique_function_MNBVCX_777"
CONSTANT = "UNIQUE_CONSTANT_VERIFICATION_ZX9"
VALUE = 48_613
SOURCE = f'''"""Names that no model can guess."""

{CONSTANT} = {VALUE}


class {CLASS}:
    def run(self) -> int:
        return {CONSTANT}


def {FUNCTION}() -> int:
    return {CLASS}().run()
'''
QUESTION = f"What is {CLASS}, and in which file?"
ANSWER = f"`{CLASS}` is defined in jobs/secret.py, line 6."


def plant(project: Path) -> None:
    (project / "jobs").mkdir(parents=True)
    (project / "jobs" / "secret.py").write_text(SOURCE)
