"""Keeps what is known of TLS up to date while the broker runs.

Theory of operation. Files are looked at every `LOOK_MS`, in a worker thread: a disk that hangs
holds up nobody. When those of a listener have changed, and have not changed again until the next
look, so that nobody reads half of a new pair, they are loaded and tried. What fits replaces what
was there, for connections from then on; what does not is reported, and everything stays as it was.
SIGHUP loads all of it at once, changed or not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import ConfigError, OverBound
from kafkaesque.runtime.ports import Workers
from kafkaesque.runtime.tls_contexts import TlsContext
from kafkaesque.server.certificates import Loaded, load_tls
from kafkaesque.server.fingerprint import Fingerprint, fingerprint_of
from kafkaesque.server.tls_settings import TlsSettings

LOOK_MS: Final = 2_000
#: A certificate that ends within so long is warned of, once in `WARN_MS`.
ENDS_SOON_MS: Final = 30 * 24 * 3_600_000
WARN_MS: Final = 24 * 3_600_000

_DAY_MS: Final = 24 * 3_600_000

#: Of each file.
_Fingerprints = tuple[Fingerprint, ...]


class CertificateWatch:
    """The certificates of one broker."""

    def __init__(
        self,
        *,
        settings: Sequence[TlsSettings],
        clock: Clock,
        workers: Workers,
        use: Callable[[str, TlsContext], None],
        report: Callable[[str], None],
        report_warning: Callable[[str], None],
        report_error: Callable[[str], None],
    ) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._workers: Final = workers
        self._use: Final = use
        self._report: Final = report
        self._report_warning: Final = report_warning
        self._report_error: Final = report_error
        self._ends_ms: Final[dict[str, int]] = {}
        #: The files as they were when they were last loaded or refused, and as last looked at.
        self._known: Final[dict[str, _Fingerprints]] = {}
        self._seen: Final[dict[str, _Fingerprints]] = {}
        self._is_busy = False
        self._is_asked = False
        self._timer: Timer | None = None
        self._warned_ms = -WARN_MS

    def start(self, loaded: Mapping[str, Loaded]) -> None:
        """Begin with what was loaded before, and look for changes from now on."""
        for settings in self._settings:
            first = loaded[settings.name]
            self._ends_ms[settings.name] = first.certificate.not_after_ms
            self._use(settings.name, first.context)
        self._know(_look(self._settings))
        self._on_look()

    def stop(self) -> None:
        """Look no more; what is being loaded is not used."""
        self._is_asked = False
        self._is_busy = True
        if self._timer is not None:
            self._timer.cancel()

    def reload(self) -> None:
        """Load all of it now, or as soon as what is being loaded is done with."""
        self._is_asked = True
        self._maybe_reload()

    def _maybe_reload(self) -> None:
        """Do what was asked for; if there are too many other tasks, after the next look."""
        if self._is_asked and not self._is_busy:
            self._is_asked = not self._load(list(self._settings))

    def _know(self, found: Mapping[str, _Fingerprints]) -> None:
        self._known.update(found)
        self._seen.update(found)

    def _on_look(self) -> None:
        self._timer = self._clock.call_later(LOOK_MS, self._on_look)
        self._warn()
        if not self._is_busy:
            settings = list(self._settings)
            self._submit(lambda: _look(settings), self._on_looked)

    def _submit(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> bool:
        try:
            self._workers.submit(work, on_done)
        except OverBound:
            return False  # The disk has enough to do; the next look comes.
        self._is_busy = True
        return True

    def _on_looked(self, found: object, error: Exception | None) -> None:
        self._is_busy = False
        if self._is_asked:
            self._maybe_reload()
            return
        if not isinstance(found, dict):
            return
        changed = [
            each
            for each in self._settings
            if found[each.name] != self._known[each.name]
            and found[each.name] == self._seen[each.name]
        ]
        self._seen.update(found)
        if changed:
            self._load(changed)

    def _load(self, settings: Sequence[TlsSettings]) -> bool:
        return self._submit(lambda: _load_each(settings), self._on_loaded)

    def _on_loaded(self, done: object, error: Exception | None) -> None:
        self._is_busy = False
        if error is not None:
            raise error
        assert isinstance(done, tuple)
        found, results = done
        self._know(found)
        for settings, result in results:
            if isinstance(result, Loaded):
                self._take(settings, result)
            else:
                self._report_error(f"{result}; what was in use before stays so")
        self._maybe_reload()

    def _take(self, settings: TlsSettings, loaded: Loaded) -> None:
        certificate = loaded.certificate
        self._ends_ms[settings.name] = certificate.not_after_ms
        self._use(settings.name, loaded.context)
        left_days = (certificate.not_after_ms - self._clock.wall_ms()) // _DAY_MS
        self._report(
            f"{settings.setting}: read again, certificate {certificate.serial:x} "
            f"({certificate.subject}), which ends in {counted(left_days, 'day')}"
        )
        self._warned_ms = -WARN_MS
        self._warn()

    def _warn(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._warned_ms < WARN_MS:
            return
        self._warned_ms = now_ms
        for settings in self._settings:
            left_ms = self._ends_ms[settings.name] - self._clock.wall_ms()
            if left_ms < ENDS_SOON_MS:
                ends = (
                    f"ends in {counted(left_ms // _DAY_MS, 'day')}" if left_ms > 0 else "has ended"
                )
                self._report_warning(
                    f"{settings.setting}: the certificate in {settings.certificate} {ends}: "
                    "write a new one there, the broker takes it by itself"
                )


def _look(settings: Sequence[TlsSettings]) -> dict[str, _Fingerprints]:
    return {each.name: tuple(map(fingerprint_of, each.files())) for each in settings}


def _load_each(
    settings: Sequence[TlsSettings],
) -> tuple[dict[str, _Fingerprints], list[tuple[TlsSettings, Loaded | ConfigError]]]:
    # Looked at before: what changes meanwhile is loaded again.
    found = _look(settings)
    results: list[tuple[TlsSettings, Loaded | ConfigError]] = []
    for each in settings:
        try:
            results.append((each, load_tls(each)))
        except ConfigError as error:
            results.append((each, error))
    return found, results
