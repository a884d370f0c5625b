"""JSON Web Tokens of an OpenID provider, checked offline (RFC 7519, KIP-255).

Issuer, audience, algorithms and keys are all fixed by the configuration. What is missing there is
no wildcard: half a configuration does not start. Nothing in a token chooses how it is checked: its
`alg` must be one of those configured and fit the key, and its `kid` must name a key that is here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaesque.access.authentication import FailureReason
from kafkaesque.access.tokens import CLOCK_SKEW_MS_MAX
from kafkaesque.model.errors import ConfigError, RequestRefused

TOKEN_BYTES_MAX: Final = 16 * 1024
KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2_048
#: Unix time in seconds that fits a token; more is nonsense.
_SECONDS_MAX: Final = 2**40

#: Signatures by a key that only the provider has. None by a shared secret, and not `none`; not
#: `EdDSA`, which does not say which curve (RFC 9864).
_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "Ed25519": "OKP",
}


class JwtRefused(RequestRefused):
    """The token does not prove anything; `reason` is for the audit log."""

    def __init__(self, message: str, reason: FailureReason = FailureReason.WRONG) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtConfig:
    """Whose tokens are believed, and by what.

    Raises:
        ConfigError: a part is missing, allows everything, or does not fit the others.
    """

    issuer: str
    #: A token must be for one of them.
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    #: The provider's public keys, as a JWK set (RFC 7517); each has a `kid`.
    key_set: bytes = field(repr=False)
    #: What holds the name of the user, where no credential says whose the subject is.
    principal_claim: str = "sub"
    #: Whether subjects of whom no credential is stored come in, under the name in that claim.
    admits_unknown_subjects: bool = False
    clock_skew_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in ("issuer", "audiences", "algorithms", "key_set", "principal_claim"):
            if not getattr(self, name):
                raise ConfigError(f"tokens of an OpenID provider are not checked without {name}")
        if not all(self.audiences):
            raise ConfigError("an audience is empty")
        for each in self.algorithms:
            if each not in _KEY_TYPES:
                raise ConfigError(
                    f"{each!r} is no algorithm for tokens: {', '.join(_KEY_TYPES)} are"
                )
        if not 0 <= self.clock_skew_ms <= CLOCK_SKEW_MS_MAX:
            raise ConfigError(f"clock_skew_ms must be from 0 to {CLOCK_SKEW_MS_MAX}")
        read_key_set(self.key_set, self.algorithms)


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtClaims:
    """What a token that was checked says."""

    issuer: str
    subject: str
    #: By the configured claim.
    name: str
    expires_ms: int


def read_key_set(data: bytes, algorithms: tuple[str, ...]) -> dict[str, Mapping[str, str]]:
    """Return the keys of a JWK set by their `kid`.

    Raises:
        ConfigError: not a key set, or a key is secret, has no `kid`, or fits no algorithm.
    """
    try:
        keys = json.loads(data)["keys"]
        found = {str(each["kid"]): each for each in keys}
    except (ValueError, KeyError, TypeError):
        raise ConfigError("the key set is no JWK set in which each key has a kid") from None
    if not 0 < len(keys) <= KEYS_MAX or len(found) < len(keys):
        raise ConfigError(f"a key set has 1 to {KEYS_MAX} keys, each with a kid of its own")
    wanted = {_KEY_TYPES[each] for each in algorithms}
    for kid, key in found.items():
        if "d" in key or "k" in key:
            raise ConfigError(f"key {kid!r} is secret: only public keys belong here")
        if key.get("kty") not in wanted:
            raise ConfigError(f"key {kid!r} fits none of {', '.join(algorithms)}")
        if key.get("use", "sig") != "sig":
            raise ConfigError(f"key {kid!r} is not for signatures")
    return found


class JwtVerifier:
    """Checks tokens by one configuration.

    Raises:
        ConfigError: a key of the configuration is malformed or too short.
    """

    __slots__ = ("_keys", "_registry", "config")

    def __init__(self, config: JwtConfig) -> None:
        # With the first configuration that wants it: loading takes 65 ms and 17 MB.
        from joserfc import jwk, jws
        from joserfc.errors import JoseError

        self.config = config
        # What else providers put into headers is passed over, if it is not said to be critical.
        self._registry = jws.JWSRegistry(
            algorithms=list(config.algorithms), strict_check_header=False
        )
        self._keys: dict[str, Any] = {}
        for kid, key in read_key_set(config.key_set, config.algorithms).items():
            try:
                read = jwk.import_key(dict(key))
                bits = getattr(read.public_key, "key_size", RSA_BITS_MIN)
            except (JoseError, ValueError, TypeError) as error:
                raise ConfigError(f"key {kid!r} cannot be read: {error}") from None
            if key["kty"] == "RSA" and bits < RSA_BITS_MIN:
                raise ConfigError(f"key {kid!r} has {bits} bits, fewer than {RSA_BITS_MIN}")
            self._keys[kid] = read

    def verify(self, token: str, now_ms: int) -> JwtClaims:
        """Return what the token says, if it is to be believed now.

        Raises:
            JwtRefused: it is not.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise JwtRefused("the token is too long", FailureReason.MALFORMED)
        claims = self._read_claims(self._verified_payload(token))
        self._check_times(claims, now_ms)
        if claims.get("iss") != self.config.issuer:
            raise JwtRefused("another issuer")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(each in self.config.audiences for each in audiences):
            raise JwtRefused("for another audience")
        subject, name = claims.get("sub"), claims.get(self.config.principal_claim)
        if not (isinstance(subject, str) and subject and isinstance(name, str) and name):
            raise JwtRefused("no subject, or no name")
        return JwtClaims(
            issuer=self.config.issuer,
            subject=subject,
            name=name,
            expires_ms=int(claims["exp"] * 1_000),
        )

    def _verified_payload(self, token: str) -> bytes:
        from joserfc import jws
        from joserfc.errors import JoseError

        try:
            found = jws.deserialize_compact(token.encode(), self._find_key, registry=self._registry)
        except (JoseError, ValueError, TypeError, KeyError):
            raise JwtRefused("the signature is not one that is trusted") from None
        return found.payload

    def _find_key(self, signed: Any) -> Any:
        kid = signed.headers().get("kid")
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise JwtRefused("the key is not known", FailureReason.UNKNOWN)
        # That the algorithm is this key's, the library checks.
        return key

    @staticmethod
    def _read_claims(payload: bytes) -> dict[str, Any]:
        try:
            claims = json.loads(payload)
        except ValueError:
            claims = None
        if not isinstance(claims, dict):
            raise JwtRefused("no claims", FailureReason.MALFORMED)
        return claims

    def _check_times(self, claims: dict[str, Any], now_ms: int) -> None:
        skew_ms = self.config.clock_skew_ms
        expires_s = _seconds(claims, "exp")
        if expires_s is None:
            raise JwtRefused("the token never expires")
        if now_ms >= expires_s * 1_000 + skew_ms:
            raise JwtRefused("expired", FailureReason.EXPIRED)
        for name in ("nbf", "iat"):
            begins_s = _seconds(claims, name)
            if begins_s is not None and now_ms < begins_s * 1_000 - skew_ms:
                raise JwtRefused("not valid yet", FailureReason.EXPIRED)


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JwtRefused(f"{name} is no time", FailureReason.MALFORMED)
    if not 0 <= value <= _SECONDS_MAX:
        raise JwtRefused(f"{name} is no time", FailureReason.MALFORMED)
    return value
