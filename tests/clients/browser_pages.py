"""Web pages in Chromium, without a head, which drive clients and tell what has happened.

A page is a script of tests/clients/browser, served on 127.0.0.1 beside the clients' npm packages.
Each is a tab of its own: its origin is that of the server that it came from.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tests.clients import node_client
from tests.waiting import DEADLINE_S, eventually

CHROMIUM: Final = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
_SCRIPTS: Final = Path(__file__).parent / "browser"
_PACKAGES: Final = Path(__file__).parent / "node" / "node_modules"
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    # Tabs are behind one another.
    "--disable-background-timer-throttling",
    "--remote-debugging-port=0",
)
_HTML: Final = """<!doctype html><meta charset="utf-8"><title>{script}</title>
<script>
const lost = {{method: "POST", body: '{{"failed": "a script is not there"}}'}};
</script>
<script type="module" src="/scripts/{script}.mjs" onerror="fetch('/told/{page}', lost)"></script>"""


def missing() -> str:
    """Return why no pages can be opened here, or nothing when they can."""
    return node_client.missing() if CHROMIUM.exists() else "chromium is not installed"


class Page:
    """One tab."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def next(self) -> dict[str, Any]:
        """Wait for the next thing that the page tells."""
        return self.said.get(timeout=DEADLINE_S)

    def told(self, what: str) -> Any:
        """Wait for the next thing that the page tells, which is this; fails if it is another."""
        found = self.next()
        assert what in found, found
        return found[what]

    def messages(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many messages that the page has received; fails if it tells of another."""
        found = [self.next() for _ in range(count)]
        assert all("text" in each for each in found), found
        return found


class PageServer:
    """Serves pages, and takes what they tell; its address is their origin."""

    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}
        self._numbers = itertools.count()
        handler = partial(_Handler, self._pages)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def new_page(self, script: str, given: dict[str, Any]) -> tuple[Page, str]:
        """Return a page to be opened, and its URL."""
        number, page = str(next(self._numbers)), Page()
        self._pages[number] = page
        return page, f"{self.origin}/run/{script}?page={number}&given={quote(json.dumps(given))}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, pages: dict[str, Page], *more: Any) -> None:
        self._pages = pages
        super().__init__(*more)

    def translate_path(self, path: str) -> str:
        _, folder, *rest = urlsplit(path).path.split("/")
        where = {"scripts": _SCRIPTS, "packages": _PACKAGES}.get(folder)
        # Nothing of the machine but these two.
        return str(where.joinpath(*rest)) if where and ".." not in rest else os.devnull

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        if not where.path.startswith("/run/"):
            super().do_GET()
            return
        page = where.query.partition("&")[0].removeprefix("page=")
        html = _HTML.format(script=where.path.removeprefix("/run/"), page=page).encode()
        self._answer(200, html)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self._pages[self.path.removeprefix("/told/")].said.put(json.loads(content))
        self._answer(200, b"")

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Browser:
    """Chromium."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [str(CHROMIUM), *_FLAGS, f"--user-data-dir={directory}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._port = self._find_port(directory / "DevToolsActivePort")
        except BaseException:
            self.close()
            raise

    def _find_port(self, file: Path) -> int:
        def is_written() -> bool:
            assert self._process.poll() is None, f"Chromium ended: {self._process.returncode}"
            return file.exists() and "\n" in file.read_text()

        eventually(is_written, "Chromium listens")
        return int(file.read_text().splitlines()[0])

    @contextmanager
    def open(self, server: PageServer, script: str, **given: Any) -> Iterator[Page]:
        """A tab with a page, which runs a script of tests/clients/browser; closed at the end."""
        page, url = server.new_page(script, given)
        opened = json.loads(self._ask("PUT", f"/json/new?{quote(url, safe='')}"))
        try:
            yield page
        finally:
            self._ask("GET", f"/json/close/{opened['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            content: bytes = answer.read()
        return content

    def close(self) -> None:
        # With all its processes: it has a session of its own.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE_S)
