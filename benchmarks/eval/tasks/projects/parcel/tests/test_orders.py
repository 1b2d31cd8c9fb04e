from parcel.orders import Item, Order, order_total
from parcel.report import format_line

ORDER = Order(7, "FR", [Item("cup", 6.0, 0.5, 2), Item("pot", 18.0, 1.0)])


def test_every_piece_counts() -> None:
    assert ORDER.subtotal() == 30.0
    assert ORDER.weight() == 2.0


def test_delivery_is_added() -> None:
    assert order_total(ORDER) == 38.3


def test_a_line_shows_what_is_paid() -> None:
    assert format_line(ORDER) == "7: 38.30 EUR"
