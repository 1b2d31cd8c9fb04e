"""Prices, read from config/prices.yaml, with the discounts."""

EVENING_FROM = 16
"""From this hour on tickets cost less."""
EVENING_SHARE = 0.6
GROUP_FROM = 5
GROUP_DISCOUNT = 0.15


def price(base_cents: int, persons: int, hour: int) -> int:
    """What a party pays, in cents, rounded down to ten. Only the better discount counts."""
    full = base_cents * persons
    evening = full * EVENING_SHARE if hour >= EVENING_FROM else full
    group = full * (1 - GROUP_DISCOUNT) if persons >= GROUP_FROM else full
    return int(min(evening, group)) // 10 * 10
