"""Every command that the documentation shows is one: its words and its options are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

from kafkaesque.cli.lazy_group import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Where a command begins: the prompt, what is set before it, and the path of the checkout.
COMMAND = re.compile(r"(?:^|[|;(]|&& )\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?kafkaesque (.*)$")
#: Between backquotes in prose.
INLINE = re.compile(r"`kafkaesque ([^`]+)`")
#: Where the words of a command end.
END = re.compile(r"[|;<>&#)]|\.\.\.|\u2026")


def parts_of(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a page in turn: whether it is a block of code, and what is in it."""
    is_code = False
    part: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            yield is_code, "\n".join(part)
            is_code, part = not is_code, []
        else:
            part.append(line)
    yield is_code, "\n".join(part)


def shown() -> Iterator[tuple[str, str]]:
    """Yield the page and the words of each command that a block shows, or a sentence."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for is_code, part in parts_of(page.read_text().replace("\\\n", " ")):
            if is_code:
                found = (COMMAND.search(line) for line in part.splitlines())
                yield from ((name, each[1]) for each in found if each is not None)
            else:
                yield from ((name, each) for each in INLINE.findall(re.sub(r"\s+", " ", part)))


def words_of(command: str) -> list[str]:
    """Return the words up to where something else begins, outside of quotes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|;<>&()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found = []
    try:
        for word in lexer:
            if END.match(word) or word in ("...", "\u2026"):
                break
            found.append(word)
    except ValueError:
        pass  # a quotation that goes on in the next line
    return found


def top_command(name: str) -> Any:
    """Return a command with its options; `LazyGroup` knows only its name until it runs."""
    if name not in COMMANDS:
        return None
    return typer.main.get_command(import_module(f"kafkaesque.cli.commands.{name}").app)


def wrong_in(words: list[str]) -> str:
    """Return what is wrong with a command; empty: nothing."""
    command: Any = None
    rest = list(words)
    while rest and (command is None or hasattr(command, "get_command")):
        if rest[0].startswith("-"):
            break
        # `create|list`, `create`, and A_NAME stand for one of several.
        name = rest.pop(0).split("|")[0]
        if name.isupper() or name.startswith(("[", "{")):
            return ""
        inner = top_command(name) if command is None else command.get_command(None, name)
        if inner is None:
            return f"there is no {name!r}"
        command = inner
    if command is None:
        return ""  # kafkaesque --help, and the like
    known = {each for param in command.params for each in (*param.opts, *param.secondary_opts)}
    known |= {"--help", "-h", "--version"}
    options = (each.partition("=")[0] for each in rest if re.match(r"--?[a-z]", each))
    unknown = [each for each in options if each not in known]
    return f"there is no option {unknown[0]}" if unknown else ""


def test_every_command_that_is_shown_is_one() -> None:
    commands = [(page, words_of(command)) for page, command in shown()]
    assert len(commands) > 100
    wrong = [
        f"{page}: kafkaesque {' '.join(words)}: {said}"
        for page, words in commands
        if (said := wrong_in(words))
    ]
    assert wrong == []
