"""Frames of strangers, old frames, and the change of the secret."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkaesque.membership.errors import FrameRefused, Refusal
from kafkaesque.membership.seal import WINDOW_FRAMES, Freshness, Keyring, ReplayGuard
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId

OLD, NEW, OTHER = b"the old secret..", b"the new secret..", b"another secret.."
ONE, TWO = NodeId(1), NodeId(2)


def sealed(keyring: Keyring) -> bytes:
    return keyring.seal(ONE, TWO, 7, 1, b"packet")


def refusal(keyring: Keyring, frame: bytes) -> Refusal:
    with pytest.raises(FrameRefused) as caught:
        keyring.open(frame)
    return caught.value.refusal


def test_each_stranger_is_told_by_what_is_wrong_with_it() -> None:
    ours = Keyring("ours", [OLD])
    assert refusal(ours, sealed(Keyring("theirs", [OLD]))) is Refusal.OTHER_CLUSTER
    assert refusal(ours, sealed(Keyring("ours", [OTHER]))) is Refusal.UNKNOWN_KEY
    assert refusal(ours, sealed(ours)[:-1] + b"?") is Refusal.FORGED
    assert refusal(ours, sealed(ours)[:20]) is Refusal.MALFORMED
    assert refusal(ours, b"\xff" + sealed(ours)[1:]) is Refusal.OTHER_VERSION


def test_a_signature_of_one_cluster_is_none_of_another_with_the_same_secret() -> None:
    ours, theirs = Keyring("ours", [OLD]), Keyring("theirs", [OLD])
    frame = bytearray(sealed(theirs))
    frame[1:7] = sealed(ours)[1:7]  # the key's and the cluster's number
    assert refusal(ours, bytes(frame)) is Refusal.FORGED


def test_the_secret_is_changed_in_three_steps_and_all_hear_one_another_in_each() -> None:
    steps = [[OLD], [OLD, NEW], [NEW, OLD], [NEW]]
    for before, after in pairwise(steps):
        ahead, behind = Keyring("ours", after), Keyring("ours", before)
        assert ahead.open(sealed(behind)).packet == b"packet"
        assert behind.open(sealed(ahead)).packet == b"packet"
    assert refusal(Keyring("ours", [NEW]), sealed(Keyring("ours", [OLD]))) is Refusal.UNKNOWN_KEY


@pytest.mark.parametrize(
    ("secrets", "words"),
    [([], "not 0"), ([OLD] * 3, "not 3"), ([b"short"], "16 bytes"), ([OLD, OLD], "the old one")],
    ids=["none", "too many", "short", "twice"],
)
def test_secrets_that_cannot_be_used_are_refused(secrets: list[bytes], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Keyring("ours", secrets)


def test_a_frame_counts_once_in_any_order() -> None:
    guard = ReplayGuard(10)
    order = [5, 3, 9, 4, 8, 1]
    assert {guard.admit(ONE, 1, number) for number in order} == {Freshness.FRESH}
    assert {guard.admit(ONE, 1, number) for number in order} == {Freshness.REPLAYED}
    assert guard.admit(TWO, 1, 5) is Freshness.FRESH


def test_what_is_too_old_to_be_remembered_counts_as_replayed() -> None:
    guard = ReplayGuard(10)
    guard.admit(ONE, 1, 1_000)
    assert guard.admit(ONE, 1, 1_000 - WINDOW_FRAMES + 1) is Freshness.FRESH
    assert guard.admit(ONE, 1, 1_000 - WINDOW_FRAMES) is Freshness.REPLAYED
    assert guard.admit(ONE, 1, 10**6) is Freshness.FRESH
    assert guard.admit(ONE, 1, 1_000) is Freshness.REPLAYED


def test_a_new_life_counts_from_nothing_and_ends_the_one_before() -> None:
    guard = ReplayGuard(10)
    guard.admit(ONE, 1, 50)
    assert guard.admit(ONE, 2, 1) is Freshness.FRESH
    assert guard.admit(ONE, 1, 51) is Freshness.OUTDATED
    assert guard.life_of(ONE) == 2


def test_a_bounded_number_of_senders_is_remembered() -> None:
    guard = ReplayGuard(2)
    for node in (1, 2, 3):
        guard.admit(NodeId(node), 1, 1)
    assert guard.life_of(ONE) == 0
    assert guard.admit(NodeId(3), 1, 1) is Freshness.REPLAYED


def test_a_life_that_was_seen_elsewhere_outdates_earlier_ones() -> None:
    guard = ReplayGuard(10)
    guard.note_life(ONE, 9)
    assert guard.admit(ONE, 8, 1) is Freshness.OUTDATED
    assert guard.life_of(ONE) == 9
    assert guard.admit(ONE, 9, 1) is Freshness.FRESH
    guard.note_life(ONE, 9)
    assert guard.admit(ONE, 9, 1) is Freshness.REPLAYED
    guard.note_life(ONE, 7)
    assert guard.life_of(ONE) == 9


def hiding(*secrets: bytes, cluster: str = "ours") -> Keyring:
    keyring = Keyring(cluster, secrets)
    keyring.is_sealing = True
    return keyring


def test_a_sealed_frame_cannot_be_read_and_is_believed_by_all_with_the_secret() -> None:
    frame = sealed(hiding(OLD))
    assert b"packet" in sealed(Keyring("ours", [OLD]))
    assert b"packet" not in frame
    for reader in (Keyring("ours", [OLD]), hiding(OLD), hiding(NEW, OLD)):
        assert reader.open(frame) == (ONE, TWO, 7, 1, b"packet")
    assert hiding(OLD).open(sealed(Keyring("ours", [OLD]))).packet == b"packet"


def test_no_byte_of_a_sealed_frame_can_be_changed() -> None:
    frame = sealed(hiding(OLD))
    for place in range(len(frame)):
        changed = bytearray(frame)
        changed[place] ^= 0x40
        with pytest.raises(FrameRefused):
            hiding(OLD).open(bytes(changed))
    for size in range(len(frame)):
        with pytest.raises(FrameRefused):
            hiding(OLD).open(frame[:size])


def test_a_sealed_frame_of_strangers_is_refused() -> None:
    assert refusal(hiding(OLD), sealed(hiding(OLD, cluster="theirs"))) is Refusal.OTHER_CLUSTER
    assert refusal(hiding(OLD), sealed(hiding(OTHER))) is Refusal.UNKNOWN_KEY
    # Signed and sealed are not to be taken for one another.
    frame = sealed(Keyring("ours", [OLD]))
    assert refusal(hiding(OLD), b"\x02" + frame[1:]) is Refusal.FORGED
    assert refusal(hiding(OLD), b"\x01" + sealed(hiding(OLD))[1:]) is Refusal.FORGED


def test_another_frame_has_another_nonce() -> None:
    ring = hiding(OLD)
    nonces = {ring.seal(ONE, TWO, 7, number, b"packet")[31:43] for number in range(50)}
    nonces |= {ring.seal(ONE, TWO, 7, 1, b"%d" % each)[31:43] for each in range(50)}
    assert len(nonces) == 100
