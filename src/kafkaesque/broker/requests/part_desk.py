"""Where a broker is asked for its part of what the admin API shows of the whole cluster."""

from collections.abc import Callable

from kafkaesque.broker.requests.commands import AskPart, Part
from kafkaesque.model.errors import RequestRefused

#: Gets a `Part`, or why there is none; called once.
OnPart = Callable[[Part | RequestRefused], None]
Answerer = Callable[[AskPart, OnPart], None]


class PartDesk:
    """Knows who answers: above a broker, and only once that is there."""

    def __init__(self) -> None:
        self._answerer: Answerer | None = None

    def open(self, answerer: Answerer) -> None:
        """Have questions answered from now on."""
        self._answerer = answerer

    def serve(self, request: AskPart, on_done: OnPart) -> None:
        """Answer a question of this broker or another one."""
        if self._answerer is None:
            on_done(RequestRefused("this broker does not serve the admin API"))
        else:
            self._answerer(request, on_done)
