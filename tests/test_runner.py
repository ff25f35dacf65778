"""Runs survive what happens to them: failing cells, dead kernels, interrupts, kills; and leave nothing half made."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from icml25 import runner
from icml25.book.claims import Verdict
from icml25.book.records import read_recorded, read_run

ALLOCATE = """
import numpy as np
block = np.ones(30_000_000)
total = sum(i * i for i in range(500_000))
"""
# Waits for a file, so that a test decides how long the chapter takes; leaves its process id.
WAIT = """
import os, pathlib, time
pathlib.Path("pid").write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


def run(book, folder, **options):
    """Results of a run by slug."""
    with runner.RunDirectory(folder) as directory:
        options = {"profile": "cpu", "timeout": 60} | options
        return {result.chapter.slug: result for result in runner.run(book.chapters, directory, **options)}


@pytest.fixture(scope="module")
def first(shared_book):
    """A run of four chapters, three of which come to grief."""
    shared_book.add("good", ALLOCATE, value="0.9 - 0.001 * seed")
    shared_book.add("raises", "x = 1\nraise KeyError('no such thing')")
    shared_book.add("dies", "import os; os.kill(os.getpid(), 9)")
    shared_book.add("sleeps", "import time; time.sleep(60)")
    folder = shared_book.root / "run"
    return run(shared_book, folder, jobs=2, timeout=8, seed=3), folder


def test_one_failed_chapter_does_not_stop_the_others(first):
    results, folder = first
    assert {slug: result.fault.kind if result.fault else "" for slug, result in results.items()} == {
        "good": "",
        "raises": "error",
        "dies": "dead kernel",
        "sleeps": "timeout",
    }
    report = json.loads((folder / "report.json").read_text())["chapters"]
    assert {name: entry["ok"] for name, entry in report.items()} == {
        "good.cpu": True,
        "raises.cpu": False,
        "dies.cpu": False,
        "sleeps.cpu": False,
    }
    assert report["raises.cpu"]["fault"]["cell"] == "c003"


@pytest.mark.parametrize(
    ("slug", "source", "message"),
    [
        ("raises", "raise KeyError", "no such thing"),
        ("dies", "os.kill", "killed"),
        ("sleeps", "time.sleep", "more than 8 s"),
    ],
)
def test_a_fault_names_the_cell(first, slug, source, message):
    fault = first[0][slug].fault
    assert source in fault.source
    assert message in fault.message
    assert ("Traceback" in fault.traceback) == (slug == "raises")


def test_a_failed_chapter_leaves_no_result_but_what_it_showed(first):
    _, folder = first
    names = {path.name for path in folder.iterdir()}
    assert names == {
        ".lock",
        "report.json",
        "good.cpu.ipynb",
        "good.cpu.json",
        "raises.cpu.failed.ipynb",
        "dies.cpu.failed.ipynb",
        "sleeps.cpu.failed.ipynb",
    }


def test_parameters_reach_the_chapter_and_costs_are_measured(first):
    results, folder = first
    result = results["good"]
    record = read_run(folder / "good.cpu.json")
    assert (record.seed, record.profile, record.claims["C1"].values) == (3, "cpu", {"value": 0.897})
    assert result.peak_memory_bytes > 240e6, "the chapter alone fills 240 MB"
    assert result.peak_memory_bytes < 1e9
    assert 0.05 < result.cpu_seconds < 30
    assert result.seconds > 0


def test_provenance_says_what_the_numbers_depend_on_and_nobody_s_name(first):
    text = json.dumps(read_run(first[1] / "good.cpu.json").provenance)
    provenance = json.loads(text)
    assert {"icml25", "commit", "dirty", "date", "python", "torch", "numpy", "scipy"} <= set(provenance)
    assert {"machine", "processor", "cores", "seconds", "cpu_seconds", "peak_memory_bytes"} <= set(provenance)
    assert os.uname().nodename not in text
    assert str(first[1]) not in text
    assert str(Path.home()) not in text


def test_a_finished_chapter_is_kept_and_whatever_it_depends_on_redoes_it(first, shared_book):
    _, folder = first
    good = shared_book.chapter("good")

    def kept(profile="cpu", seed=3):
        with runner.RunDirectory(folder) as directory:
            source = runner.load_source(good)
            key = runner._key(good, runner.code_hash(source), profile, seed)
            return directory.kept(good, profile, key) is not None

    assert kept()
    assert not kept(seed=4)
    assert not kept(profile="study")
    method = shared_book.root / "src" / "icml25" / "theory" / "good.py"
    method.parent.mkdir(parents=True)
    for path, text in (
        (good.source, good.source.read_text().replace("500_000", "500_001")),
        (good.claims, good.claims.read_text().replace("0.1", "0.2")),
        (method, "x = 1\n"),
        (folder / "good.cpu.json", "{}"),
        (folder / "good.cpu.ipynb", (folder / "good.cpu.ipynb").read_text()[:-10]),
        (folder / "report.json", (folder / "report.json").read_text()[:-10]),
    ):
        before = path.read_text() if path.exists() else None
        path.write_text(text)
        assert not kept(), f"{path.name} changed"
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
        assert kept()
    good.source.write_text(good.source.read_text().replace("Some text", "Other text"))
    assert kept(), "text is not code"


def test_two_runs_do_not_share_a_directory(tmp_path):
    with runner.RunDirectory(tmp_path), pytest.raises(runner.BusyError, match="give another --out"):
        runner.RunDirectory(tmp_path)
    with runner.RunDirectory(tmp_path):
        pass


def test_recorded_results_are_merged_by_profile(first, shared_book, tmp_path):
    record = read_run(first[1] / "good.cpu.json")
    chapter = runner.Chapter(tmp_path, "theory", "good")
    chapter.folder.mkdir(parents=True)
    for profile, seed in (("study", 1), ("gpu", 2), ("study", 3)):
        record.profile, record.seed = profile, seed
        runner.record_results(chapter, record)
    assert {profile: run.seed for profile, run in read_recorded(chapter.results).items()} == {"gpu": 2, "study": 3}


def test_a_chapter_that_records_nothing_fails(book):
    chapter = book.add("mute")
    outcome = runner.Outcome("mute", 1.0, notebook="{}", record=None)
    with runner.RunDirectory(book.root / "run") as directory:
        result = directory.store(chapter, "cpu", 0, "key", outcome)
    assert "recorded no claim" in result.fault.message


def test_claims_that_a_run_missed_are_named(book):
    chapter = book.add("good")
    record = runner.RunRecord("good", "study", 0)
    assert runner.missing_claims(chapter, record) == ["C1"]
    record.profile = "gpu"
    assert runner.missing_claims(chapter, record) == []


def command(book, *arguments):
    """The command in a process of its own, as a user would start it at a terminal."""
    # A background job of a plain shell ignores Ctrl-C, and so would everything that it starts.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from icml25.cli import main; main()"
    environment = os.environ | {"ICML25_ROOT": str(book.root)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_a_killed_or_interrupted_run_leaves_no_kernel_and_is_taken_up_again(book):
    book.add("fast")
    book.add("slow", WAIT)
    folder, pid = book.root / "run", book.folder / "pid"
    arguments = ("run", "--profile", "cpu", "--out", str(folder))
    for sign, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = command(book, *arguments)
        wait_for(lambda: pid.is_file() and pid.read_text() and (folder / "fast.cpu.json").is_file())
        kernel = psutil.Process(int(pid.read_text()))
        process.send_signal(sign)
        try:
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
        assert process.returncode == code, output
        wait_for(lambda kernel=kernel: not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE, 10)
        pid.unlink()
        assert "fast" in output
        assert ("interrupted" in output) == (sign == signal.SIGINT)
        report = json.loads((folder / "report.json").read_text())["chapters"]
        assert {name: entry["ok"] for name, entry in report.items()} == {"fast.cpu": True}
        assert sorted(path.name for path in folder.glob("*.*")) == [
            ".lock",
            "fast.cpu.ipynb",
            "fast.cpu.json",
            "report.json",
        ]
    (book.folder / "go").touch()
    (folder / ".slow.cpu.json.abc").write_text("what a write that was killed leaves")
    results = run(book, folder)
    assert (results["fast"].kept, results["slow"].kept) == (True, False)
    assert results["slow"].record.claims["C1"].verdict == Verdict.REPRODUCED
    assert not list(folder.glob(".slow*"))


def test_a_scheduler_s_workers_run_chapters(book):
    distributed = pytest.importorskip("distributed")
    book.add("good")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as cluster:
        results = run(book, book.root / "run", scheduler=cluster.scheduler_address)
    assert results["good"].ok


def test_a_scheduler_without_the_extra_says_what_to_install(book, monkeypatch):
    book.add("good")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(runner.MissingExtraError, match=r"pip install 'icml25\[cluster\]'"):
        run(book, book.root / "run", scheduler="tcp://127.0.0.1:1")
