"""What changes schemas: each is decided on the newest state, and answered when it is committed."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.gateway.registry.calls import Call, CompatibilityBody, ModeBody, SchemaBody
from kafkaesque.gateway.registry.values import ConfigAnswer, ConfigSet, ModeAnswer, RegisteredId
from kafkaesque.model.errors import InvariantBroken, RequestRefused
from kafkaesque.registry.errors import InvalidCompatibility, InvalidMode
from kafkaesque.registry.planner import (
    plan_compatibility,
    plan_compatibility_removal,
    plan_mode,
    plan_mode_removal,
    plan_registration,
    plan_subject_deletion,
    plan_version_deletion,
)
from kafkaesque.registry.records import Entry
from kafkaesque.registry.state import (
    DEFAULT_COMPATIBILITY,
    DEFAULT_MODE,
    Compatibility,
    Mode,
    RegistryState,
)

#: What is answered, and what is written for it.
Planned = tuple[object, Sequence[Entry]]


class Changing:
    """Has changes made."""

    __slots__ = ("_log", "_report")

    def __init__(self, log: SchemaLog, report: Callable[[Exception], None]) -> None:
        """`report` is told of our own defects."""
        self._log: Final = log
        self._report: Final = report

    def _change(self, call: Call, plan: Callable[[RegistryState], Planned]) -> None:
        def decide(state: RegistryState) -> Planned:
            try:
                return plan(state)
            except (RequestRefused, InvariantBroken):
                raise
            except Exception as error:
                # A schema has found a defect of ours: it is refused, and the broker goes on.
                self._report(error)
                raise RequestRefused("It could not be done: see the log.") from None

        self._log.change(decide, call.done)

    def register(self, call: Call) -> None:
        """POST /subjects/{subject}/versions."""
        body = call.body(SchemaBody)
        schema = body.as_schema()

        def plan(state: RegistryState) -> Planned:
            made = plan_registration(
                state,
                call.subject,
                schema,
                normalize=call.flag("normalize"),
                version=None if body.version in (None, 0, -1) else body.version,
                schema_id=None if body.id in (None, 0, -1) else body.id,
            )
            return RegisteredId(id=made.value.id), made.entries

        self._change(call, plan)

    def delete_subject(self, call: Call) -> None:
        """DELETE /subjects/{subject}."""

        def plan(state: RegistryState) -> Planned:
            gone = plan_subject_deletion(state, call.subject, permanent=call.flag("permanent"))
            return gone.versions, gone.entries

        self._change(call, plan)

    def delete_version(self, call: Call) -> None:
        """DELETE /subjects/{subject}/versions/{version}."""
        version = call.version

        def plan(state: RegistryState) -> Planned:
            gone = plan_version_deletion(
                state, call.subject, version, permanent=call.flag("permanent")
            )
            return gone.versions[0], gone.entries

        self._change(call, plan)

    # -- settings; those of all subjects have no subject in their paths

    def set_config(self, call: Call) -> None:
        """PUT /config, /config/{subject}."""
        said = call.body(CompatibilityBody).level()
        if said not in Compatibility.__members__:
            raise InvalidCompatibility(
                f"Invalid compatibility level: {', '.join(Compatibility.__members__)} are valid"
            )
        level = Compatibility(said)
        self._change(
            call,
            lambda _: (
                ConfigSet(compatibility=level.value),
                plan_compatibility(call.params.get("subject"), level),
            ),
        )

    def delete_config(self, call: Call) -> None:
        """DELETE /config, /config/{subject}."""
        subject = call.params.get("subject")

        def plan(state: RegistryState) -> Planned:
            before = state.compatibility(subject) or DEFAULT_COMPATIBILITY
            entries = plan_compatibility_removal(state, subject)
            return ConfigAnswer(compatibility_level=before.value), entries

        self._change(call, plan)

    def set_mode(self, call: Call) -> None:
        """PUT /mode, /mode/{subject}."""
        said = call.body(ModeBody).mode.upper()
        if said not in Mode.__members__:
            raise InvalidMode(f"Invalid mode: {', '.join(Mode.__members__)} are valid")
        mode, subject = Mode(said), call.params.get("subject")

        def plan(state: RegistryState) -> Planned:
            entries = plan_mode(state, subject, mode, force=call.flag("force"))
            return ModeAnswer(mode=mode.value), entries

        self._change(call, plan)

    def delete_mode(self, call: Call) -> None:
        """DELETE /mode, /mode/{subject}."""
        subject = call.params.get("subject")

        def plan(state: RegistryState) -> Planned:
            before = state.mode(subject) or DEFAULT_MODE
            return ModeAnswer(mode=before.value), plan_mode_removal(state, subject)

        self._change(call, plan)
