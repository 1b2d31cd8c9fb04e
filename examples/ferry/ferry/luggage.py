"""What passengers may carry with them."""

from dataclasses import dataclass

MAX_BAG_KG = 25
"""The largest weight of one bag; above, it goes as freight."""
MAX_BAGS = 3
DOG_DECKS = ("open deck", "vehicle deck")
"""The decks where dogs are allowed, on a lead."""


@dataclass(frozen=True)
class Bag:
    weight_kg: float


def accepted(bags: list[Bag]) -> bool:
    """Whether a passenger may carry all these bags."""
    return len(bags) <= MAX_BAGS and all(bag.weight_kg <= MAX_BAG_KG for bag in bags)


def dog_allowed(deck: str) -> bool:
    return deck in DOG_DECKS
