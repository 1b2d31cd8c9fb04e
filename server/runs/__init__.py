"""The runs: their life, and what they take from outside."""
