"""Line charts as SVG, written by hand: a few panels beside one another, linear or logarithmic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

PANEL_WIDTH: Final = 360
PANEL_HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 46
#: Colours that most people can tell apart (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
#: Dots of different lines at one place are all seen.
_RADII = (3.2, 4.4, 2.6, 1.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points that belong together; dots alone where it is not drawn through."""

    name: str
    points: Sequence[tuple[float, float]]
    has_dots: bool = True
    is_drawn: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart, of four lines at most."""

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    x_is_logarithmic: bool = False
    y_is_logarithmic: bool = False


class _Axis:
    """Maps values to places between two ends."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, *, logarithmic: bool
    ) -> None:
        self._logarithmic = logarithmic
        if logarithmic:
            low = math.floor(math.log10(min(values)))
            high = math.ceil(math.log10(max(values)))
            self.ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
        else:
            step = _round_step(max(values) / 5)
            count = math.ceil(max(values) / step)
            self.ticks = [step * number for number in range(count + 1)]
        self._start, self._scale = start, 1.0
        self._zero = self._of(self.ticks[0])
        self._scale = (end - start) / (self._of(self.ticks[-1]) - self._zero)

    def _of(self, value: float) -> float:
        return math.log10(value) if self._logarithmic else value

    def place(self, value: float) -> float:
        return self._start + (self._of(value) - self._zero) * self._scale


def _round_step(least: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= least * 0.999)


def draw(panels: Sequence[Panel]) -> str:
    """Return the panels as one SVG document."""
    width = PANEL_WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {PANEL_HEIGHT}"'
        f' width="{width}" height="{PANEL_HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{PANEL_HEIGHT}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * PANEL_WIDTH} 0)">')
        parts += _draw_panel(panel)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _draw_panel(panel: Panel) -> list[str]:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    right, bottom = PANEL_WIDTH - _RIGHT, PANEL_HEIGHT - _BOTTOM
    x_axis = _Axis(xs, _LEFT, right, logarithmic=panel.x_is_logarithmic)
    y_axis = _Axis(ys, bottom, _TOP, logarithmic=panel.y_is_logarithmic)
    middle = (_LEFT + right) / 2
    parts = [
        _text(middle, 18, panel.title, "middle", ' font-weight="bold"'),
        _text(middle, PANEL_HEIGHT - 10, panel.x_name, "middle"),
        f'<text transform="translate(13 {(_TOP + bottom) / 2:g}) rotate(-90)"'
        f' text-anchor="middle" fill="#222222">{escape(panel.y_name)}</text>',
    ]
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:,.10g}", "end"))
    for tick in x_axis.ticks:
        x = x_axis.place(tick)
        parts.append(f'<path d="M{x:.1f} {bottom}v4" stroke="#222222"/>')
        parts.append(_text(x, bottom + 17, f"{tick:,.10g}", "middle"))
    parts.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#222222"/>')
    for number, line in enumerate(panel.lines):
        colour, radius = _COLOURS[number], _RADII[number]
        parts += _draw_line(line, x_axis, y_axis, colour, radius)
        y = _TOP + 12 + 15 * number if _falls(panel) else bottom - 8 - 15 * number
        parts.append(f'<rect x="{right - 12}" y="{y - 8:g}" width="9" height="9" fill="{colour}"/>')
        parts.append(_text(right - 17, y, line.name, "end"))
    return parts


def _falls(panel: Panel) -> bool:
    """Tell where a legend is out of the way: at the top where the lines go down."""
    points = panel.lines[0].points
    return points[-1][1] < points[0][1]


def _draw_line(line: Line, x_axis: _Axis, y_axis: _Axis, colour: str, radius: float) -> list[str]:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in line.points]
    parts = []
    if line.is_drawn:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    if line.has_dots:
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>' for x, y in places
        ]
    return parts


def _text(x: float, y: float, words: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222222"{more}>'
        f"{escape(words)}</text>"
    )
