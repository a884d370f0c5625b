"""Writes `docs/properties.md` from the table of message properties."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "properties.md"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.model.message_properties import PROPERTIES, MessageProperty  # noqa: E402

SOURCE = "src/kafkaesque/model/message_properties.py"
HEAD = f"""\
<!-- Written by codegen/properties_page.py from {SOURCE}: never edit. -->

# Message properties

What a message says of itself when one protocol publishes it, it says to subscribers of every other
protocol. For example, a request of MQTT 5.0 with the response topic `answers/7` and the content
type `text/plain` is

- for AMQP, a message with the properties `reply_to` = `answers.7` and `content_type` =
  `text/plain`;
- for NATS, a message with the reply subject `answers.7` and the header `Content-Type: text/plain`;
- for Kafka, SQS (attributes), the text port, the command line and the Python client, a record with
  the headers `reply-to: answers.7` and `content-type: text/plain`.

Each row of the table is one property. Kafka, SQS, the text port, the command line and the Python
client have the header of the second column. *header* means that the protocol has no field for the
property; it has a header (in MQTT a user property) of that name.

| meaning | header | its value | AMQP 0-9-1 | MQTT 5.0 | STOMP | NATS |
|---|---|---|---|---|---|---|
"""

TAIL = """
Other headers keep their names everywhere: AMQP's `headers`, MQTT's user properties, SQS's
attributes (at most ten, of the names that SQS allows). MQTT 3.1.1 has neither properties nor
headers. Where a publisher gives a name twice, AMQP and STOMP show the first value; Kafka, MQTT and
NATS show both, in their order.

Headers that begin with `kafkaesque.` are the broker's own. Clients of AMQP, MQTT, NATS and STOMP
can neither set nor see them.

"""


def page_source() -> str:
    """Return the page."""
    rows = "".join(_row(each) for each in PROPERTIES)
    notes = "".join(f"- `{each.header}`: {each.note}.\n" for each in PROPERTIES if each.note)
    return HEAD + rows + TAIL + "Of single properties:\n\n" + notes


def _row(row: MessageProperty) -> str:
    amqp, mqtt = f"`{row.amqp}`", row.mqtt or "*header*"
    nats = row.nats or "*header*"
    if row.nats and " " not in row.nats:
        nats = f"`{row.nats}`"
    stomp = f"`{row.stomp or row.header}`"
    cells = (row.meaning, f"`{row.header}`", row.form.value, amqp, mqtt, stomp, nats)
    return "| " + " | ".join(cells) + " |\n"
