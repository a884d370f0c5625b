"""From a client's certificate to a name: by URI, by common name, or by Kafka's mapping rules.

A certificate of the cluster's own authority names its user in a URI,
`kafkaesque://CLUSTER/user/NAME`. A URI for another cluster or for a broker names no user at all:
the common name beside it does not count. Without a URI of ours, Kafka's
`ssl.principal.mapping.rules` decide over the whole distinguished name if there are any, and else
the common name is the name.

Rules are matched by RE2, in time linear in the name's length; an expression that RE2 does not have
(backward references, looking around) is refused at the start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from kafkaesque.access.distinguished_names import (
    Name,
    common_names,
    unescape_hex,
    write_unambiguous,
)
from kafkaesque.access.principals import check_name
from kafkaesque.model.errors import ConfigError, InvalidRequest, RequestRefused
from kafkaesque.model.pattern_errors import reason_of

SCHEME: Final = "kafkaesque"
RULES_LENGTH_MAX: Final = 16 * 1024
NAME_LENGTH_MAX: Final = 4 * 1024
_MEMORY_BYTES_MAX: Final = 1024 * 1024


class CertificateRefused(RequestRefused):
    """A certificate names nobody, or more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateNames:
    """What a certificate that TLS has verified says of its holder."""

    subject: Name
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingRule:
    """One of Kafka's rules: `RULE:pattern/replacement/[LU]`, or `DEFAULT`."""

    #: None: DEFAULT, which takes the whole name as it is.
    expression: Any
    replacement: str = ""
    change_case: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        """Return what the rule makes of a distinguished name; None if it is not for it.

        The name comes as `write_unambiguous` writes it, and leaves as Java would write it.
        """
        if self.expression is None:
            return unescape_hex(name)
        found = self.expression.fullmatch(name)
        return None if found is None else self.change_case(_replace(self.replacement, found))


class PrincipalMapping:
    """Names of one cluster's clients.

    Raises:
        ConfigError: the rules are malformed, or have an expression that RE2 does not take.
    """

    __slots__ = ("_cluster", "_rules")

    def __init__(self, cluster: str, rules: str = "") -> None:
        #: As it stands in a URI.
        self._cluster = quote(cluster, safe="")
        self._rules = read_mapping_rules(rules)

    def name_of(self, certificate: CertificateNames) -> str:
        """Return the name of the user, or of the credential, that a certificate is for.

        Raises:
            CertificateRefused: for nobody here, for a broker, for two, or contradicting itself.
        """
        ours = [each for each in certificate.uris if each.lower().startswith(f"{SCHEME}:")]
        names = common_names(certificate.subject)
        if len(ours) > 1:
            raise CertificateRefused("the certificate has two names of ours")
        if ours:
            name = self._read_uri(ours[0])
            if names and names != (name,):
                raise CertificateRefused("the certificate's two names differ")
        elif self._rules:
            name = self._apply_rules(write_unambiguous(certificate.subject))
        elif len(names) == 1:
            name = names[0]
        else:
            raise CertificateRefused("the certificate has no common name, or more than one")
        try:
            check_name(name)
        except InvalidRequest as error:
            raise CertificateRefused(f"the name is not valid for a user: {error}") from None
        return name

    def _read_uri(self, uri: str) -> str:
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise CertificateRefused("the certificate's URI is malformed") from None
        kind, _, name = parts.path.removeprefix("/").partition("/")
        if parts.netloc != self._cluster or kind != "user" or parts.query or parts.fragment:
            raise CertificateRefused("the certificate's URI is for no user of this cluster")
        if "/" in name:
            raise CertificateRefused("the certificate's URI goes on after the name")
        try:
            return unquote(name, errors="strict")
        except UnicodeDecodeError:
            raise CertificateRefused("the certificate's URI is not UTF-8") from None

    def _apply_rules(self, name: str) -> str:
        if len(name) > NAME_LENGTH_MAX:
            raise CertificateRefused("the certificate's distinguished name is too long")
        for rule in self._rules:
            found = rule.apply(name)
            if found is not None:
                return found
        raise CertificateRefused("no mapping rule is for the certificate's distinguished name")


def read_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of `ssl.principal.mapping.rules`; none if the text is empty.

    Raises:
        ConfigError: not that grammar, or an expression that RE2 does not take.
    """
    if len(text) > RULES_LENGTH_MAX:
        raise ConfigError(f"mapping rules have at most {RULES_LENGTH_MAX} characters")
    rules: list[MappingRule] = []
    rest = text.strip()
    while rest:
        rule, rest = _read_rule(rest)
        rules.append(rule)
        if rest:
            if not rest.startswith(","):
                raise ConfigError(f"mapping rules: a comma is missing before {rest[:40]!r}")
            rest = rest[1:].lstrip()
            if not rest:
                raise ConfigError("mapping rules: nothing follows the last comma")
    return tuple(rules)


def _read_rule(text: str) -> tuple[MappingRule, str]:
    if text.startswith("DEFAULT"):
        return MappingRule(expression=None), text[len("DEFAULT") :].lstrip()
    if not text.startswith("RULE:"):
        raise ConfigError(f"mapping rules: neither RULE: nor DEFAULT at {text[:40]!r}")
    pattern, rest = _read_part(text[len("RULE:") :])
    replacement, rest = _read_part(rest)
    case: Callable[[str], str] = str
    if rest[:1] in ("L", "U"):
        case = str.lower if rest[0] == "L" else str.upper
        rest = rest[1:]
    expression = _compile(pattern)
    _check_replacement(replacement, expression.groups)
    return MappingRule(
        expression=expression, replacement=replacement, change_case=case
    ), rest.lstrip()


def _read_part(text: str) -> tuple[str, str]:
    """Return what stands before the next slash that is not escaped, and what stands after it."""
    at = 0
    while at < len(text):
        if text[at] == "/":
            return text[:at], text[at + 1 :]
        at += 2 if text[at] == "\\" else 1
    raise ConfigError(f"mapping rules: a slash is missing after {text[:40]!r}")


def _compile(pattern: str) -> Any:
    # With the first rule: most clusters have none.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = reason_of(error)
        raise ConfigError(f"mapping rules: RE2 does not take {pattern!r}: {reason}") from None


def _check_replacement(replacement: str, groups: int) -> None:
    at = 0
    while at < len(replacement):
        if replacement[at] == "\\":
            at += 1
        elif replacement[at] == "$":
            digit = replacement[at + 1 : at + 2]
            if not (digit.isascii() and digit.isdecimal()) or int(digit) > groups:
                raise ConfigError(f"mapping rules: {replacement!r} names a group that there is not")
        at += 1


def _replace(replacement: str, found: Any) -> str:
    """Return the replacement with `$n` filled in, and each escaped character as it is."""
    parts: list[str] = []
    at = 0
    while at < len(replacement):
        each = replacement[at]
        if each == "\\" and at + 1 < len(replacement):
            parts.append(replacement[at + 1])
            at += 2
        elif each == "$":
            parts.append(unescape_hex(found[int(replacement[at + 1])] or ""))
            at += 2
        else:
            parts.append(each)
            at += 1
    return "".join(parts)
