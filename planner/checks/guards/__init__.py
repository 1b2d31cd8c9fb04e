"""Checks in code, before a call and on its result (a table: docs/planning.md).

They are pure functions; their callers emit the events.
"""

from planner.checks.guards.arguments import coercions as coercions
from planner.checks.guards.arguments import corrected_paths as corrected_paths
from planner.checks.guards.arguments import corrected_patterns as corrected_patterns
from planner.checks.guards.arguments import same as same
from planner.checks.guards.arguments import seen_paths as seen_paths
from planner.checks.guards.arguments import takes_path as takes_path
from planner.checks.guards.arguments import takes_paths as takes_paths
from planner.checks.guards.decisions import against_the_user as against_the_user
from planner.checks.guards.decisions import gives_up as gives_up
from planner.checks.guards.decisions import not_allowed as not_allowed
from planner.checks.guards.decisions import unknown_tool as unknown_tool
from planner.checks.guards.repeats import FRUITLESS_DECISIONS as FRUITLESS_DECISIONS
from planner.checks.guards.repeats import REFUSED as REFUSED
from planner.checks.guards.repeats import UNKNOWN as UNKNOWN
from planner.checks.guards.repeats import fruitless as fruitless
from planner.checks.guards.repeats import known as known
from planner.checks.guards.repeats import left_out as left_out
from planner.checks.guards.repeats import made as made
from planner.checks.guards.repeats import not_again as not_again
from planner.checks.guards.repeats import repeated as repeated
from planner.checks.guards.results import NOTHING as NOTHING
from planner.checks.guards.results import empty as empty
from planner.checks.guards.results import fault as fault
from planner.checks.guards.results import new_lines as new_lines
from planner.checks.guards.sources import meant as meant
from planner.checks.guards.sources import strings as strings
from planner.checks.guards.sources import unseen as unseen
from planner.checks.guards.widening import wider as wider
