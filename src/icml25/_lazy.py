"""Names that a part of the library offers, imported from their method when they are first used.

Importing one method must not pay for its siblings, nor fail because an extra that only they need is missing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_exports", "optional_exports"]


def lazy_exports(
    package: str, exports: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make a package's ``__getattr__``, ``__dir__`` and ``__all__`` (PEP 562).

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    exports : mapping
        From the name of each submodule to the names it exports. The submodules themselves are offered too.

    Raises
    ------
    ValueError
        If two submodules export one name.
    """
    home: dict[str, str] = {}
    for module, names in exports.items():
        for name in names:
            if name in home:
                raise ValueError(f"{package}: {name!r} is exported by both {home[name]!r} and {module!r}")
            home[name] = module
    offered = sorted([*exports, *home])

    def load(name: str) -> Any:
        if name in exports:
            return importlib.import_module(f"{package}.{name}")
        if name in home:
            value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
            # Kept on the package, so that the next use does not come through here.
            setattr(sys.modules[package], name, value)
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: offered, offered


def optional_exports(package: str, exports: Mapping[str, tuple[str, ...]], *, extra: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a method whose submodules in ``exports`` need more than the core dependencies.

    Everything else of the method works without the extra; a name that needs it says what to install.

    Raises
    ------
    ImportError
        On the use of such a name where the extra is absent.
    AttributeError
        On any other name.
    """
    home = {name: module for module, names in exports.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{home[name]}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("icml25"):
                raise
            raise ImportError(f"{name} needs {error.name}: pip install 'icml25[{extra}]'") from error
        return getattr(module, name)

    return load
