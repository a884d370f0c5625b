"""What secures a connection is understood as Kafka's Java clients do, and secrets are not told."""

from __future__ import annotations

import pickle
import ssl

import pytest

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.security import SaslOptions, SecurityOptions, TlsOptions
from kafkaesque.spark.source_options import parse_source

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{PLAIN_MODULE} required username="ann" password="hidden-word";'


def parse(options: dict[str, str]) -> SecurityOptions:
    """Parse options of a source, written without what all of them begin with."""
    given = {f"kafka.{name}": value for name, value in options.items()}
    least = {"kafka.bootstrap.servers": "one:9092", "subscribe": "a"}
    return parse_source({**least, **given}, is_stream=False).cluster.security


def sasl(jaas: str, mechanism: str = "PLAIN") -> SaslOptions:
    found = parse(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
        }
    ).sasl
    assert found is not None
    return found


def test_without_options_connections_are_in_the_clear() -> None:
    assert parse({}) == parse({"security.protocol": "PLAINTEXT"}) == SecurityOptions()


def test_tls_checks_host_names_and_trusts_what_the_system_does() -> None:
    assert parse({"security.protocol": "SSL"}) == SecurityOptions(tls=TlsOptions())
    assert TlsOptions().checks_host


def test_all_of_tls_is_understood() -> None:
    found = parse(
        {
            "security.protocol": "ssl",
            "ssl.truststore.type": "pem",
            "ssl.truststore.location": "/trust.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "KEY",
            "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.key.password": "hidden-word",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1",
            "ssl.protocol": "TLSv1.2",
        }
    ).tls
    assert found == TlsOptions(
        trusted_path="/trust.pem",
        own="KEY\nCHAIN",
        key_password="hidden-word",
        checks_host=False,
        version_max=ssl.TLSVersion.TLSv1_2,
    )


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ('username="ann" password="a;b\\"c\\\\";', 'a;b"c\\'),
        ("username='ann' password='it\"s';", 'it"s'),
        ("username=ann\n  password=plain-word ;\n", "plain-word"),
        ('user_bob="x" password="\\101\\t" username="ann";', "A\t"),
    ],
)
def test_jaas_values_are_quoted_as_in_java(values: str, wanted: str) -> None:
    assert sasl(f"{PLAIN_MODULE} required {values}") == SaslOptions(
        mechanism="PLAIN", username="ann", password=wanted
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_has_its_own_module(mechanism: str) -> None:
    jaas = f'kafkashaded.{SCRAM_MODULE} required username="ann" password="p";'
    assert sasl(jaas, mechanism).mechanism == mechanism


SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
TLS = {"security.protocol": "SSL"}
STORE = "/hidden-word.jks"
REFUSED = [
    ({**SASL, "security.protocol": "SSL"}, "sasl.jaas.config is of no use with .*=SSL"),
    ({"ssl.protocol": "TLS"}, "ssl.protocol is of no use with .*=PLAINTEXT"),
    ({**SASL, "sasl.mechanism": "GSSAPI"}, "'GSSAPI', .* PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "'OAUTHBEARER'"),
    ({"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS}, "if not set GSSAPI"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "jaas.config is missing"),
    ({**SASL, "sasl.mechanism": "SCRAM-SHA-256"}, "takes org.*ScramLoginModule"),
    ({**SASL, "sasl.jaas.config": JAAS[:-1]}, "with the semicolon"),
    ({**SASL, "sasl.jaas.config": f"{JAAS} {JAAS}"}, "has to be"),
    ({**SASL, "sasl.jaas.config": JAAS.replace("required ", "")}, "has to be"),
    ({**SASL, "sasl.jaas.config": 'username="a" password="hidden-word";'}, "has to be"),
    ({**SASL, "sasl.jaas.config": JAAS.replace('word"', 'wo"rd"')}, "before each quote"),
    ({**SASL, "sasl.jaas.config": JAAS.replace("username", "user")}, "has no username"),
    ({**SASL, "sasl.jaas.config": JAAS.replace("Plain", "Krb5")}, "names the module .*Krb5"),
    ({**SASL, "sasl.kerberos.service.name": "k"}, "no option kafka.sasl.kerberos.service.name"),
    ({**TLS, "ssl.trustore.location": "x"}, "nearest is kafka.ssl.truststore.location"),
    ({**TLS, "ssl.truststore.location": STORE}, "keytool -list -rfc .*truststore.type=PEM"),
    ({**TLS, "ssl.keystore.location": STORE}, "keytool -importkeystore .* openssl pkcs12"),
    (
        {**TLS, "ssl.keystore.location": STORE, "ssl.keystore.type": "PKCS12"},
        "'PKCS12', .* `openssl pkcs12 -in",
    ),
    (
        {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.key": "hidden-word"},
        "keystore.certificate.chain is missing",
    ),
    (
        {
            **TLS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": STORE,
            "ssl.truststore.certificates": "x",
        },
        "exclude each other",
    ),
    (
        {
            **TLS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": STORE,
            "ssl.truststore.password": "hidden-word",
        },
        "of no use with a store in PEM",
    ),
    ({**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2, TLSv1.3 or both"),
    ({**TLS, "ssl.protocol": "SSLv3"}, "tls or tlsv1.2 or tlsv1.3"),
    ({**TLS, "ssl.endpoint.identification.algorithm": "ldaps"}, "https or empty"),
]


@pytest.mark.parametrize("case", REFUSED, ids=[f"case-{n}" for n in range(len(REFUSED))])
def test_what_is_wrong_is_told_without_what_is_secret(case: tuple[dict[str, str], str]) -> None:
    options, words = case
    with pytest.raises(WrongOption, match=words) as told:
        parse(options)
    assert "hidden-word" not in str(told.value)


def test_options_go_to_tasks_and_their_repr_tells_no_secret() -> None:
    found = parse(
        {
            **SASL,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "hidden-word",
            "ssl.keystore.certificate.chain": "x",
            "ssl.key.password": "hidden-word",
        }
    )
    assert pickle.loads(pickle.dumps(found)) == found
    assert "hidden-word" not in repr(found)
    assert "ann" in repr(found)
    # Connections are kept by their options.
    assert hash(found) == hash(pickle.loads(pickle.dumps(found)))
