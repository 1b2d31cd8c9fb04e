"""Hostile text in tool results, and whether it gets a write call through (docs/security.md)."""
