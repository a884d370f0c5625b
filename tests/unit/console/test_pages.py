"""The console's files, as browsers get them."""

import gzip
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from kafkaesque.admin.http import Answer, Request
from kafkaesque.console.pages import ConsolePages

#: The page to log in is one of its own.
LOGIN_BYTES_MAX = 1_000
#: Of any page: what its first paint needs, and that with what it loads by itself afterwards.
FIRST_SCRIPT_BYTES_MAX = 40_000
PAGE_SCRIPT_BYTES_MAX = 60_000
GRAPH = Path(__file__).resolve().parents[3] / "codegen" / "script_graph.py"


@pytest.fixture(scope="module")
def pages() -> ConsolePages:
    return ConsolePages()


def get(pages: ConsolePages, path: str, accepted: str = "gzip, br") -> Answer:
    headers = {"accept-encoding": accepted}
    answer = pages.find(Request(path=path, query={}, headers=headers))
    assert answer is not None
    return answer


def test_the_page_and_all_that_it_names_are_there(pages: ConsolePages) -> None:
    page = gzip.decompress(get(pages, "/").body).decode()
    named = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    assert len(named) >= 3
    for path in named:
        assert get(pages, path).status == 200
    assert get(pages, "/index.html").body == get(pages, "/").body


def test_nothing_in_the_page_is_inline(pages: ConsolePages) -> None:
    page = gzip.decompress(get(pages, "/").body).decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", page) == []
    assert "<style" not in page
    assert not re.search(r"\s(style|on\w+)=", page)


def test_every_file_comes_under_the_strict_policy(pages: ConsolePages) -> None:
    for path in pages.paths:
        answer = get(pages, path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_browser_keeps_what_never_changes_and_asks_for_the_page(pages: ConsolePages) -> None:
    assert get(pages, "/").headers["Cache-Control"] == "no-cache"
    hashed = [path for path in pages.paths if path.startswith("/assets/")]
    assert len(hashed) >= 3
    for path in hashed:
        assert "immutable" in get(pages, path).headers["Cache-Control"]
        assert re.search(r"-[\w-]{8}\.(js|css)$", path)


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("*", True),
        ("gzip; q=0.0", False),
        ("gzip;q=0", False),
        ("", False),
        ("br", False),
    ],
)
def test_files_are_packed_for_those_who_unpack(
    pages: ConsolePages, accepted: str, is_packed: bool
) -> None:
    answer = get(pages, "/", accepted)
    assert (answer.headers.get("Content-Encoding") == "gzip") == is_packed
    body = gzip.decompress(answer.body) if is_packed else answer.body
    assert body.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/assets",
        "/assets/",
        "/assets/../index.html",
        "/..%2f",
        "//index.html",
        "/pages.py",
    ],
)
def test_there_is_nothing_else(pages: ConsolePages, path: str) -> None:
    assert pages.find(Request(path=path, query={})) is None


@pytest.fixture(scope="module")
def graph() -> ModuleType:
    spec = importlib.util.spec_from_file_location("script_graph", GRAPH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_browser_loads_little_script(pages: ConsolePages, graph: ModuleType) -> None:
    scripts = {
        path.removeprefix("/assets/"): gzip.decompress(get(pages, path).body)
        for path in pages.paths
        if path.endswith(".js")
    }
    login = gzip.decompress(get(pages, "/login.html").body).decode()
    (of_login,) = (name for name in scripts if name in login)
    assert 0 < len(get(pages, f"/assets/{of_login}").body) < LOGIN_BYTES_MAX
    page = gzip.decompress(get(pages, "/").body).decode()
    (entry,) = (name for name in scripts if name in page)
    found = graph.page_scripts(scripts, entry)
    assert {"Overview", "Topics", "Exchange"} <= {each.split("-")[0] for each in found}
    for name, needed in found.items():
        assert 0 < needed.first < FIRST_SCRIPT_BYTES_MAX, name
        assert needed.first <= needed.all < PAGE_SCRIPT_BYTES_MAX, name


def test_what_chunks_import_is_counted_once_and_what_comes_later_apart(graph: ModuleType) -> None:
    files = {
        "index.js": b'import("./a.js");import(`./b.js`)',
        "a.js": b'import{x}from"./shared.js";import"./index.js";import("./plot.js")',
        "b.js": b'import{y}from"./shared.js"',
        "shared.js": b"x" * 40,
        "plot.js": b'import"./shared.js";' + b"p" * 90,
    }
    size = {name: len(gzip.compress(data, 9, mtime=0)) for name, data in files.items()}
    found = graph.page_scripts(files, "index.js")
    first = size["index.js"] + size["shared.js"]
    assert found == {
        "a.js": (first + size["a.js"], first + size["a.js"] + size["plot.js"]),
        "b.js": (first + size["b.js"], first + size["b.js"]),
    }
