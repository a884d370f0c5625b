"""Packs what Vite has built in `console/dist` for the package: compressed, and nothing else.

Usage: `python codegen/pack_console.py` writes; with `--check` it compares with what is committed.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from script_graph import page_scripts

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "console" / "dist"
PACKED = ROOT / "src" / "kafkaesque" / "console" / "static"
#: Script that any page may need until it is painted for the first time, compressed.
FIRST_SCRIPT_BYTES_MAX = 40_000
#: The same with what it loads by itself afterwards. Each page is a chunk of its own, so that the
#: sum of all pages is no limit.
PAGE_SCRIPT_BYTES_MAX = 60_000
#: The same of the page to log in, which is one of its own: it loads nothing of the console's.
LOGIN_BYTES_MAX = 1_000


def built_files() -> dict[str, bytes]:
    """Returns what was built, by path."""
    return {
        str(path.relative_to(BUILT)): path.read_bytes()
        for path in sorted(BUILT.rglob("*"))
        if path.is_file()
    }


def packed_files() -> dict[str, bytes]:
    """Returns what is committed, by path, as it is once it is unpacked."""
    return {
        str(path.relative_to(PACKED)).removesuffix(".gz"): gzip.decompress(path.read_bytes())
        for path in sorted(PACKED.rglob("*.gz"))
    }


def compress(data: bytes) -> bytes:
    """Returns the same for the same, whenever."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def write(files: dict[str, bytes]) -> None:
    """Writes files in place of those that are there."""
    shutil.rmtree(PACKED, ignore_errors=True)
    for name, data in files.items():
        path = PACKED / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compress(data))


def find_too_much(files: dict[str, bytes]) -> Iterator[str]:
    """Says which page loads too much script."""
    scripts = {
        name.removeprefix("assets/"): data for name, data in files.items() if name.endswith(".js")
    }
    login = sum(len(compress(data)) for name, data in scripts.items() if name.startswith("login-"))
    if login > LOGIN_BYTES_MAX:
        yield f"the page to log in loads {login} bytes of script, more than {LOGIN_BYTES_MAX}"
    (entry,) = (name for name in scripts if f"/assets/{name}".encode() in files["index.html"])
    pages = page_scripts(scripts, entry)
    most = max(each.first for each in pages.values())
    print(f"    {len(files)} files; {len(pages)} pages, {most} bytes of script at most at first")
    for page, needed in pages.items():
        if needed.first > FIRST_SCRIPT_BYTES_MAX:
            yield f"{page} needs {needed.first} bytes of script, more than {FIRST_SCRIPT_BYTES_MAX}"
        if needed.all > PAGE_SCRIPT_BYTES_MAX:
            yield f"{page} loads {needed.all} bytes of script, more than {PAGE_SCRIPT_BYTES_MAX}"


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if `--check` finds a difference, or there is too much script."""
    files = built_files()
    if too_much := "\n".join(find_too_much(files)):
        print(too_much, file=sys.stderr)
        return 1
    if arguments == ["--check"]:
        # Compressed bytes may differ from one zlib to the next.
        if files == packed_files():
            return 0
        print(f"{PACKED} is not what scripts/console builds", file=sys.stderr)
        return 1
    write(files)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
