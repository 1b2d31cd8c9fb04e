"""What may be asked, in short: the first paragraph of "What to ask" in docs/evaluation.md."""

ABILITIES = (
    "Works with models of 1.5B parameters: where something is, what a name stands for, a value, a "
    "setting, a file. Check the answer: explanations, comparisons, summaries. Does not work yet: "
    "questions about many files at once, or about what a program does when it runs."
)
