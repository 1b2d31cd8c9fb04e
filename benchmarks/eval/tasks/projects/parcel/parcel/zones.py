"""Which countries cost the same."""

HOME = "DE"
EUROPE = {"AT", "BE", "CZ", "DK", "ES", "FR", "IT", "NL", "PL"}


def zone_of(country: str) -> str:
    """The zone of a country, given by its two letters."""
    if country == HOME:
        return "home"
    return "europe" if country in EUROPE else "world"
