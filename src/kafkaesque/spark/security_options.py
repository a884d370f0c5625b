"""The options of secured connections, with the names and meanings of Kafka's Java clients."""

from __future__ import annotations

import re
import ssl

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.sasl import PLAIN, SCRAM_HASHES
from kafkaesque.spark.security import SaslOptions, SecurityOptions, TlsOptions

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_TRUSTSTORE = "kafka.ssl.truststore"
_KEYSTORE = "kafka.ssl.keystore"
_JAAS = "kafka.sasl.jaas.config"
_VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
#: Names that older jobs still list; they are not used.
_OLD_VERSIONS = ("tlsv1", "tlsv1.1")
_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_JAAS_HEAD = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.I)
_JAAS_PAIR = re.compile(
    r"\s*([\w.]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"';\\]+)", re.DOTALL
)
_JAAS_END = re.compile(r"\s*;\s*")
_ESCAPED = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def parse_security(options: OptionReader) -> SecurityOptions:
    """Return how connections are secured.

    Raises:
        WrongOption: an option is wrong, missing, or of no use with the protocol; values that are
            secret are not told.
    """
    protocol = options.choice("kafka.security.protocol", _PROTOCOLS, _PROTOCOLS[0])
    has_tls, has_sasl = protocol.endswith("ssl"), protocol.startswith("sasl")
    for prefix, is_used in (("kafka.ssl.", has_tls), ("kafka.sasl.", has_sasl)):
        name = options.first_with(prefix)
        if name is not None and not is_used:
            raise WrongOption(
                f"the option {name} is of no use with kafka.security.protocol={protocol.upper()}:"
                " set another protocol, or leave it out"
            )
    return SecurityOptions(
        tls=_parse_tls(options) if has_tls else None,
        sasl=_parse_sasl(options) if has_sasl else None,
    )


def _parse_tls(options: OptionReader) -> TlsOptions:
    checks = options.text("kafka.ssl.endpoint.identification.algorithm")
    if checks is not None and checks.strip().lower() not in ("", "https"):
        raise WrongOption(
            "the option kafka.ssl.endpoint.identification.algorithm is https or empty, not"
            f" {checks!r}"
        )
    options.choice("kafka.ssl.protocol", ("tls", *_VERSIONS), "tls")
    versions = _parse_versions(options)
    trusted_path, trusted = _store(options, _TRUSTSTORE, ("certificates",))
    own_path, own = _store(options, _KEYSTORE, ("key", "certificate.chain"))
    return TlsOptions(
        trusted_path=trusted_path,
        trusted=trusted,
        own_path=own_path,
        own=own,
        key_password=options.text("kafka.ssl.key.password"),
        checks_host=checks is None or bool(checks.strip()),
        version_min=min(versions),
        version_max=max(versions),
    )


def _parse_versions(options: OptionReader) -> list[ssl.TLSVersion]:
    name = "kafka.ssl.enabled.protocols"
    text = options.text(name)
    if text is None:
        return list(_VERSIONS.values())
    words = options.words(name, text.lower())
    wrong = [word for word in words if word not in (*_VERSIONS, *_OLD_VERSIONS)]
    found = [_VERSIONS[word] for word in words if word in _VERSIONS]
    if wrong or not found:
        raise WrongOption(f"the option {name} has to list TLSv1.2, TLSv1.3 or both, not {text!r}")
    return found


def _store(
    options: OptionReader, prefix: str, parts: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Return the path or the text of a store in PEM, or neither."""
    path = options.text(f"{prefix}.location")
    given = [name for name in (f"{prefix}.{part}" for part in parts) if options.has(name)]
    if path is None and not given:
        return None, None
    kind = (options.text(f"{prefix}.type") or "JKS").strip().upper()
    if kind != "PEM":
        raise WrongOption(_not_pem(prefix, kind))
    if options.has(f"{prefix}.password"):
        raise WrongOption(f"the option {prefix}.password is of no use with a store in PEM")
    if path is not None and given:
        raise WrongOption(f"the options {prefix}.location and {given[0]} exclude each other")
    if path is not None:
        return options.required(f"{prefix}.location"), None
    return None, "\n".join(options.required(f"{prefix}.{part}") for part in parts)


def _not_pem(prefix: str, kind: str) -> str:
    if prefix == _TRUSTSTORE:
        how = "keytool -list -rfc -keystore STORE > store.pem"
    elif kind == "PKCS12":
        how = "openssl pkcs12 -in STORE -out store.pem"
    else:
        how = (
            "keytool -importkeystore -srckeystore STORE -destkeystore store.p12"
            " -deststoretype PKCS12 && openssl pkcs12 -in store.p12 -out store.pem"
        )
    return (
        f"the option {prefix}.type is {kind!r}, if not set JKS, and stores have to be PEM here:"
        f" make one with `{how}`, name it by {prefix}.location, and set {prefix}.type=PEM"
    )


def _parse_sasl(options: OptionReader) -> SaslOptions:
    name = "kafka.sasl.mechanism"
    mechanism = (options.text(name) or "GSSAPI").strip().upper()
    if mechanism not in _MODULES:
        raise WrongOption(
            f"the option {name} is {mechanism!r}, if not set GSSAPI; there are"
            f" {', '.join(_MODULES)} here"
        )
    found = _parse_jaas(options.required(_JAAS), mechanism)
    missing = [each for each in ("username", "password") if not found.get(each)]
    if missing:
        raise WrongOption(f"the option {_JAAS} has no {' and no '.join(missing)}")
    if found.get("tokenauth", "false").lower() == "true":
        raise WrongOption(f"the option {_JAAS} asks for delegation tokens: they are not supported")
    if "\0" in found["username"] + found["password"]:
        raise WrongOption(f"the option {_JAAS} has a zero character in its username or password")
    return SaslOptions(mechanism=mechanism, username=found["username"], password=found["password"])


def _parse_jaas(text: str, mechanism: str) -> dict[str, str]:
    """Return the module's options; nothing of `text` gets into an error but a module's name."""
    module = _MODULES[mechanism]
    head = _JAAS_HEAD.match(text)
    # Where the clients are in a jar with all they need, names have something before them.
    if head is not None and not f".{head[1]}".endswith(f".{module}"):
        found = head[1] if head[1].endswith("LoginModule") else "another"
        raise WrongOption(
            f"the option {_JAAS} names the module {found}; kafka.sasl.mechanism={mechanism} takes"
            f" {module}"
        )
    pairs: dict[str, str] = {}
    at = head.end() if head is not None else 0
    while pair := _JAAS_PAIR.match(text, at):
        pairs[pair[1]] = _unquoted(pair[2])
        at = pair.end()
    if head is None or not _JAAS_END.fullmatch(text, at):
        raise WrongOption(
            f'the option {_JAAS} has to be {module} required username="…" password="…";'
            " with the semicolon, and a backslash before each quote in a value"
        )
    return pairs


def _unquoted(text: str) -> str:
    if text[0] not in "\"'":
        return text
    return _ESCAPED.sub(_unescaped, text[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    word = found[1]
    return chr(int(word, 8)) if word.isdigit() and word < "8" else _ESCAPES.get(word, word)
