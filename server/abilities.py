"""What may be asked, in short: the first paragraph of "What to ask" in docs/evaluation.md."""

ABILITIES = (
    "Right about half of the time with models of 1.5B parameters: where something is, what a name "
    "stands for, a value, a setting, a file. Check the answer: explanations, comparisons, "
    "summaries, lists; they contain about half of the facts. Look at the differences that it "
    "shows: changes of existing files. Do not rely on it yet: chains over several files, counting, "
    "finding bugs, and tasks in other tools."
)
