"""Draws boxes, arrows and logs as SVG text that can be read on light and on dark pages.

A picture brings its own ground and follows the scheme of the page where the browser tells it. It
asks for no font: widths are those of DejaVu Sans, which is wider than what most systems show.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import atan2, cos, pi, sin
from typing import Final, Literal, NamedTuple

WIDTH: Final = 760
#: Kinds of boxes. Each has a fill and a stroke; the text on all of them has one colour.
Tone = Literal["plain", "blue", "green", "amber", "red"]
Anchor = Literal["start", "middle", "end"]
Kind = Literal["normal", "strong", "small", "code"]
#: The left and the upper edge of a box, its width and its height.
Area = tuple[float, float, float, float]

_STYLE = """\
  .ground { fill: #ffffff; stroke: #d5dae2 }
  text { fill: #1d2330; font: 15px system-ui, "DejaVu Sans", sans-serif }
  .strong { font-weight: 600 }
  .small { fill: #4b5364; font-size: 13px }
  .code { font: 13px ui-monospace, "DejaVu Sans Mono", monospace }
  .line { fill: none; stroke: #667085; stroke-width: 1.6 }
  .head { fill: #667085 }
  .plain { fill: #f1f3f6; stroke: #7d8798 }
  .blue { fill: #e1ecfc; stroke: #2f6fd0 }
  .green { fill: #dcf2e2; stroke: #2b8748 }
  .amber { fill: #fdeecb; stroke: #a97308 }
  .red { fill: #fbe0de; stroke: #c03e36 }
  .frame { fill: none; stroke: #7d8798; stroke-dasharray: 5 4 }
  .cross { fill: none; stroke: #c03e36; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1b1f2a; stroke: #3a4152 }
    text { fill: #eceff4 }
    .small { fill: #b9c1cf }
    .line { stroke: #98a2b5 }
    .head { fill: #98a2b5 }
    .plain { fill: #2a303e; stroke: #7d8798 }
    .blue { fill: #1d3760; stroke: #6ea6ff }
    .green { fill: #17402a; stroke: #55c07b }
    .amber { fill: #4a3810; stroke: #dfae4b }
    .red { fill: #532420; stroke: #f0827a }
    .frame { stroke: #98a2b5 }
    .cross { stroke: #f0827a }
  }"""

#: Parts of the size of a font.
_NARROW, _MIDDLE, _WIDE, _CODE = 0.38, 0.61, 0.85, 0.61
_NARROWS, _WIDES = frozenset("fijlrtI.,:;'|()/[] "), frozenset("mwMWQ@%")
_SIZES: Final[dict[Kind, int]] = {"normal": 15, "strong": 15, "small": 13, "code": 13}
_HEAD = 9.0
_LINE_HEIGHT = 19
#: What a box keeps free at each side of its text.
_ROOM = 6


class Point(NamedTuple):
    """A place in a picture, in units of its view box."""

    x: float
    y: float


def width_of(text: str, kind: Kind) -> float:
    """Return how wide a text is at most, in units of the view box."""
    if kind == "code":
        return len(text) * _CODE * _SIZES[kind]
    parts = (_NARROW if c in _NARROWS else _WIDE if c in _WIDES else _MIDDLE for c in text)
    return sum(parts) * _SIZES[kind] * (1.16 if kind == "strong" else 1.0)


class Canvas:
    """One picture. Coordinates go from the left and from the top.

    Every method that draws a text raises `ValueError` if it does not fit.
    """

    def __init__(self, title: str, description: str, height: int) -> None:
        """`title` and `description` are for people who do not see the picture."""
        self._title, self._description, self._height = title, description, height
        self._lines: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, kind: Kind = "normal", anchor: Anchor = "start"
    ) -> None:
        """Write one line; `y` is the middle of it."""
        wide = width_of(text, kind)
        begin = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        if begin < _ROOM or begin + wide > WIDTH - _ROOM or not 0 < y < self._height:
            raise ValueError(f"{text!r} is outside of {self._title!r}: {begin} to {begin + wide}")
        named = "" if kind == "normal" else f' class="{kind}"'
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._lines.append(
            f'<text x="{x:g}" y="{y + 5:g}"{placed}{named}>{escape(text, quote=False)}</text>'
        )

    def box(
        self,
        area: Area,
        lines: str | Sequence[str] = (),
        *,
        tone: Tone = "plain",
        kinds: Sequence[Kind] = ("normal",),
    ) -> None:
        """Draw a box with lines in its middle; the last of `kinds` is that of all further lines."""
        x, y, wide, high = area
        lines = (lines,) if isinstance(lines, str) else lines
        self._lines.append(
            f'<rect class="{tone}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="6"/>'
        )
        top = y + high / 2 - (len(lines) - 1) * _LINE_HEIGHT / 2
        if len(lines) * _LINE_HEIGHT > high:
            raise ValueError(f"{lines} are higher than their box in {self._title!r}")
        for number, line in enumerate(lines):
            kind = kinds[min(number, len(kinds) - 1)]
            if width_of(line, kind) > wide - 2 * _ROOM:
                raise ValueError(f"{line!r} is wider than its box in {self._title!r}")
            place = top + number * _LINE_HEIGHT
            self.text(x + wide / 2, place, line, kind=kind, anchor="middle")

    def frame(self, area: Area, text: str = "") -> None:
        """Draw a dashed frame, with a text within its upper left corner."""
        x, y, wide, high = area
        self._lines.append(
            f'<rect class="frame" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="8"/>'
        )
        if text:
            if width_of(text, "small") > wide - 2 * _ROOM:
                raise ValueError(f"{text!r} is wider than its frame in {self._title!r}")
            self.text(x + 10, y + 14, text, kind="small")

    def cells(
        self, x: float, y: float, texts: Sequence[str], tones: Sequence[Tone], *, wide: float = 34
    ) -> None:
        """Draw records of a log beside one another; the last tone is that of all further ones."""
        for number, text in enumerate(texts):
            tone = tones[min(number, len(tones) - 1)]
            self.box((x + number * (wide + 3), y, wide, 32), text, tone=tone)

    def arrow(self, *way: tuple[float, float], is_two_way: bool = False) -> None:
        """Draw a line through points, with a head at its end."""
        points = [Point(*each) for each in way]
        ends = [_moved(points[-1], points[-2], _HEAD - 1)]
        begin = _moved(points[0], points[1], _HEAD - 1) if is_two_way else points[0]
        drawn = "L".join(f"{x:g} {y:g}" for x, y in (begin, *points[1:-1], *ends))
        self._lines.append(f'<path class="line" d="M{drawn}"/>')
        self._head(points[-1], points[-2])
        if is_two_way:
            self._head(points[0], points[1])

    def line(self, *way: tuple[float, float]) -> None:
        """Draw a line through points."""
        drawn = "L".join(f"{x:g} {y:g}" for x, y in way)
        self._lines.append(f'<path class="line" d="M{drawn}"/>')

    def cross(self, x: float, y: float, size: float = 9) -> None:
        """Draw a cross where something dies."""
        self._lines.append(
            f'<path class="cross" d="M{x - size:g} {y - size:g}L{x + size:g} {y + size:g}'
            f'M{x - size:g} {y + size:g}L{x + size:g} {y - size:g}"/>'
        )

    def svg(self) -> str:
        """Return the text of the file."""
        size = f'viewBox="0 0 {WIDTH} {self._height}" width="{WIDTH}" height="{self._height}"'
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"'
            ' aria-labelledby="title description">',
            f'<title id="title">{escape(self._title, quote=False)}</title>',
            f'<desc id="description">{escape(self._description, quote=False)}</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{self._height - 1}"'
            ' rx="10"/>',
        ]
        return "\n".join([*head, *self._lines, "</svg>"]) + "\n"

    def _head(self, tip: Point, before: Point) -> None:
        angle = atan2(before.y - tip.y, before.x - tip.x)
        wings = [
            (tip.x + _HEAD * cos(angle + turn), tip.y + _HEAD * sin(angle + turn))
            for turn in (pi / 7, -pi / 7)
        ]
        drawn = "L".join(f"{x:.4g} {y:.4g}" for x, y in (tip, *wings))
        self._lines.append(f'<path class="head" d="M{drawn}Z"/>')


def _moved(point: Point, towards: Point, by: float) -> Point:
    angle = atan2(towards.y - point.y, towards.x - point.x)
    return Point(round(point.x + by * cos(angle), 1), round(point.y + by * sin(angle), 1))
