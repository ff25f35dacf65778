"""Where the chapters of a checkout are: one object per chapter that knows the paths of all its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Chapter", "NoBookError", "book_root", "find_chapter", "find_chapters"]

ROOT_VARIABLE = "ICML25_ROOT"


class NoBookError(FileNotFoundError):
    """There is no checkout of the book here."""


@dataclass(frozen=True)
class Chapter:
    """A chapter and its files."""

    root: Path
    part: str
    slug: str

    @property
    def folder(self) -> Path:
        """The folder it runs in."""
        return self.root / "book" / self.part

    @property
    def source(self) -> Path:
        """The MyST notebook, the half that is edited."""
        return self.folder / f"{self.slug}.md"

    @property
    def notebook(self) -> Path:
        """The executed half, written by ``icml25 sync``."""
        return self.folder / f"{self.slug}.ipynb"

    @property
    def claims(self) -> Path:
        """The paper's claims."""
        return self.folder / f"{self.slug}.claims.yml"

    @property
    def results(self) -> Path:
        """The recorded ``study`` and ``gpu`` runs; absent until there is one."""
        return self.folder / f"{self.slug}.results.json"


def book_root(start: Path | None = None) -> Path:
    """Root of the checkout that holds ``start`` (default: the working directory).

    Raises
    ------
    NoBookError
        If neither ``$ICML25_ROOT`` nor any folder above ``start`` has a ``_toc.yml`` beside a ``book`` folder.
    """
    named = os.environ.get(ROOT_VARIABLE)
    here = (start or Path.cwd()).resolve()
    candidates = [Path(named).resolve()] if named else [here, *here.parents]
    for folder in candidates:
        if (folder / "_toc.yml").is_file() and (folder / "book").is_dir():
            return folder
    where = f"${ROOT_VARIABLE}={named}" if named else f"{here} or above"
    raise NoBookError(f"no checkout of the book at {where}: clone the repository and run this inside it")


def find_chapters(root: Path | None = None) -> list[Chapter]:
    """All chapters of the checkout, in the order of the table of contents.

    A chapter is a page with a claims file beside it.
    """
    import yaml

    root = root or book_root()
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    pages = [Path(page["file"]) for part in toc.get("parts", []) for page in part.get("chapters", [])]
    chapters = [Chapter(root, page.parent.name, page.name) for page in pages]
    return [chapter for chapter in chapters if chapter.claims.is_file()]


def find_chapter(slug: str, root: Path | None = None) -> Chapter:
    """The chapter with this slug.

    Raises
    ------
    KeyError
        If there is none; the message lists those there are.
    """
    chapters = {chapter.slug: chapter for chapter in find_chapters(root)}
    if slug not in chapters:
        raise KeyError(f"no chapter {slug!r}; there are: {', '.join(chapters) or 'none'}")
    return chapters[slug]
