"""How each change of the family `change` is made: that it can be made is shown with it."""

from benchmarks.eval.tasks.changes import PROJECTS

SOLUTIONS: dict[str, list[tuple[str, str, str | None]]] = {
    "weight-limit": [("parcel/rates.py", "MAX_WEIGHT = 30", "MAX_WEIGHT = 25")],
    "rename-function": [
        ("README.md", "shipping_price", "delivery_price"),
        ("parcel/__main__.py", "shipping_price", "delivery_price"),
        ("parcel/orders.py", "shipping_price", "delivery_price"),
        ("parcel/rates.py", "shipping_price", "delivery_price"),
        ("tests/test_rates.py", "shipping_price", "delivery_price"),
    ],
    "currency-parameter": [
        ("parcel/report.py", "order: Order)", "order: Order, currency: str = CURRENCY)"),
        ("parcel/report.py", "{CURRENCY}", "{currency}"),
    ],
    "free-delivery-bug": [("parcel/rates.py", "> FREE_FROM", ">= FREE_FROM")],
    "usage-file": [
        ("docs/usage.md", "", "# Usage\nCall python -m parcel with a country and a weight.")
    ],
    "legacy": [("parcel/legacy.py", "", None)],
    "express": [
        ("README.md", "- a report of", "- express delivery\n- a report of"),
    ],
    "default-carrier": [("config/carriers.json", '"default": "dhl"', '"default":"ups"')],
    "too-many": [("src/store.js", "to many", "too many")],
    "rounded-weight": [
        (
            "parcel/orders.py",
            "sum(item.kilograms * item.quantity for item in self.items)",
            "round(sum(item.kilograms * item.quantity for item in self.items), 2)",
        )
    ],
    "rename-method": [
        ("parcel/orders.py", "subtotal", "goods_value"),
        ("tests/test_orders.py", "subtotal", "goods_value"),
    ],
    "most-cards": [("src/store.js", "MAX_CARDS = 50", "MAX_CARDS = 200")],
    "rename-in-js": [
        (path, "formatDate", "toDateText")
        for path in ("src/format.js", "src/index.js", "test/format.test.js")
    ],
    "decimals": [
        ("parcel/rates.py", "country: str) -> float", "country: str, decimals: int = 2) -> float"),
        ("parcel/rates.py", "[zone_of(country)], 2)", "[zone_of(country)], decimals)"),
    ],
    "quantity-bug": [
        ("parcel/orders.py", "sum(item.kilograms for", "sum(item.kilograms * item.quantity for")
    ],
    "units": [("parcel/units.py", "", "def grams_to_kilograms(grams):\n    return grams / 1000\n")],
    "move-settings": [
        ("config/settings.yaml", "", None),
        (
            "parcel/settings.yaml",
            "",
            (PROJECTS / "parcel/config/settings.yaml").read_text(),
        ),
    ],
    "tracking": [("README.md", "day's orders\n", "day's orders\n- tracking links\n")],
    "weekly-report": [
        ("config/settings.yaml", "weekly: false", "weekly: true"),
        ("config/settings.yaml", "attempts: 3", "attempts: 5"),
    ],
    "received": [("parcel/report.py", "Recieved", "Received")],
    "move-constant": [
        ("parcel/report.py", 'CURRENCY = "EUR"\n', ""),
        ("parcel/report.py", "order_total\n", "order_total\nfrom parcel.rates import CURRENCY\n"),
        ("parcel/rates.py", "BASE_FEE = 4.5\n", 'BASE_FEE = 4.5\nCURRENCY = "EUR"\n'),
        ("parcel/__main__.py", "from parcel.report import CURRENCY\n", ""),
        ("parcel/__main__.py", "import shipping_price", "import CURRENCY, shipping_price"),
    ],
    "version": [
        ("pyproject.toml", "1.3.0", "1.4.0"),
        ("parcel/__init__.py", "1.3.0", "1.4.0"),
    ],
}
"""What a person would do: in this file these words for those; a new file for none, and no file for
None."""
