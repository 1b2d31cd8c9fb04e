"""The families of cases, by name. Each is made only when it is asked for."""

from benchmarks.eval.case import Cases, Family

FAMILIES: dict[Family, Cases] = {}
