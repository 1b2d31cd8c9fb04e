"""The report of a day."""

from parcel.orders import Order, order_total

CURRENCY = "EUR"


def format_line(order: Order) -> str:
    """One order on one line."""
    return f"{order.number}: {order_total(order):.2f} {CURRENCY}"


def report(orders: list[Order]) -> str:
    """All orders of a day, each on a line of its own, with a heading."""
    heading = f"Recieved orders: {len(orders)}"
    return "\n".join([heading, *(format_line(order) for order in orders)])
