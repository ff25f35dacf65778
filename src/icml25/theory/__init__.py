"""Theory: methods whose claims are theorems, checked with their constants."""

from typing import TYPE_CHECKING

from icml25._lazy import lazy_exports

if TYPE_CHECKING:
    from icml25.theory.critical_windows import *  # noqa: F403
    from icml25.theory.monkeys import *  # noqa: F403
    from icml25.theory.multipass_sgd import *  # noqa: F403

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "critical_windows": (),
        "monkeys": (),
        "multipass_sgd": (),
    },
)
