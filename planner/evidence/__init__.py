"""From tool results to passages, from passages to checked claims."""
