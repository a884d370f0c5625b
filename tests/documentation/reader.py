"""Follows the blocks of a page as a reader does, in a shell, and compares what is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.documentation.blocks import Block
from tests.documentation.output import fits, plain
from tests.documentation.shell import Shell

_SHELLS = ("sh", "bash")
_OUTPUTS = ("", "text", "json")
#: What a command ends with is no matter: it depends on the machine.
ANY_CODE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a reader does beside typing a block."""

    #: Typed before, and after it: what the page takes for granted.
    before: str = ""
    after: str = ""
    #: The block is the content of this file.
    file: str = ""
    #: The block lists what is in this directory: a path begins each line.
    listed: str = ""
    #: The command that prints the block, where no block before it does.
    printed_by: str = ""
    #: Commands that check the file, or what has become of the block.
    check: str = ""
    #: Of a block without prompts, only the lines that begin so are typed.
    only: str = ""
    #: Commands of the page, and what is typed here in their place.
    instead: Mapping[str, str] = field(default_factory=dict)
    #: Names and places of the page, and those here, which are printed, too.
    replaced: Mapping[str, str] = field(default_factory=dict)
    #: Patterns of what differs from run to run in the output, and words that stand for it.
    variable: tuple[tuple[str, str], ...] = ()
    #: The page breaks a long line.
    is_broken: bool = False
    #: What the commands print comes in any order.
    is_in_any_order: bool = False
    #: Others lines are printed between those of the page, and in another order.
    is_excerpt: bool = False
    #: A program, with the block where it says BLOCK.
    around: str = "BLOCK"
    #: How lines of the block begin that are refused here, and what is said then.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: What each of its commands ends with; None: an error is said, or all went well.
    code: int | None = None
    #: Words that begin what is not typed: it is typed elsewhere.
    left_out: tuple[str, ...] = ()


class Reader:
    """Types what blocks show, and compares what is printed."""

    def __init__(
        self,
        shell: Shell,
        directory: Path,
        steps: Mapping[str, Step],
        *,
        replaced: Mapping[str, str],
        ports: Mapping[int, int],
    ) -> None:
        """`steps` are by how a block begins; `ports` are those of the pages, and those here."""
        self._shell, self._directory = shell, directory
        self._steps = dict(steps)
        self._replaced = dict(replaced)
        self._ports = dict(ports)
        self._printed = ""
        self._wrong: list[str] = []

    def follow(self, blocks: Iterable[Block]) -> None:
        """Do what the blocks say, in their order, to their end.

        Raises:
            AssertionError: something else happens, or a step is of no block.
        """
        for block in blocks:
            step = self._step_of(block)
            self._prepare(block, step.before)
            self._do(block, step)
            self._prepare(block, step.check)
            self._prepare(block, step.after)
        self._wrong += [f"there is no block for {each!r}" for each in self._steps]
        assert self._wrong == [], "\n\n".join(self._wrong)

    def _step_of(self, block: Block) -> Step:
        begins = max(
            (each for each in self._steps if block.content.startswith(each)), key=len, default=""
        )
        return self._steps.pop(begins, Step())

    def _do(self, block: Block, step: Step) -> None:
        if step.file:
            path = self._directory / step.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._here(step.around.replace("BLOCK", block.content), step))
        elif step.listed:
            self._look_for(block, self._directory / step.listed)
        elif step.printed_by:
            self._session(block, step, step.printed_by, block.content)
        elif block.is_session:
            for command, shown in _commands(block.content):
                if not f"{command}\n".startswith(step.left_out or ("\n",)):
                    self._session(block, step, command, shown)
        elif block.language in _SHELLS:
            self._printed = self._type_lines(block, step)
        elif block.language == "python":
            program = step.around.replace("BLOCK", block.content)
            (self._directory / "program.py").write_text(self._here(program, step))
            # Libraries say on standard error what is no output of the program.
            self._printed = self._type(
                block,
                f"python {self._directory}/program.py 2> errors.log || (cat errors.log; false)",
            )
        elif block.language == "js":
            program = step.around.replace("BLOCK", block.content)
            (self._directory / "program.mjs").write_text(self._here(program, step))
            self._printed = self._type(block, "node program.mjs")
        elif block.language in _OUTPUTS:
            self._compare(block, step, block.content, self._printed)
        else:
            raise AssertionError(f"{block}: nothing says what to do with it")

    def _look_for(self, block: Block, directory: Path) -> None:
        """Look for what a block lists; what is further in than a line is in its directory."""
        places = [(-1, directory)]
        for line in block.content.splitlines():
            path, indentation = line.split()[0], len(line) - len(line.lstrip())
            while places[-1][0] >= indentation:
                places.pop()
            place = places[-1][1] / path
            if not place.exists() or place.is_dir() != path.endswith("/"):
                self._wrong.append(f"{block}\nthere is no {place}")
            places.append((indentation, place))

    def _type_lines(self, block: Block, step: Step) -> str:
        """Type a block without prompts; lines that are refused alone, and after the others."""
        lines = [
            each for each in block.content.splitlines(keepends=True) if each.startswith(step.only)
        ]
        refused = {
            each: said
            for each in lines
            for begins, said in step.refused.items()
            if each.startswith(begins)
        }
        others = "".join(each for each in lines if each not in refused)
        printed = self._type(block, self._here(others, step))
        for line, said in refused.items():
            answer, code = self._shell.run(self._here(line, step))
            if code == 0 or said not in answer:
                self._wrong.append(f"{block}\n{line}{answer}\nended with {code}")
        return printed

    def _session(self, block: Block, step: Step, command: str, shown: str) -> None:
        printed, code = self._shell.run(self._here(command, step))
        self._compare(block, step, shown, printed, command)
        if step.code == ANY_CODE:
            is_right = True
        elif step.code is None:
            is_right = (code != 0) == (re.search("^error: ", printed, re.MULTILINE) is not None)
        else:
            is_right = code == step.code
        if not is_right:
            self._wrong.append(f"{block}\n{command}\n{printed}\nended with {code}")

    def _prepare(self, block: Block, commands: str) -> None:
        if commands:
            self._type(block, self._here(commands, Step()))

    def _type(self, block: Block, commands: str) -> str:
        printed, code = self._shell.run(commands)
        if code != 0:
            self._wrong.append(f"{block}\n{commands}\n{printed}\nended with {code}")
        return printed

    def _compare(
        self, block: Block, step: Step, shown: str, printed: str, command: str = ""
    ) -> None:
        there = self._there(printed, step)
        if step.is_broken:
            shown, there = _in_one_line(shown), _in_one_line(there)
        if step.is_in_any_order:
            shown, there = ("\n".join(sorted(each.splitlines())) for each in (shown, there))
        if step.is_excerpt:
            there = _excerpt(plain(shown, step.variable), plain(there, step.variable))
        if not fits(shown, there, step.variable):
            self._wrong.append(
                "\n".join(
                    (
                        f"{block}\n{command}\n--- the page shows",
                        *plain(shown, step.variable),
                        "--- this was printed",
                        *plain(there, step.variable),
                    )
                )
            )

    def _here(self, text: str, step: Step) -> str:
        """Return what is typed where the page has this."""
        for told, here in {**step.instead, **step.replaced, **self._replaced}.items():
            text = text.replace(told, here)
        return _with_ports(text, self._ports)

    def _there(self, text: str, step: Step) -> str:
        """Return what the page would have where this was printed."""
        text = _with_ports(text, {here: told for told, here in self._ports.items()})
        for told, here in {**step.replaced, **self._replaced}.items():
            if here:
                text = text.replace(here, told)
        return text


def _commands(session: str) -> Iterable[tuple[str, str]]:
    """Yield each command of a session with what it prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = next(at for at, line in enumerate(lines) if not line.endswith("\\"))
        yield "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])


def _with_ports(text: str, ports: Mapping[int, int]) -> str:
    names = "|".join(map(str, ports))
    if not ports:
        return text
    return re.sub(rf"\b({names})\b", lambda found: str(ports[int(found[1])]), text)


def _excerpt(shown: Sequence[str], printed: Sequence[str]) -> str:
    """Return those lines that are shown, if all were printed; otherwise all that was."""
    lines = shown if set(shown) <= set(printed) else printed
    return "\n".join(lines)


def _in_one_line(text: str) -> str:
    return re.sub(r"\n *", "", text.strip())
