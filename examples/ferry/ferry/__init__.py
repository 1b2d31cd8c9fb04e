"""The ferry between Sundholt and the island of Varne: what `make demo` asks about."""
