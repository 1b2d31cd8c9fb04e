"""What may be asked, in short, as the table in docs/ask.md has it."""

ABILITIES = (
    "Right about half of the time with models of 1.5B parameters: where something is, what a name "
    "stands for, a value, a setting, a file. Check the answer: explanations, comparisons, "
    "summaries, lists; they contain about half of the facts. Review the diff: changes of existing "
    "files. Check the query: counts, sums, the largest or newest of a list that a tool returns. Do "
    "not rely on it yet: chains over several files, counting in code, finding bugs, and tasks in "
    "other tools."
)
