"""A chapter's skeleton in all its places, in one step: everything is prepared first, then written, or nothing is."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from icml25.book.files import write_text

__all__ = ["PARTS", "ScaffoldError", "add_export", "add_to_contents", "new_chapter"]

PARTS: dict[str, tuple[str, str]] = {
    "theory": ("Theory", "methods whose claims are theorems, checked with their constants."),
    "sampling": ("Sampling", "drawing from distributions that are known up to a constant."),
    "language": ("Language", "language models: training them, tuning them, asking them."),
    "robustness": ("Robustness", "models that meet other data than they were trained on."),
    "graphs": ("Graphs", "learning on graphs, in one place and in many."),
    "signals": ("Signals", "time series and audio."),
}
"""The parts of the book in their order: caption, and what they hold."""

_MARK = re.compile(r"@@(\w+)@@")
_SLUG = re.compile(r"[a-z][a-z0-9_]*")
_WIDTH = 120
_LONGEST = 24


class ScaffoldError(ValueError):
    """The chapter cannot be made; nothing was written."""


def new_chapter(root: Path, part: str, slug: str, title: str | None = None) -> list[Path]:
    """Write the skeleton of a chapter into a checkout.

    Parameters
    ----------
    root : Path
        The checkout.
    part, slug : str
        The part of the book, one of :data:`PARTS`, and the chapter's name there, a Python identifier in lower case.
    title : str, optional
        Heading of the chapter; by default made from the slug.

    Returns
    -------
    list of Path
        The files that were written or changed.

    Raises
    ------
    ScaffoldError
        If a name is not usable or something of that name exists; nothing was written then.
    """
    _check_names(root, part, slug)
    title = title or slug.replace("_", " ").capitalize()
    if any(mark in title for mark in ('"', "\\", "\n", "@@")) or not title.strip():
        raise ScaffoldError(f"a title is one line without quotes and backslashes, got {title!r}")
    caption, about = PARTS[part]
    words = {
        "part": part,
        "slug": slug,
        "title": title,
        "caption": caption,
        "about": f"{caption}: {about}",
        "sentence": about[0].upper() + about[1:],
    }
    folder = root / "book" / part
    files = {
        root / "src" / "icml25" / part / f"{slug}.py": _filled("method.py.txt", words),
        root / "tests" / part / f"test_{slug}.py": _filled("test.py.txt", words),
        root / "benchmarks" / f"bench_{slug}.py": _filled("bench.py.txt", words),
        folder / f"{slug}.md": _filled("chapter.md.txt", words),
        folder / f"{slug}.claims.yml": _filled("claims.yml.txt", words),
    }
    if existing := [str(path.relative_to(root)) for path in files if path.exists()]:
        raise ScaffoldError(f"already there: {', '.join(existing)}")
    package = root / "src" / "icml25" / part / "__init__.py"
    exports = package.read_text(encoding="utf-8") if package.is_file() else _filled("part.py.txt", words)
    method = next(iter(files.values()))
    files[package] = add_export(exports, part, slug, _public_names(method))
    contents = root / "_toc.yml"
    files[contents] = add_to_contents(contents.read_text(encoding="utf-8"), part, slug)
    api = root / "book" / "api" / f"{part}.md"
    if not api.is_file():
        files[api] = _filled("api.md.txt", words)
    _write_all(files)
    return list(files)


def _check_names(root: Path, part: str, slug: str) -> None:
    if part not in PARTS:
        raise ScaffoldError(f"no part {part!r}; the parts are: {', '.join(PARTS)}")
    if len(slug) > _LONGEST:
        raise ScaffoldError(f"a slug has at most {_LONGEST} letters, got {len(slug)}")
    if not _SLUG.fullmatch(slug) or keyword.iskeyword(slug) or slug in keyword.softkwlist:
        raise ScaffoldError(f"a slug is a Python identifier in lower case, such as my_method; got {slug!r}")
    if slug in PARTS or slug in ("book", "data"):
        raise ScaffoldError(f"{slug!r} is the name of a package of the library: choose another")
    # A slug names the chapter everywhere, without its part.
    for taken in (
        *root.glob(f"book/*/{slug}.*"),
        *root.glob(f"src/icml25/*/{slug}"),
        *root.glob(f"src/icml25/*/{slug}.py"),
    ):
        raise ScaffoldError(f"the slug {slug!r} is taken by {taken.relative_to(root)}")


def _filled(name: str, words: Mapping[str, str]) -> str:
    text = (resources.files("icml25") / "templates" / name).read_text(encoding="utf-8")
    return _MARK.sub(lambda match: words[match[1]], text)


def _public_names(source: str) -> tuple[str, ...]:
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return tuple(ast.literal_eval(value))
    raise ScaffoldError("the template of the method has no __all__")


def add_export(text: str, part: str, slug: str, names: tuple[str, ...]) -> str:
    """Add a method to the source of a part's ``__init__``, in alphabetical order.

    Raises
    ------
    ScaffoldError
        If the source does not have the form that every part has.
    """
    tree = ast.parse(text)
    call = next(
        (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_exports"
        ),
        None,
    )
    typing = next((node for node in tree.body if isinstance(node, ast.If)), None)
    if call is None or typing is None or len(call.args) != 2 or not isinstance(call.args[1], ast.Dict):
        raise ScaffoldError(f"src/icml25/{part}/__init__.py has no lazy_exports(__name__, {{...}}) to add to")
    table = call.args[1]
    exports: dict[str, tuple[str, ...]] = ast.literal_eval(table) | {slug: names}
    lines = text.splitlines()
    # From the end of the file to its start, so that the earlier positions stay right.
    lines[table.lineno - 1 : table.end_lineno] = _table(lines, table, exports)
    imports = [f"    from icml25.{part}.{module} import *  # noqa: F403" for module in sorted(exports)]
    lines[typing.lineno : typing.end_lineno] = imports
    return "\n".join(lines) + "\n"


def _table(lines: list[str], table: ast.Dict, exports: Mapping[str, tuple[str, ...]]) -> list[str]:
    before = lines[table.lineno - 1][: table.col_offset]
    after = lines[(table.end_lineno or table.lineno) - 1][table.end_col_offset or 0 :]
    return [f"{before}{{", *(line for item in sorted(exports.items()) for line in _entry(*item)), f"    }}{after}"]


def _entry(module: str, names: tuple[str, ...]) -> list[str]:
    """One entry, laid out as the formatter would."""
    quoted = [f'"{name}"' for name in names]
    inner = ", ".join(quoted) + ("," if len(quoted) == 1 else "")
    line = f'        "{module}": ({inner}),'
    if len(line) <= _WIDTH:
        return [line]
    return [f'        "{module}": (', *(f"            {name}," for name in quoted), "        ),"]


def add_to_contents(text: str, part: str, slug: str) -> str:
    """Add a chapter to the text of ``_toc.yml``, and its part and the part's reference page where they are missing.

    Raises
    ------
    ScaffoldError
        If the file has none of the entries beside which the new one belongs.
    """
    earlier = list(PARTS)[: list(PARTS).index(part)]
    block = f"  - caption: {PARTS[part][0]}\n    chapters:\n      - file: book/{part}/{slug}\n"
    with_chapter = (
        _after(text, [f"book/{part}/"], f"@@indent@@- file: book/{part}/{slug}\n")
        or _after(text, [f"book/{name}/" for name in earlier], block)
        # Before any other part there are only the pages on how to read.
        or _after(text, ["book/how_to_read"], block)
    )
    if with_chapter is None:
        raise ScaffoldError("_toc.yml has no part, nor book/how_to_read, after which to add a chapter")
    if re.search(rf"file:\s*book/api/{part}\b", text):
        return with_chapter
    page = f"@@indent@@- file: book/api/{part}\n"
    with_page = _after(with_chapter, [f"book/api/{name}" for name in earlier], page)
    if with_page is None:
        raise ScaffoldError(f"_toc.yml has no page of another part after which to add book/api/{part}")
    return with_page


def _after(text: str, prefixes: Sequence[str], insert: str) -> str | None:
    """Put lines after the last entry for a file with one of the prefixes; None if there is no such entry.

    Edits the text, because writing the parsed YAML again would lose its comments.
    """
    lines = text.splitlines(keepends=True)
    entry = re.compile(rf"(\s*)-\s*file:\s*['\"]?(?:{'|'.join(map(re.escape, prefixes))})")
    found = [(number, match[1]) for number, line in enumerate(lines) if prefixes and (match := entry.match(line))]
    if not found:
        return None
    number, indent = found[-1]
    lines[number] = lines[number].rstrip("\n") + "\n"
    lines.insert(number + 1, insert.replace("@@indent@@", indent))
    return "".join(lines)


def _write_all(files: Mapping[Path, str]) -> None:
    """Write all files; if one cannot be written, put back what was there."""
    before = {path: path.read_text(encoding="utf-8") if path.is_file() else None for path in files}
    made = [folder for path in files for folder in reversed(path.parents) if not folder.exists()]
    try:
        for path, text in files.items():
            write_text(path, text)
    except BaseException:
        for path, old in before.items():
            if old is None:
                path.unlink(missing_ok=True)
            elif path.read_text(encoding="utf-8") != old:
                write_text(path, old)
        for folder in reversed(made):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise
