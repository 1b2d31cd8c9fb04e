"""Prices as they were until 2019. Nothing uses them any more."""

OLD_BASE_FEE = 3.9
OLD_PRICE_PER_KG = 1.2


def old_price(weight: float) -> float:
    return OLD_BASE_FEE + weight * OLD_PRICE_PER_KG
