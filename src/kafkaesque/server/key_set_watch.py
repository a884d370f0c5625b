"""Reads the keys of an OpenID provider again when their file has changed.

Theory of operation. As with certificates: the file is looked at every `LOOK_MS`, in a worker
thread. When it has changed, and not once more until the next look, so that nobody reads half of it,
it is read. What fits replaces what was there; what does not is reported, and the old keys stay.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.access.json_web_tokens import JwtVerifier
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.errors import ConfigError, OverBound
from kafkaesque.runtime.ports import Workers
from kafkaesque.server.fingerprint import Fingerprint, fingerprint_of
from kafkaesque.server.oauth_settings import OauthSettings, load_verifier

LOOK_MS: Final = 2_000


class KeySetWatch:
    """The keys of one broker's provider."""

    def __init__(
        self,
        *,
        settings: OauthSettings,
        clock: Clock,
        workers: Workers,
        use: Callable[[JwtVerifier], None],
        report: Callable[[str], None],
        report_error: Callable[[str], None],
    ) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._workers: Final = workers
        self._use: Final = use
        self._report: Final = report
        self._report_error: Final = report_error
        #: The file as it was when it was last read, and when it was last looked at.
        self._known: Fingerprint = None
        self._seen: Fingerprint = None
        self._is_asked = False
        self._is_busy = False
        self._is_stopped = False
        self._timer: Timer | None = None

    def start(self, verifier: JwtVerifier) -> None:
        """Begin with what was read before, and look for changes from now on."""
        self._use(verifier)
        self._known = self._seen = _look(self._settings)
        self._timer = self._clock.call_later(LOOK_MS, self._on_look)

    def stop(self) -> None:
        """Look no more; what is being read is not used."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def reload(self) -> None:
        """Read the keys with the next look, changed or not."""
        self._is_asked = True

    def _on_look(self) -> None:
        self._timer = self._clock.call_later(LOOK_MS, self._on_look)
        if not self._is_busy:
            self._submit(lambda: _look(self._settings), self._on_looked)

    def _submit(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        def done(found: object, error: Exception | None) -> None:
            self._is_busy = False
            if not self._is_stopped:
                on_done(found, error)

        try:
            self._workers.submit(work, done)
        except OverBound:
            return  # The disk has enough to do; the next look comes.
        self._is_busy = True

    def _on_looked(self, found: object, error: Exception | None) -> None:
        seen = found if isinstance(found, tuple) else None
        is_settled, self._seen = seen == self._seen, seen
        if self._is_asked or (is_settled and seen != self._known):
            # Looked at before it is read: what changes meanwhile is read again.
            self._known, self._is_asked = seen, False
            self._submit(lambda: _load(self._settings), self._on_loaded)

    def _on_loaded(self, found: object, error: Exception | None) -> None:
        if error is not None:
            raise error
        if isinstance(found, JwtVerifier):
            self._use(found)
            self._report(f"read the keys in {self._settings.key_set} again")
        else:
            self._report_error(f"{found}; the keys that were in use before stay so")


def _look(settings: OauthSettings) -> Fingerprint:
    return fingerprint_of(settings.key_set)


def _load(settings: OauthSettings) -> JwtVerifier | ConfigError:
    try:
        return load_verifier(settings)
    except ConfigError as error:
        return error
