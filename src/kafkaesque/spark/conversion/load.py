"""Reads a repository of conversion rules, and says of each mistake where it is and what is allowed.

A repository is a directory with `canonical/`, `producers/` and `consumers/`, in each of them a TOML
file for each form, and `lookups/` with tables as CSV.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kafkaesque.spark.conversion.load_fields import FieldLoader
from kafkaesque.spark.conversion.load_forms import load_form
from kafkaesque.spark.conversion.mistakes import Mistakes, Place
from kafkaesque.spark.conversion.rules import Canonical, Form, Rule, Rules
from kafkaesque.spark.conversion.types import WrongType, paths_of, read_struct, type_at

_CANONICAL, _PRODUCERS, _CONSUMERS = "canonical", "producers", "consumers"
_CANONICAL_KEYS = ("name", "version", "topic", "key", "required", "fields")
_PRODUCER_KEYS = ("name", "version", "canonical", "topics", "form", "fields")
_CONSUMER_KEYS = ("name", "version", "canonical", "topic", "key", "form", "fields")
_VERSION_MAX = 1_000_000
FILES_MAX = 1000


def load_rules(
    folder: Path, *, salt: str = "", topic_prefix: str = "", session_time_zone: str = "UTC"
) -> Rules:
    """Return the rules of a repository; of several versions of a name the latest.

    `salt` is what masks of the kind hash are made with, `topic_prefix` stands before every topic.

    Raises:
        WrongRules: one sentence for each mistake, with file, field and what is allowed.
    """
    mistakes = Mistakes()
    if session_time_zone != "UTC":
        Place(mistakes, "spark.sql.session.timeZone").wrong(
            f"it must be UTC, not {session_time_zone}, as times without a zone are UTC in rules"
        )
    rules = _Loader(folder, mistakes, salt, topic_prefix).load()
    mistakes.raise_if_any()
    return rules


class _Loader:
    def __init__(self, folder: Path, mistakes: Mistakes, salt: str, prefix: str) -> None:
        self._folder = folder
        self._mistakes = mistakes
        self._salt = salt
        self._prefix = prefix
        self._canonical: dict[str, Canonical] = {}
        self._fields = FieldLoader(folder / "lookups", has_salt=bool(salt))

    def load(self) -> Rules:
        """Return all rules, with the mistakes noted."""
        forms = self._files(_CANONICAL)
        for place, table in forms:
            found = self._load_canonical(place, table)
            if found is not None:
                self._add(self._canonical, found.title, found, place)
        producers = self._rules(_PRODUCERS, _PRODUCER_KEYS)
        consumers = self._rules(_CONSUMERS, _CONSUMER_KEYS)
        if not self._mistakes.found and not producers and not consumers:
            Place(self._mistakes, str(self._folder)).wrong(
                f"there are no rules: each is a .toml file in {_PRODUCERS}/ or {_CONSUMERS}/"
            )
        return Rules(
            canonical=tuple(self._canonical.values()),
            producers=tuple(producers),
            consumers=tuple(consumers),
            salt=self._salt.encode(),
        )

    def _files(self, kind: str) -> list[tuple[Place, dict[str, Any]]]:
        found = []
        paths = sorted((self._folder / kind).glob("*.toml"))
        for path in paths[:FILES_MAX]:
            place = Place(self._mistakes, f"{kind}/{path.name}")
            try:
                found.append((place, tomllib.loads(path.read_text("utf-8"))))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                place.wrong(f"it is not TOML: {error}")
            except OSError as error:
                place.wrong(f"it cannot be read: {(error.strerror or '').lower()}")
        if len(paths) > FILES_MAX:
            Place(self._mistakes, kind).wrong(f"it has {len(paths)} files, more than {FILES_MAX}")
        return found

    def _rules(self, kind: str, keys: Iterable[str]) -> list[Rule]:
        versions: dict[str, Rule] = {}
        for place, table in self._files(kind):
            rule = self._load_rule(place, table, keys, is_producer=kind == _PRODUCERS)
            if rule is not None:
                self._add(versions, rule.title, rule, place)
        latest: dict[str, Rule] = {}
        for rule in versions.values():
            if rule.name not in latest or latest[rule.name].version < rule.version:
                latest[rule.name] = rule
        return list(latest.values())

    def _add(self, known: dict[str, Any], title: str, found: Any, place: Place) -> None:
        if title in known:
            place.wrong(f"{title} is there twice: give one of them another version or name")
        known[title] = found

    def _load_canonical(self, place: Place, table: Mapping[str, Any]) -> Canonical | None:
        place.only(table, _CANONICAL_KEYS, "key")
        name, version = self._name(place, table)
        topic = place.text(table, "topic", needed=True)
        key = place.text(table, "key")
        try:
            schema = read_struct(place.table(table, "fields"))
        except WrongType as error:
            place.at("fields").wrong(str(error))
            return None
        required = table.get("required", [])
        if not isinstance(required, list):
            place.wrong(f"required is a list of fields, not {required!r}")
            required = []
        for path in [*required, *([key] if key else [])]:
            if path not in paths_of(schema):
                place.wrong(f"there is no field {path!r} among {', '.join(paths_of(schema))}")
        if topic is None or version is None:
            return None
        return Canonical(
            name=name,
            version=version,
            topic=self._prefix + topic,
            schema=schema,
            required=tuple(map(str, required)),
            key=key,
        )

    def _name(self, place: Place, table: Mapping[str, Any]) -> tuple[str, int | None]:
        stem = Path(place.file).stem.partition("@")[0]
        name = place.text(table, "name") or stem
        return name, place.number(table, "version", 1, _VERSION_MAX)

    def _load_rule(
        self, place: Place, table: Mapping[str, Any], keys: Iterable[str], *, is_producer: bool
    ) -> Rule | None:
        place.only(table, keys, "key")
        name, version = self._name(place, table)
        canonical = self._canonical_of(place, table)
        topics = self._topics(place, table, is_producer)
        folder = (self._folder / place.file).parent
        form = load_form(place.table(table, "form"), place, folder, written=not is_producer)
        fields = place.table(table, "fields")
        if canonical is None or form is None or version is None or not topics:
            return None
        if canonical.topic in topics:
            place.wrong(f"it reads and writes the topic {canonical.topic}")
        source, target = (
            (form.schema, canonical.schema) if is_producer else (canonical.schema, form.schema)
        )
        rules = self._fields.load(place, fields, source, target)
        made = [rule.target for rule in rules]
        needed = canonical.required if is_producer else _needed_by(form)
        for path in needed:
            # A line with a mistake makes it, once that is put right.
            if path not in made and not place.at(path).has_mistake:
                place.at(path).wrong("it is needed, and no line under [fields] makes it")
        return Rule(
            name=name,
            version=version,
            canonical=canonical,
            topics=topics,
            form=form,
            fields=rules,
            key=None if is_producer else self._key(place, table, canonical),
        )

    def _canonical_of(self, place: Place, table: Mapping[str, Any]) -> Canonical | None:
        title = place.text(table, "canonical", needed=True)
        if title is None or title in self._canonical:
            return self._canonical.get(title or "")
        known = ", ".join(self._canonical) or "none"
        place.wrong(f"there is no canonical form {title!r} (name@version); there are {known}")
        return None

    def _topics(self, place: Place, table: Mapping[str, Any], is_producer: bool) -> tuple[str, ...]:
        if not is_producer:
            topic = place.text(table, "topic", needed=True)
            return () if topic is None else (self._prefix + topic,)
        topics = table.get("topics")
        if isinstance(topics, list) and topics and all(isinstance(each, str) for each in topics):
            return tuple(self._prefix + topic for topic in topics)
        place.wrong(f"topics is a list of names of topics, not {topics!r}")
        return ()

    def _key(self, place: Place, table: Mapping[str, Any], canonical: Canonical) -> str | None:
        key = place.text(table, "key")
        if key is not None and type_at(canonical.schema, key) is None:
            paths = ", ".join(paths_of(canonical.schema))
            place.wrong(f"key: {canonical.title} has no field {key!r}; it has {paths}")
        return key


def _needed_by(form: Form) -> list[str]:
    """Return the fields that every record of an Avro schema has to have: those without null."""
    if form.kind != "avro":
        return []
    import json

    return [
        path
        for each in json.loads(form.avro_schema)["fields"]
        if not _takes_null(each["type"])
        for path in (paths_of(_struct_of(form.schema, each["name"])))
    ]


def _takes_null(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _struct_of(schema: Any, name: str) -> Any:
    """Return a structure with one of the fields alone."""
    return type(schema)([schema[name]])
