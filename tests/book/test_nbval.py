"""nbval as `make nbval` runs it: a changed output is red, and cells with real data are compared only where it is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from icml25 import notebooks
from icml25.book.claims import Verdict
from icml25.book.records import read_run

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ["-p", "no:cacheprovider", "-p", "nbval.plugin", "-c", os.devnull, "--nbval-lax"]
OPTIONS += ["--nbval-current-env", "--nbval-cell-timeout", "60", "--nbval-kernel-startup-timeout", "60"]


def change_verdicts(chapter):
    notebook = nbformat.read(chapter.notebook, as_version=4)
    (output,) = notebook.cells[-1].outputs
    output.data["text/plain"] = output.data["text/plain"].replace("reproduced", "not reproduced")
    nbformat.write(notebook, chapter.notebook)


@pytest.fixture(scope="module")
def book(shared_book):
    """Two executed chapters in whose notebooks the verdict was changed, in one of them in a cell with real data."""
    shared_book.add("spoilt")
    shared_book.add("withdata", tags=["needs-data"])
    path = shared_book.folder / "withdata.claims.yml"
    path.write_text(path.read_text() + "  data: monkeys\n")
    assert all(result.ok for result in notebooks.sync(shared_book.chapters, jobs=2, timeout=60))
    change_verdicts(shared_book.chapter("spoilt"))
    change_verdicts(shared_book.chapter("withdata"))
    shutil.copy(ROOT / "book" / "conftest.py", shared_book.root / "book" / "conftest.py")
    return shared_book


def failed(book, *names, **environment):
    """Failing cells, as notebook and number, when nbval runs the notebooks with these names."""
    sanitize = ["--nbval-sanitize-with", str(ROOT / "tests" / "nbval_sanitize.cfg")]
    settings = {"XDG_CACHE_HOME": str(book.root / "cache"), "ICML25_DATA": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *OPTIONS, *sanitize, *(str(book.folder / name) for name in names)],
        env=os.environ | settings | environment,
        cwd=book.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "passed" in done.stdout, done.stdout + done.stderr
    return re.findall(r"^FAILED .*?(\w+)\.ipynb::Cell (\d+)", done.stdout, re.MULTILINE)


def test_without_the_data_its_cells_are_not_compared(book, tmp_path):
    found = failed(book, "spoilt.ipynb", "withdata.ipynb", ICML25_RECORDS=str(tmp_path))
    assert found == [("spoilt", "3")], "and no other cell"
    assert {path.name for path in tmp_path.iterdir()} == {"spoilt.cpu.json", "withdata.cpu.json"}
    # The record is of the live run, whatever the notebook says.
    assert read_run(tmp_path / "spoilt.cpu.json").claims["C1"].verdict == Verdict.REPRODUCED


def test_with_the_data_its_cells_are_compared(book, tmp_path):
    (tmp_path / "monkeys_counts.csv").touch()
    assert failed(book, "withdata.ipynb", ICML25_DATA=str(tmp_path)) == [("withdata", "3")]
