"""What may be asked, as `planloom ask --help` says it. docs/evaluation.md is the source."""

ABILITIES = (
    "Works with models of 1.5B parameters: where something is, what a name is for, a value, a "
    "setting, a file. Look twice at: explanations, comparisons, summaries. Does not work yet: "
    "what spans many files, or needs a program to be run. More: docs/evaluation.md."
)
