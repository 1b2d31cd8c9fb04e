"""What a parcel costs."""

from parcel.zones import zone_of

BASE_FEE = 4.5
PRICE_PER_KG = {"home": 0.8, "europe": 1.9, "world": 5.2}
MAX_WEIGHT = 30
FREE_FROM = 80


def shipping_price(weight: float, country: str) -> float:
    """The price of sending so many kilograms to a country."""
    if weight > MAX_WEIGHT:
        raise ValueError(f"a parcel weighs at most {MAX_WEIGHT} kg")
    return round(BASE_FEE + weight * PRICE_PER_KG[zone_of(country)], 2)


def is_free(value: float) -> bool:
    """Whether an order of this value is delivered free of charge."""
    return value >= FREE_FROM
