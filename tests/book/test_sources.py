"""The sources of the pages agree with each other: contents, chapters, figures, references, reference pages."""

import json
import re
from pathlib import Path

import pytest
import yaml

import icml25
from icml25.book.chapters import find_chapters
from icml25.book.evidence import paper_of, title_of
from icml25.book.interactive import PLOTLY_MIME

ROOT = Path(__file__).resolve().parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = find_chapters(ROOT)
EXECUTED = [chapter for chapter in CHAPTERS if chapter.notebook.is_file()]
# What BibTeX's styles demand of each kind of entry; the book does not build without.
REQUIRED = {
    "article": {"author", "title", "journal", "year"},
    "book": {"author", "title", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "incollection": {"author", "title", "booktitle", "publisher", "year"},
    "misc": {"author", "title", "howpublished", "year"},
    "phdthesis": {"author", "title", "school", "year"},
    "techreport": {"author", "title", "institution", "year"},
}

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.slug)
each_executed = pytest.mark.parametrize("chapter", EXECUTED, ids=lambda chapter: chapter.slug)


def code_cells(chapter):
    notebook = json.loads(chapter.notebook.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(cell, *kinds):
    return [kind for output in cell["outputs"] for kind in output.get("data", {}) if kind.startswith(kinds)]


def test_contents_and_chapters_agree():
    named = {chapter.claims for chapter in CHAPTERS}
    assert named == set((ROOT / "book").glob("*/*.claims.yml"))
    for part in TOC["parts"]:
        folders = {Path(page["file"]).parts[1] for page in part["chapters"] if len(Path(page["file"]).parts) == 3}
        assert folders <= {part.get("caption", "").lower(), "api"}


def test_every_page_of_the_contents_exists():
    pages = [TOC["root"]]
    for part in TOC["parts"]:
        for page in part["chapters"]:
            pages += [page["file"], *(section["file"] for section in page.get("sections", []))]
    assert [page for page in pages if not (ROOT / f"{page}.md").is_file()] == []
    assert len(set(pages)) == len(pages)


@each_chapter
def test_a_chapter_opens_with_its_title_its_paper_and_its_claims(chapter):
    text = chapter.source.read_text(encoding="utf-8")
    assert title_of(chapter) != chapter.slug
    assert paper_of(chapter)
    assert re.search(rf"^```\{{claims\}} {chapter.slug}$", text, re.MULTILINE)


def test_the_readme_lists_every_chapter():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[^]]+\]\((book/\S+\.md)\)", text, re.MULTILINE)
    assert listed == [chapter.source.relative_to(ROOT).as_posix() for chapter in CHAPTERS]


@each_executed
def test_a_cell_does_one_thing_and_fits_the_column(chapter):
    for cell in code_cells(chapter):
        lines = "".join(cell["source"]).splitlines()
        assert len(lines) <= 25, f"{chapter.slug}: cut the cell that starts with: {lines[0]}"
        assert max(map(len, lines), default=0) <= 76, f"{chapter.slug}: a line too wide in: {lines[0]}"


@each_chapter
def test_every_exercise_has_a_solution(chapter):
    text = chapter.source.read_text(encoding="utf-8")
    exercises = re.findall(r"\{exercise(?:-start)?\}.*?\n:label: (\S+)", text)
    solutions = re.findall(r"\{solution(?:-start)?\} (\S+)", text)
    assert exercises
    assert sorted(exercises) == sorted(solutions)


@each_executed
def test_every_figure_has_a_caption_a_name_and_a_text_for_those_who_cannot_see_it(chapter):
    bare = {}
    for cell in code_cells(chapter):
        if outputs_of(cell, "image/"):
            shown = cell["metadata"].get("mystnb", {})
            figure, image = shown.get("figure", {}), shown.get("image", {})
            missing = [
                name
                for name, text in (
                    ("caption", figure.get("caption")),
                    ("name", figure.get("name")),
                    ("alt", image.get("alt")),
                )
                if not str(text or "").strip()
            ]
            if missing or not figure["name"].startswith("fig-"):
                bare[cell["id"]] = missing or figure["name"]
    assert bare == {}


@each_executed
def test_a_chapter_has_one_interactive_figure_and_says_what_it_shows(chapter):
    figures = [
        output["data"][PLOTLY_MIME]
        for cell in code_cells(chapter)
        for output in cell["outputs"]
        if PLOTLY_MIME in output.get("data", {})
    ]
    assert len(figures) >= 1
    assert all(figure["layout"]["meta"]["alt"].strip() for figure in figures)


@each_executed
def test_a_cell_shows_a_figure_once(chapter):
    twice = [cell["id"] for cell in code_cells(chapter) if len(outputs_of(cell, "image/png")) > 1]
    assert twice == []


def test_references_are_complete_and_stand_once():
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@(\w+)\{([^,]+),(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert len(entries) == text.count("\n@") + text.startswith("@")
    keys = [key for _, key, _ in entries]
    assert len(keys) == len(set(keys))
    lacking = {
        key: REQUIRED[kind] - set(re.findall(r"^\s*(\w+)\s*=", body, re.MULTILINE)) for kind, key, body in entries
    }
    assert {key: fields for key, fields in lacking.items() if fields} == {}


def test_every_package_has_a_reference_page():
    package = Path(icml25.__file__).parent
    names = {path.parent.name for path in package.glob("*/__init__.py")} - {"book", "data", "commands"}
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "book" / "api").glob("*.md")}
    for name in names | {"book", "data"}:
        assert f"{{api-modules}} icml25.{name}\n" in pages[name]
