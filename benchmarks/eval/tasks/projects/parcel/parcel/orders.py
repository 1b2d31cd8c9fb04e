"""Orders and what is in them."""

from dataclasses import dataclass, field

from parcel.rates import is_free, shipping_price


@dataclass
class Item:
    name: str
    price: float
    kilograms: float
    quantity: int = 1


@dataclass
class Order:
    number: int
    country: str
    items: list[Item] = field(default_factory=list)

    def subtotal(self) -> float:
        """What the goods cost."""
        return sum(item.price * item.quantity for item in self.items)

    def weight(self) -> float:
        """What the goods weigh, in kilograms."""
        return sum(item.kilograms * item.quantity for item in self.items)


def order_total(order: Order) -> float:
    """What the customer pays, delivery included."""
    goods = order.subtotal()
    if is_free(goods):
        return goods
    return round(goods + shipping_price(order.weight(), order.country), 2)
