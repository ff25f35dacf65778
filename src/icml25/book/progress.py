"""Progress bars for people at a notebook, and for nobody else.

A bar that is drawn while a chapter is executed for the book would end up in the committed outputs, so the commands that
execute chapters set ``ICML25_PROGRESS=0``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["enabled", "track"]

T = TypeVar("T")


def enabled() -> bool:
    """Whether bars are drawn: yes, unless the environment says ``ICML25_PROGRESS=0``."""
    return os.environ.get("ICML25_PROGRESS", "1") != "0"


def track(items: Iterable[T], label: str = "", total: int | None = None) -> Iterator[T]:
    """Iterate over ``items`` under a progress bar with the given label.

    >>> list(track([1, 2, 3], "counting"))
    [1, 2, 3]
    """
    if not enabled():
        yield from items
        return
    # tqdm.auto draws a widget whose scripts come from another host; the plain bar is text.
    from tqdm import tqdm

    yield from tqdm(items, desc=label, total=total, leave=False)
