"""What a reader does beside typing what needs no cluster."""

from __future__ import annotations

from tests.documentation.reader import Step

#: A check tries whether the ports are free.
PORTS_SET = ("KAFKAESQUE_KAFKA_PORT", "KAFKAESQUE_PEER_PORT")
PORTS_OFF = ("KAFKAESQUE_TEXT_PORT", "KAFKAESQUE_ADMIN_PORT")

#: Certificates where the pages' files name them, and the cluster's secret.
PREPARED = """
kafkaesque certs init --cluster-id orders
kafkaesque certs issue --broker 1 --host kafka.example.org --host 127.0.0.1
cp certs/broker-1.pem certs/broker-1.key certs/ca.pem .
cat certs/broker-1.pem certs/ca.pem > broker.pem; cp certs/broker-1.key broker.key
(umask 077; head -c 32 /dev/urandom | base64 > cluster.secret)
"""
_IDENTITY = (
    "printf '[broker]\\nid = 1\\ncluster.id = \"orders\"\\n';"
    " printf 'cluster.secret.file = \"cluster.secret\"\\n'"
)
_TLS = 'printf \'[tls]\\ncertificate = "broker-1.pem"\\nkey = "broker-1.key"\\nca = "ca.pem"\\n\''


def _checked(*more: str) -> Step:
    """Save the block as a part of a broker's file, and have the broker check it with the others."""
    others = "; ".join((*more, "true"))
    return Step(
        file="part.toml",
        replaced={"10.0.0.7": "127.0.0.1"},
        check=f"{{ cat part.toml; {others}; }} > checked.toml\n"
        "kafkaesque broker --config checked.toml --check",
    )


#: What depends on the code, which changes.
_NUMBERS = ((r"history \w+", "history ID"), (r"\d+(\.\d+)?", "N"))

#: By page, and by how the block begins.
TOOLS_STEPS: dict[str, dict[str, Step]] = {
    "docs/chaos.md": {
        "scripts/chaos": Step(
            only="scripts/chaos --plan", instead={"scripts/": "$CHECKOUT/scripts/"}
        ),
        "     2.0 s": Step(),
    },
    "docs/cli.md": {
        "$ kafkaesque broker --config broker-1.toml --check": Step(
            before="printf '[broker]\\nid = 1\\n' > broker-1.toml",
            left_out=("kafkaesque broker --config broker-1.toml\n",),
        ),
        "$ kafkaesque certs show": Step(
            is_in_any_order=True,
            before="""
kafkaesque certs init --cluster-id orders --directory shown
kafkaesque certs issue --broker 1 --host kafka-1.example.org --host 10.0.0.7 --directory shown
kafkaesque certs issue --user billing --directory shown
kafkaesque certs revoke billing --directory shown
export KAFKAESQUE_CERTS=shown
""",
            after="unset KAFKAESQUE_CERTS",
        ),
        "$ kafkaesque sim run --seed 7": Step(variable=_NUMBERS),
    },
    "docs/membership.md": {
        "(umask 077": Step(before="rm cluster.secret"),
        "[broker]": Step(
            file="broker-4.toml",
            replaced={"10.0.0.4": "127.0.0.1"},
            check="kafkaesque broker --config broker-4.toml --check",
        ),
    },
    "docs/operations.md": {'[broker]\n"tracing': _checked("echo id = 1")},
    "docs/options.md": {
        "kafkaesque broker --config FILE --check": Step(
            before="printf '[broker]\\nid = 1\\n' > FILE",
            only="kafkaesque broker --config FILE --check",
        ),
        "[tls]": _checked(_IDENTITY),
        "[broker]": _checked(),
    },
    "docs/schema-registry.md": {"[[listener]]": _checked(_IDENTITY)},
    "docs/simulator.md": {
        "seed 7: ": Step(variable=_NUMBERS),
        "2 of 2 seeds": Step(variable=_NUMBERS),
    },
    "docs/sqs.md": {"[[listener]]": _checked(_IDENTITY, _TLS)},
}
