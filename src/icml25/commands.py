"""The commands of ``icml25``: each calls the module that does the work and shows what came of it."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from icml25.book.chapters import Chapter, NoBookError, book_root, find_chapters
from icml25.book.claims import ClaimsError, Verdict
from icml25.book.evidence import Evidence, Finding, gather, title_of
from icml25.book.progress import enabled
from icml25.checking import PROFILES
from icml25.execution import Fault

if TYPE_CHECKING:
    from icml25.data.registry import DatasetInfo

__all__ = ["app"]

app = typer.Typer(
    help="ICML 2025, executable: run, check and extend the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets that are not shipped.", no_args_is_help=True)
app.add_typer(data_app, name="data")
# Tables in a log are not squeezed into a terminal that is not there.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)
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
    return [chapters[slug] for slug in dict.fromkeys(slugs)] if slugs else list(chapters.values())


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


@contextlib.contextmanager
def _waiting(chapters: Sequence[Chapter]) -> Iterator[Callable[[Chapter], None]]:
    """On a terminal, say which chapters are still to come; call what this yields for each that is done."""
    left = [chapter.slug for chapter in chapters]
    if not (enabled() and console.is_terminal):
        yield lambda _: None
        return
    with console.status(f"to come: {', '.join(left)}") as status:

        def done(chapter: Chapter) -> None:
            left.remove(chapter.slug)
            status.update(f"to come: {', '.join(left)}")

        yield done


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
        with contextlib.closing(results), _waiting(chapters) as done:
            for result in results:
                done(result.chapter)
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
        Path | None, typer.Option(help="Run directory; _build/runs/PROFILE-seedN if not given.", show_default=False)
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Record the results in the book (study, gpu).")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds that one cell may take.")] = 3600,
    fresh: Annotated[bool, typer.Option("--fresh", help="Redo finished chapters.")] = False,
    scheduler: Annotated[str | None, typer.Option(help="Address of a dask.distributed scheduler.")] = None,
) -> None:
    """Run chapters with papermill at a profile; finished ones are kept, a failed one does not stop the others."""
    from icml25 import runner
    from icml25.book.profiles import check_profile

    try:
        check_profile(profile)
    except ValueError as error:
        raise _fail(f"--{error}") from error
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
            with contextlib.closing(ran), _waiting(chapters) as done:
                for result in ran:
                    done(result.chapter)
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
    table = Table("part", "slug", "title", "claims", "recorded")
    for chapter in _chapters(None):
        evidence = _evidence(chapter)
        counts = Counter({verdict: evidence.count(verdict) for verdict in Verdict})
        profiles = (["cpu"] if evidence.in_notebook else []) + sorted(evidence.recorded)
        title = escape(title_of(chapter)) if chapter.source.is_file() else "[red]no source[/]"
        table.add_row(chapter.part, chapter.slug, title, _counts(counts), ", ".join(profiles))
    console.print(table)


def _evidence(chapter: Chapter) -> Evidence:
    try:
        return gather(chapter)
    except ClaimsError as error:
        raise _fail(str(error)) from error


@app.command()
def claims(
    slugs: Slugs = None,
    check: Annotated[
        bool, typer.Option("--check", help="Fail unless everything is recorded and nothing got worse.")
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(help="With --check: also hold the run whose records are in this folder to the baselines."),
    ] = None,
    update_baselines: Annotated[
        bool, typer.Option("--update-baselines", help="Take what is recorded as the new baselines.")
    ] = False,
) -> None:
    """Show every claim with the paper's value, ours and the verdict; or check them."""
    chapters = _chapters(slugs)
    if records is not None and not check:
        raise _fail("--records goes with --check")
    if update_baselines:
        _update_baselines(chapters, all_chapters=not slugs)
    if check:
        _check_claims(chapters, records, all_chapters=not slugs)
    if not check and not update_baselines:
        for chapter in chapters:
            console.print(_claims_table(chapter))


def _claims_table(chapter: Chapter) -> Table:
    """One row for each measured number, so that a claim of several numbers stays legible."""
    table = Table("id", "kind", "number", "paper", "needs", *PROFILES, "verdict", title_justify="left")
    table.title = f"{chapter.part}/{chapter.slug}"
    for finding in _evidence(chapter).findings:
        claim = finding.claim
        paper = "" if claim.paper_value is None else str(claim.paper_value)
        verdict = "[dim]out of reach[/]" if finding.out_of_reach else f"[{_COLOR[finding.verdict]}]{finding.verdict}[/]"
        if not claim.parts:
            table.add_row(claim.id, claim.kind, "", escape(paper), "", "", "", "", verdict)
        for position, part in enumerate(claim.parts):
            name = "" if part.name == "value" else escape(part.name)
            ours = [_value(finding, profile, part.name) for profile in PROFILES]
            row = [claim.id, claim.kind, name, escape(paper), escape(str(part.condition)), *ours, verdict]
            if position:
                row[0] = row[1] = row[3] = row[-1] = ""
            table.add_row(*row)
    return table


def _value(finding: Finding, profile: str, part: str) -> str:
    if profile not in finding.outcomes:
        return ""
    measured = finding.outcomes[profile]
    if part in measured.values:
        return f"{measured.values[part]:.4g}"
    return escape(measured.reason) or "-"


def _check_claims(chapters: Sequence[Chapter], records: Path | None, *, all_chapters: bool) -> None:
    from icml25 import checking

    try:
        report = checking.check(chapters, records, strict=all_chapters)
    except ClaimsError as error:
        raise _fail(str(error)) from error
    for note in report.notes:
        console.print(f"[yellow]note[/] {escape(note)}")
    for problem in report.problems:
        errors.print(f"[red]✗[/] {escape(problem)}")
    if report.problems:
        raise _fail(f"{len(report.problems)} problem{'s' * (len(report.problems) > 1)} in the claims")
    console.print(f"claims hold: {report.summary}")


def _update_baselines(chapters: Sequence[Chapter], *, all_chapters: bool) -> None:
    from icml25 import checking

    try:
        written = checking.update_baselines(chapters, replace=all_chapters)
    except ClaimsError as error:
        raise _fail(str(error)) from error
    for path, count in written.items():
        console.print(f"{path.relative_to(book_root())}: {count} claims")


@app.command()
def doctor() -> None:
    """Say whether this machine has what the book needs, and how to mend what it lacks."""
    from icml25 import doctor as doctor_module

    marks = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "broken": "[red]✗[/]"}
    broken = 0
    for finding in doctor_module.examine():
        console.print(f"{marks[finding.state]} {escape(finding.what)}: {escape(finding.detail)}")
        if finding.mend:
            console.print(f"    {'mend' if finding.state == 'broken' else 'if you need it'}: {escape(finding.mend)}")
        broken += finding.state == "broken"
    if broken:
        raise _fail(f"{broken} things are broken")


@data_app.command("list")
def data_list() -> None:
    """List the data sets that are not shipped."""
    from icml25.data import registry

    for name in registry.REGISTRY:
        place = registry.locate(name)
        console.print(
            f"[bold]{name}[/]  {'not here: icml25 data get ' + name if place is None else escape(str(place))}"
        )
        _describe(registry.describe(name))


def _describe(info: DatasetInfo) -> None:
    for label in ("description", "source", "size", "licence", "checksum"):
        console.print(f"  {label}: {escape(getattr(info, label))}")


@data_app.command("get")
def data_get(
    name: str,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Fetch a data set into the cache, after showing what it is."""
    from icml25.data import registry

    try:
        info = registry.describe(name)
    except KeyError as error:
        raise _fail(str(error.args[0])) from error
    console.print(f"[bold]{name}[/]  goes into {escape(str(registry.cache_dir()))}")
    _describe(info)
    if not yes and not typer.confirm("Fetch it?"):
        raise typer.Exit(1)
    try:
        with _interruptible("the cache is as it was"):
            path = registry.get(name, progress=enabled() and console.is_terminal)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise _fail(str(error)) from error
    console.print(f"[green]✓[/] {escape(str(path))}")


@app.command()
def new(
    part: Annotated[str, typer.Argument(help="Part of the book: theory, sampling, language, ...")],
    slug: Annotated[str, typer.Argument(help="The chapter's name, a Python identifier in lower case.")],
    title: Annotated[str | None, typer.Option(help="The chapter's heading.")] = None,
) -> None:
    """Write a chapter's skeleton in all its places; it runs as it is."""
    from icml25.scaffold import ScaffoldError, new_chapter

    try:
        root = book_root()
        written = new_chapter(root, part, slug, title)
    except (ScaffoldError, OSError) as error:
        raise _fail(str(error)) from error
    for path in written:
        console.print(f"[green]✓[/] {path.relative_to(root)}")
    console.print(f"next: icml25 sync {slug}, then read CONTRIBUTING.md on how to fill it")


@app.command()
def read(port: Annotated[int, typer.Option(min=0, max=65535)] = 8000) -> None:
    """Serve the built book on this machine, and nowhere else."""
    import functools
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    try:
        pages = book_root() / "_build" / "html"
    except NoBookError as error:
        raise _fail(str(error)) from error
    if not (pages / "index.html").is_file():
        raise _fail("there is no built book yet: make book")
    try:
        server = ThreadingHTTPServer(
            ("127.0.0.1", port), functools.partial(SimpleHTTPRequestHandler, directory=str(pages))
        )
    except OSError as error:
        raise _fail(f"cannot serve on port {port}: {error.strerror}; choose another with --port") from error
    with server, _interruptible("the book is closed"):
        console.print(f"the book is at http://127.0.0.1:{server.server_port}/ until Ctrl-C")
        server.serve_forever()
