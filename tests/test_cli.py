"""The command as a person meets it: what it says, where it says it, and its exit code."""

import os
import re
import subprocess
import sys
import threading
import types
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from icml25 import commands, doctor
from icml25.book.records import read_recorded
from icml25.commands import app
from icml25.data import registry


def icml25(*arguments, code=0, stdin=None):
    """Output of a command that ends with this exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result.output


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, check=False
    )


@pytest.mark.parametrize("missing", ["typer", "rich", "yaml"])
def test_without_the_extra_one_line_says_what_to_install(missing, tmp_path):
    setup = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['icml25', 'list']"
    done = python(f"{setup}; from icml25.cli import main; main()")
    assert done.returncode == 1
    assert done.stderr.strip() == f"icml25: {missing} is not installed; the command needs: pip install 'icml25[book]'"
    assert done.stdout == ""


def test_the_command_starts_without_the_heavy_libraries():
    heavy = ("numpy", "torch", "matplotlib", "papermill", "jupytext", "nbformat", "sphinx", "distributed")
    done = python(f"import sys, icml25.cli, icml25.commands; print([m for m in {heavy} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_help_names_every_command():
    text = icml25("--help")
    for name in ("sync", "list", "run", "claims", "doctor", "data", "new", "read"):
        assert re.search(rf"\b{name}\b", text)


def test_outside_of_a_checkout_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML25_ROOT", str(tmp_path))
    for arguments in (["list"], ["sync"], ["run"], ["claims"], ["read"], ["new", "theory", "toy"]):
        assert "no checkout of the book" in icml25(*arguments, code=1).replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sync", "nonsense"], "no chapter 'nonsense'; there are: good"),
        (["run", "--profile", "big"], "--profile must be one of smoke, cpu, study, gpu, got 'big'"),
        (["run", "--profile", "cpu", "--record"], "--record is for the profiles study and gpu, not cpu"),
        (["claims", "--records", "x"], "--records goes with --check"),
        (["new", "magic", "toy"], "no part 'magic'; the parts are: theory"),
        (["new", "theory", "good"], "the slug 'good' is taken by"),
        (["read"], "there is no built book yet: make book"),
        (["data", "get", "nonsense"], "no data set 'nonsense'; there are: monkeys"),
    ],
)
def test_refusals(book, arguments, message):
    book.add("good")
    assert message in icml25(*arguments, code=1)


def test_the_help_says_where_a_run_goes():
    assert "_build/runs/PROFILE-seedN" in icml25("run", "--help").replace("\n", " ")


def test_bad_numbers_are_refused_by_their_option(book):
    assert "--jobs" in icml25("run", "--jobs", "0", code=2)
    assert "--timeout" in icml25("run", "--timeout", "0", code=2)


def test_the_life_of_a_chapter(book):
    book.add("good")
    assert "stale good: it has no .ipynb" in icml25("sync", "--check", code=1)
    assert "good: executed" in icml25("sync")
    assert "all 1 pairs are in step" in icml25("sync", "--check")
    assert re.search(r"theory .* good .* Chapter good .* 1 reproduced .* cpu", icml25("list"))

    output = icml25("run", "--profile", "study", "--record", "--out", book.root / "study")
    assert re.search(r"\[1/1\] good  [\d.]+ s, [\d.]+ CPU s, \d+ MiB  1 reproduced", output)
    assert "claims: 1 reproduced" in output
    assert read_recorded(book.chapter("good").results)["study"].claims["C1"].values == {"value": 0.9}
    assert "good  kept: " in icml25("run", "--profile", "study", "--out", book.root / "study")

    table = icml25("claims")
    assert re.search(r"C1 .* reproduction .* 0\.97 .* ≥ 0\.5 .* 0\.9 .* 0\.9 .* reproduced", table)
    assert table == icml25("claims", "good")
    assert "C1 is new (reproduced): record it with --update-baselines" in icml25("claims", "--check", code=1)
    assert "tests/baselines/cpu.json: 1 claims" in icml25("claims", "--update-baselines")
    assert "claims hold: 1 at cpu, 1 at study" in icml25("claims", "--check")
    assert "1 at study in this run" in icml25("claims", "--check", "--records", book.root / "study")

    book.edit("good", "Some text.", "Other text.")
    assert "stale good: the text differs" in icml25("sync", "--check", code=1)
    assert "good: text updated" in icml25("sync")

    book.edit("good", 'print("hello")', 'raise RuntimeError("[bold]a [markup] trap[/bold]")')
    for arguments in (["sync"], ["run", "--profile", "smoke"]):
        output = icml25(*arguments, code=1)
        assert "error in cell c002 at book/theory/good.md:" in output
        assert '| raise RuntimeError("[bold]a [markup] trap[/bold]")' in output
        assert "Traceback" in output
        assert "1 of 1 chapters failed" in output
    assert "outputs belong to other code" in icml25("sync", "--check", code=1)


def test_claims_that_a_run_did_not_record_are_named(book, monkeypatch):
    from icml25 import runner

    chapter = book.add("good")
    record = runner.RunRecord("good", "study", 0)
    result = runner.Ran(chapter, False, 1.0, 1.0, 2**20, record)
    monkeypatch.setattr(runner, "run", lambda *_, **__: (r for r in [result]))
    output = icml25("run", "--profile", "study", "--out", book.root / "out")
    assert "listed for study but not recorded: C1" in output


def test_the_books_own_pairs_and_problems_in_outputs(book, monkeypatch):
    from icml25 import notebooks

    book.add("good")
    monkeypatch.setattr(notebooks, "stale", lambda _: None)
    monkeypatch.setattr(notebooks, "committed_problems", lambda _: ["cell c001 shows a path"])
    assert "stale good: cell c001 shows a path" in icml25("sync", "--check", code=1)
    monkeypatch.setattr(notebooks, "committed_problems", lambda _: [])
    monkeypatch.setattr(notebooks, "library_changed", lambda _: True)
    assert "note good: its outputs were computed by other code" in icml25("sync", "--check")


@pytest.fixture
def toy_data(monkeypatch, tmp_path):
    """A data set whose fetch writes a file, or fails as told."""
    module = types.ModuleType("icml25_cli_toy")
    module.fails = None
    module.place = tmp_path / "cache" / "icml25" / "toy.csv"

    def fetch(cache_dir, progress=False):
        if module.fails:
            raise module.fails
        (Path(cache_dir) / "toy.csv").write_text("1\n")
        return Path(cache_dir) / "toy.csv"

    def find():
        if not module.place.is_file():
            raise FileNotFoundError
        return module.place

    module.fetch, module.find = fetch, find
    module.DATASET = types.SimpleNamespace(
        name="toy",
        description="a toy [of] numbers",
        source="https://example.org/toy",
        size="2 bytes",
        licence="CC0",
        files={"toy.csv": "numbers"},
        checksum="sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = registry.Entry(*(f"{module.__name__}:{name}" for name in ("DATASET", "fetch", "find")))
    monkeypatch.setattr(registry, "REGISTRY", {"toy": entry})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


def test_data_is_shown_before_it_is_fetched_and_only_fetched_on_a_yes(toy_data):
    listed = icml25("data", "list")
    assert "toy  not here: icml25 data get toy" in listed
    assert "licence: CC0" in listed
    output = icml25("data", "get", "toy", code=1, stdin="n\n")
    for text in ("a toy [of] numbers", "https://example.org/toy", "2 bytes", "CC0", "sha256:4355", "Fetch it?"):
        assert text in output
    assert not toy_data.place.exists()
    assert str(toy_data.place) in icml25("data", "get", "toy", stdin="y\n")
    assert toy_data.place.read_text() == "1\n"


@pytest.mark.parametrize(
    "error",
    [
        ImportError("fetching needs pyarrow: pip install 'icml25[hub]'"),
        ConnectionError("could not reach example.org"),
        ValueError("the source holds something else"),
    ],
)
def test_a_fetch_that_fails_says_why_in_one_line(toy_data, error):
    toy_data.fails = error
    output = icml25("data", "get", "toy", "--yes", code=1)
    assert output.splitlines()[-1] == f"icml25: {error}"
    assert not toy_data.place.exists()


def test_a_wrong_checksum_keeps_nothing(toy_data):
    toy_data.DATASET.checksum = "sha256:" + "0" * 64
    assert "nothing was kept" in icml25("data", "get", "toy", "--yes", code=1)
    assert not toy_data.place.exists()


def test_new_says_what_it_wrote_and_what_comes_next(book):
    book.add("good")
    toc = book.root / "_toc.yml"
    toc.write_text(toc.read_text() + "  - caption: Reference\n    chapters:\n      - file: book/api/theory\n")
    output = icml25("new", "theory", "toy", "--title", "A toy")
    for path in ("src/icml25/theory/toy.py", "tests/theory/test_toy.py", "book/theory/toy.md", "_toc.yml"):
        assert path in output
        assert (book.root / path).is_file()
    assert "next: icml25 sync toy" in output


def test_read_serves_the_built_book_on_this_machine_only(book, monkeypatch):
    import http.server

    book.add("good")
    pages = book.root / "_build" / "html"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text("the book")
    answers = []

    class Server(http.server.ThreadingHTTPServer):
        def serve_forever(self):
            assert self.server_address[0] == "127.0.0.1"
            thread = threading.Thread(target=super().serve_forever)
            thread.start()
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server_port}/index.html") as answer:
                answers.append(answer.read().decode())
            self.shutdown()
            thread.join()
            raise KeyboardInterrupt

    monkeypatch.setattr(http.server, "ThreadingHTTPServer", Server)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    output = icml25("read", "--port", "0", code=commands.INTERRUPTED)
    assert answers == ["the book"]
    assert "http://127.0.0.1:" in output


def test_doctor_looks_at_everything(book, toy_data, monkeypatch):
    book.add("good")
    monkeypatch.delenv("ICML25_DATA", raising=False)
    (book.root / "constraints.txt").write_text("numpy==1.0.0\nnot-installed==1.0\n")
    findings = {finding.what: finding for finding in doctor.examine()}
    assert findings["Python"].state == findings["packages"].state == findings["torch"].state == "ok"
    assert re.search(r"numpy \S+ \(pinned 1\.0\.0\)", findings["versions"].detail)
    assert "not-installed" not in findings["versions"].detail
    assert findings["pairs"].detail == "stale: good"
    assert findings["data set toy"].mend == "icml25 data get toy"
    assert "not from this checkout" in findings["library"].detail
    assert {"CUDA", "Jupyter kernel", "browser"} <= set(findings)
    assert all(finding.mend for finding in findings.values() if finding.state == "broken")


def test_doctor_fails_only_for_what_is_broken(book, toy_data, monkeypatch):
    book.add("good")
    monkeypatch.delenv("ICML25_DATA", raising=False)
    output = icml25("doctor")
    assert "if you need it: icml25 data get toy" in output
    monkeypatch.setenv("ICML25_DATA", str(book.root / "nowhere"))
    output = icml25("doctor", code=1)
    assert "nowhere is no folder" in output
    assert "mend: unset it" in output
    monkeypatch.delenv("ICML25_DATA")
    monkeypatch.setattr(doctor, "_required", lambda: ["numpy", "a-package-that-is-not-there"])
    assert "missing: a-package-that-is-not-there" in icml25("doctor", code=1)


def test_doctor_sees_a_kernel_of_another_python(tmp_path, monkeypatch):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = '{"argv": ["/bin/false"], "display_name": "x", "language": "python"}'
    (folder / "kernel.json").write_text(spec)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    finding = doctor._kernel()
    assert finding.state == "note"
    assert "/bin/false" in finding.detail
    assert "ipykernel install" in finding.mend
