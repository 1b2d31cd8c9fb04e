"""`python -m parcel COUNTRY WEIGHT` prints a price."""

import sys

from parcel.rates import shipping_price
from parcel.report import CURRENCY


def main() -> None:
    country, weight = sys.argv[1:]
    print(f"{shipping_price(float(weight), country):.2f} {CURRENCY}")


if __name__ == "__main__":
    main()
