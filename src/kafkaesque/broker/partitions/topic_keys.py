"""The topics' keys on this broker: unwrapped off the loop, made where there is none yet.

Theory of operation. A topic's key is a record of the metadata, wrapped by the key keeper, with a
version. Each broker unwraps every version as soon as it hears of it, and keeps it in memory, so a
failover asks no keeper. Whoever leads a partition of an encrypted topic that has no key yet makes
the first version; of two that do so at the same time, the controller takes one. A new version
seals new batches; a removed one is forgotten here, and what it has sealed is unreadable then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkaesque.access.audit import AuditEvent, AuditKind, Outcome
from kafkaesque.access.errors import KeyUnknown, SealBroken
from kafkaesque.access.key_keeper import KeyKeeper
from kafkaesque.access.sealed import WrappedKey, topic_key_name, topic_of_key
from kafkaesque.access.sealing import KEY_BYTES
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.controller.client import ControllerClient, OnOutcome
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.life import Life
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.access_commands import PutKey, RemoveKey
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import InvalidRequest, RequestRefused, TopicKeyMissing
from kafkaesque.model.ids import TopicId

#: A key that cannot be made or unwrapped is tried again after this.
AGAIN_MS: Final = 5_000
#: The controller has so long for a change of keys.
CHANGE_MS_MAX: Final = 10_000

_Version = tuple[bytes, int]
_NO_VERSIONS: Final[Mapping[int, bytes]] = {}


def _nothing() -> None:
    """Nobody has asked to be told."""


class TopicKeys:
    """See the module. Without a keeper there are no keys here, and all that needs one says so."""

    def __init__(
        self,
        *,
        clock: Clock,
        dice: Dice,
        disk: Disk,
        metadata: MetadataView,
        controller: ControllerClient,
        keeper: KeyKeeper | None,
        life: Life,
        reports: Reports,
        audit: Audit,
    ) -> None:
        self._clock = clock
        self._dice = dice
        self._disk = disk
        self._metadata = metadata
        self._controller = controller
        self.keeper = keeper
        self._life = life
        self._reports = reports
        self._audit = audit
        #: Called when keys have come or gone.
        self.on_changed: Callable[[], None] = _nothing
        #: The wrapped keys that were looked at last.
        self._seen: object = None
        self._wrapped: dict[_Version, WrappedKey] = {}
        #: In the clear, by topic.
        self._versions: dict[bytes, dict[int, bytes]] = {}
        self._is_unwrapping = False
        #: Topics whose first key is being made, or could not be made a moment ago.
        self._making: set[bytes] = set()
        self._told: set[_Version] = set()

    # -- what partitions ask

    def versions(self, topic_id: bytes) -> Mapping[int, bytes]:
        """Return a topic's keys in the clear, by version, as far as this broker has them."""
        return self._versions.get(topic_id, _NO_VERSIONS)

    def is_known(self, topic_id: bytes) -> bool:
        """Tell whether a topic has keys, so that batches of it may be sealed."""
        return any(each == topic_id for each, _ in self._wrapped)

    def is_complete(self, topic_id: bytes) -> bool:
        """Tell whether all of a topic's keys are here."""
        here = self.versions(topic_id)
        return all(version in here for each, version in self._wrapped if each == topic_id)

    @property
    def missing_count(self) -> int:
        """Versions of all topics that are not here: being unwrapped, or not to be had."""
        return sum(version not in self.versions(topic_id) for topic_id, version in self._wrapped)

    def may_come(self, topic_id: bytes, version: int) -> bool:
        """Tell whether a version that is not here is not shredded for all that is known."""
        versions = [each for topic, each in self._wrapped if topic == topic_id]
        return version in versions or version > max(versions, default=0)

    def missing(self, topic_id: bytes, version: int) -> TopicKeyMissing:
        """Return why a version is not here; it is reported once."""
        why = "is being unwrapped" if self.keeper else "cannot be had: key.keeper.file is not set"
        refusal = TopicKeyMissing(
            f"version {version} of the key of topic {self._name(topic_id)} {why} on this broker"
        )
        self._tell((topic_id, version), str(refusal))
        return refusal

    # -- following the metadata

    def follow(self, access: AccessState) -> None:
        """Access has changed: take up what keys there are now."""
        keys = access.keys
        if keys is self._seen:
            return
        self._seen = keys
        wrapped = {
            (topic_id, key.version): key
            for key in keys.values()
            if (topic_id := topic_of_key(key.name)) is not None
        }
        is_changed = wrapped.keys() != self._wrapped.keys()
        self._wrapped = wrapped
        for topic_id, versions in list(self._versions.items()):
            for version in [each for each in versions if (topic_id, each) not in wrapped]:
                del versions[version]
            if not versions:
                del self._versions[topic_id]
        if is_changed:
            self.on_changed()
        self._unwrap()

    def _unwrap(self) -> None:
        keeper = self.keeper
        if keeper is None or self._is_unwrapping or self._life.is_stopping:
            return
        wanted = [
            key for (topic_id, version), key in self._wrapped.items()
            if version not in self.versions(topic_id)
        ]  # fmt: skip
        if not wanted:
            return
        self._is_unwrapping = True
        self._disk.run(lambda: _unwrap_all(keeper, wanted), self._on_unwrapped)

    def _on_unwrapped(self, result: object, error: Exception | None) -> None:
        self._is_unwrapping = False
        if self._life.is_stopping:
            return
        found = result if isinstance(result, list) else []
        has_failed = error is not None
        for key, outcome in found:
            topic_id = topic_of_key(key.name) or b""
            if isinstance(outcome, Secret):
                if (topic_id, key.version) in self._wrapped:
                    self._versions.setdefault(topic_id, {})[key.version] = outcome.reveal()
                    self._note_unwrapped(key, topic_id, Outcome.SUCCEEDED)
            else:
                has_failed = True
                self._note_unwrapped(key, topic_id, Outcome.FAILED)
                self._tell((topic_id, -key.version), f"{key!r} cannot be unwrapped: {outcome}")
        if found:
            self.on_changed()
        if has_failed:
            self._clock.call_later(AGAIN_MS, self._unwrap)
        else:
            self._unwrap()

    # -- making and removing keys

    def want(self, topic_id: bytes) -> None:
        """Make a topic's first key, if there is none and nobody is at it here."""
        if self.keeper is None or topic_id in self._making or self.is_known(topic_id):
            return
        if self._life.is_stopping:
            return
        self._making.add(topic_id)

        def on_done(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                # Another broker may have been first; else it is tried again.
                self._clock.call_later(AGAIN_MS, lambda: self._making.discard(topic_id))
            else:
                self._making.discard(topic_id)

        self._add(topic_id, 1, None, on_done)

    def rotate(self, topic_id: bytes, on_done: OnOutcome, client: OnBehalfOf | None) -> None:
        """Add a topic's next version, which seals what is produced from then on.

        Of the client the controller asks whether it may, as in `shred` and `rewrap`.
        """
        versions = [version for each, version in self._wrapped if each == topic_id]
        self._add(topic_id, max(versions, default=0) + 1, client, on_done)

    def shred(
        self,
        topic_id: bytes,
        version: int,
        on_done: OnOutcome,
        client: OnBehalfOf | None,
    ) -> None:
        """Remove a version: what it has sealed can never be read again."""
        name = topic_key_name(topic_id)
        command = RemoveKey(name=name, version=version, on_behalf_of=client)
        self._controller.submit(command, CHANGE_MS_MAX, on_done)

    def rewrap(
        self,
        on_done: Callable[[int | RequestRefused], None],
        client: OnBehalfOf | None,
    ) -> None:
        """Wrap all keys by the keeper's newest key; say how many were not."""
        keeper = self.keeper
        if keeper is None:
            on_done(_no_keeper())
            return
        keys = list(self._wrapped.values())

        def on_rewrapped(result: object, error: Exception | None) -> None:
            if not isinstance(result, list):
                on_done(InvalidRequest(f"the keys cannot be wrapped anew: {error}"))
                return
            changed = [each for each in result if each not in keys]
            self._put_all(
                [PutKey(key=each, is_rewrapped=True, on_behalf_of=client) for each in changed],
                0,
                on_done,
            )

        self._disk.run(lambda: [keeper.rewrap(key) for key in keys], on_rewrapped)

    def _put_all(
        self, commands: list[PutKey], count: int, on_done: Callable[[int | RequestRefused], None]
    ) -> None:
        if not commands:
            on_done(count)
            return

        def on_put(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
            else:
                self._put_all(commands[1:], count + 1, on_done)

        self._controller.submit(commands[0], CHANGE_MS_MAX, on_put)

    def wrapped_of(self, topic_id: bytes) -> Iterable[WrappedKey]:
        """Return a topic's keys as they are in the metadata."""
        return [key for (each, _), key in sorted(self._wrapped.items()) if each == topic_id]

    def _add(
        self, topic_id: bytes, version: int, client: OnBehalfOf | None, on_done: OnOutcome
    ) -> None:
        keeper = self.keeper
        if keeper is None:
            on_done(_no_keeper())
            return
        name, key = topic_key_name(topic_id), Secret(self._dice.unique_bytes(KEY_BYTES))

        def on_wrapped(wrapped: object, error: Exception | None) -> None:
            if isinstance(wrapped, WrappedKey):
                command = PutKey(key=wrapped, on_behalf_of=client)
                self._controller.submit(command, CHANGE_MS_MAX, on_done)
            else:
                on_done(InvalidRequest(f"the key keeper does not wrap a key: {error}"))

        self._disk.run(lambda: keeper.wrap(name, version, key), on_wrapped)

    # -- telling

    def _note_unwrapped(self, key: WrappedKey, topic_id: bytes, outcome: Outcome) -> None:
        if outcome is Outcome.FAILED and (topic_id, -key.version) in self._told:
            return  # It is tried again and again.
        self._audit.note(
            AuditEvent(
                at_ms=0,
                kind=AuditKind.KEY,
                operation="unwrap",
                resource_type="key",
                resource=self._name(topic_id),
                outcome=outcome,
                detail={"version": str(key.version), "keeper key": key.keeper_key},
            )
        )

    def _name(self, topic_id: bytes) -> str:
        owner = self._metadata.state.owner(TopicId(topic_id))
        if isinstance(owner, QueueState):
            return str(owner.queue)
        return topic_id.hex() if owner is None else owner.name

    def _tell(self, what: _Version, sentence: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._reports.error(sentence)


def _no_keeper() -> InvalidRequest:
    return InvalidRequest("this broker has no key keeper: set key.keeper.file")


def _unwrap_all(
    keeper: KeyKeeper, wanted: list[WrappedKey]
) -> list[tuple[WrappedKey, Secret | Exception]]:
    found: list[tuple[WrappedKey, Secret | Exception]] = []
    for key in wanted:
        try:
            found.append((key, keeper.unwrap(key)))
        except (KeyUnknown, SealBroken, OSError) as error:
            found.append((key, error))
    return found
