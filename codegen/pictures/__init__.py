"""Pictures of docs/concepts: each is drawn by one function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pictures import clusters, logs, patterns
from pictures.canvas import Canvas

CONCEPTS: Final = Path(__file__).resolve().parents[2] / "docs" / "concepts"
DRAWN: Final[dict[str, Callable[[], Canvas]]] = {
    "log": logs.log,
    "replication": logs.replication,
    "delivery": logs.delivery,
    "groups": logs.groups,
    "transactions": logs.transactions,
    "queues": patterns.queues,
    "exchanges": patterns.exchanges,
    "names": patterns.names,
    "sessions": patterns.sessions,
    "protocols": patterns.protocols,
    "schemas": clusters.schemas,
    "security": clusters.security,
    "controllers": clusters.controllers,
    "pipelines": clusters.pipelines,
}


def _source(draw: Callable[[], Canvas]) -> str:
    return draw().svg()


#: Each picture, and what returns its text.
FILES: Final[dict[Path, Callable[[], str]]] = {
    CONCEPTS / f"{name}.svg": partial(_source, draw) for name, draw in DRAWN.items()
}
