"""A small book that the tests of the command run, check and break."""

import textwrap

import pytest

HEADER = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
"""
PARAMETERS = 'profile = "cpu"\nseed = 0\nout = ""'
LEDGER = """\
from icml25.book.ledger import Ledger
ledger = Ledger("SLUG", profile=profile, seed=seed, out=out)
print("hello")"""
CLAIMS = """\
- id: C1
  kind: reproduction
  statement: The value is large.
  source: Table 1
  paper_value: 0.97
  quantity: a value
  pass: {at_least: 0.5}
  must_fail: 0.1
  profiles: [cpu, study]
"""


def cell(source, tags=()):
    """A code cell in MyST."""
    options = f":tags: [{', '.join(tags)}]\n" if tags else ""
    return f"\n```{{code-cell}} ipython3\n{options}{source}\n```\n"


class FakeBook:
    """A checkout in a temporary folder: a table of contents and chapters of a second."""

    def __init__(self, root):
        self.root = root
        self.folder = root / "book" / "theory"
        self.folder.mkdir(parents=True)
        self.slugs = []

    def add(self, slug, *sources, claims=CLAIMS, tags=(), value="0.9"):
        """Write a chapter: the cells every chapter has, then ``sources``, then a recorded claim and the verdicts."""
        cells = [cell(PARAMETERS, ["parameters"]), cell(LEDGER.replace("SLUG", slug))]
        cells += [cell(textwrap.dedent(source).strip()) for source in sources]
        cells += [cell(f'ledger.record("C1", {value})'), cell("ledger.verdicts()", ["nbval-check-output", *tags])]
        (self.folder / f"{slug}.md").write_text(f"{HEADER}\n# Chapter {slug}\n\nSome text.\n{''.join(cells)}")
        (self.folder / f"{slug}.claims.yml").write_text(claims)
        self.slugs.append(slug)
        entries = "".join(f"      - file: book/theory/{name}\n" for name in self.slugs)
        (self.root / "_toc.yml").write_text(
            f"format: jb-book\nroot: book/intro\nparts:\n  - caption: Theory\n    chapters:\n{entries}"
        )
        return self.chapter(slug)

    def chapter(self, slug):
        from icml25.book.chapters import find_chapter

        return find_chapter(slug, self.root)

    @property
    def chapters(self):
        from icml25.book.chapters import find_chapters

        return find_chapters(self.root)

    def edit(self, slug, old, new):
        path = self.folder / f"{slug}.md"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty fake book, which the commands run in this test take for theirs."""
    monkeypatch.setenv("ICML25_ROOT", str(tmp_path))
    monkeypatch.delenv("ICML25_RECORDS", raising=False)
    return FakeBook(tmp_path)


@pytest.fixture(scope="module")
def shared_book(tmp_path_factory):
    """An empty fake book for all tests of a module, for what is too slow to do once per test."""
    return FakeBook(tmp_path_factory.mktemp("book"))
