"""The arguments of a call as guards correct them before it goes out."""

from collections.abc import Callable

from planner.checks.grounding import results
from planner.checks.guards import sources
from planner.checks.guards.arguments import (
    Corrected,
    corrected_paths,
    corrected_patterns,
    laid_out_as_said,
    seen_paths,
    spelled_as_said,
    without_limits,
)
from planner.state import RunState
from planner.tools import Arguments, Policy, ToolSpec


def corrected(
    tool: ToolSpec, arguments: Arguments, state: RunState, guard: Callable[..., None]
) -> Arguments:
    """The arguments as the guards correct them; each correction is told by `guard`. The guards
    guess, and a guess must not decide what is changed: of a change they only leave out optional
    arguments that nobody said, and restore the line breaks of a text that the user did."""

    def noted(name: str, checked: Corrected) -> Arguments:
        kept, changes = checked
        guard(name, *changes)
        return kept

    words = state.said_by_user
    if not tool.read_only:
        asks = state.part.request.policy is not Policy.ALLOW
        arguments = noted("layout", laid_out_as_said(arguments, words))
        said = sources.said(state)
        arguments = noted("unseen", sources.without_guesses(arguments, tool, said, asks))
        return noted("unseen", sources.without_flips(arguments, tool, state))
    arguments = noted("unseen", without_limits(arguments, tool, words))
    if sources.optional_codes(arguments, tool):  # the results are only read if there are any
        said = sources.said(state)
        arguments = noted("unseen", sources.without_codes(arguments, tool, said))
    if not tool.has_role:  # a search in texts finds a word in any spelling
        seen = results(state)
        arguments = noted("spelling", spelled_as_said(arguments, tool, words, seen))
    arguments = noted("pattern", corrected_patterns(arguments, tool))
    return noted("path", corrected_paths(arguments, tool, seen_paths(state)))
