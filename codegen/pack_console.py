"""Packs what Vite has built in `console/dist` for the package: compressed, and nothing else.

Usage: `python codegen/pack_console.py` writes; with `--check` it compares with what is committed.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "console" / "dist"
PACKED = ROOT / "src" / "kafkaesque" / "console" / "static"
#: All script that the console may load, compressed.
SCRIPT_BYTES_MAX = 66_000
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


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if `--check` finds a difference, or there is too much script."""
    files = built_files()
    scripts = {name: len(compress(data)) for name, data in files.items() if name.endswith(".js")}
    login = sum(size for name, size in scripts.items() if name.startswith("assets/login-"))
    total = sum(scripts.values()) - login
    print(f"    {len(files)} files, {total} + {login} bytes of script, compressed")
    for size, most in ((total, SCRIPT_BYTES_MAX), (login, LOGIN_BYTES_MAX)):
        if size > most:
            print(f"{size} bytes of script are more than {most}", file=sys.stderr)
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
