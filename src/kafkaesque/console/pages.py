"""The console's files, as they are served: compressed, cached by name, under a strict policy.

They are built from `console/` and are part of the package. A file whose name holds a hash of its
content never changes, so browsers may keep it; the page that names these files is asked for each
time.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kafkaesque.admin.http import Answer, Request

#: Nothing but our own files, nothing inline, and no text that becomes code or elements: what a
#: topic or a message is called can only be shown. The policy's name is Svelte's, for its templates.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types svelte-trusted-html",
    )
)
HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept-Encoding",
    }
)
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_PACKED: Final = ".gz"
_INDEX: Final = "/index.html"
_HASHED: Final = "/assets/"


class ConsolePages:
    """All files, in memory: there are few."""

    def __init__(self) -> None:
        # Not by `importlib.resources`, whose modules take a megabyte to read a few files.
        folder = Path(__file__).parent / "static"
        self._packed = {f"/{name}": data for name, data in _read(folder)}

    @property
    def paths(self) -> list[str]:
        """Where files are."""
        return list(self._packed)

    def find(self, request: Request) -> Answer | None:
        """Return the file that is asked for, if there is one; see `Pages`."""
        path = _INDEX if request.path == "/" else request.path
        packed = self._packed.get(path)
        if packed is None:
            return None
        is_kept = path.startswith(_HASHED)
        headers = dict(HEADERS)
        headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_kept else "no-cache"
        takes_gzip = _takes_gzip(request.headers.get("accept-encoding", ""))
        if takes_gzip:
            headers["Content-Encoding"] = "gzip"
        return Answer(
            status=200,
            body=packed if takes_gzip else gzip.decompress(packed),
            content_type=_TYPES[path.rpartition(".")[2]],
            headers=headers,
        )


def _read(folder: Path, before: str = "") -> Iterator[tuple[str, bytes]]:
    """Return names and compressed contents of all files."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _read(each, f"{before}{each.name}/")
        elif each.name.endswith(_PACKED):
            yield before + each.name.removesuffix(_PACKED), each.read_bytes()


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.lower().replace(" ", "").split(","):
        coding, _, weight = each.partition(";q=")
        if coding in ("gzip", "*"):
            return weight.strip("0.") != "" or weight == ""
    return False
