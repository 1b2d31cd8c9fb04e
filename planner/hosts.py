"""Which hosts are this machine."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
