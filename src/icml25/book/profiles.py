"""Profiles: one name selects the sizes a chapter runs at, from a smoke test to a GPU run."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

__all__ = ["PROFILES", "Settings", "check_profile", "device", "select"]

PROFILES: tuple[str, ...] = ("smoke", "cpu", "study", "gpu")
"""``smoke`` proves that every cell runs, ``cpu`` is what the book shows, ``study`` adds the statistics, ``gpu`` comes
nearest to the paper."""


class Settings(SimpleNamespace):
    """The settings of one profile as attributes, with the profile's own name in ``profile``."""

    profile: str

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no setting {name!r} in profile {self.profile!r}; there are: {', '.join(vars(self))}")


def check_profile(profile: str) -> str:
    """Return ``profile`` if it is one of :data:`PROFILES`, else raise ``ValueError``."""
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    return profile


def select(profile: str, **tables: Mapping[str, Any]) -> Settings:
    """Pick one profile's settings out of a chapter's table.

    Parameters
    ----------
    profile : str
        One of :data:`PROFILES`.
    **tables : mapping
        One mapping of settings per profile, all four present, with the same keys in each.

    Returns
    -------
    Settings

    Raises
    ------
    ValueError
        If the profile is unknown, a profile has no table, or two tables differ in their keys.

    Examples
    --------
    >>> sizes = dict(smoke=dict(n=10), cpu=dict(n=100), study=dict(n=1000), gpu=dict(n=10**6))
    >>> select("cpu", **sizes).n
    100
    """
    check_profile(profile)
    if set(tables) != set(PROFILES):
        raise ValueError(f"settings need a table for each of {', '.join(PROFILES)}, got {', '.join(tables) or 'none'}")
    keys = set(tables[profile])
    for name, table in tables.items():
        if odd := keys.symmetric_difference(table):
            raise ValueError(f"profiles {profile!r} and {name!r} differ in the settings: {', '.join(sorted(odd))}")
    return Settings(profile=profile, **tables[profile])


def device(profile: str) -> str:
    """``"cuda"`` for the ``gpu`` profile where a CUDA device is present, ``"cpu"`` otherwise."""
    if check_profile(profile) != "gpu":
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
