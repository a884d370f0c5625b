"""Where messages of one exchange and key went, as long as no binding changes."""

from kafkaesque.routing.exchanges.route import Route

#: Pairs of exchange and key that are remembered, in each of two generations.
GENERATION_LENGTH_MAX = 512
#: Routes to more queues are found anew each time.
CACHED_QUEUES_MAX = 256

#: (exchange, key)
_Way = tuple[str, str]


class RouteCache:
    """The routes that were asked for last: what nobody asked for during a generation is dropped."""

    __slots__ = ("_new", "_old")

    def __init__(self) -> None:
        self._new: dict[_Way, Route] = {}
        self._old: dict[_Way, Route] = {}

    def get(self, way: _Way) -> Route | None:
        """Return the route that is remembered for a way."""
        found = self._new.get(way)
        if found is None:
            found = self._old.get(way)
            if found is not None:
                self.put(way, found)
        return found

    def put(self, way: _Way, route: Route) -> None:
        """Remember a route, if it is not too long."""
        if len(route.queues) + len(route.topics) > CACHED_QUEUES_MAX:
            return
        if len(self._new) == GENERATION_LENGTH_MAX:
            self._old = self._new
            self._new = {}
        self._new[way] = route

    def clear(self) -> None:
        """Forget everything."""
        if self._new or self._old:
            self._new = {}
            self._old = {}
