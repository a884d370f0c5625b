"""What a broker's file says of an OpenID provider, whose tokens are checked here, offline.

Nothing is fetched: the provider's keys are a file on this machine, and an address in the network is
refused. Who names one key of this group has to name all that say whose tokens count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from kafkaesque.access.tokens import CLOCK_SKEW_MS_MAX
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import Option, OptionType, OptionValue

if TYPE_CHECKING:
    from kafkaesque.access.json_web_tokens import JwtVerifier

#: A key set has 100 keys at most.
KEY_SET_BYTES_MAX: Final = 1024 * 1024
PREFIX: Final = "sasl.oauthbearer."
ISSUER: Final = PREFIX + "expected.issuer"
AUDIENCE: Final = PREFIX + "expected.audience"
KEYS: Final = PREFIX + "jwks.endpoint.url"
ALGORITHMS: Final = PREFIX + "algorithms"
CLAIM: Final = PREFIX + "sub.claim.name"
SKEW: Final = PREFIX + "clock.skew.seconds"
UNKNOWN: Final = PREFIX + "unknown.subjects"
_NEEDED: Final = (ISSUER, AUDIENCE, KEYS)

#: Keys of [broker].
OAUTH_OPTIONS: Final = (
    Option(
        name=ISSUER,
        type=OptionType.STRING,
        default="",
        doc="Whose tokens count with OAUTHBEARER: the claim iss, letter by letter. Empty: only "
        "tokens that the cluster has issued itself.",
    ),
    Option(
        name=AUDIENCE,
        type=OptionType.STRING,
        default="",
        doc="Comma-separated values of which a token's claim aud must have one.",
    ),
    Option(
        name=KEYS,
        type=OptionType.STRING,
        default="",
        doc="The provider's public keys: file:// and the path of a JWK set on this machine. It is "
        "read again when it changes. Other URLs are refused: nothing is fetched.",
    ),
    Option(
        name=ALGORITHMS,
        type=OptionType.STRING,
        default="RS256, ES256",
        doc="Comma-separated algorithms by which tokens may be signed; never none, and none with "
        "a shared secret.",
    ),
    Option(
        name=CLAIM,
        type=OptionType.STRING,
        default="sub",
        doc="The claim that has the user's name.",
    ),
    Option(
        name=SKEW,
        type=OptionType.INT,
        default=30,
        minimum=0,
        maximum=CLOCK_SKEW_MS_MAX // 1000,
        doc="Seconds by which the provider's clock and this one may differ.",
    ),
    Option(
        name=UNKNOWN,
        type=OptionType.BOOLEAN,
        default=True,
        doc="Whether a subject of whom the cluster knows nothing comes in, as the user that the "
        "token names. A name that a user of the cluster has is never taken from a token.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """A provider, with the file that has its keys."""

    key_set: Path
    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    claim: str
    skew_ms: int
    admits_unknown: bool


def read_oauth(values: Mapping[str, OptionValue], given: Mapping[str, object]) -> (
    OauthSettings | None
):  # fmt: skip
    """Return what is set; None if nothing is.

    Args:
        values: of all keys of [broker], set or not.
        given: the keys that are set.

    Raises:
        ConfigError: a part is missing, or the keys are not in a file.
    """
    named = sorted(name for name in given if name.startswith(PREFIX))
    if not named:
        return None
    missing = [name for name in _NEEDED if not values[name]]
    if missing:
        raise ConfigError(
            f"{named[0]} is set without {' and '.join(missing)}: tokens are checked by all of "
            "them, or not taken"
        )
    return OauthSettings(
        key_set=_read_url(str(values[KEYS])),
        issuer=str(values[ISSUER]),
        audiences=_words(values[AUDIENCE]),
        algorithms=_words(values[ALGORITHMS]),
        claim=str(values[CLAIM]),
        skew_ms=int(values[SKEW]) * 1000,
        admits_unknown=bool(values[UNKNOWN]),
    )


def _words(value: OptionValue) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in str(value).split(",") if each.strip()))


def _read_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        raise ConfigError(
            f"{KEYS}: {url!r} must be a file on this machine, such as file:///etc/kafkaesque/"
            "jwks.json: keys are not fetched; write them there whenever the provider changes them"
        )
    return Path(unquote(parts.path))


def load_verifier(settings: OauthSettings) -> "JwtVerifier":
    """Return what checks tokens; waits for the disk, and takes a while the first time.

    Raises:
        ConfigError: the file cannot be read, or what is in it and in the settings does not fit.
    """
    # Where no provider is named, nothing of it is loaded.
    from kafkaesque.access.json_web_tokens import JwtConfig, JwtVerifier

    where = f"{KEYS} {settings.key_set}"
    try:
        with settings.key_set.open("rb") as file:
            key_set = file.read(KEY_SET_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {where}: {error.strerror}") from None
    if len(key_set) > KEY_SET_BYTES_MAX:
        raise ConfigError(f"{where} is longer than {KEY_SET_BYTES_MAX} bytes")
    try:
        return JwtVerifier(
            JwtConfig(
                issuer=settings.issuer,
                audiences=settings.audiences,
                algorithms=settings.algorithms,
                key_set=key_set,
                principal_claim=settings.claim,
                admits_unknown_subjects=settings.admits_unknown,
                clock_skew_ms=settings.skew_ms,
            )
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
