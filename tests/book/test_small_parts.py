"""Files written whole, progress, figure style, and finding the book."""

import json
import multiprocessing
import os

import matplotlib as mpl
import pytest

from icml25.book import figures, progress
from icml25.book.chapters import NoBookError, book_root, find_chapter, find_chapters
from icml25.book.files import write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert json.loads(path.read_text()) == {"x": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_written_files_have_the_mode_of_ordinary_files(tmp_path):
    write_text(tmp_path / "new" / "a", "x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "new" / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def _write_many(path, letter):
    for _ in range(50):
        write_text(path, letter * 10_000)


def test_two_writers_never_mix(tmp_path):
    path = tmp_path / "shared"
    writers = [multiprocessing.Process(target=_write_many, args=(path, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_text() in {"a" * 10_000, "b" * 10_000}


def test_progress_is_silent_when_the_environment_says_so(monkeypatch, capsys):
    monkeypatch.setenv("ICML25_PROGRESS", "0")
    assert list(progress.track(range(3), "silent")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("ICML25_PROGRESS", "1")
    assert list(progress.track(iter("ab"), "loud", total=2)) == ["a", "b"]
    assert "loud" in capsys.readouterr().err


def test_figure_size():
    assert figures.size(0.5, 4.0) == (4.0, 2.0)
    with pytest.raises(ValueError, match="must be positive"):
        figures.size(0.0)


def test_style_is_opaque_and_its_figures_fit_the_column():
    with mpl.rc_context():
        mpl.use("agg")
        figures.use_style()
        fig, axes = figures.subplots(1, 2)
        assert fig.get_facecolor() == (1, 1, 1, 1)
        assert fig.get_figwidth() == figures.COLUMN
        assert axes.shape == (2,)
        mpl.pyplot.close(fig)


def make_book(root):
    (root / "book" / "theory").mkdir(parents=True)
    (root / "_toc.yml").write_text(
        "format: jb-book\nroot: book/intro\nparts:\n  - caption: Theory\n    chapters:\n"
        "      - file: book/theory/b\n      - file: book/theory/a\n  - caption: Reference\n"
        "    chapters:\n      - file: book/ledger\n      - file: book/api/index\n"
    )
    for slug in "ab":
        (root / "book" / "theory" / f"{slug}.claims.yml").write_text("[]")


def test_chapters_come_in_the_order_of_the_contents(tmp_path, monkeypatch):
    make_book(tmp_path)
    monkeypatch.delenv("ICML25_ROOT", raising=False)
    monkeypatch.chdir(tmp_path / "book" / "theory")
    assert book_root() == tmp_path
    assert [chapter.slug for chapter in find_chapters()] == ["b", "a"]
    chapter = find_chapter("a")
    assert chapter.notebook == tmp_path / "book" / "theory" / "a.ipynb"
    with pytest.raises(KeyError, match="no chapter 'c'; there are: b, a"):
        find_chapter("c")


def test_no_book_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("ICML25_ROOT", raising=False)
    with pytest.raises(NoBookError, match="clone the repository"):
        book_root(tmp_path)
    monkeypatch.setenv("ICML25_ROOT", os.fspath(tmp_path / "elsewhere"))
    with pytest.raises(NoBookError, match="ICML25_ROOT="):
        book_root()
