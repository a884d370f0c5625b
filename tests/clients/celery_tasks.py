"""Tasks for Celery's workers, which tests start as processes."""

# mypy: disallow-untyped-decorators=false

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

#: It has some types, and not enough of them.
celery: Any = importlib.import_module("celery")
app = celery.Celery(
    "tasks", broker=os.environ.get("BROKER_URL"), backend=os.environ.get("BACKEND_URL")
)
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_queue_max_priority=5,
    task_default_queue=os.environ.get("QUEUE", "celery"),
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
)
NOTES = Path(os.environ.get("NOTES", "/dev/null"))


def note(line: str) -> None:
    with NOTES.open("a") as file:
        file.write(line + "\n")


@app.task
def add(first: int, second: int) -> int:
    return first + second


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def say(word: str) -> str:
    note(word)
    return word


@app.task(bind=True, max_retries=3)
def third_time(self: Any) -> int:
    """Fails twice."""
    note(f"try {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return int(self.request.retries)


@app.task(acks_late=True, reject_on_worker_lost=True)
def slow(number: int, seconds: float) -> int:
    note(f"begin {number}")
    time.sleep(seconds)
    note(f"end {number}")
    return number
