"""Orders in a file."""

import json
from dataclasses import asdict
from pathlib import Path

from parcel.orders import Item, Order


def save(orders: list[Order], path: Path) -> None:
    """Write the orders to a file, in place of what was there."""
    path.write_text(json.dumps([asdict(order) for order in orders], indent=2))


def load(path: Path) -> list[Order]:
    """The orders that a file holds; none when there is no such file."""
    if not path.exists():
        return []
    return [
        Order(each["number"], each["country"], [Item(**item) for item in each["items"]])
        for each in json.loads(path.read_text())
    ]
