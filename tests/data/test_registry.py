"""Fetching a data set: the checksum decides, and the cache holds all of it or what it held before."""

import hashlib
import sys
import threading
import types
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from icml25.data import registry

CONTENT = b"problem,n,c\n0,10,3\n"


@pytest.fixture
def server():
    """A loopback server with one file."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/toy.csv"
            self.send_response(200 if found else 404)
            self.end_headers()
            if found:
                self.wfile.write(CONTENT)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def toy(monkeypatch, tmp_path, server):
    """A registered data set whose module fetches from the loopback server."""
    module = types.ModuleType("icml25_toy_data")
    module.cache = tmp_path / "cache"
    module.url = f"{server}/toy.csv"

    def fetch(cache_dir, progress=False):
        with urllib.request.urlopen(module.url) as answer:
            (Path(cache_dir) / "toy.csv").write_bytes(answer.read())
        return Path(cache_dir) / "toy.csv"

    def find():
        file = module.cache / "toy.csv"
        if not file.is_file():
            raise FileNotFoundError(file)
        return file

    module.fetch, module.find = fetch, find
    module.DATASET = types.SimpleNamespace(
        name="toy",
        description="a toy",
        source=module.url,
        size="1 kB",
        licence="CC0",
        files={"toy.csv": "counts"},
        checksum="sha256:" + hashlib.sha256(CONTENT).hexdigest(),
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    paths = [f"{module.__name__}:{name}" for name in ("DATASET", "fetch", "find")]
    monkeypatch.setitem(registry.REGISTRY, "toy", registry.Entry(*paths))
    return module


def test_get_puts_the_file_into_the_cache(toy):
    assert not registry.available("toy")
    path = registry.get("toy", folder=toy.cache)
    assert path == toy.cache / "toy.csv"
    assert path.read_bytes() == CONTENT
    assert registry.locate("toy") == path
    assert [p.name for p in toy.cache.iterdir()] == ["toy.csv"]


def test_a_wrong_checksum_leaves_the_cache_as_it_was(toy):
    toy.cache.mkdir()
    (toy.cache / "toy.csv").write_text("before")
    toy.DATASET.checksum = "sha256:" + "0" * 64
    with pytest.raises(registry.ChecksumError, match=r"expected 0000.*nothing was kept"):
        registry.get("toy", folder=toy.cache)
    assert (toy.cache / "toy.csv").read_text() == "before"
    assert [p.name for p in toy.cache.iterdir()] == ["toy.csv"]


def test_a_failed_fetch_leaves_the_cache_as_it_was(toy):
    toy.url = toy.url.replace("toy.csv", "gone.csv")
    with pytest.raises(OSError, match="404"):
        registry.get("toy", folder=toy.cache)
    assert list(toy.cache.iterdir()) == []


def test_fetch_sees_what_is_in_the_cache(toy):
    toy.cache.mkdir()
    (toy.cache / "toy.csv").write_text("mine\n")
    toy.DATASET.checksum = "none: it grows"

    def append(cache_dir, progress=False):
        file = Path(cache_dir) / "toy.csv"
        file.write_text(file.read_text() + "new\n")
        return file

    toy.fetch = append
    assert registry.get("toy", folder=toy.cache).read_text() == "mine\nnew\n"


def test_unknown_name_lists_the_known():
    with pytest.raises(KeyError, match=r"no data set 'nonsense'; there are: .*monkeys"):
        registry.get("nonsense")


@pytest.mark.parametrize("name", list(registry.REGISTRY))
def test_every_entry_can_be_described_and_looked_for(name, monkeypatch, tmp_path):
    monkeypatch.delenv("ICML25_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    info = registry.describe(name)
    assert info.name == name
    for text in (info.description, info.source, info.size, info.licence, info.checksum):
        assert isinstance(text, str)
        assert text
    assert info.files
    assert not registry.available(name)
    assert registry.cache_dir() == tmp_path / "icml25"
