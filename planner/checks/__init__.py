"""Checks in code on what models and tools say, before and after each call."""
