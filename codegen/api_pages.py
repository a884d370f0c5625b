"""Writes what is made of the admin API's routes: OpenAPI document, page, the console's types.

Needs the package's requirements, for the types are msgspec's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "admin-api.json"
PAGE = ROOT / "docs" / "admin-api.md"
TYPES = ROOT / "console" / "src" / "lib" / "types.ts"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.admin.api.api import make_routes  # noqa: E402
from kafkaesque.admin.api.authorization import ROWS  # noqa: E402
from kafkaesque.admin.api.calls import Route  # noqa: E402
from kafkaesque.admin.api.context import Context  # noqa: E402
from kafkaesque.admin.api.openapi import write_document  # noqa: E402
from kafkaesque.admin.api.plots import PlotPages  # noqa: E402
from kafkaesque.admin.api.searching import SearchPages  # noqa: E402
from kafkaesque.admin.visitors import Visitors  # noqa: E402

HEAD = """\
<!-- Written by codegen/api_pages.py from src/kafkaesque/admin/api: never edit. -->

# The admin API

Every broker serves the API on its admin port, beside [metrics and health](metrics.md). Any broker
answers for the whole cluster:

```
$ curl -s http://127.0.0.1:8080/api/v1/topics/greetings/messages?limit=1
{"as_of":1795577966400,"seen_by":1,"sources":[{"broker":3,"as_of":1795577966399,"missing":null},...],
 "items":[{"partition":2,"offset":0,"timestamp":1795577960000,"key":{"kind":"null","text":"",
 "bytes":0,"is_cut":false,"schema":null,"undecoded":null},"value":{"kind":"text","text":"hello",
 "bytes":5,"is_cut":false,"schema":null,"undecoded":null},"headers":[]}],"positions":[...],
 "passed_over":[]}
```

The console ([console.md](console.md)) uses nothing else.

## What holds for all of it

- **Where facts come from.** A broker answers from its own copy of the metadata. What only another
  broker knows (sizes, groups, connections) it asks for over the brokers' own links. `sources` has
  a row for each broker that was asked: `as_of` says when its part was true, and `missing` why there
  is none. A broker that is down is not waited for, one that hangs for 2 s.
- **Lists** take `q` (a part of a name), `sort` (a field, `-field` for the highest first), `limit`
  and `after`, which is `next` of the page before.
- **ETag.** It says what an answer holds, whenever and by whom. `If-None-Match` is answered with
  304. `If-Match` on a change of options refuses it with 412 if somebody else has changed them.
- **Changes** take `dry_run=true`, which says what would be done. They need the header
  `x-kafkaesque-request` with any value, and `Content-Type: application/json`. A change has 10 s;
  504 says that it may be done all the same.
- **What hangs.** `is_hanging` is true only where the coordinators of all partitions of the
  transaction log have said, and a majority of replicas has confirmed, that they do not know of the
  transaction; null where one of them is missing. An abort asks them anew, and does nothing if the
  producer has written there since.
- **Errors** are `application/problem+json`: a status, the kind of the error, one sentence.
- **Bounds.** A body has at most 1 MiB, a list 1,000 items a page, a page of messages 500. One
  broker runs 4 searches and serves 40 live streams at a time; more are answered with 429.
- **Web pages of others are kept out.** The `Host` header must be an IP address, `localhost`, or the
  name that the admin listener is advertised with: a reverse proxy passes that on. An `Origin` other
  than the host's own is refused, and so is what a browser says comes from another site. There is no
  CORS.

## Decoded keys and values

Keys and values of a topic's and of a queue's messages are decoded before they are shown. What was
written with a schema of the [registry](schema-registry.md) names it:

```
$ curl -s 'http://127.0.0.1:8080/api/v1/topics/orders/messages?limit=1'
..."value":{"kind":"avro",
 "text":"{\\"id\\":7,\\"price\\":\\"12.50\\",\\"at\\":\\"2026-11-28T09:00:00.000Z\\"}",
 "bytes":15,"is_cut":false,
 "schema":{"id":1,"type":"AVRO","subject":"orders-value","version":1},"undecoded":null}...
```

`key_format` and `value_format` say how; `auto` is what they seem to be. `show` is for headers, and
for what these two leave out. If something cannot be decoded it is shown as JSON, text or hex, and
`undecoded` says why:

```
$ curl -s 'http://127.0.0.1:8080/api/v1/topics/orders/messages?limit=1&value_format=protobuf'
..."value":{"kind":"hex","text":"00000000010e0404e280fa8f96c468","bytes":15,"is_cut":false,
 "schema":null,"undecoded":"its schema 1 is AVRO"}...
```

| format | what is decoded, and how it is shown |
|---|---|
| `avro` | A zero, the schema's id in four bytes, and Avro's binary encoding. A union is the \
value itself, bytes are base64. Decimals, dates, times and UUIDs are texts. |
| `protobuf` | A zero, the id, the numbers of the message, and the message; references are \
followed. The canonical JSON of Protocol Buffers, with the fields' own names: integers of 64 bits \
are texts, bytes base64. |
| `json` | JSON as it was written, after a zero and the id or alone. It is not compared with \
its schema. |
| `msgpack` | MessagePack. `auto` takes it for that only if it is a map with a readable name. \
Bytes are base64, timestamps texts. |
| `text`, `hex` | What was written. |

- Serializers may put the id into the header `__key_schema_id` or `__value_schema_id` instead. The
  registry gives no GUIDs, so a header with a GUID says nothing.
- A search looks with `json_path` into JSON as it was written. With `"decoded":true` in its `filter`
  it decodes values first, by their schemas, too. What cannot fit is not decoded in either case: one
  core looks through 2 million JSON values of 200 bytes a second, or 0.7 million in Avro.
- A batch that cannot be read, or that decompresses to more than 64 MiB, does not end a search or a
  page: `passed_over` says which offsets it has, and why. A search ends with its 100th such range,
  and can go on from there.
- Decoding needs what showing needs, Read on the topic or the queue. A schema counts as unknown
  unless the client may also Describe one of its subjects, as at the registry itself.
- Bounds: 1 MiB a value, which becomes at most 2 MiB of JSON, 64 levels deep; 8 MiB of JSON and 100
  schemas, of up to 2 MiB together with what they refer to, for each partition of a page. Beyond
  them `undecoded` says so. A page waits one second for the registry, and then goes on with the
  schemas that the broker knows.

[admin-api.json](admin-api.json) is the OpenAPI 3.1 document; a broker serves it at
`/api/v1/openapi.json`.

## Operations
"""


def make_document() -> tuple[list[Route], dict[str, Any]]:
    """Returns all routes and the document that is made of them."""
    # Nothing is asked of a broker before a request comes.
    doors = SimpleNamespace(clock=None)
    context = cast("Context", SimpleNamespace(now=lambda: 0, doors=doors))
    routes = make_routes(context, PlotPages(context), SearchPages(context), cast("Visitors", None))
    return routes, write_document(routes, "1")


def document_source() -> str:
    """Returns the OpenAPI document."""
    return json.dumps(make_document()[1], indent=1, ensure_ascii=False) + "\n"


def page_source() -> str:
    """Returns the page for people."""
    routes, document = make_document()
    lines = [HEAD.rstrip("\n"), "", "| operation | what it does | query | body | answer | needs |"]
    lines.append("|---|---|---|---|---|---|")
    for route in routes:
        operation = document["paths"][f"/api/v1{route.path}"][route.method.lower()]
        query = ", ".join(f"`{e['name']}`" for e in operation["parameters"] if e["in"] == "query")
        body = f"`{route.body.__name__}`" if route.body is not None else ""
        result = route.result or route.item
        answer = f"`{result.__name__}`" if result is not None else ""
        if route.result is None:
            answer += f", as `{route.content_type}`"
        cells = [f"`{route.method} {route.path}`", route.summary, query, body, answer]
        lines.append(f"| {' | '.join([*cells, needs_of(route.name)])} |")
    lines += ["", "## Types", "", "Times are Unix times in milliseconds, sizes are bytes."]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", f"**`{name}`**: {schema.get('description', '').strip()}", ""]
        required = set(schema.get("required", ()))
        for field, kind in schema["properties"].items():
            optional = "" if field in required else ", may be left out"
            lines.append(f"- `{field}`: `{type_of(kind)}`{optional}")
    return "\n".join(lines) + "\n"


def needs_of(name: str) -> str:
    """Returns what an operation needs, in words."""
    row = ROWS[name]
    if row.is_for_strangers:
        return "nothing"
    if row.operation is None:
        return "nothing: shows what may be seen"
    kind = row.resource_type.name.lower().replace("_", " ")
    words = f"{row.operation.name.title().replace('_', '')} on the {kind}"
    return f"{words}, or on the cluster" if row.or_cluster else words


def types_source() -> str:
    """Returns the types for the console."""
    _, document = make_document()
    lines = [
        "// Written by codegen/api_pages.py from src/kafkaesque/admin/api: never edit.",
        "",
    ]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines.append(f"/** {schema.get('description', '').strip()} */")
        lines.append(f"export interface {name} {{")
        required = set(schema.get("required", ()))
        for field, kind in schema["properties"].items():
            # Whatever has a default may be left out of a request; in an answer it stands.
            is_input = schema.get("additionalProperties") is False or name == "SearchLine"
            mark = "" if field in required or not is_input else "?"
            lines.append(f"  {field}{mark}: {type_of(kind)};")
        lines += ["}", ""]
    return "\n".join(lines)


def type_of(schema: dict[str, Any]) -> str:
    """Returns a schema as a type in TypeScript."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    match schema.get("type"):
        case "array":
            inner = type_of(schema["items"]) if "items" in schema else "unknown"
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"Record<string, {type_of(schema['additionalProperties'])}>"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as plain:
            return str(plain)
    return "unknown"


#: Each file with what is to stand in it.
FILES = {DOCUMENT: document_source, PAGE: page_source, TYPES: types_source}
