"""Writes `docs/kafka-apis.md` from the table of handlers and from Apache Kafka's own APIs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from kafka_apis import KAFKA_APIS, VERSION, KafkaApi, Listed

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kafka-apis.md"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.access.operations import SUPPORTED as OPERATIONS  # noqa: E402
from kafkaesque.access.operations import Operation, ResourceType  # noqa: E402
from kafkaesque.gateway.kafka.authorization import ROWS  # noqa: E402
from kafkaesque.gateway.kafka.handlers import (  # noqa: E402
    DIFFERENCES,
    HANDLERS,
    NOT_CARRIED_OUT,
    OWN_APIS,
)
from kafkaesque.protocols.kafka.api import SUPPORTED  # noqa: E402

HEAD = f"""\
<!-- Written by codegen/apis_page.py from the table of handlers: never edit. -->

# Kafka's APIs

What the Kafka port answers, beside what a broker of Apache Kafka {VERSION} answers. Clients ask for
this with ApiVersions and use the newest version that both know:

```sh
kafka-broker-api-versions --bootstrap-server 127.0.0.1:9092
```

Every version that ApiVersions names is answered, with an error where it must be. Any other API or
version is refused as Kafka refuses it: ApiVersions is answered with UNSUPPORTED_VERSION and the
versions of it that there are, and everything else closes the connection.
"""

CARRIED_OUT = """
## Carried out

The last column has what a client may have to be allowed, by its request, on the resources that it
names: see [rules](security.md#rules). "Any" stands for any operation: the answer shows what the
client may do, and what it may see.
"""

NOT_HERE = """
## Not carried out

A client that needs one of these says that the broker does not support it.
"""

OWN = """
## Our own

What Apache Kafka has no API for. ApiVersions does not name these, and no client but `kafkaesque`
uses them: their form may change with each release.
"""

CONTROLLERS = """
## Between Kafka's brokers and controllers

A broker of Apache Kafka does not answer these to clients either. Kafkaesque's brokers speak a
protocol of their own among themselves, at another port.
"""


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def needs_of(key: int) -> str:
    """Returns what an API needs: operations by type of resource."""
    found: dict[ResourceType, list[Operation]] = {}
    for operation, kind in ROWS[key].needs:
        found.setdefault(kind, []).append(operation)
    return "; ".join(f"{_word(kind)}: {_operations(kind, asked)}" for kind, asked in found.items())


def _operations(kind: ResourceType, asked: list[Operation]) -> str:
    if set(asked) == set(OPERATIONS[kind]) and len(asked) > 1:
        return "any"
    return ", ".join(_word(each).title().replace(" ", "") for each in asked)


def _word(each: Operation | ResourceType) -> str:
    return each.name.lower().replace("_", " ")


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def check(apis: Iterable[KafkaApi]) -> None:
    """Check that the reasons fit the handlers.

    Raises:
        ValueError: an API is neither carried out nor has a reason why not, or has both; or its
            versions differ without a reason.
    """
    known = {api.key: api for api in apis if api.listed is not Listed.BY_CONTROLLERS}
    wrong = [
        f"API {key} is not Kafka's" for key in {*HANDLERS, *NOT_CARRIED_OUT} - {*known, *OWN_APIS}
    ]
    wrong += [f"API {key} is not carried out" for key in {*DIFFERENCES} - {*HANDLERS}]
    for key, api in known.items():
        if (key in HANDLERS) == (key in NOT_CARRIED_OUT):
            wrong.append(f"{api.name} is to be either carried out or not, with a reason")
        elif key in HANDLERS and key not in DIFFERENCES and SUPPORTED[key] != (api.first, api.last):
            wrong.append(f"{api.name}: the versions differ from Kafka's, without a reason")
    if wrong:
        raise ValueError("; ".join(wrong))


def page_source() -> str:
    """Returns the whole page."""
    check(KAFKA_APIS)
    lines = [HEAD + CARRIED_OUT.rstrip("\n"), ""]
    head = f"| key | API | Apache Kafka {VERSION} | Kafkaesque | difference | needs |"
    lines += [head, "|---" * 6 + "|"]
    for api in KAFKA_APIS:
        if api.key in HANDLERS:
            ours = SUPPORTED[api.key]
            cells = (_versions(api.first, api.last), _versions(ours.first, ours.last))
            difference = DIFFERENCES.get(api.key, "")
            lines.append(_row(api.key, api.name, *cells, difference, needs_of(api.key)))
    lines += [NOT_HERE.rstrip("\n"), ""]
    lines += [f"| key | API | Apache Kafka {VERSION} | why |", "|---" * 4 + "|"]
    for api in KAFKA_APIS:
        if api.key in NOT_CARRIED_OUT:
            versions = _versions(api.first, api.last)
            lines.append(_row(api.key, api.name, versions, NOT_CARRIED_OUT[api.key]))
    lines += [OWN.rstrip("\n"), "", "| key | versions | what | needs |", "|---" * 4 + "|"]
    lines += [
        _row(key, _versions(*SUPPORTED[key]), what, needs_of(key)) for key, what in OWN_APIS.items()
    ]
    lines += [CONTROLLERS.rstrip("\n"), ""]
    lines += [f"| key | API | Apache Kafka {VERSION} |", "|---" * 3 + "|"]
    for api in KAFKA_APIS:
        if api.listed is Listed.BY_CONTROLLERS:
            lines.append(_row(api.key, api.name, _versions(api.first, api.last)))
    return "\n".join(lines) + "\n"
