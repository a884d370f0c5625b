"""Samples of metrics as text: the format 0.0.4 that Prometheus scrapes."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from kafkaesque.admin.metric_table import Metric
from kafkaesque.model.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Values of the labels, in the metric's order, and the value.
Sample = tuple[tuple[str, ...], float | Histogram]


class Sheet:
    """What was measured."""

    def __init__(self) -> None:
        self._samples: dict[Metric, list[Sample]] = {}

    def add(self, metric: Metric, value: float | Histogram, *labels: object) -> None:
        """Note a sample; `labels` are values in the metric's order."""
        if len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {labels}")
        self._samples.setdefault(metric, []).append((tuple(map(str, labels)), value))

    def write(self) -> bytes:
        """Return all samples as text, in the order of their metrics' first ones."""
        lines: list[str] = []
        for metric, samples in self._samples.items():
            lines.append(f"# HELP {metric.name} {_escape_doc(metric.doc)}")
            lines.append(f"# TYPE {metric.name} {metric.kind.value}")
            for labels, value in samples:
                pairs = [
                    f'{name}="{_escape(text)}"'
                    for name, text in zip(metric.labels, labels, strict=True)
                ]
                if isinstance(value, Histogram):
                    lines.extend(_histogram_lines(metric.name, pairs, value))
                else:
                    lines.append(f"{metric.name}{_braced(pairs)} {_number(value)}")
        return ("\n".join(lines) + "\n").encode()


def _histogram_lines(name: str, pairs: Sequence[str], value: Histogram) -> Iterable[str]:
    bounds = [*map(_number, value.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        within = [*pairs, f'le="{bound}"']
        yield f"{name}_bucket{_braced(within)} {count}"
    yield f"{name}_sum{_braced(pairs)} {_number(value.sum)}"
    yield f"{name}_count{_braced(pairs)} {value.count}"


def _braced(pairs: Sequence[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_doc(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
