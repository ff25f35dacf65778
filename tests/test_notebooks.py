"""Pairs: text and outputs belong together, in one direction, and nothing that must not be committed gets through."""

import json
import shutil

import nbformat
import pytest

from icml25 import notebooks
from icml25.book.records import read_notebook

BOGUS_KERNEL = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}


@pytest.fixture(scope="module")
def synced(shared_book, tmp_path_factory):
    """Results of one sync of a good chapter, one that raises and one that warns, by slug.

    A kernel spec of the user's names another python3, which must not be the one that runs.
    """
    user = tmp_path_factory.mktemp("jupyter")
    (user / "kernels" / "python3").mkdir(parents=True)
    (user / "kernels" / "python3" / "kernel.json").write_text(json.dumps(BOGUS_KERNEL))
    shared_book.add("good", "import sys, os; print(len(sys.argv) > 0, end='')\nprint(os.environ['ICML25_PROGRESS'])")
    shared_book.add("raises", "x = 1\nraise KeyError('no such thing')")
    shared_book.add("warns", "import warnings; warnings.warn('careful')")
    (shared_book.folder / "raises.ipynb").write_text("the old one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(user))
        patch.setenv("ICML25_RECORDS", str(user / "records"))
        results = {r.chapter.slug: r for r in notebooks.sync(shared_book.chapters, jobs=2, timeout=60)}
    assert not (user / "records").exists(), "a sync is nobody's run"
    return results


@pytest.fixture
def pair(synced, shared_book, tmp_path):
    """A copy of the executed good chapter, to be spoilt."""
    root = tmp_path / "copy"
    shutil.copytree(shared_book.root, root)
    copied = type(shared_book).__new__(type(shared_book))
    copied.root, copied.folder, copied.slugs = root, root / "book" / "theory", list(shared_book.slugs)
    assert notebooks.stale(copied.chapter("good")) is None
    return copied


def rewrite(chapter, change):
    """Change the notebook on disk."""
    notebook = nbformat.read(chapter.notebook, as_version=4)
    change(notebook)
    nbformat.write(notebook, chapter.notebook)


def test_sync_executes_and_stamps(synced):
    result = synced["good"]
    assert result.ok
    assert result.done == "executed"
    assert result.cpu_seconds > 0
    text = result.chapter.notebook.read_text()
    notebook = json.loads(text)
    assert notebook["metadata"]["icml25"]["profile"] == "cpu"
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert [cell["id"] for cell in notebook["cells"]] == [f"c{i:03d}" for i in range(len(notebook["cells"]))]
    assert all(set(cell["metadata"]) <= {"tags"} for cell in notebook["cells"])
    assert read_notebook(result.chapter.notebook)["C1"].values == {"value": 0.9}
    assert "".join(notebook["cells"][3]["outputs"][0]["text"]) == "True0\n"
    assert nbformat.validate(nbformat.reads(text, as_version=4)) is None


def test_a_chapter_that_fails_keeps_its_old_notebook_and_says_where_it_failed(synced):
    result = synced["raises"]
    assert not result.ok
    assert result.chapter.notebook.read_text() == "the old one"
    assert result.fault.kind == "error"
    assert "raise KeyError" in result.fault.source
    assert "no such thing" in result.fault.message
    assert "----> 2 raise KeyError" in result.fault.traceback
    line = notebooks.find_line(result.chapter, result.fault.source)
    assert result.chapter.source.read_text().splitlines()[line - 1] == "x = 1"


def test_a_warning_fails_the_sync(synced):
    result = synced["warns"]
    assert not result.ok
    assert "stderr" in result.problems[0]
    assert "careful" in result.problems[0]
    assert not result.chapter.notebook.exists()


def test_executing_again_gives_the_same_bytes(pair):
    before = pair.chapter("good").notebook.read_bytes()
    (result,) = notebooks.sync([pair.chapter("good")], force=True)
    assert result.done == "executed"
    assert pair.chapter("good").notebook.read_bytes() == before


def test_where_a_stream_was_flushed_leaves_no_trace():
    def stream(text, name="stdout"):
        return {"output_type": "stream", "name": name, "text": text}

    shown = {"output_type": "display_data", "data": {}, "metadata": {}}
    outputs = [stream("a"), stream("b"), stream("c", "stderr"), stream("d"), shown, stream("e")]
    assert notebooks._merged(outputs) == [stream("ab"), stream("c", "stderr"), stream("d"), shown, stream("e")]


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(notebooks, "execute", lambda *_: pytest.fail("a kernel was started"))


def test_what_is_in_step_is_left_alone(pair, no_kernel):
    before = pair.chapter("good").notebook.stat().st_mtime_ns
    assert [r.done for r in notebooks.sync([pair.chapter("good")])] == ["in step"]
    assert pair.chapter("good").notebook.stat().st_mtime_ns == before


def test_new_text_is_grafted_on_valid_outputs(pair, no_kernel):
    chapter = pair.chapter("good")
    before = read_notebook(chapter.notebook)
    pair.edit("good", "Some text.", "Other text.\n\n+++\n\nAnd a cell more.")
    assert notebooks.stale(chapter) == notebooks.Stale("the text differs", execute=False)
    assert [r.done for r in notebooks.sync([chapter])] == ["text updated"]
    assert notebooks.stale(chapter) is None
    assert "Other text" in chapter.notebook.read_text()
    assert read_notebook(chapter.notebook) == before


def null_count(notebook):
    notebook.cells[1].execution_count = None


def forge(notebook):
    notebook.cells[2].outputs[0].text = "goodbye"


def other_code(notebook):
    notebook.cells[2].source += "\nx = 2"


def other_profile(notebook):
    notebook.metadata.icml25.profile = "smoke"


def unstamp(notebook):
    del notebook.metadata["icml25"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (null_count, "not executed"),
        (forge, "outputs were changed"),
        (other_code, "other code than the .md"),
        (other_profile, "profile smoke"),
        (unstamp, "belong to other code"),
    ],
)
def test_a_spoilt_notebook_is_stale(pair, change, reason):
    chapter = pair.chapter("good")
    rewrite(chapter, change)
    stale = notebooks.stale(chapter)
    assert reason in stale.reason
    assert stale.execute


def test_edited_code_is_stale(pair):
    pair.edit("good", 'print("hello")', 'print("bye")')
    assert notebooks.stale(pair.chapter("good")) == notebooks.Stale("the outputs belong to other code", execute=True)


def test_missing_and_broken_notebooks_are_stale(pair):
    chapter = pair.chapter("good")
    chapter.notebook.write_text('{"cells": [')
    assert "cannot be read" in notebooks.stale(chapter).reason
    chapter.notebook.unlink()
    assert notebooks.stale(chapter).reason == "it has no .ipynb"


def test_a_change_of_the_library_is_noticed_and_executed(pair, monkeypatch):
    chapter = pair.chapter("good")
    method = pair.root / "src" / "icml25" / "theory" / "good.py"
    method.parent.mkdir(parents=True)
    method.write_text("def f(x):\n    return x\n")
    assert notebooks.library_changed(chapter)
    assert notebooks.stale(chapter) is None, "nbval says whether the outputs still hold"
    ran = []
    monkeypatch.setattr(notebooks, "_execute", lambda chapter, *_: ran.append(chapter))
    list(notebooks.sync([chapter]))
    assert ran == [chapter]


def test_the_library_of_a_chapter_is_what_it_and_its_method_import_of_ours(pair):
    chapter = pair.chapter("good")
    package = pair.root / "src" / "icml25"
    files = {
        "theory/good/__init__.py": "from icml25.theory.good.law import f\n",
        "theory/good/law.py": "import numpy\nfrom icml25 import _arguments as check, absent\n",
        "theory/other.py": "",
        "_arguments.py": "import icml25._lower\n",
        "_lower.py": "import icml25._arguments\n",
        "_unused.py": "",
        "data/__init__.py": "",
        "data/census.py": "",
        "data/other.py": "",
        "book/figures.py": "",
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    chapter.source.write_text(
        chapter.source.read_text() + "\n```{code-cell} ipython3\nfrom icml25.data import census\n"
        "from icml25.book import figures\n```\n\n```{code-cell} ipython3\nno python\n```\n"
    )
    found = {path.relative_to(package).as_posix() for path in notebooks.library_files(chapter)}
    assert found == {
        "theory/good/__init__.py",
        "theory/good/law.py",
        "_arguments.py",
        "_lower.py",
        "data/census.py",
    }


BASE = '''"""Doc."""
import math

class A:
    """Doc."""
    def f(self, x: int = 1) -> float:
        """Doc."""
        return math.sqrt(x) + 1  # why
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Doc."""', '"""Better doc."""', True),
        ("  # why", "", True),
        ("sqrt(x) + 1", "sqrt(\n            x\n        ) + 1", True),
        ("+ 1", "- 1", False),
        ("+ 1", "+ 1.0", False),
        ("x: int = 1", "x: int = 2", False),
        ("return math", "x = 2; return math", False),
        ("class A", "class B", False),
        ("math.sqrt", "math.exp", False),
    ],
)
def test_the_fingerprint_of_the_library_is_of_what_it_does(tmp_path, old, new, same):
    path = tmp_path / "m.py"
    path.write_text(BASE)
    before = notebooks.library_hash([path])
    path.write_text(BASE.replace(old, new))
    assert (notebooks.library_hash([path]) == before) == same


def test_the_fingerprint_is_the_same_on_every_python(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(BASE + "\ndef g(*a, k=None, **b):\n    return f'{a!r:>{k}} {{}}' if a else [*b, ...]\n")
    assert notebooks.library_hash([path]) == "41b068612646f183"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format_name: myst", "format_name: markdown", "format: myst"),
        ("---\njupytext", "---\nother", "format: myst"),
        ("---\n", "", "format: myst"),
        (":tags: [parameters]\n", "", "tagged parameters"),
        ('profile = "cpu"', 'profile = "smoke"', "tagged parameters"),
        ('out = ""', "out = f()", "tagged parameters"),
        ('out = ""', 'out = ""\nextra = 1', "tagged parameters"),
    ],
)
def test_a_source_that_is_no_chapter_is_refused(book, old, new, message):
    chapter = book.add("good")
    book.edit("good", old, new)
    with pytest.raises(notebooks.PairError, match=message):
        notebooks.load_source(chapter)
    (result,) = notebooks.sync([chapter])
    assert not result.ok
    assert message in result.problems[0]


def test_the_parameters_may_stand_in_one_line(book):
    chapter = book.add("good")
    book.edit("good", 'profile = "cpu"\nseed = 0\nout = ""', 'profile, seed, out = "cpu", 0, ""')
    assert notebooks.load_source(chapter)["cells"][1]["id"] == "c001"


def test_claims_without_a_source_are_refused(book):
    chapter = book.add("good")
    chapter.source.unlink()
    with pytest.raises(notebooks.PairError, match=r"there is no book/theory/good\.md"):
        notebooks.load_source(chapter)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"output_type": "stream", "name": "stdout", "text": "saved in /home/ada/x.npz"}, "/home/ada"),
        ({"output_type": "stream", "name": "stdout", "text": "File '/tmp/ipykernel_1/2.py'"}, "/tmp/ipykernel_1"),
        ({"output_type": "display_data", "data": {"text/html": "<p>/usr/lib/site-packages/x</p>"}}, "site-packages"),
        ({"output_type": "stream", "name": "stdout", "text": "C:\\Users\\ada"}, "Users"),
        ({"output_type": "stream", "name": "stderr", "text": "oh"}, "stderr: oh"),
        ({"output_type": "display_data", "data": {"application/vnd.jupyter.widget-view+json": {}}}, "widget"),
        ({"output_type": "display_data", "data": {"image/png": "A" * 2_000_000}}, "2.0 MB"),
    ],
)
def test_outputs_that_must_not_be_committed(book, output, message):
    chapter = book.add("good")
    notebook = notebooks.load_source(chapter)
    assert notebooks.output_problems(notebook, chapter) == []
    notebook["cells"][2]["outputs"] = [output]
    (problem,) = notebooks.output_problems(notebook, chapter)
    assert message in problem


@pytest.mark.parametrize("text", ["https://example.org/home/x", "a/tmp/b", "1/root/2", "the homepage", "p(a|b)/home"])
def test_outputs_that_only_look_like_paths(book, text):
    chapter = book.add("good")
    notebook = notebooks.load_source(chapter)
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
    assert notebooks.output_problems(notebook, chapter) == []
