import pytest

from parcel.rates import FREE_FROM, MAX_WEIGHT, is_free, shipping_price


def test_a_price_grows_with_weight() -> None:
    assert shipping_price(1, "DE") == 5.3
    assert shipping_price(2, "FR") == 8.3


def test_nothing_is_too_heavy_at_the_limit() -> None:
    assert shipping_price(MAX_WEIGHT, "US") > 0
    with pytest.raises(ValueError, match="at most"):
        shipping_price(MAX_WEIGHT + 1, "US")


def test_delivery_is_free_from_the_limit_on() -> None:
    assert is_free(FREE_FROM)
    assert not is_free(FREE_FROM - 0.01)
