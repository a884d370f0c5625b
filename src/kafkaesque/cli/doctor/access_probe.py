"""What brokers say of users, rules and listeners, and until when their certificates are good."""

import datetime as dt
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from kafkaesque.access.administration import AskExposure, AskUsers, Exposure, Users
from kafkaesque.cli.access_requests import Wanted, ask_access, list_rules
from kafkaesque.cli.doctor.advice import of_brokers
from kafkaesque.cli.doctor.facts import AccessFacts, BrokerFacts, CertificateFacts, Facts
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.troubles import why

TIMEOUT_S: Final = 5.0
AT_ONCE_MAX: Final = 16
#: Brokers of which some know less than others are asked again after this.
AGAIN_S: Final = 1.0


def look_at_access(facts: Facts) -> Facts:
    """Return the facts with those about access; what cannot be seen is among `unseen`."""
    unseen = list(facts.unseen)
    brokers = _with_exposures(facts.brokers, unseen)
    epochs = {each.exposure.epoch for each in brokers if each.exposure is not None}
    if len(epochs) > 1:
        time.sleep(AGAIN_S)
        brokers = _with_exposures(brokers, [])
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        brokers = list(pool.map(_with_certificates, brokers))
    access = None
    if any(each.exposure is not None for each in brokers):
        try:
            users = ask_access(facts.alive_addresses, AskUsers(), Users)
            rules = list_rules(facts.alive_addresses, Wanted())
            access = AccessFacts(
                users=users.users, super_users=users.super_users, rules=tuple(rules)
            )
        except CommandFailed as failure:
            unseen.append(f"users and rules: {failure.message}")
    return replace(facts, brokers=brokers, access=access, unseen=unseen)


def _with_exposures(brokers: Sequence[BrokerFacts], unseen: list[str]) -> list[BrokerFacts]:
    def ask(broker: BrokerFacts) -> BrokerFacts | str:
        if broker.problem is not None:
            return broker
        try:
            return replace(broker, exposure=ask_access(broker.address, AskExposure(), Exposure))
        except CommandFailed as failure:
            return failure.message

    found = []
    refused: dict[int, str] = {}
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        for broker, answer in zip(brokers, pool.map(ask, brokers), strict=True):
            if isinstance(answer, str):
                refused[broker.id] = answer
                found.append(broker)
            else:
                found.append(answer)
    unseen += of_brokers("the listeners", refused)
    return found


def _with_certificates(broker: BrokerFacts) -> BrokerFacts:
    if broker.exposure is None:
        return broker
    found = []
    for each in broker.exposure.listeners:
        if not each.has_tls:
            continue
        try:
            ends_s = _read_end_s(each.advertised)
        except (OSError, ValueError) as error:
            found.append(CertificateFacts(listener=each.name, ends_s=None, problem=why(error)))
        else:
            found.append(CertificateFacts(listener=each.name, ends_s=ends_s))
    return replace(broker, certificates=found)


def _read_end_s(address: str) -> float:
    """Return the Unix time at which the certificate that is shown at an address ends.

    Whether it is to be trusted is another question: one that has ended is looked at as well.

    Raises:
        OSError, ValueError: nobody shows one.
    """
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as sock,
        # Who wants a certificate of the other end says so only after it has shown its own.
        context.wrap_socket(sock, server_hostname=host) as link,
    ):
        data = link.getpeercert(binary_form=True)
    if data is None:
        raise ValueError("no certificate was shown")
    ends: dt.datetime = x509.load_der_x509_certificate(data).not_valid_after_utc
    return ends.timestamp()
