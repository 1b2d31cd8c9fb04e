"""The models: what the planner knows of them, and the adapters of their servers."""
