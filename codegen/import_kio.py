"""Writes `codegen/kafka_schema/*.json` from the dataclasses of the development package `kio`.

Run by hand when the protocol gains versions; everything else reads the JSON that it leaves behind.
Usage: `python codegen/import_kio.py [DIRECTORY]`.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import json
import sys
import types
import typing
import uuid
from pathlib import Path

from kio.index import EntityType
from kio.schema.errors import ErrorCode
from kio.schema.index import LoadableEntityType, api_key_map, schema_name_map

#: What the broker, its tests and its simulated clients speak.
MESSAGES = """
api_versions metadata describe_topic_partitions describe_cluster produce fetch list_offsets
offset_for_leader_epoch find_coordinator join_group sync_group heartbeat leave_group offset_commit
offset_fetch offset_delete list_groups describe_groups delete_groups init_producer_id create_topics
delete_topics create_partitions delete_records describe_configs incremental_alter_configs
alter_configs describe_log_dirs elect_leaders add_partitions_to_txn add_offsets_to_txn end_txn
txn_offset_commit write_txn_markers describe_transactions list_transactions describe_producers
consumer_group_heartbeat consumer_group_describe describe_client_quotas alter_client_quotas
alter_partition_reassignments list_partition_reassignments sasl_handshake sasl_authenticate
unregister_broker update_features describe_quorum add_raft_voter remove_raft_voter
list_config_resources alter_replica_log_dirs describe_acls create_acls delete_acls
describe_user_scram_credentials alter_user_scram_credentials
create_delegation_token renew_delegation_token expire_delegation_token describe_delegation_token
share_group_heartbeat share_fetch share_acknowledge share_group_describe
describe_share_group_offsets alter_share_group_offsets delete_share_group_offsets
consumer_protocol_subscription consumer_protocol_assignment
"""

#: What Kafka has no codes for: name, code, whether a client may send the same request again.
OWN_ERRORS = [
    ["UNKNOWN_QUEUE", 20000, False],
    ["QUEUE_ALREADY_EXISTS", 20001, False],
    ["QUEUE_IN_USE", 20002, False],
    ["UNKNOWN_CONSUMER", 20003, True],
    ["QUEUE_AUTHORIZATION_FAILED", 20004, False],
    ["UNKNOWN_VHOST", 20005, False],
    ["UNKNOWN_EXCHANGE", 20006, False],
    ["EXCHANGE_ALREADY_EXISTS", 20007, False],
    ["EXCHANGE_IN_USE", 20008, False],
    ["EXCHANGE_RESERVED", 20009, False],
    ["EXCHANGE_AUTHORIZATION_FAILED", 20010, False],
    ["VHOST_AUTHORIZATION_FAILED", 20011, False],
]

KINDS: tuple[LoadableEntityType, ...] = (EntityType.request, EntityType.response, EntityType.data)

#: kio parses these into Python's own types; on the wire they are plain integers.
WIRE_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}

#: Names whose underscores kio puts elsewhere than a reader would.
RENAMED = {"enable2_pc": "enable_2pc"}

Json = typing.Any


class MergedField:
    """One field of one struct, with what was seen of it in each version."""

    def __init__(self, name: str, wire_type: str) -> None:
        self.name = name
        self.wire_type = wire_type
        self.versions: list[int] = []
        self.nullable: list[int] = []
        self.tagged: list[int] = []
        self.tag: int | None = None
        self.default: Json = None
        self.has_default = False


Structs = dict[str, list[MergedField]]


def inner_type(annotation: object) -> tuple[object, bool, bool]:
    """Returns (element type, is an array, may be null)."""
    nullable = False
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        arguments = typing.get_args(annotation)
        nullable = type(None) in arguments
        (annotation,) = (a for a in arguments if a is not type(None))
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0], True, nullable
    return annotation, False, nullable


def wire_name(name: str, kafka_type: str) -> str:
    """Gives durations and instants their unit back, which kio expresses by the type."""
    name = RENAMED.get(name, name)
    if kafka_type.startswith("timedelta") or (
        kafka_type == "datetime_i64" and not name.endswith("timestamp")
    ):
        return f"{name}_ms"
    return name


def plain_default(value: object) -> Json:
    """Returns the default as JSON; `"{}"` stands for a struct of defaults."""
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, uuid.UUID):
        raise TypeError("no uuid field has a default other than zero")
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("ascii")
    if dataclasses.is_dataclass(value):
        return "{}"
    if isinstance(value, bool | str | float):
        return value
    return int(typing.cast(int, value))


def merge_field(merged: MergedField, field: Json, version: int, nullable: bool, kind: str) -> None:
    """Adds what one version says of a field."""
    merged.versions.append(version)
    if "tag" in field.metadata:
        merged.tagged.append(version)
        if merged.tag not in (None, field.metadata["tag"]):
            raise ValueError(f"{merged.name}: tag differs between versions")
        merged.tag = int(field.metadata["tag"])
    if nullable and kind not in ("uuid", "datetime_i64"):
        merged.nullable.append(version)
    if field.default is dataclasses.MISSING:
        return
    if field.default is None:
        # kio's None for a time is -1 on the wire, and for a uuid it is all zeros.
        default = {"datetime_i64": -1, "uuid": 0}.get(kind)
    else:
        default = plain_default(field.default)
    if merged.has_default and merged.default != default:
        raise ValueError(f"{merged.name}: default differs between versions")
    merged.default, merged.has_default = default, True


def merge_struct(structs: Structs, entity: type, version: int) -> None:
    """Adds one version of a struct, and of the structs in it, to `structs`."""
    fields = structs.setdefault(entity.__name__, [])
    known = {field.name: field for field in fields}
    if any(field.versions[-1] == version for field in fields):
        return
    place = 0
    for field in dataclasses.fields(entity):
        element, is_array, nullable = inner_type(field.type)
        kind = field.metadata.get("kafka_type", "struct")
        if isinstance(element, type) and dataclasses.is_dataclass(element):
            wire_type = element.__name__
            merge_struct(structs, element, version)
        else:
            wire_type = WIRE_TYPES.get(kind, kind)
        wire_type = f"[]{wire_type}" if is_array else wire_type
        name = wire_name(field.name, kind)
        merged = known.get(name)
        if merged is None:
            merged = known[name] = MergedField(name, wire_type)
            fields.insert(place, merged)
        if merged.wire_type != wire_type:
            raise ValueError(f"{entity.__name__}.{name}: type differs between versions")
        place = fields.index(merged) + 1
        merge_field(merged, field, version, nullable, kind)


def span(versions: list[int]) -> list[int]:
    """Returns [first, last] of versions that have no gap."""
    if versions != list(range(versions[0], versions[-1] + 1)):
        raise ValueError(f"versions {versions} have a gap")
    return [versions[0], versions[-1]]


def field_json(field: MergedField, all_versions: list[int]) -> Json:
    """Returns the compact form of a field; what is as usual is left out."""
    form: Json = {"name": field.name, "type": field.wire_type}
    if span(field.versions) != all_versions:
        form["versions"] = span(field.versions)
    if field.nullable:
        form["nullable"] = span(field.nullable)
    if field.tagged:
        if field.tagged != field.versions:
            raise ValueError(f"{field.name} is tagged in some of its versions only")
        form["tag"] = field.tag
    if field.has_default and (field.nullable or field.default not in ("{}", [], 0, "", False)):
        form["default"] = field.default
    return form


def message_json(name: str, kind: LoadableEntityType, key: int | None) -> Json | None:
    """Returns the compact form of one message with all its versions, or None if there is none."""
    versions = [v for v, paths in sorted(schema_name_map[name].items()) if kind in paths]
    if not versions:
        return None
    structs: Structs = {}
    flexible: int | None = None
    top = ""
    for version in versions:
        module, _, attribute = schema_name_map[name][version][kind].partition(":")
        entity = getattr(importlib.import_module(module), attribute)
        top = entity.__name__
        if entity.__flexible__ and flexible is None:
            flexible = version
        merge_struct(structs, entity, version)
    form: Json = {"name": top, "kind": kind.name, "versions": span(versions)}
    if key is not None:
        form["api_key"] = key
    if flexible is not None:
        form["flexible_from"] = flexible
    form["structs"] = {
        struct: [
            field_json(field, span(versions) if struct == top else struct_versions(fields))
            for field in fields
        ]
        for struct, fields in structs.items()
    }
    return form


def struct_versions(fields: list[MergedField]) -> list[int]:
    """Returns [first, last] version in which a struct appears at all."""
    seen = [version for field in fields for version in field.versions]
    return [min(seen), max(seen)] if seen else []


def dump(form: Json) -> str:
    """Returns JSON with one field a line, so that a change of one field is a change of one line."""
    head = {key: value for key, value in form.items() if key != "structs"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    structs = []
    for name, fields in form["structs"].items():
        rows = ",\n".join(f"      {json.dumps(field)}" for field in fields)
        structs.append(f"    {json.dumps(name)}: [\n{rows}\n    ]" if rows else f'    "{name}": []')
    return "\n".join(["{", *lines, '  "structs": {', ",\n".join(structs), "  }", "}"]) + "\n"


def error_codes_json() -> str:
    """Returns every error code as [name, number, whether a client may try again]."""
    rows = [[code.name.upper(), int(code), code.retriable] for code in ErrorCode]
    rows += OWN_ERRORS
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"


def main(directory: Path) -> None:
    """Writes one file for each message and one for the error codes."""
    directory.mkdir(parents=True, exist_ok=True)
    keys = {name: key for key, name in api_key_map.items()}
    for name in MESSAGES.split():
        for kind in KINDS:
            form = message_json(name, kind, keys.get(name))
            if form is not None:
                file = name if kind is EntityType.data else f"{name}_{kind.name}"
                (directory / f"{file}.json").write_text(dump(form))
    (directory / "error_codes.json").write_text(error_codes_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "kafka_schema")
