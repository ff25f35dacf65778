"""The commands of ``icml25``: each calls the module that does the work and shows what came of it."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from icml25.book.chapters import Chapter, NoBookError, book_root, find_chapters
from icml25.book.claims import ClaimsError, Verdict
from icml25.execution import Fault

__all__ = ["app"]

app = typer.Typer(
    help="ICML 2025, executable: run, check and extend the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

INTERRUPTED = 130
_COLOR = {Verdict.REPRODUCED: "green", Verdict.NOT_REPRODUCED: "red", Verdict.NOT_RUN: "yellow"}

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="Chapters; all of them by default.")]
Jobs = Annotated[int, typer.Option(min=1, help="Chapters at a time.")]


def _fail(message: str) -> typer.Exit:
    errors.print(f"[red]icml25:[/] {escape(message)}")
    return typer.Exit(1)


def _chapters(slugs: Sequence[str] | None) -> list[Chapter]:
    try:
        chapters = {chapter.slug: chapter for chapter in find_chapters(book_root())}
    except NoBookError as error:
        raise _fail(str(error)) from error
    for slug in slugs or ():
        if slug not in chapters:
            raise _fail(f"no chapter {slug!r}; there are: {', '.join(chapters) or 'none'}")
    return [chapters[slug] for slug in slugs] if slugs else list(chapters.values())


@contextlib.contextmanager
def _interruptible(what_remains: str) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: leave through the clean-up, and say what is left."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        errors.print(f"\n[yellow]interrupted:[/] {escape(what_remains)}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _show_fault(chapter: Chapter, fault: Fault) -> None:
    from icml25.notebooks import find_line

    line = find_line(chapter, fault.source)
    at = f"{chapter.source.relative_to(chapter.root)}:{line}" if line else chapter.slug
    errors.print(f"  [red]{escape(fault.kind)}[/] in cell {escape(fault.cell or '?')} at {escape(at)}")
    source = fault.source.splitlines()
    for text in source[:12] + (["..."] if len(source) > 12 else []):
        errors.print(f"    [dim]|[/] {escape(text)}")
    for text in (fault.traceback or fault.message).strip().splitlines()[-40:]:
        errors.print(f"    {escape(text)}")
    if fault.traceback:
        errors.print(f"  [red]{escape(fault.message)}[/]")


@app.command()
def sync(
    slugs: Slugs = None,
    check: Annotated[bool, typer.Option("--check", help="Only say which pairs are stale, and why.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Execute even what is in step.")] = False,
    jobs: Jobs = 1,
    timeout: Annotated[int | None, typer.Option(min=1, help="Seconds that one cell may take.")] = 1800,
) -> None:
    """Execute chapters (.md) into their paired notebooks (.ipynb)."""
    from icml25 import notebooks

    chapters = _chapters(slugs)
    if check:
        raise typer.Exit(_check_pairs(chapters))
    failed = 0
    with _interruptible("pairs that were not done are as they were"):
        results = notebooks.sync(chapters, jobs=jobs, force=everything, timeout=timeout)
        with contextlib.closing(results):
            for result in results:
                mark = "[green]✓[/]" if result.ok else "[red]✗[/]"
                cost = f"  {result.seconds:.1f} s, {result.cpu_seconds:.1f} CPU s" if result.seconds else ""
                console.print(f"{mark} {result.chapter.slug}: {result.done}{cost}")
                if result.fault is not None:
                    _show_fault(result.chapter, result.fault)
                for problem in result.problems:
                    errors.print(f"  [red]{escape(problem)}[/]")
                failed += not result.ok
    if failed:
        raise _fail(f"{failed} of {len(chapters)} chapters failed; their old notebooks are untouched")


def _check_pairs(chapters: Sequence[Chapter]) -> int:
    from icml25 import notebooks

    bad = 0
    for chapter in chapters:
        try:
            reason = notebooks.stale(chapter)
            faults = [reason.reason] if reason else notebooks.committed_problems(chapter)
        except notebooks.PairError as error:
            faults = [str(error)]
        for fault in faults:
            errors.print(f"[red]stale[/] {chapter.slug}: {escape(fault)}")
        bad += bool(faults)
        if not faults and notebooks.library_changed(chapter):
            console.print(f"[yellow]note[/] {chapter.slug}: its outputs were computed by other code of its method")
    if bad:
        errors.print(f"{bad} of {len(chapters)} pairs are stale; mend them with: icml25 sync")
    else:
        console.print(f"all {len(chapters)} pairs are in step")
    return int(bool(bad))


@app.command()
def run(
    slugs: Slugs = None,
    profile: Annotated[str, typer.Option(help="smoke, cpu, study or gpu.")] = "smoke",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None, typer.Option(help="Run directory [default: _build/runs/PROFILE-seedN].", show_default=False)
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Record the results in the book (study, gpu).")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds that one cell may take.")] = 3600,
    fresh: Annotated[bool, typer.Option("--fresh", help="Redo finished chapters.")] = False,
    scheduler: Annotated[str | None, typer.Option(help="Address of a dask.distributed scheduler.")] = None,
) -> None:
    """Run chapters with papermill at a profile; finished ones are kept, a failed one does not stop the others."""
    from icml25 import runner
    from icml25.book.profiles import PROFILES

    if profile not in PROFILES:
        raise _fail(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if record and profile not in ("study", "gpu"):
        raise _fail(f"--record is for the profiles study and gpu, not {profile}: icml25 sync keeps the cpu results")
    chapters = _chapters(slugs)
    folder = (out or book_root() / "_build" / "runs" / f"{profile}-seed{seed}").resolve()
    results: list[runner.Ran] = []
    try:
        with _interruptible(f"finished chapters are kept in {folder}"), runner.RunDirectory(folder) as directory:
            ran = runner.run(
                chapters,
                directory,
                profile=profile,
                seed=seed,
                jobs=jobs,
                timeout=timeout,
                fresh=fresh,
                scheduler=scheduler,
            )
            with contextlib.closing(ran):
                for result in ran:
                    results.append(result)
                    _show_ran(result, len(results), len(chapters))
                    if record and result.record is not None:
                        runner.record_results(result.chapter, result.record)
    except (runner.BusyError, runner.MissingExtraError, OSError) as error:
        raise _fail(str(error)) from error
    counts = Counter(m.verdict for result in results if result.record for m in result.record.claims.values())
    console.print(f"claims: {_counts(counts)}; results in {escape(str(folder))}")
    failed = [result.chapter.slug for result in results if not result.ok]
    if failed:
        raise _fail(f"{len(failed)} of {len(chapters)} chapters failed: {', '.join(failed)}")


def _show_ran(result: Any, position: int, total: int) -> None:
    from icml25.runner import missing_claims

    mark = "[green]✓[/]" if result.ok else "[red]✗[/]"
    cost = f"{result.seconds:.1f} s, {result.cpu_seconds:.1f} CPU s, {result.peak_memory_bytes / 2**20:.0f} MiB"
    kept = "kept: " if result.kept else ""
    verdicts = ""
    if result.record is not None:
        verdicts = f"  {_counts(Counter(m.verdict for m in result.record.claims.values()))}"
    console.print(f"{mark} [{position}/{total}] {result.chapter.slug}  {kept}{cost}{verdicts}", markup=True)
    if result.fault is not None:
        _show_fault(result.chapter, result.fault)
    if result.record is not None and (missing := missing_claims(result.chapter, result.record)):
        errors.print(f"  [yellow]listed for {result.record.profile} but not recorded:[/] {', '.join(missing)}")


def _counts(counts: Counter[Verdict]) -> str:
    shown = [f"[{_COLOR[verdict]}]{counts[verdict]} {verdict}[/]" for verdict in Verdict if counts[verdict]]
    return ", ".join(shown) or "none recorded"


@app.command("list")
def list_chapters() -> None:
    """List the chapters: part, title, claims by verdict, recorded profiles."""
    from icml25.book.claims import load_claims
    from icml25.book.records import read_notebook, read_recorded

    table = Table("part", "slug", "title", "claims", "recorded")
    for chapter in _chapters(None):
        try:
            claims = load_claims(chapter.claims)
        except ClaimsError as error:
            raise _fail(str(error)) from error
        recorded = read_recorded(chapter.results)
        # The nearest to the paper speaks last.
        found = read_notebook(chapter.notebook) if chapter.notebook.is_file() else {}
        for profile in ("study", "gpu"):
            if profile in recorded:
                found |= {k: m for k, m in recorded[profile].claims.items() if m.verdict != Verdict.NOT_RUN}
        verdicts = Counter(found[id_].verdict if id_ in found else Verdict.NOT_RUN for id_ in claims)
        profiles = (["cpu"] if chapter.notebook.is_file() else []) + sorted(recorded)
        table.add_row(chapter.part, chapter.slug, escape(_title(chapter)), _counts(verdicts), ", ".join(profiles))
    console.print(table)


def _title(chapter: Chapter) -> str:
    lines = chapter.source.read_text(encoding="utf-8").splitlines()
    return next((line[2:].strip() for line in lines if line.startswith("# ")), chapter.slug)
