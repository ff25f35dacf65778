import io
import json
import re

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from icml25.book.interactive import PLOTLY_MIME
from icml25.book.records import CLAIM_MIME
from icml25.book.sphinxext.mime import figure_html

CLAIMS = """
- id: C1
  kind: theory
  statement: The rate is $n^{-2}$ and `f` says so.
  source: Theorem 1
  paper_value: a *lot*
  quantity: slope against $n$
  pass: {near: -2, tol: 0.05}
  must_fail: -1
  profiles: [cpu, study]
- id: C2
  kind: reproduction
  statement: Two numbers.
  source: Table 2
  paper_value: -0.94
  parts:
    - {name: low, quantity: a low one, pass: {at_most: 1}, must_fail: 2}
    - {name: high, quantity: a high one, pass: {at_least: 1}, must_fail: 0}
  profiles: [cpu]
- {id: C3, kind: control, statement: s, source: t, quantity: q, pass: {equal: 0}, must_fail: 1,
   profiles: [cpu], data: d}
- {id: R1, kind: out-of-reach, statement: s, source: t, needs: 64 GPUs, profiles: []}
"""
TOC = "format: jb-book\nroot: index\nparts:\n  - caption: Theory\n    chapters:\n      - file: book/theory/toy\n"
CHAPTER = "# A toy with $x$\n\n:::{card} Paper\nDoe, *The paper*.\n:::\n\n```{claims} toy\n```\n"

PROVENANCE = {
    "commit": "0123456789abcdef",
    "dirty": True,
    "torch": "2.13.0",
    "cpu_seconds": 83.93,
    "peak_memory_bytes": 273_281_024,
}
LIBRARY = '''"""First module."""

from typing import NamedTuple


def one():
    """Return one, :math:`1`."""


class Pair(NamedTuple):
    """Two."""

    left: int
'''


def bundle(claim, verdict, values, reason=""):
    data = {
        "slug": "toy",
        "id": claim,
        "profile": "cpu",
        "seed": 0,
        "verdict": verdict,
        "values": values,
        "reason": reason,
    }
    return {CLAIM_MIME: data, "text/html": "fallback", "text/plain": "fallback"}


def notebook(text, *outputs):
    code = {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "source": "1",
        "outputs": [{"output_type": "display_data", "metadata": {}, "data": data} for data in outputs],
    }
    page = {"cell_type": "markdown", "metadata": {}, "source": text}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": [page, code], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4})


class Book:
    """A very small book, built in this process."""

    def __init__(self, root):
        self.root = root
        self.folder = root / "book" / "theory"
        self.folder.mkdir(parents=True)
        (root / "_toc.yml").write_text(TOC)
        self.page = root / "index.md"
        self.write("# Index\n")
        (self.folder / "toy.claims.yml").write_text(CLAIMS)
        self.chapter(
            bundle("C1", "reproduced", {"value": -2.01}),
            bundle("C2", "not reproduced", {"low": 1.5, "high": 3.0}),
            bundle("C3", "not run", {}, "data absent: d"),
        )

    def write(self, text):
        self.page.write_text(text + "\n```{toctree}\nbook/theory/toy\n```\n")

    def chapter(self, *outputs, text=CHAPTER):
        (self.folder / "toy.md").write_text(text)
        (self.folder / "toy.ipynb").write_text(notebook(text, *outputs))

    def record(self, profile, **claims):
        run = {"slug": "toy", "profile": profile, "seed": 3, "claims": claims, "provenance": PROVENANCE}
        (self.folder / "toy.results.json").write_text(json.dumps({profile: run}))

    def build(self):
        """Warnings of a build, and the pages it wrote."""
        warnings = io.StringIO()
        settings = {
            "extensions": ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "icml25.book.sphinxext"],
            "myst_enable_extensions": ["dollarmath", "colon_fence"],
            "nb_execution_mode": "off",
            "nb_ipywidgets_js": {},
            "html_theme": "basic",
            "root_doc": "index",
            "exclude_patterns": ["_build"],
        }
        out = self.root / "_build" / "html"
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                self.root, None, out, self.root / "_build" / "trees", "html", settings, status=None, warning=warnings
            )
            app.build()
        return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()), lambda name: (out / f"{name}.html").read_text()


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def row_of(page, anchor):
    return re.search(rf'<tr[^>]*id="{anchor}".*?</tr>', page, re.DOTALL)[0]


def text_of(markup):
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def test_the_claims_table_shows_what_was_found(book):
    book.record("study", C1={"verdict": "not reproduced", "values": {"value": -1.5}})
    warnings, read = book.build()
    assert warnings == ""
    page = read("book/theory/toy")
    first = row_of(page, "claim-toy-c1")
    text = text_of(first)
    assert "C1 theory" in text
    assert "−2.01 (cpu)" in text
    assert "−1.5 (study)" in text
    assert "needs\N{NO-BREAK SPACE}−2\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.05" in first
    assert "✓ reproduced cpu" in text
    assert "✗ not reproduced study" in text
    assert 'class="icml25-mark icml25-not-reproduced"' in first
    assert "4 claims: 2 not reproduced, 1 not run, 1 out of reach." in text_of(page)


def test_statements_quantities_and_paper_values_are_markdown_with_maths(book):
    _, read = book.build()
    first = row_of(read("book/theory/toy"), "claim-toy-c1")
    assert r"\(n^{-2}\)" in first
    assert r"slope against <span class=\"math" in first.replace('"', '\\"')
    assert "<em>lot</em>" in first
    assert "<code" in first


def test_a_claim_with_parts_shows_each_number_and_its_condition(book):
    _, read = book.build()
    text = text_of(row_of(read("book/theory/toy"), "claim-toy-c2"))
    assert "In the paper: −0.94 1.5 , needs ≤ 1 a low one 3 , needs ≥ 1 a high one ✗ not reproduced" in text


def test_profiles_that_found_the_same_number_share_it(book):
    book.record("study", C1={"verdict": "reproduced", "values": {"value": -2.01}})
    _, read = book.build()
    assert "−2.01 (cpu, study), needs" in text_of(row_of(read("book/theory/toy"), "claim-toy-c1"))


def test_missing_runs_say_why_and_out_of_reach_says_what_it_would_take(book):
    _, read = book.build()
    page = read("book/theory/toy")
    assert "– not run cpu: data absent: d" in text_of(row_of(page, "claim-toy-c3"))
    assert "Would take: 64 GPUs" in text_of(row_of(page, "claim-toy-r1"))


def test_a_row_and_its_recorded_output_link_to_each_other(book):
    _, read = book.build()
    page = read("book/theory/toy")
    assert 'href="#recorded-toy-c1"' in row_of(page, "claim-toy-c1")
    output = re.search(r'<div[^>]*id="recorded-toy-c1".*?</div>', page, re.DOTALL)[0]
    assert 'href="#claim-toy-c1"' in output
    assert "needs" in output
    assert "fallback" not in page


def test_a_claim_without_recorded_output_has_no_link_to_one(book):
    book.chapter()
    _, read = book.build()
    assert "recorded-toy" not in read("book/theory/toy")


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (CLAIMS.replace("must_fail: -1", "must_fail: -2"), "accepts the must_fail value"),
        (CLAIMS.replace("kind: theory", "kind: hunch"), "kind must be one of"),
        ("- [", "not valid YAML"),
        (CLAIMS.replace("name: low", "name: lowest"), "C2 takes the values"),
        (CLAIMS.replace("id: C3", "id: C4"), "recorded C3"),
    ],
)
def test_a_claims_file_that_cannot_be_trusted_is_a_warning(book, broken, word):
    (book.folder / "toy.claims.yml").write_text(broken)
    warnings, _ = book.build()
    assert "WARNING: toy: " in warnings
    assert word in warnings


def test_results_that_cannot_be_read_are_a_warning(book):
    (book.folder / "toy.results.json").write_text('{"study": {"slug": "toy"}}')
    warnings, _ = book.build()
    assert "WARNING: toy: " in warnings


def test_an_unknown_chapter_is_a_warning_that_lists_the_chapters(book):
    book.write("# Index\n\n```{claims} nobody\n```\n")
    warnings, _ = book.build()
    assert "no chapter 'nobody' with a claims file; there are: toy" in warnings


def test_the_ledger_counts_and_links(book):
    book.record("study", C1={"verdict": "reproduced", "values": {"value": -2.0}})
    book.write("# Ledger\n\n```{ledger}\n```\n")
    warnings, read = book.build()
    assert warnings == ""
    page = read("index")
    text = text_of(page)
    assert "All chapters 4 1 1 1 1" in text
    assert 'href="book/theory/toy.html#claim-toy-c2"' in page
    assert (
        "Recorded run: profile study, seed 3, commit 012345678 with changes, torch 2.13.0, 84 cpu seconds, "
        "peak memory 273 MB." in text
    )
    assert 'id="ledger-toy"' in page
    assert r"A toy with <span class=\"math" in page.replace('"', '\\"')


def test_the_map_shows_each_chapter_with_its_paper_and_a_mark_per_claim(book):
    book.write("# Map\n\n```{method-map}\n```\n")
    warnings, read = book.build()
    assert warnings == ""
    page = read("index")
    assert "Theory A toy with" in text_of(page)
    assert "The paper" in page
    assert len(re.findall(r'class="icml25-cell icml25-(?:not-)?re?\w+', page)) == 4


@pytest.mark.parametrize("name", ["claims.yml", "results.json", "ipynb"])
def test_a_page_is_built_again_when_its_evidence_changes(book, name):
    book.write("# Ledger\n\n```{ledger}\n```\n")
    _, read = book.build()
    before = read("index")
    if name == "claims.yml":
        (book.folder / "toy.claims.yml").write_text(
            CLAIMS.replace("near: -2,", "near: -5,").replace("must_fail: -1", "must_fail: 0")
        )
    elif name == "results.json":
        book.record("study", C1={"verdict": "not reproduced", "values": {"value": 0.0}})
    else:
        book.chapter(bundle("C1", "not reproduced", {"value": -1.0}))
    _, read = book.build()
    assert read("index") != before


def test_the_verdict_role_knows_verdicts_only(book):
    book.write("# Index\n\n{verdict}`not run` and {verdict}`maybe`\n")
    warnings, read = book.build()
    assert "– not run" in read("index")
    assert "'maybe' is not a valid Verdict" in warnings


def test_benchmarks_absent_present_and_malformed(book):
    book.write("# Speed\n\n```{benchmarks}\n```\n")
    _, read = book.build()
    assert "No measurements are recorded" in read("index")
    results = book.root / "benchmarks" / "results.json"
    results.parent.mkdir()
    entry = {"kernel": "k", "peer": "p", "size": 10, "ours_s": 0.5, "peer_s": 2.0, "ratio": 4.0, "slope": None}
    results.write_text(json.dumps({"toy": [entry]}))
    warnings, read = book.build()
    assert warnings == ""
    assert "k p 10 0.5 2 4" in text_of(read("index"))
    results.write_text(json.dumps({"toy": [{"kernel": "k"}]}))
    warnings, _ = book.build()
    assert "results.json is not" in warnings


def test_the_reference_lists_every_public_module_of_a_package(book, tmp_path_factory, monkeypatch):
    package = tmp_path_factory.mktemp("lib") / "toylib"
    package.mkdir()
    (package / "__init__.py").write_text('"""P."""')
    (package / "first.py").write_text(LIBRARY)
    (package / "_hidden.py").write_text('"""Hidden."""')
    monkeypatch.syspath_prepend(package.parent)
    book.write("# Reference\n\n```{api-modules} toylib\n```\n")
    warnings, read = book.build()
    assert warnings == ""
    page = read("index")
    assert 'id="toylib.first.one"' in page
    assert 'id="toylib.first.Pair"' in page
    assert "Alias for field" not in page
    assert "Hidden" not in page


def test_the_markdown_half_of_a_pair_is_left_out(book):
    (book.folder / "toy.md").write_text("# Never read\n")
    warnings, read = book.build()
    assert warnings == ""
    assert "Never read" not in read("book/theory/toy")


def test_a_figure_page_loads_the_books_own_plotly_and_other_pages_do_not(book):
    spec = {"data": [], "layout": {"title": {"text": "T"}, "meta": {"alt": "what it shows"}}, "frames": []}
    book.chapter({PLOTLY_MIME: spec, "text/plain": "Interactive figure"}, text="# A toy\n")
    warnings, read = book.build()
    assert warnings == ""
    page = read("book/theory/toy")
    assert re.search(r'src="[./]*_static/plotly\.min\.js', page)
    assert 'aria-label="what it shows"' in page
    assert "plotly" not in read("index")
    for asset in (
        "plotly.min.js",
        "mathjax/tex-mml-chtml.js",
        "mathjax/output/chtml/fonts/woff-v2/MathJax_Main-Regular.woff",
    ):
        assert (book.root / "_build" / "html" / "_static" / asset).is_file()


def test_figure_markup_is_escaped():
    spec = {"data": [{"name": "</script>"}], "layout": {"title": {"text": "a < b"}, "meta": {"alt": '"quoted" & <b>'}}}
    markup = figure_html(spec)
    assert markup.count("</script>") == 1
    assert "a &lt; b" in markup
    assert 'aria-label="&quot;quoted&quot; &amp; &lt;b&gt;"' in markup
    assert "<noscript><p>This figure moves when JavaScript is on. &quot;quoted&quot;" in markup
