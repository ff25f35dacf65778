"""How nbval sees this book: a cell that shows real data is compared only where that data is."""

import functools
from pathlib import Path

from icml25.book.claims import load_claims
from icml25.data.registry import available

TAG = "needs-data"


@functools.cache
def data_is_here(notebook: Path) -> bool:
    """Whether every data set that the chapter's claims name is on this machine."""
    claims = load_claims(notebook.with_suffix(".claims.yml"))
    return all(available(claim.data) for claim in claims.values() if claim.data)


def pytest_collection_modifyitems(items):
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and TAG in cell.metadata.get("tags", []) and not data_is_here(item.path):
            item.options["check"] = False
