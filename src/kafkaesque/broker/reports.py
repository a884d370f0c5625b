"""Where a broker's parts say what people are to know."""

from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Reports:
    """A line of the log for each call: a sentence, or a `LogLine` with fields."""

    #: What has happened.
    info: Report
    #: What may be wrong.
    warning: Report
    #: What somebody has to look after.
    error: Report
