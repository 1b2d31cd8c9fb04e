"""Measurements that are no tests: they need models and time."""
