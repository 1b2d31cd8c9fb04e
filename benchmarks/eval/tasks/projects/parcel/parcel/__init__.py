"""What it costs to send a parcel."""

__version__ = "1.3.0"
