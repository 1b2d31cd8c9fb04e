from kiosk.pricing import price


def test_the_better_discount_counts() -> None:
    assert price(1000, 5, 17) == 3000
    assert price(1000, 5, 10) == 4250
