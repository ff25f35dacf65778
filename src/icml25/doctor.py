"""Look a machine over: what the book needs, whether it is here, and how to mend what is not."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import icml25
from icml25.book.chapters import NoBookError, book_root, find_chapters

__all__ = ["BROWSERS", "Finding", "examine"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SHOWN = 6


@dataclass(frozen=True)
class Finding:
    """One thing looked at; ``state`` is ``"ok"``, ``"note"`` (works without) or ``"broken"``."""

    state: str
    what: str
    detail: str
    mend: str = ""


def examine() -> Iterator[Finding]:
    """Look at everything; each finding comes as soon as it is known."""
    try:
        root = book_root()
    except NoBookError as error:
        root = None
        yield Finding("note", "checkout", str(error))
    yield _python()
    yield from _packages(root)
    if root is not None:
        yield _source(root)
    yield from _torch()
    yield _kernel()
    yield _browser()
    yield from _data()
    if root is not None:
        yield from _pairs(root)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("ok", "Python", f"{version} at {sys.executable}")
    return Finding("broken", "Python", f"{version} is not supported", "make PYTHON=python3.11 env, or 3.12, or 3.13")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required() -> list[str]:
    """Names of what the core and the extra ``book`` need."""
    wanted = []
    for line in metadata.requires("icml25") or []:
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        name = re.match(r"[\w.-]+", line)
        if name and (extra is None or extra[1] == "book"):
            wanted.append(_normal(name[0]))
    return wanted


def _packages(root: Path | None) -> Iterator[Finding]:
    installed = {_normal(d.name): d.version for d in metadata.distributions() if d.name}
    required = _required()
    if missing := [name for name in required if name not in installed]:
        yield Finding("broken", "packages", f"missing: {', '.join(missing)}", "pip install 'icml25[book]'")
    else:
        yield Finding("ok", "packages", f"all {len(required)} that the library and the book need")
    constraints = root / "constraints.txt" if root else None
    if constraints is None or not constraints.is_file():
        return
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", constraints.read_text(encoding="utf-8"), re.MULTILINE))
    other = [
        f"{name} {installed[_normal(name)]} (pinned {pin})"
        for name, pin in pins.items()
        # A build such as +cpu is the same version.
        if _normal(name) in installed and installed[_normal(name)].partition("+")[0] != pin
    ]
    if other:
        shown = ", ".join(other[:_SHOWN]) + (f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else "")
        yield Finding(
            "note", "versions", f"not those that CI passes with: {shown}", "pip install -c constraints.txt -e '.[book]'"
        )
    else:
        yield Finding("ok", "versions", "as in constraints.txt")


def _source(root: Path) -> Finding:
    here = Path(icml25.__file__).resolve().parent
    if here == (root / "src" / "icml25").resolve():
        return Finding("ok", "library", "this checkout's")
    return Finding("note", "library", f"imported from {here}, not from this checkout", "pip install -e '.[book]'")


def _torch() -> Iterator[Finding]:
    if util.find_spec("torch") is None:
        return
    import torch

    threads = os.environ.get("OMP_NUM_THREADS")
    why = f"OMP_NUM_THREADS={threads}" if threads else "OMP_NUM_THREADS is not set; chapters run with 1"
    yield Finding("ok", "torch", f"{torch.__version__}, {torch.get_num_threads()} threads ({why})")
    if torch.cuda.is_available():
        yield Finding("ok", "CUDA", torch.cuda.get_device_name())
    else:
        yield Finding("note", "CUDA", "no device: every profile but gpu runs, and gpu falls back to the CPU")


def _kernel() -> Finding:
    mend = f"{sys.executable} -m ipykernel install --sys-prefix"
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ModuleNotFoundError:
        return Finding("broken", "Jupyter kernel", "jupyter_client is not installed", "pip install 'icml25[book]'")
    if util.find_spec("ipykernel") is None:
        return Finding("broken", "Jupyter kernel", "ipykernel is not installed", "pip install 'icml25[book]'")
    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return Finding("note", "Jupyter kernel", "JupyterLab finds no python3; the icml25 command does without", mend)
    found = shutil.which(command) or command
    # A bare `python` is replaced by the running one when the kernel starts.
    if command in ("python", "python3") or os.path.abspath(found) == os.path.abspath(sys.executable):
        return Finding("ok", "Jupyter kernel", "python3 is this Python")
    return Finding("note", "Jupyter kernel", f"in JupyterLab python3 is {found}, not this Python", mend)


def _browser() -> Finding:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found:
        return Finding("ok", "browser", found)
    return Finding("note", "browser", "no Chromium: make test skips the check of the pages", "apt install chromium")


def _data() -> Iterator[Finding]:
    from icml25.data import registry

    folder = os.environ.get("ICML25_DATA")
    if folder and not Path(folder).is_dir():
        yield Finding(
            "broken", "data", f"ICML25_DATA={folder} is no folder", "unset it, or name the folder that has the data"
        )
    for name in registry.REGISTRY:
        place = registry.locate(name)
        if place is not None:
            yield Finding("ok", f"data set {name}", str(place))
        else:
            yield Finding("note", f"data set {name}", "absent: its claims are not run", f"icml25 data get {name}")


def _pairs(root: Path) -> Iterator[Finding]:
    if util.find_spec("jupytext") is None or util.find_spec("nbformat") is None:
        return
    from icml25.notebooks import PairError, stale

    behind = []
    chapters = find_chapters(root)
    for chapter in chapters:
        try:
            reason = stale(chapter)
        except PairError:
            behind.append(chapter.slug)
        else:
            behind += [chapter.slug] if reason else []
    if behind:
        yield Finding("note", "pairs", f"stale: {', '.join(behind)}", "icml25 sync")
    else:
        yield Finding("ok", "pairs", f"all {len(chapters)} in step")
