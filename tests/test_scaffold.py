"""`icml25 new`: what it writes passes every check at once, and when it fails it has written nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from icml25 import notebooks, scaffold
from icml25.book.chapters import Chapter

ROOT = Path(__file__).resolve().parents[1]
TOC = """\
# The order of the pages.
format: jb-book
root: book/intro
parts:
  - chapters:
      - file: book/how_to_read   # first things first
  - caption: Theory
    chapters:
      - file: book/theory/monkeys
  - caption: Reference
    chapters:
      - file: book/api/index
        sections:
          - file: book/api/theory
          - file: book/api/data
"""
PART = '''"""Theory: theorems."""

from typing import TYPE_CHECKING

from icml25._lazy import lazy_exports

if TYPE_CHECKING:
    from icml25.theory.monkeys import *  # noqa: F403

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "monkeys": ("pass_at_k",),
    },
)
'''
PAGES = ("intro", "how_to_read", "theory/monkeys", "api/index", "api/theory", "api/data")


@pytest.fixture
def checkout(tmp_path):
    """The least that a book is made of."""
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "src" / "icml25" / "theory").mkdir(parents=True)
    (tmp_path / "src" / "icml25" / "__init__.py").touch()
    (tmp_path / "src" / "icml25" / "theory" / "__init__.py").write_text(PART)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src" / "icml25" / "theory" / "monkeys.py").write_text('__all__ = ["pass_at_k"]\npass_at_k = 1\n')
    for page in PAGES:
        path = tmp_path / "book" / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {page}\n")
    return tmp_path


def snapshot(root):
    return {path.relative_to(root): path.read_text() for path in root.rglob("*") if path.is_file()}


def ruff(root, *arguments):
    command = [sys.executable, "-m", "ruff", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("part", "slug"),
    [("theory", "a"), ("theory", "zeta_method"), ("sampling", "nets"), ("robustness", "inference_time_pessimism")],
)
def test_what_is_written_is_linted_formatted_and_listed(checkout, part, slug):
    before = snapshot(checkout)
    written = scaffold.new_chapter(checkout, part, slug, "It's a title, longer than most: of *any* chapter")
    code = [str(path) for path in written if path.suffix == ".py"]
    ruff(checkout, "check", "--no-cache", *code)
    ruff(checkout, "format", "--no-cache", "--check", *code)
    assert not [path for path in written if "@@" in path.read_text()]
    toc = (checkout / "_toc.yml").read_text()
    assert set(TOC.splitlines()) <= set(toc.splitlines()), "comments and layout stay"
    parts = yaml.safe_load(toc)["parts"]
    captions = [entry.get("caption") for entry in parts]
    assert captions == [None, "Theory", *([part.capitalize()] if part != "theory" else []), "Reference"]
    listed = next(entry for entry in parts if entry.get("caption") == part.capitalize())
    assert listed["chapters"][-1] == {"file": f"book/{part}/{slug}"}
    pages = [entry["file"] for entry in parts[-1]["chapters"][0]["sections"]]
    assert pages == ["book/api/theory", *([f"book/api/{part}"] if part != "theory" else []), "book/api/data"]
    assert all((checkout / f"{page}.md").is_file() for page in pages)
    changed = {path for path, text in snapshot(checkout).items() if before.get(path) != text}
    assert changed == {path.relative_to(checkout) for path in written}
    cells = notebooks.load_source(Chapter(checkout, part, slug))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"].splitlines()]
    assert max(map(len, lines)) <= 76, "wider code scrolls sideways in the page"


def test_a_second_chapter_stands_beside_the_first(checkout):
    for slug in ("second", "first"):
        scaffold.new_chapter(checkout, "signals", slug)
    text = (checkout / "src" / "icml25" / "signals" / "__init__.py").read_text()
    assert text.index("signals.first import") < text.index("signals.second import")
    assert text.index('"first": (') < text.index('"second": (')
    toc = yaml.safe_load((checkout / "_toc.yml").read_text())
    (part,) = (entry for entry in toc["parts"] if entry.get("caption") == "Signals")
    assert part["chapters"] == [{"file": "book/signals/second"}, {"file": "book/signals/first"}]


@pytest.mark.parametrize(
    ("part", "slug", "title", "message"),
    [
        ("magic", "toy", None, "no part 'magic'; the parts are: theory, sampling"),
        ("theory", "3toys", None, "Python identifier"),
        ("theory", "Toy", None, "Python identifier"),
        ("theory", "my-toy", None, "Python identifier"),
        ("theory", "../toy", None, "Python identifier"),
        ("theory", "lambda", None, "Python identifier"),
        ("theory", "match", None, "Python identifier"),
        ("theory", "", None, "Python identifier"),
        ("theory", "a_slug_that_is_far_too_long", None, "at most 24 letters"),
        ("theory", "sampling", None, "name of a package"),
        ("theory", "monkeys", None, "is taken by"),
        ("sampling", "monkeys", None, "is taken by book/theory/monkeys.md"),
        ("theory", "toy", 'A "title"', "one line without quotes"),
        ("theory", "toy", " ", "one line"),
    ],
)
def test_refuses_and_writes_nothing(checkout, part, slug, title, message):
    before = snapshot(checkout)
    with pytest.raises(scaffold.ScaffoldError, match=message):
        scaffold.new_chapter(checkout, part, slug, title)
    assert snapshot(checkout) == before


@pytest.mark.parametrize("broken", ["_toc.yml", "src/icml25/theory/__init__.py"])
def test_a_checkout_of_another_form_is_left_alone(checkout, broken):
    (checkout / broken).write_text("parts: []\n" if broken == "_toc.yml" else "x = 1\n")
    before = snapshot(checkout)
    with pytest.raises(scaffold.ScaffoldError, match=Path(broken).name):
        scaffold.new_chapter(checkout, "theory", "toy")
    assert snapshot(checkout) == before


@pytest.mark.parametrize("position", [0, 3, 7])
def test_a_write_that_fails_is_taken_back(checkout, monkeypatch, position):
    before, folders = snapshot(checkout), {path for path in checkout.rglob("*") if path.is_dir()}
    calls = iter(range(100))
    write_text = scaffold.write_text

    def failing(path, text):
        if next(calls) == position:
            raise OSError("no space left on device")
        write_text(path, text)

    monkeypatch.setattr(scaffold, "write_text", failing)
    with pytest.raises(OSError, match="no space"):
        scaffold.new_chapter(checkout, "signals", "toy")
    assert snapshot(checkout) == before
    assert {path for path in checkout.rglob("*") if path.is_dir()} == folders


@pytest.mark.slow
def test_a_new_chapter_runs_and_passes_every_check(checkout):
    """sync, mypy, pytest with doctests, its benchmark's answer, and the book with warnings as errors."""
    shutil.copytree(
        ROOT / "src", checkout / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "theory")
    )
    shutil.copy(ROOT / "_config.yml", checkout)
    shutil.copytree(ROOT / "book" / "_static", checkout / "book" / "_static")
    (checkout / "book" / "references.bib").write_text("@misc{none, title={None}, author={None}, year={2025}}\n")
    (checkout / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "timing.py", checkout / "benchmarks")
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "ICML25_ROOT": str(checkout)}

    def call(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    icml25 = ("-c", "from icml25.cli import main; main()")
    call(*icml25, "new", "signals", "toy", "--title", "A toy")
    assert "toy: executed" in call(*icml25, "sync", "toy")
    assert "in step" in call(*icml25, "sync", "--check", "toy")
    call(*icml25, "claims", "--update-baselines", "toy")
    assert "claims hold: 2 at cpu" in call(*icml25, "claims", "--check", "toy")
    call("-m", "mypy", "--cache-dir", str(checkout / ".mypy_cache"), "src/icml25/signals")
    tests = ("tests/signals/test_toy.py", "src/icml25/signals/toy.py")
    assert " passed" in call("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    call("-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-W", "--keep-going", "-q")
    page = (checkout / "_build" / "html" / "book" / "signals" / "toy.html").read_text()
    assert "A toy" in page
    assert "reproduced" in page
