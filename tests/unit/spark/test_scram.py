"""SCRAM says what RFC 5802 and RFC 7677 show, and believes no server that has not proved itself."""

from __future__ import annotations

import pytest

from kafkaesque.spark.scram import ScramClient, ScramFailed

#: Hash, the client's nonce, the server's first, the client's final, the server's final.
VECTORS = [
    (
        "sha1",
        "fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    (
        "sha256",
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]
NONCE, SERVER_FIRST, SERVER_FINAL = VECTORS[1][1], VECTORS[1][2], VECTORS[1][4]


@pytest.mark.parametrize("vector", VECTORS, ids=["rfc-5802", "rfc-7677"])
def test_the_exchange_is_that_of_the_specification(vector: tuple[str, str, str, str, str]) -> None:
    hash_name, nonce, server_first, client_final, server_final = vector
    client = ScramClient(hash_name, "user", "pencil", nonce)
    assert client.first == f"n,,n=user,r={nonce}".encode()
    assert client.final(server_first.encode()).decode() == client_final
    client.verify(server_final.encode())


def test_names_are_escaped_and_nonces_differ() -> None:
    first = ScramClient("sha256", "a=b,c", "p").first
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")
    assert first != ScramClient("sha256", "a=b,c", "p").first


@pytest.mark.parametrize(
    ("server_first", "words"),
    [
        (SERVER_FIRST.replace("4096", "4095"), "4095 iterations"),
        (SERVER_FIRST.replace("4096", "999999999"), "999999999 iterations"),
        (SERVER_FIRST.replace("rOpr", "sOpr"), "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace("W22Z", "W22"), "base64"),
        ("e=other-error", "none of SCRAM"),
        ("", "none of SCRAM"),
    ],
)
def test_servers_that_ask_for_what_is_unsafe_are_left(server_first: str, words: str) -> None:
    with pytest.raises(ScramFailed, match=words):
        ScramClient("sha256", "user", "pencil", NONCE).final(server_first.encode())


@pytest.mark.parametrize("final", ["e=invalid-proof", "v=", SERVER_FINAL.replace("6rri", "7rri")])
def test_servers_that_do_not_know_the_password_are_left(final: str) -> None:
    client = ScramClient("sha256", "user", "pencil", NONCE)
    client.final(SERVER_FIRST.encode())
    with pytest.raises(ScramFailed):
        client.verify(final.encode())


def test_nothing_is_believed_before_a_proof_was_sent() -> None:
    with pytest.raises(ScramFailed):
        ScramClient("sha256", "user", "pencil", NONCE).verify(SERVER_FINAL.encode())
