"""Every built page in a real browser: quiet, self-contained, legible in both themes and on a phone.

The pages are those in ``$ICML25_HTML`` or ``_build/html``; they are built when they are not there.
"""

import functools
import html.parser
import http.server
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
HTML = Path(os.environ.get("ICML25_HTML", ROOT / "_build" / "html"))
THEMES = ("light", "dark")
WIDTHS = {"desktop": 1280, "phone": 390}
# Sphinx's own pages beside those of the table of contents.
GENERATED = ["genindex", "py-modindex", "search"]


def toc_pages():
    """Names of all pages in the table of contents."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    names = [toc["root"]]

    def walk(entries):
        for entry in entries:
            names.append(entry["file"])
            walk(entry.get("sections", []))

    for part in toc["parts"]:
        walk(part["chapters"])
    return names


PAGES = toc_pages() + GENERATED
CHAPTERS = [name for name in PAGES if (ROOT / f"{name}.claims.yml").is_file()]


# --- the site, served from this machine ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def built():
    """The folder of built pages."""
    if not (HTML / "index.html").is_file():
        shutil.rmtree(ROOT / "_build" / ".doctrees", ignore_errors=True)
        command = [sys.executable, "-m", "jupyter_book.cli.main", "build", str(ROOT), "-W", "--keep-going", "-q"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
    return HTML


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def site(built):
    """Address of a server for the built pages."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def find_browser():
    candidates = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests."""
    path = find_browser()
    if path is None:
        message = "no Chromium found: install it, or name it in $CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # No other host has an address. (Intercepting requests instead would switch the cache off, at thrice the time.)
        alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", alone])
        yield chromium
        chromium.close()


# --- visits ----------------------------------------------------------------------------------------------------------


@dataclass
class Visit:
    """What one page did, with what was seen on it in each theme."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    overflow: list[str] = field(default_factory=list)
    findings: dict[str, dict] = field(default_factory=dict)


READY = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  if (document.fonts) await document.fonts.ready;
  for (let i = 0; i < 200; i++) {
    const waiting = document.querySelectorAll("figure.icml25-figure:not([data-ready])");
    if (!waiting.length) return;
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error("an interactive figure was not drawn");
}"""

# The deepest element that sticks out says where to look.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width && document.body.scrollWidth <= width) return "";
  const out = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > width + 1);
  const last = out[out.length - 1];
  return `${document.documentElement.scrollWidth} px: ${last ? last.outerHTML.slice(0, 200) : "outside the article"}`;
}"""

FINDINGS = Path(__file__).with_name("page_findings.js").read_text(encoding="utf-8")


class Reader:
    """Opens pages in one tab and remembers what happened."""

    def __init__(self, browser, site):
        self.site = site
        self.context = browser.new_context(reduced_motion="reduce")
        self.tab = self.context.new_page()
        self.visits = {}
        self.now = Visit()
        self.tab.set_default_timeout(15_000)
        self.tab.on("console", self.console)
        self.tab.on("pageerror", lambda error: self.now.errors.append(f"page error: {error}"))
        self.tab.on("response", self.response)
        self.tab.on("request", self.request)

    def console(self, message):
        if message.type == "error":
            self.now.errors.append(f"console error: {message.text}")

    def response(self, response):
        if response.status >= 400:
            self.now.errors.append(f"{response.status} {response.url}")

    def request(self, request):
        if not request.url.startswith((self.site, "data:", "blob:")):
            self.now.foreign.append(request.url)

    def open(self, name, theme="light", width="desktop"):
        """Open a page afresh and wait until its maths and figures are drawn."""
        self.now = Visit()
        self.resize(width)
        self.tab.emulate_media(color_scheme=theme)
        self.tab.goto(f"{self.site}/{name}.html")
        self.tab.evaluate(READY)
        return self.tab

    def resize(self, width):
        self.tab.set_viewport_size({"width": WIDTHS[width], "height": 900})

    def visit(self, name):
        """Everything about a page; each page is opened once."""
        if name not in self.visits:
            tab = self.open(name)
            # What is folded away is read too.
            tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
            for theme in THEMES:
                # A reader who has not chosen a theme gets the system's, also when it changes.
                tab.emulate_media(color_scheme=theme)
                tab.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
                self.now.findings[theme] = tab.evaluate(FINDINGS)
            for width in WIDTHS:
                self.resize(width)
                tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                if text := tab.evaluate(OVERFLOW):
                    self.now.overflow.append(f"{width}: {text}")
            self.visits[name] = self.now
        return self.visits[name]


@pytest.fixture(scope="session")
def reader(browser, site):
    """The one reader of all tests."""
    reader = Reader(browser, site)
    yield reader
    reader.context.close()


def faults(visit):
    """All that is wrong with a page, as a list that names each fault."""
    found = [
        *visit.errors,
        *(f"request to another host: {url}" for url in visit.foreign),
        *(f"sideways scroll, {text}" for text in visit.overflow),
    ]
    kinds = {
        "noAlt": "image without alt text",
        "broken": "image that does not load",
        "unlabelled": "figure without a label",
        "raw": "maths not rendered",
        "unset": "maths not rendered",
        "mathErrors": "maths in error",
        "pale": "contrast below 4.5",
    }
    for theme, seen in visit.findings.items():
        found += [f"{theme}: {words}: {text}" for key, words in kinds.items() for text in seen[key]]
        found += [] if seen["title"].strip() else [f"{theme}: no title"]
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page(reader, name):
    visit = reader.visit(name)
    assert set(visit.findings) == set(THEMES)
    assert faults(visit) == []


@pytest.mark.timeout(1800)
def test_pages_outside_the_table_of_contents(reader, built):
    names = sorted(path.relative_to(built).with_suffix("").as_posix() for path in built.rglob("*.html"))
    assert set(PAGES) <= set(names)
    rest = [name for name in names if name not in [*PAGES, "index"] and not name.startswith("_static/")]
    assert {name: found for name in rest if (found := faults(reader.visit(name)))} == {}


def test_the_front_door_leads_to_the_first_page(reader):
    reader.now = Visit()
    reader.tab.goto(f"{reader.site}/", wait_until="commit")
    reader.tab.wait_for_url(f"**/{toc_pages()[0]}.html")
    reader.tab.evaluate(READY)
    assert reader.now.errors == []


def test_the_theme_button_turns_the_page_dark_and_keeps_it_so(reader):
    tab = reader.open("book/how_to_read")
    for _ in range(3):
        if tab.evaluate("document.documentElement.dataset.theme") == "dark":
            break
        tab.locator("button.theme-switch-button").locator("visible=true").first.click()
    tab.goto(f"{reader.site}/book/ledger.html")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.evaluate("localStorage.clear()")
    assert reader.now.errors == []


def test_a_link_to_a_claim_opens_the_folded_table(reader):
    tab = reader.open(CHAPTERS[0])
    fold = tab.locator("details.icml25-fold")
    assert fold.get_attribute("open") is None
    row = fold.locator("tr[id]").nth(3)
    assert not row.is_visible()
    tab.evaluate("id => { location.hash = id }", row.get_attribute("id"))
    row.wait_for(state="visible")
    assert reader.now.errors == []


@pytest.mark.parametrize("theme", THEMES)
def test_a_claim_that_is_not_reproduced_is_red_and_says_so(reader, theme):
    marks = reader.visit("book/how_to_read").findings[theme]["red"]
    assert marks
    for text, (red, green, blue) in marks:
        assert text == "✗ not reproduced"
        assert red > 1.4 * max(green, blue)


# --- figures that move -----------------------------------------------------------------------------------------------

DRAWN = "plot => JSON.stringify(plot.data.map(trace => [trace.x, trace.y]))"


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_interactive_figure_follows_mouse_and_keys(reader, name):
    tab = reader.open(name)
    figure = tab.locator("figure.icml25-figure").first
    plot, slider = figure.locator(".icml25-plot"), figure.locator("input[type=range]")
    slider.scroll_into_view_if_needed()
    shown = [(plot.evaluate(DRAWN), slider.get_attribute("aria-valuetext"))]

    def moved():
        tab.wait_for_timeout(150)
        shown.append((plot.evaluate(DRAWN), slider.get_attribute("aria-valuetext")))
        assert shown[-1][0] != shown[-2][0], f"the curves stay as they were at {shown[-1][1]}"
        assert shown[-1][1] != shown[-2][1]

    box = slider.bounding_box()
    at = 0.75 if float(slider.input_value()) < 0.6 * float(slider.get_attribute("max")) else 0.25
    tab.mouse.click(box["x"] + at * box["width"], box["y"] + box["height"] / 2)
    moved()
    slider.press("ArrowLeft")
    moved()
    slider.press("Home")
    moved()
    assert figure.locator(".icml25-hint").is_visible()
    assert figure.locator("figcaption").inner_text().strip()
    assert reader.now.errors == []
    assert reader.now.foreign == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_interactive_figure_fits_a_phone_and_follows_the_theme(reader, name):
    tab = reader.open(name, "light", "phone")
    plot = tab.locator("figure.icml25-figure .icml25-plot").first
    layout = plot.evaluate("plot => plot.layout")
    panels = layout["meta"]["panels"]
    numbers = ["", *map(str, range(2, panels + 1))]
    assert all(layout[f"xaxis{n}"].get("domain", [0, 1]) == [0, 1] for n in numbers)
    tops = [layout[f"yaxis{n}"].get("domain", [0, 1]) for n in numbers]
    assert all(upper[0] > lower[1] for upper, lower in itertools.pairwise(tops))
    colour = layout["font"]["color"]
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    tab.wait_for_function("([plot, colour]) => plot.layout.font.color !== colour", arg=[plot.element_handle(), colour])
    dark = plot.evaluate("plot => plot.layout")
    assert all(
        dark[f"{axis}axis{n}"]["gridcolor"] != layout[f"{axis}axis{n}"]["gridcolor"] for axis in "xy" for n in numbers
    )
    assert reader.now.errors == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_without_javascript_the_figure_is_described(browser, site, name):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{site}/{name}.html")
    description = tab.locator("figure.icml25-figure noscript").first
    label = tab.locator(".icml25-plot").first.get_attribute("aria-label")
    assert label
    assert label in description.inner_text()
    context.close()


def test_the_search_finds_a_chapter(reader):
    tab = reader.open("search")
    tab.goto(f"{reader.site}/search.html?q=claims")
    tab.wait_for_selector("#search-results li a")
    assert reader.now.errors == []
    assert reader.now.foreign == []


# --- what can be seen without a browser ------------------------------------------------------------------------------


class Markup(html.parser.HTMLParser):
    """Anchors, links and loaded files of a page."""

    LOADED = frozenset({("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")})

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loads = set(), set(), set()

    def handle_starttag(self, tag, attributes):
        values = {key: value for key, value in attributes if value}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag == "link" and values.get("rel") in ("next", "prev", "index", "search", "canonical"):
            return
        self.loads |= {values[key] for wanted, key in self.LOADED if wanted == tag and key in values}


@pytest.fixture(scope="session")
def markup(built):
    """Every built page, parsed."""
    pages = {}
    for path in built.rglob("*.html"):
        pages[path.relative_to(built).as_posix()] = page = Markup()
        page.feed(path.read_text(encoding="utf-8"))
    return pages


def test_internal_links_lead_somewhere(built, markup):
    lost = []
    for name, page in markup.items():
        for link in page.links:
            target = urlsplit(urljoin(f"https://book/{name}", link))
            if target.scheme not in ("http", "https") or target.netloc != "book":
                continue
            path = unquote(target.path).lstrip("/") or "index.html"
            if not (built / path).is_file():
                lost.append(f"{name}: {link}: no such file")
            elif target.fragment and path in markup and unquote(target.fragment) not in markup[path].ids:
                lost.append(f"{name}: {link}: no such anchor")
    assert lost == []


def test_no_page_or_style_sheet_loads_from_another_host(built, markup):
    foreign = [f"{name}: {url}" for name, page in markup.items() for url in page.loads if urlsplit(url).netloc]
    for sheet in built.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        foreign += [
            f"{sheet.name}: {url}"
            for url in re.findall(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", text)
        ]
    assert foreign == []


def test_every_chapter_has_its_claims_table_and_its_interactive_figure(built):
    for name in CHAPTERS:
        page = (built / f"{name}.html").read_text(encoding="utf-8")
        assert 'class="icml25-claims' in page, name
        assert 'class="icml25-figure"' in page, name
        assert "icml25-recorded" in page, name


def test_no_page_names_a_place_on_this_machine(built):
    place = re.compile(rf"{re.escape(str(ROOT))}|/home/\w+/|/tmp/|site-packages")
    found = {path.name: match[0] for path in built.rglob("*.html") if (match := place.search(path.read_text("utf-8")))}
    assert found == {}
