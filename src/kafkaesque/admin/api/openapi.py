"""The OpenAPI 3.1 document of the API, made of its routes and of the types that they name."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.values import Problem
from kafkaesque.admin.hosts import CHANGE_HEADER

_REFERENCE: Final = "#/components/schemas/{name}"
_ABOUT: Final = (
    "What a Kafkaesque cluster is and does. Any broker answers for all of them; `sources` says of "
    "each broker how old its part is, or why it is missing. Requests that change something bring "
    f"the header {CHANGE_HEADER}, with any value."
)


def write_document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the document, as JSON has it."""
    kinds = [Problem, *_types_of(routes)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(f"/api/v1{route.path}", {})[route.method.lower()] = _operation(
            route, by_kind, components
        )
    # Those of queries stand with their operations, field by field.
    queries = {route.query.__name__ for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafkaesque", "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries}
        },
    }


def _types_of(routes: Sequence[Route]) -> list[type[msgspec.Struct]]:
    found: dict[type[msgspec.Struct], None] = {}
    for route in routes:
        for kind in (route.query, route.body, route.result, route.item):
            if kind is not None:
                found[kind] = None
    return list(found)


def _operation(route: Route, by_kind: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    query = components[route.query.__name__]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in query["properties"].items()
    ]
    if route.changes:
        parameters.append(
            {"name": CHANGE_HEADER, "in": "header", "required": True, "schema": {"type": "string"}}
        )
    kind = route.result or route.item
    content = {} if kind is None else {route.content_type: {"schema": by_kind[kind]}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(route.status): {"description": "Done.", "content": content},
            "default": {
                "description": "Why not.",
                "content": {"application/problem+json": {"schema": by_kind[Problem]}},
            },
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_kind[route.body]}},
        }
    return operation
