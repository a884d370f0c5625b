"""What streams and consumers are asked to be, as JetStream's requests have it.

They are kept as the clients' own JSON, as an option of the topic (`nats.stream`) or of the queue
(`nats.consumer`). What clients left out has nats-server's default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.filter_sets import overlapping
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.protocols.nats.subjects import is_subject
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS

NS_PER_MS: Final = 1_000_000
DUPLICATE_WINDOW_NS: Final = 120 * 1000 * NS_PER_MS
ACK_WAIT_NS: Final = 30 * 1000 * NS_PER_MS
ACK_PENDING_MAX: Final = 1_000
#: Pulls that wait at one consumer, of each broker.
WAITING_MAX: Final = 512
#: A consumer that nobody has named is deleted when nobody has asked for so long.
INACTIVE_NS: Final = 5 * 1000 * NS_PER_MS
SUBJECTS_MAX: Final = 1_000
#: Whose requests are answered at which subjects, and what of these nobody is answered at.
_ANSWERED: Final = (
    ("jetstream", "$JS.>", "$JS.EVENT."),
    ("system", "$SYS.>", "$SYS.ACCOUNT."),
)
#: Streams' and consumers' names: part of a subject, of a topic's and of a queue's name.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")

ConfigT = TypeVar("ConfigT", bound=msgspec.Struct)


class StreamConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A stream; -1 and 0 stand for no limit."""

    name: str = ""
    description: str | None = None
    subjects: list[str] | None = None
    retention: str = "limits"
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    discard: str = "old"
    discard_new_per_subject: bool = False
    storage: str = "file"
    num_replicas: int = 1
    no_ack: bool = False
    duplicate_window: int = DUPLICATE_WINDOW_NS
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    allow_direct: bool = False
    mirror_direct: bool = False
    compression: str = "none"
    metadata: dict[str, str] | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    #: What is not built: refused, if it is asked for.
    republish: object = None
    subject_transform: object = None

    @property
    def filters(self) -> list[str]:
        """The subjects that go to it: without any, its name, unless it has messages from others."""
        if self.subjects or self.has_origins:
            return self.subjects or []
        return [self.name]

    @property
    def has_origins(self) -> bool:
        """Whether it mirrors another stream, or gathers from several."""
        return self.mirror is not None or bool(self.sources)


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer."""

    name: str | None = None
    durable_name: str | None = None
    description: str | None = None
    deliver_policy: str = "all"
    opt_start_seq: int | None = None
    opt_start_time: str | None = None
    ack_policy: str = "none"
    ack_wait: int | None = None
    max_deliver: int | None = None
    backoff: list[int] | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    replay_policy: str = "instant"
    sample_freq: str | None = None
    rate_limit_bps: int | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    flow_control: bool | None = None
    idle_heartbeat: int | None = None
    headers_only: bool | None = None
    max_batch: int | None = None
    max_expires: int | None = None
    max_bytes: int | None = None
    inactive_threshold: int | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    #: Until when it gives out nothing.
    pause_until: str | None = None
    num_replicas: int = 0
    mem_storage: bool | None = None
    metadata: dict[str, str] | None = None

    @property
    def filters(self) -> list[str]:
        """The subjects that it wants; none: all of the stream."""
        if self.filter_subjects:
            return self.filter_subjects
        return [self.filter_subject] if self.filter_subject else []

    @property
    def ack_wait_ms(self) -> int:
        """For how long a message is its receiver's, the first time."""
        return self.lock_ms(1)

    def lock_ms(self, attempt: int) -> int:
        """For how long a message is its receiver's, by how often it was given out, from 1 on."""
        wait_ns = self.ack_wait or ACK_WAIT_NS
        if self.backoff:
            wait_ns = self.backoff[min(attempt, len(self.backoff)) - 1]
        return max(1, wait_ns // NS_PER_MS)

    @property
    def ack_pending_max(self) -> int:
        """Messages that may be out; 0: any number."""
        if self.max_ack_pending is None or self.max_ack_pending == 0:
            return ACK_PENDING_MAX
        return max(self.max_ack_pending, 0)

    @property
    def waiting_max(self) -> int:
        """Pulls that may wait at one broker."""
        return self.max_waiting if self.max_waiting and self.max_waiting > 0 else WAITING_MAX


class CreateConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request to create or change a consumer."""

    stream_name: str = ""
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    action: str = ""


def read_config(raw: bytes, kind: type[ConfigT]) -> ConfigT:
    """Return what a request's body says; nulls are as good as nothing.

    Raises:
        ApiError: it is no JSON, or something in it has a wrong type.
    """
    try:
        found = msgspec.json.decode(raw or b"{}", type=dict[str, object])
        return msgspec.convert(_cleaned(found), kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(ApiCode.INVALID_JSON, f"invalid JSON: {error}") from None


def _cleaned(value: object) -> object:
    """Return a value without nulls.

    Raises:
        ValidationError: a number has more than 64 bits, which would not fit into a request.
    """
    if isinstance(value, dict):
        return {name: _cleaned(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise msgspec.ValidationError("a number has more than 64 bits")
    return value


def write_config(config: StreamConfig | ConsumerConfig) -> str:
    """Return what is kept of a configuration, so that equal ones are equal texts."""
    found = msgspec.to_builtins(config)
    kept = {name: value for name, value in sorted(found.items()) if value is not None}
    return msgspec.json.encode(kept).decode()


def shown_config(config: StreamConfig | ConsumerConfig) -> dict[str, object]:
    """Return a configuration as clients are shown it."""
    found: dict[str, object] = msgspec.to_builtins(config)
    return {name: value for name, value in found.items() if value is not None}


def is_name(text: str) -> bool:
    """Tell whether a stream or a consumer may be called so."""
    return _NAME.fullmatch(text) is not None


def check_stream(config: StreamConfig) -> None:
    """Check a stream's configuration.

    Raises:
        ApiError: it is not supported, or says nothing that could be done.
    """
    if not is_name(config.name):
        raise ApiError(
            ApiCode.STREAM_NAME,
            "stream names have letters, digits, - and _, at most 100 of them",
        )
    for name in ("republish", "subject_transform"):
        if getattr(config, name):
            raise ApiError(ApiCode.STREAM_CONFIG, f"{name} is not supported by this server")
    check_one_of("retention", config.retention, ("limits", "interest", "workqueue"))
    check_one_of("discard", config.discard, ("old", "new"))
    check_one_of("storage", config.storage, ("file", "memory"))
    check_one_of("compression", config.compression, ("none", "s2"))
    if config.max_age < 0 or config.duplicate_window < 0:
        raise ApiError(ApiCode.STREAM_CONFIG, "max_age and duplicate_window are not below 0")
    window = config.duplicate_window
    if window != DUPLICATE_WINDOW_NS and 0 < config.max_age < window:
        raise ApiError(ApiCode.STREAM_CONFIG, "duplicate_window is longer than max_age")
    if len(config.filters) > SUBJECTS_MAX:
        raise ApiError(ApiCode.STREAM_CONFIG, f"a stream has at most {SUBJECTS_MAX} subjects")
    for subject in config.filters:
        if not is_filter(subject):
            raise ApiError(ApiCode.STREAM_CONFIG, f"{subject!r} is not a subject")
    if overlapping(config.filters):
        raise ApiError(ApiCode.STREAM_CONFIG, "subjects of the stream overlap with each other")
    if not config.no_ack:
        _check_answers(config.filters)


def _check_answers(subjects: Sequence[str]) -> None:
    """Refuse subjects at which publishers are answered by others than the stream."""
    for subject in subjects:
        if subject == ">":
            raise ApiError(
                ApiCode.STREAM_CONFIG, "capturing all subjects requires no-ack to be true"
            )
        for whose, answered, silent in _ANSWERED:
            if overlap(subject, answered) and not subject.startswith(silent):
                raise ApiError(
                    ApiCode.STREAM_CONFIG,
                    f"subjects that overlap with {whose} api require no-ack to be true",
                )


def completed(config: StreamConfig) -> StreamConfig:
    """Return a stream's configuration with what was left out, as nats-server does it."""
    window = config.duplicate_window or DUPLICATE_WINDOW_NS
    if config.max_age:
        window = min(window, config.max_age)
    limits = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
    without = {name: -1 for name in limits if getattr(config, name) <= 0}
    return msgspec.structs.replace(
        config,
        subjects=config.filters or None,
        sources=config.sources or None,
        duplicate_window=window,
        num_replicas=max(config.num_replicas, 1),
        **without,
    )


def is_filter(subject: str) -> bool:
    """Tell whether something can be wanted by this subject, within the bounds of names."""
    try:
        NATS.read_filter(subject)
    except BadName:
        return False
    return is_subject(subject)


def overlap(first: str, second: str) -> bool:
    """Tell whether some subject fits both filters."""
    ours, theirs = first.split("."), second.split(".")
    for mine, other in zip(ours, theirs, strict=False):
        if ">" in (mine, other):
            return True
        if mine != other and "*" not in (mine, other):
            return False
    # Of different lengths only a `>` in what both have could have matched both.
    return len(ours) == len(theirs)


def check_one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Check a word that stands for one of a few things.

    Raises:
        ApiError: it stands for none.
    """
    if value not in choices:
        what = f"invalid JSON: {name} {value!r} is not one of {', '.join(choices)}"
        raise ApiError(ApiCode.INVALID_JSON, what)
