"""Names of certificates: ours, Kafka's rules, and certificates that name nobody."""

from __future__ import annotations

from time import perf_counter

import pytest

from kafkaesque.access.distinguished_names import write_name
from kafkaesque.access.principal_mapping import (
    CertificateNames,
    CertificateRefused,
    PrincipalMapping,
    read_mapping_rules,
)
from kafkaesque.model.errors import ConfigError

DUKE = (
    ("countryName", "US"),
    ("stateOrProvinceName", "CA"),
    ("organizationName", "Sun, Inc"),
    ("organizationalUnitName", "ServiceUsers"),
    ("commonName", "Duke"),
)


def certificate(*uris: str, name: tuple[tuple[str, str], ...] = ()) -> CertificateNames:
    return CertificateNames(subject=name, uris=uris)


def cn(*values: str) -> tuple[tuple[str, str], ...]:
    return tuple(("commonName", each) for each in values)


def name_of(given: CertificateNames, rules: str = "") -> str:
    return PrincipalMapping("main", rules).name_of(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (certificate("kafkaesque://main/user/alice"), "alice"),
        (certificate("kafkaesque://main/user/alice", name=cn("alice")), "alice"),
        (certificate("kafkaesque://main/user/a%2Fb%20c"), "a/b c"),
        (certificate("spiffe://x/y", "kafkaesque://main/user/alice"), "alice"),
        (certificate("https://example.org", name=cn("bob")), "bob"),
        (certificate(name=cn("bob")), "bob"),
        (certificate(name=DUKE), "Duke"),
        (certificate(name=cn("a,O=b")), "a,O=b"),
    ],
    ids=str,
)
def test_a_certificate_names_a_user(given: CertificateNames, expected: str) -> None:
    assert name_of(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        certificate(),
        certificate(name=cn("bob", "admin")),
        certificate(name=cn("")),
        certificate(name=cn("admin\0.evil")),
        certificate(name=cn("*")),
        certificate("kafkaesque://other/user/alice", name=cn("alice")),
        certificate("kafkaesque://main/broker/3", name=cn("alice")),
        certificate("KAFKAESQUE://other/user/alice", name=cn("alice")),
        certificate("kafkaesque:main/user/alice", name=cn("alice")),
        certificate("kafkaesque://main@other/user/alice"),
        certificate("kafkaesque://main:1/user/alice"),
        certificate("kafkaesque://main/user/"),
        certificate("kafkaesque://main/user/alice/admin"),
        certificate("kafkaesque://main/user/alice?admin"),
        certificate("kafkaesque://main/user/alice#admin"),
        certificate("kafkaesque://main/user/%ff"),
        certificate("kafkaesque://main/user/a%00b"),
        certificate("kafkaesque://main/user/alice", "kafkaesque://main/user/admin"),
        certificate("kafkaesque://main/user/alice", name=cn("admin")),
        certificate("kafkaesque://[/user/alice"),
    ],
    ids=str,
)
def test_a_certificate_that_names_nobody_here(given: CertificateNames) -> None:
    with pytest.raises(CertificateRefused):
        name_of(given)
    with pytest.raises(CertificateRefused):
        # A rule for everything does not make up for a URI that is for somebody else.
        name_of(given, "RULE:^X.*$/x/" if not given.uris else "DEFAULT")


def test_a_distinguished_name_is_written_with_escapes() -> None:
    assert write_name(DUKE) == r"CN=Duke,OU=ServiceUsers,O=Sun\, Inc,ST=CA,C=US"
    assert write_name(cn('a,b+c"d\\e<f>g;h')) == r"CN=a\,b\+c\"d\\e\<f\>g\;h"
    assert write_name(cn("#x ", " y")) == r"CN=\ y,CN=\#x\ "
    assert write_name((("userId", "u"), ("1.2.3", "v"))) == "1.2.3=v,UID=u"


# The examples of KIP-371 and of Kafka's own documentation.
KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ((("O", "x"), ("OU", "ServiceUsers"), ("CN", "Duke")), "Duke"),
        (
            (("C", "US"), ("ST", "NY"), ("L", "X"), ("O", "O"), ("OU", "Admins"), ("CN", "Duke")),
            "duke@admins",
        ),
        ((("O", "x"), ("CN", "Kafka.One")), "kafka.one"),
        ((("O", "Unknown"),), "O=Unknown"),
    ],
)
def test_kafkas_rules_decide_in_their_order(
    subject: tuple[tuple[str, str], ...], expected: str
) -> None:
    assert name_of(certificate(name=subject), KAFKAS) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "CN=Duke"),
        ("RULE:^CN=(.*)$/$1/U", "DUKE"),
        ("RULE:CN=(.*)/$1/", "Duke"),
        ("RULE:Du/x/,DEFAULT", "CN=Duke"),
        ("RULE:.*/x\\/y/", "x/y"),
        ("RULE:CN=(D)(u)(k)(e)/$4$3$2$1/", "ekuD"),
        ("RULE:(X)?CN=Duke/<$1>/", "<>"),
        ("RULE:.*/\\$1/ , DEFAULT", "$1"),
        ("RULE:CN=(.*),x/$1/,RULE:CN=(.*)/$1/", "Duke"),
        ("  DEFAULT  ", "CN=Duke"),
    ],
)
def test_a_rule_is_for_the_whole_name(rules: str, expected: str) -> None:
    assert name_of(certificate(name=cn("Duke")), rules) == expected


def test_a_name_that_no_rule_is_for_is_refused() -> None:
    with pytest.raises(CertificateRefused):
        name_of(certificate(name=cn("Duke")), "RULE:^CN=(admin)$/$1/")


def test_an_escape_in_a_name_does_not_make_another_part_of_it() -> None:
    rules = "RULE:^CN=([^,]*),OU=Admins$/admin/"
    real = (("OU", "Admins"), ("CN", "x"))
    assert name_of(certificate(name=real), rules) == "admin"
    with pytest.raises(CertificateRefused):
        name_of(certificate(name=cn("x,OU=Admins")), rules)
    assert name_of(certificate(name=cn("x,OU=Admins")), "DEFAULT") == r"CN=x\,OU=Admins"
    assert name_of(certificate(name=cn("a\\2C,b")), "RULE:CN=(.*)/$1/") == r"a\\2C\,b"


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:",
        "RULE:^CN=(.*)$",
        "RULE:^CN=(.*)$/$1",
        "RULE:(/$1/",
        "RULE:CN=(.*)/$2/",
        "RULE:CN=(.*)/$/",
        "RULE:CN=(.*)/$x/",
        "RULE:CN=(.*)\\1/$1/",
        "RULE:(?=CN)(.*)/$1/",
        "DEFAULT DEFAULT",
        "DEFAULT,",
        "default",
        "RULE:a/b/X",
        "^CN=(.*)$/$1/",
        "x" * 17_000,
    ],
)
def test_rules_that_are_none_do_not_start(rules: str) -> None:
    with pytest.raises(ConfigError):
        read_mapping_rules(rules)


def test_no_expression_takes_longer_than_its_name_allows() -> None:
    mapping = PrincipalMapping("main", "RULE:^CN=(a+)+(a*)*b$/$1/")
    began = perf_counter()
    for _ in range(10):
        with pytest.raises(CertificateRefused):
            mapping.name_of(certificate(name=cn("a" * 3_000)))
    assert perf_counter() - began < 2
    with pytest.raises(CertificateRefused, match="too long"):
        mapping.name_of(certificate(name=cn("a" * 5_000)))
