"""What a person is asked: whether a call may be made, and what an upstream wants to know."""
