"""What the tests of the agent share."""

import pytest
from in_memory import LIST, READ, DictionaryPool
from planted import SOURCE


@pytest.fixture
def pool() -> DictionaryPool:
    """Files that are listed and read; nothing searches them."""
    files = {"jobs/secret.py": SOURCE, "notes/a.md": "Alpha\n", "notes/b.md": "Beta\n"}
    return DictionaryPool(files, specs=[READ, LIST])
