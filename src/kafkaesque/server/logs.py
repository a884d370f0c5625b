"""How a broker's log looks: every line is one event, as key=value pairs or as a JSON object.

Each has `time` (UTC), `level`, `broker`, `event` and `message`, a sentence for people; what else is
known of an event stands between them. Lines of no particular event are named after who says them.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime

from kafkaesque.model.log_line import FieldValue, LogLine

#: A value that needs no quotes.
_PLAIN = re.compile(r"[^\s\"=\\]+")


class EventFormatter(logging.Formatter):
    """Formats records; what was raised stands at the end, with its newlines escaped."""

    def __init__(self, log_format: str, node: int) -> None:
        super().__init__()
        self._is_json = log_format == "json"
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg
        fields: dict[str, FieldValue] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "broker": self._node,
        }
        if isinstance(line, LogLine):
            fields |= {"event": line.event, **line.fields}
        else:
            fields["event"] = record.name.removeprefix("kafkaesque.") + ".note"
        fields["message"] = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if self._is_json:
            return json.dumps(fields, ensure_ascii=False)
        return " ".join(f"{name}={_write(value)}" for name, value in fields.items())


def set_up_logging(level: str, log_format: str, node: int) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EventFormatter(log_format, node))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    # As in JSON, so that a newline in what a stranger has sent does not begin another line.
    return json.dumps(text, ensure_ascii=False)
