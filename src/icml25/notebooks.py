"""Pairs: a chapter's text (``.md``, MyST) and its executed half (``.ipynb``), kept in step in one direction only.

The text is the source. Its executed half carries a stamp that says which code its outputs belong to, so that neither
an edit of the one nor of the other goes unnoticed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml25.book.chapters import Chapter
from icml25.book.files import write_text
from icml25.execution import Fault, Job, Outcome, Pool, execute

__all__ = [
    "PairError",
    "Stale",
    "Synced",
    "code_hash",
    "committed_problems",
    "find_line",
    "library_changed",
    "library_files",
    "library_hash",
    "load_source",
    "output_problems",
    "stale",
    "sync",
]

Notebook = dict[str, Any]

PROFILE = "cpu"
STAMP = "icml25"
SIZE_LIMIT = 1_500_000
"""Bytes: a page that is much larger is slow to open on a phone, and its figures hold more than anyone sees."""

_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
_JUPYTEXT = {"formats": "ipynb,md:myst"}
_HEADER = re.compile(r"---\n(?:(?!---).*\n)*?jupytext:\n(?:\s+.*\n)*?.*format_name:\s*myst\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WIDGET = "application/vnd.jupyter.widget-view+json"
_PATH = re.compile(r"(?<![\w./])/(?:home|tmp|root|Users|private|var/folders)/[\w.-]+|[A-Z]:\\+Users|site-packages")


class PairError(ValueError):
    """A chapter's source that cannot be a chapter, or outputs that must not be committed."""


@dataclass(frozen=True)
class Stale:
    """Why a pair is out of step, and whether its code has to run to mend that."""

    reason: str
    execute: bool


@dataclass(frozen=True)
class Synced:
    """What :func:`sync` did for one chapter: ``done`` says it in words; a fault or problems mean that it failed."""

    chapter: Chapter
    done: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    fault: Fault | None = None
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the pair is now in step."""
        return self.fault is None and not self.problems


def load_source(chapter: Chapter) -> Notebook:
    """The notebook that a chapter's text describes: fixed cell ids and metadata, no outputs.

    Raises
    ------
    PairError
        If the header or the cell of parameters is not what a chapter needs.
    """
    import jupytext

    if not chapter.source.is_file():
        raise PairError(f"there is no {chapter.source.relative_to(chapter.root)} beside its claims file")
    text = chapter.source.read_text(encoding="utf-8")
    # jupytext guesses without a header, but the book would take the page for plain text.
    if not _HEADER.match(text):
        raise PairError(f"{chapter.source.name}: the header must name jupytext's format: myst; see CONTRIBUTING.md")
    node = jupytext.reads(text, fmt="md:myst")
    cells = []
    for position, cell in enumerate(node.cells):
        plain: Notebook = {"cell_type": cell.cell_type, "id": f"c{position:03d}", "metadata": _plain(cell.metadata)}
        if cell.cell_type == "code":
            plain |= {"execution_count": None, "outputs": []}
        cells.append(plain | {"source": cell.source})
    notebook: Notebook = {
        "cells": cells,
        "metadata": {"jupytext": _JUPYTEXT, "kernelspec": _KERNELSPEC, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    _check_parameters(chapter, notebook)
    return notebook


def _plain(metadata: Any) -> Notebook:
    plain: Notebook = json.loads(json.dumps(metadata))
    if not plain.get("tags", True):
        del plain["tags"]
    return plain


def _check_parameters(chapter: Chapter, notebook: Notebook) -> None:
    first = next(iter(_code_cells(notebook)), None)
    wanted = {"profile": PROFILE, "seed": 0, "out": ""}
    if first is None or "parameters" not in first["metadata"].get("tags", []) or _assigned(first["source"]) != wanted:
        raise PairError(
            f"{chapter.source.name}: the first code cell must be tagged parameters and hold exactly "
            f'profile = "cpu", seed = 0, out = ""'
        )


def _assigned(source: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    try:
        for statement in ast.parse(source).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = ast.literal_eval(value)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    values |= zip((ast.unparse(name) for name in names), ast.literal_eval(value), strict=True)
                case _:
                    return {}
    except (SyntaxError, ValueError, TypeError):
        return {}
    return values


def _code_cells(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def code_hash(notebook: Notebook) -> str:
    """Fingerprint of all code cells: outputs are valid for this code only."""
    return _digest("\x00".join(cell["source"] for cell in _code_cells(notebook)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def library_files(chapter: Chapter) -> list[Path]:
    """Source files of the chapter's method, of the data sets that it loads, and of what these import of ours."""
    package = chapter.root / "src" / "icml25"
    method = package / chapter.part / chapter.slug
    found = {path for path in (method.with_suffix(".py"), *method.rglob("*.py")) if path.is_file()}
    cells = (cell["source"] for cell in _code_cells(load_source(chapter)))
    waiting = [path for source in cells for path in _imported(source, package)]
    waiting += [path for file in found for path in _imported(file.read_text(encoding="utf-8"), package)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path.read_text(encoding="utf-8"), package)
    return sorted(found)


def _imported(source: str, package: Path) -> Iterator[Path]:
    """Files of the modules of ours that a piece of code imports; the parts and the book's own tools do not count.

    A part is a list of names, and the book's tools say how results are shown, not what they are.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            house, *steps = name.split(".")
            path = package.joinpath(*steps).with_suffix(".py")
            if house == "icml25" and steps and steps[0] != "book" and path.is_file():
                yield path


def library_hash(files: Iterable[Path]) -> str:
    """Fingerprint of what the files do: comments, docstrings and layout do not count.

    The same for every supported Python, though their own dumps of a syntax tree differ.
    """
    return _digest("\n".join(f"{path.name}:{_meaning(path.read_text(encoding='utf-8'))}" for path in files))


def _meaning(source: str) -> str:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    return " ".join(_tokens(tree))


def _tokens(node: ast.AST) -> Iterator[str]:
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or name in ("kind", "type_comment", "type_ignores"):
            continue
        children = value if isinstance(value, list) else [value]
        if isinstance(node, ast.JoinedStr):
            children = _merged_text(children)
        if name == "body" and isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            children = children[1:]
        yield f"{name}="
        for child in children:
            if isinstance(child, ast.AST):
                yield from _tokens(child)
            else:
                yield repr(child)
    yield "."


def _merged_text(pieces: list[Any]) -> list[Any]:
    """Pieces of an f-string, neighbouring texts in one and empty ones left out: there the Pythons differ."""
    merged: list[Any] = []
    for piece in pieces:
        if isinstance(piece, ast.Constant) and not piece.value:
            continue
        if merged and isinstance(piece, ast.Constant) and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(str(merged[-1].value) + str(piece.value))
        else:
            merged.append(piece)
    return merged


def _parse(text: str) -> Notebook:
    """A notebook as plain data; every text is one string, though on disk it is a list of lines."""
    import nbformat

    notebook: Notebook = json.loads(json.dumps(nbformat.reads(text, as_version=4)))  # type: ignore[no-untyped-call]
    return notebook


def _read(path: Path) -> Notebook:
    return _parse(path.read_text(encoding="utf-8"))


def stale(chapter: Chapter) -> Stale | None:
    """Why the two halves of a chapter are out of step, or None if they agree.

    Raises
    ------
    PairError
        If the text itself is no chapter.
    """
    wanted = load_source(chapter)
    if not chapter.notebook.is_file():
        return Stale("it has no .ipynb", execute=True)
    try:
        have = _read(chapter.notebook)
    except Exception as error:
        return Stale(f"the .ipynb cannot be read: {error}", execute=True)
    stamp = have["metadata"].get(STAMP, {})
    code = code_hash(wanted)
    if stamp.get("code") != code:
        return Stale("the outputs belong to other code", execute=True)
    if code_hash(have) != code:
        return Stale("the .ipynb holds other code than the .md", execute=True)
    if stamp.get("profile") != PROFILE:
        return Stale(f"the outputs are of profile {stamp.get('profile')}, not {PROFILE}", execute=True)
    if any(cell.get("execution_count") is None for cell in _code_cells(have)):
        return Stale("a cell was not executed", execute=True)
    if stamp.get("outputs") != _outputs_hash(have):
        return Stale("the outputs were changed after they were computed", execute=True)
    if _inputs(have) != _inputs(wanted):
        return Stale("the text differs", execute=False)
    return None


def _inputs(notebook: Notebook) -> list[Any]:
    return [(cell["cell_type"], cell["id"], cell["source"], cell["metadata"]) for cell in notebook["cells"]]


def _outputs_hash(notebook: Notebook) -> str:
    return _digest(json.dumps([cell["outputs"] for cell in _code_cells(notebook)], sort_keys=True))


def library_changed(chapter: Chapter) -> bool:
    """Whether the method's code is another than when the outputs were computed.

    Not staleness (it may change without a figure changing, and nbval tells whether a verdict did), but worth a word.
    """
    if not chapter.notebook.is_file():
        return False
    try:
        stamp = _read(chapter.notebook)["metadata"].get(STAMP, {})
    except Exception:
        return False
    return bool(stamp.get("library") != library_hash(library_files(chapter)))


def sync(
    chapters: Iterable[Chapter], *, jobs: int = 1, force: bool = False, timeout: int | None = None
) -> Generator[Synced]:
    """Bring pairs into step: execute what has to run, graft new text on outputs that are still valid.

    Yields one result per chapter as it is done. A chapter that fails keeps its old ``.ipynb``. Closing the iterator
    (or an interrupt) stops the kernels.
    """
    to_run = []
    for chapter in chapters:
        try:
            reason = stale(chapter)
        except PairError as error:
            yield Synced(chapter, "cannot be read", problems=(str(error),))
            continue
        if force or (reason and reason.execute) or library_changed(chapter):
            to_run.append(chapter)
        elif reason is None:
            yield Synced(chapter, "in step")
        else:
            yield _graft(chapter)
    if not to_run:
        return
    pool = Pool()
    with ThreadPoolExecutor(min(jobs, len(to_run))) as threads:
        try:
            futures = [threads.submit(_execute, chapter, pool, timeout) for chapter in to_run]
            for future in as_completed(futures):
                yield future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.stop()


def _execute(chapter: Chapter, pool: Pool, timeout: int | None) -> Synced:
    source = load_source(chapter)
    library = library_hash(library_files(chapter))
    job = Job(chapter.slug, json.dumps(source), str(chapter.folder), timeout=timeout)
    outcome = execute(job, pool)
    result = functools.partial(Synced, chapter, seconds=outcome.seconds, cpu_seconds=outcome.cpu_seconds)
    if outcome.fault is not None:
        return result("failed", fault=outcome.fault)
    notebook = _stamped(source, _executed_cells(outcome), library)
    if problems := output_problems(notebook, chapter):
        return result("failed", problems=tuple(problems))
    if code_hash(load_source(chapter)) != code_hash(source):
        return result("failed", problems=("the .md was edited while it ran: sync it again",))
    _write(chapter.notebook, notebook)
    return result("executed")


def _executed_cells(outcome: Outcome) -> dict[str, tuple[int | None, list[Any]]]:
    cells = _code_cells(_parse(outcome.notebook))
    return {cell["id"]: (cell["execution_count"], _merged(cell["outputs"])) for cell in cells}


def _merged(outputs: list[Any]) -> list[Any]:
    """The same outputs with each stream in one piece: where it was flushed is chance."""
    merged: list[Any] = []
    for output in outputs:
        before = merged[-1] if merged else {}
        if output["output_type"] == "stream" == before.get("output_type") and output["name"] == before["name"]:
            before["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def _graft(chapter: Chapter) -> Synced:
    source, have = load_source(chapter), _read(chapter.notebook)
    # The code is the same, so the n-th code cell's outputs are the n-th code cell's outputs.
    pairs = zip(_code_cells(source), _code_cells(have), strict=True)
    cells = {new["id"]: (old["execution_count"], old["outputs"]) for new, old in pairs}
    _write(chapter.notebook, _stamped(source, cells, have["metadata"][STAMP]["library"]))
    return Synced(chapter, "text updated")


def _stamped(source: Notebook, executed: dict[str, tuple[int | None, list[Any]]], library: str) -> Notebook:
    notebook: Notebook = json.loads(json.dumps(source))
    for cell in _code_cells(notebook):
        cell["execution_count"], cell["outputs"] = executed[cell["id"]]
    stamp = {"code": code_hash(source), "library": library, "outputs": _outputs_hash(notebook), "profile": PROFILE}
    notebook["metadata"][STAMP] = stamp
    return notebook


def _write(path: Path, notebook: Notebook) -> None:
    import nbformat

    node = nbformat.from_dict(notebook)  # type: ignore[no-untyped-call]
    nbformat.validate(node)
    write_text(path, nbformat.writes(node) + "\n")  # type: ignore[no-untyped-call]


def output_problems(notebook: Notebook, chapter: Chapter) -> list[str]:
    """What in the outputs must not be committed: warnings, widgets, paths of this machine, sheer size."""
    problems = []
    own = [re.escape(place) for place in (str(chapter.root), str(Path.home()), sys.prefix) if len(place) > 1]
    here = re.compile(rf"(?<![\w./])(?:{'|'.join(own)})/")
    for cell in _code_cells(notebook):
        where = f"cell {cell['id']} ({_first_line(cell['source'])})"
        for output in cell["outputs"]:
            if output["output_type"] == "stream" and output["name"] == "stderr":
                problems.append(f"{where} writes to stderr: {output['text'].strip()[:300]}")
                continue
            data = output.get("data", {})
            if _WIDGET in data:
                problems.append(f"{where} shows a widget, which needs scripts from another host")
            shown = {mime: value for mime, value in data.items() if not mime.startswith("image/")}
            text = json.dumps([shown, output.get("text"), output.get("traceback")], ensure_ascii=False)
            if found := _PATH.search(text) or here.search(text):
                problems.append(f"{where} shows a path of this machine: {found[0]}")
    size = len(json.dumps(notebook))
    if size > SIZE_LIMIT:
        problems.append(f"the notebook has {size / 1e6:.1f} MB, more than {SIZE_LIMIT / 1e6:.1f}: thin its figures out")
    return problems


def committed_problems(chapter: Chapter) -> list[str]:
    """:func:`output_problems` of the notebook as it stands on disk."""
    return output_problems(_read(chapter.notebook), chapter)


def _first_line(source: str) -> str:
    return source.strip().split("\n", 1)[0][:60]


def find_line(chapter: Chapter, source: str) -> int | None:
    """Line of the text, counted from 1, where a code cell's source begins."""
    text = chapter.source.read_text(encoding="utf-8")
    position = text.find(source) if source else -1
    return text.count("\n", 0, position) + 1 if position >= 0 else None
