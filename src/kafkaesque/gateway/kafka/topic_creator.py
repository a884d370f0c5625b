"""Topics that come into being because a client asks for them (`auto.create.topics.enable`)."""

from collections.abc import Sequence

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.chassis.rights import Rights
from kafkaesque.model.errors import LeaderNotAvailable

#: Topics that one request may bring into being; the client asks again for the others.
CREATED_PER_REQUEST_MAX = 100
#: Creations of this broker that are under way.
UNDER_WAY_MAX = 1000
CREATE_TIMEOUT_MS = 10_000


class TopicCreator:
    """Asks the controller, once for each name at a time."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._under_way: dict[str, None] = {}

    @property
    def under_way(self) -> list[str]:
        """The names that are being created."""
        return list(self._under_way)

    def maybe_create(self, names: Sequence[str], rights: Rights | None = None) -> None:
        """Begin to create topics with legal names, if that is switched on, for a client."""
        if not self._doors.configuration.get("auto.create.topics.enable"):
            return
        begun = 0
        for name in names:
            if begun >= CREATED_PER_REQUEST_MAX or len(self._under_way) >= UNDER_WAY_MAX:
                return
            if name in self._under_way:
                continue
            begun += 1
            if name in INTERNAL_TOPICS:
                self._create_internal(name)
            else:
                self._create(name, rights)

    def _create_internal(self, name: str) -> None:
        """Internal topics have a maker of their own, who knows what they are like."""
        if name != OFFSETS_TOPIC:
            return
        try:
            self._doors.groups.find("")
        except LeaderNotAvailable:
            pass  # It is being created, which was the purpose.

    def _create(self, name: str, rights: Rights | None) -> None:
        self._under_way[name] = None

        def on_done(_: object) -> None:
            self._under_way.pop(name, None)

        command = CreateTopic(name=name)
        signed = command if rights is None else rights.sign(command)
        self._doors.cluster.submit(signed, CREATE_TIMEOUT_MS, on_done)
