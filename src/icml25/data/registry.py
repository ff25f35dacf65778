"""Data sets that are not shipped: what each one is, whether it is here, and how to get it into the user's cache.

Each data set has a module ``icml25.data.<name>`` with ``DATASET`` (what a person should know before fetching it),
``fetch(cache_dir, progress=False) -> Path``, and a function that says where it lies or raises ``FileNotFoundError``.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["REGISTRY", "ChecksumError", "DatasetInfo", "Entry", "available", "cache_dir", "describe", "get", "locate"]


class DatasetInfo(Protocol):
    """What a data set's module says in ``DATASET``.

    ``files`` maps the names of the files that fetching writes to what is in them. ``checksum`` is ``"sha256:"`` and the
    hexadecimal digest of the one file, or a word on why there is none.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> str: ...  # noqa: D102
    @property
    def licence(self) -> str: ...  # noqa: D102
    @property
    def files(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def checksum(self) -> str: ...  # noqa: D102


class ChecksumError(RuntimeError):
    """What was fetched is not what the registry describes."""


@dataclass(frozen=True)
class Entry:
    """Where the code of a data set is, by import path, so that listing data sets imports none of them."""

    info: str
    fetch: str
    locate: str


REGISTRY: dict[str, Entry] = {
    "monkeys": Entry(
        info="icml25.data.monkeys:DATASET",
        fetch="icml25.data.monkeys:fetch",
        locate="icml25.data.monkeys:find_counts",
    ),
}
"""The data sets by name."""


def cache_dir() -> Path:
    """The user's cache: ``$XDG_CACHE_HOME/icml25``, by default ``~/.cache/icml25``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icml25"


def describe(name: str) -> DatasetInfo:
    """What a data set is.

    Raises
    ------
    KeyError
        If there is no data set of this name; the message lists those there are.
    """
    info: DatasetInfo = _load(_entry(name).info)
    return info


def locate(name: str) -> Path | None:
    """Where the data set lies on this machine, or None."""
    find: Callable[[], Path] = _load(_entry(name).locate)
    try:
        return Path(find())
    except FileNotFoundError:
        return None


def available(name: str) -> bool:
    """Whether the data set is on this machine."""
    return locate(name) is not None


def get(name: str, *, folder: Path | None = None, progress: bool = False) -> Path:
    """Fetch a data set into the cache, whole or not at all.

    Parameters
    ----------
    name : str
        A name in :data:`REGISTRY`.
    folder : Path, optional
        Instead of :func:`cache_dir`.

    Returns
    -------
    Path
        The file, or the folder, that was fetched.

    Raises
    ------
    KeyError
        If there is no data set of this name.
    ChecksumError
        If the file is not the one that the data set's checksum describes; the cache is then as it was.
    ImportError, ConnectionError, ValueError
        From the data set's ``fetch``: an extra is missing, the network is, or the source holds something else.
    """
    info, fetch = describe(name), _load(_entry(name).fetch)
    folder = folder or cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    # On the cache's own file system, so that moving into place is one step.
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as scratch:
        stage = Path(scratch)
        for file in info.files:
            if (folder / file).is_file():
                # A fetch may keep what is there already.
                shutil.copy2(folder / file, stage / file)
        fetched = Path(fetch(stage, progress=progress))
        _verify(info, fetched)
        for file in info.files:
            os.replace(stage / file, folder / file)
        return folder / fetched.relative_to(stage)


def _verify(info: DatasetInfo, fetched: Path) -> None:
    algorithm, separator, digest = info.checksum.partition(":")
    if not separator or algorithm != "sha256":
        return
    with fetched.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != digest.strip().lower():
        raise ChecksumError(
            f"{info.name}: the file fetched from {info.source} has the SHA-256 {found}, expected {digest.strip()}; "
            "nothing was kept"
        )


def _entry(name: str) -> Entry:
    if name not in REGISTRY:
        raise KeyError(f"no data set {name!r}; there are: {', '.join(REGISTRY)}")
    return REGISTRY[name]


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
