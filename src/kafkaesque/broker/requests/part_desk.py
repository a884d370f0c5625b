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
        self._make_answerer: Callable[[], None] | None = None

    def open_when_asked(self, make_answerer: Callable[[], None]) -> None:
        """Have the first question call this, which calls `open`; the question is answered then.

        Questions are refused where it calls nothing.
        """
        self._make_answerer = make_answerer

    def open(self, answerer: Answerer) -> None:
        """Have questions answered from now on."""
        self._answerer = answerer

    def serve(self, request: AskPart, on_done: OnPart) -> None:
        """Answer a question of this broker or another one."""
        make, self._make_answerer = self._make_answerer, None
        if self._answerer is None and make is not None:
            make()
        if self._answerer is None:
            on_done(RequestRefused("this broker does not serve the admin API"))
        else:
            self._answerer(request, on_done)
