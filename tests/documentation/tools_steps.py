"""What a reader does beside typing what needs no cluster."""

from __future__ import annotations

from tests.documentation.open_steps import DOCTOR
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


#: Until it is ready; what it says then is behind what the pages show.
_UP = """
up() {
    python -m kafkaesque.cli.app up "$@" > up.log 2>&1 & up=$!
    until grep -q "Ctrl-C stops" up.log; do kill -0 $up || { cat up.log; return 1; }; done
}
"""
_UP_AND_CTRL_C = (
    'python "$CHECKOUT/tests/documentation/ctrl_c.py" Ctrl-C stops --'
    " python -m kafkaesque.cli.app up"
)
_STOPPED_DATA = f"""
{_UP}
up --data kafkaesque-data $UP_PORTS
export KAFKAESQUE_BOOTSTRAP_SERVER=$UP_SERVER
kafkaesque topic create orders --partitions 1
kafkaesque publish orders order-1:socks order-2:shoes --key-separator :
kill $up; wait $up
"""
#: What depends on the code, which changes.
_NUMBERS = ((r"\d[\d,]* bytes", "N bytes"), (r"history \w+", "history ID"), (r"\d+(\.\d+)?", "N"))

#: Broker 3 of three is killed, and what the others say of it is awaited.
_BROKER_DOWN = f"""
{_UP}
up --data three $UP_PORTS
export KAFKAESQUE_BOOTSTRAP_SERVER=$UP_SERVER
kafkaesque topic create greetings --partitions 3
kill -9 $(pgrep -f "$PWD/three/broker-3.toml")
until kafkaesque doctor > doctor.log; grep -q under-replicated doctor.log; do :; done
"""
_DOWN = (
    *DOCTOR,
    (r"(10\.0\.0\.\d|127\.0\.0\.1):\d+", "ADDRESS"),
    (r"\S+(?=broker-3\.toml)", ""),
)
_LED = (
    (r"broker=\d", "broker=N"),
    (r"partition=\S+-\d+", "partition=N"),
    (r"term=\d+", "term=N"),
    (r'(?<=message=").*-\d+: this broker leads in term \d+', "this broker leads"),
)
#: Of what takes minutes or hours on the pages; the most come first.
_FEWER = {
    "--seeds 10000": "--seeds 1",
    "--seeds 100": "--seeds 2",
    "--seeds 60": "--seeds 2",
    "--seeds 20": "--seeds 2",
    "--times 1000": "--times 4",
    "--times 50": "--times 4",
}

#: By page, and by how the block begins.
TOOLS_STEPS: dict[str, dict[str, Step]] = {
    "docs/adr/0026-one-model-of-access.md": {
        ".venv/bin/python -m bench.decisions": Step(before="cd $CHECKOUT"),
    },
    "docs/console.md": {
        "Not in here": Step(
            before=_BROKER_DOWN,
            printed_by='python "$CHECKOUT/tests/documentation/console_page.py"'
            " http://127.0.0.1:$UP_ADMIN_PORT/#/brokers 'Not in here' | grep 'Not in here'",
            after="kill $up; wait $up",
        ),
    },
    "docs/chaos.md": {
        "scripts/chaos": Step(
            only="scripts/chaos --plan", instead={"scripts/": "$CHECKOUT/scripts/"}
        ),
        "     2.0 s": Step(),
    },
    "docs/cli.md": {
        "kafkaesque up --brokers 1": Step(
            instead={"kafkaesque up": f"{_UP_AND_CTRL_C} $UP_OTHER_PORTS"},
            check="grep num.partitions.*6 data/broker-1.toml",
            after="rm -r data",
        ),
        "kafkaesque up --protocols": Step(
            instead={"kafkaesque up": f"{_UP_AND_CTRL_C} $UP_FEW_PORTS"},
            check="grep 'mqtt.*= 0' kafkaesque-data/broker-1.toml",
            after="rm -r kafkaesque-data",
        ),
        "$ kafkaesque log verify": Step(before=_STOPPED_DATA, variable=_NUMBERS),
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
    "docs/operations.md": {
        "$ kafkaesque doctor": Step(
            before=_BROKER_DOWN,
            instead={"10.0.0.1:9092,10.0.0.2:9092": "$UP_SERVER"},
            variable=_DOWN,
            code=1,
        ),
        "time=": Step(
            printed_by="cat three/broker-*.log"
            " | grep 'event=election.won partition=greetings' | head -n 1",
            variable=_LED,
            after="kill $up; wait $up",
        ),
        '[broker]\n"tracing': _checked("echo id = 1"),
    },
    "docs/options.md": {
        "kafkaesque broker --config FILE --check": Step(
            before="printf '[broker]\\nid = 1\\n' > FILE",
            only="kafkaesque broker --config FILE --check",
        ),
        "[tls]": _checked(_IDENTITY),
        "[broker]": _checked(),
    },
    "docs/schema-registry.md": {"[[listener]]": _checked(_IDENTITY)},
    "docs/security-tests.md": {
        ".venv/bin/python -m pytest": Step(before="cd $CHECKOUT"),
    },
    "docs/simulator.md": {
        ".venv/bin/kafkaesque sim run --seeds 100 ": Step(
            only=".venv/bin/kafkaesque", instead=_FEWER, check="wc -l seeds.jsonl | grep 1"
        ),
        ".venv/bin/python -m tests.sim.lock_seeds": Step(
            only=".venv/bin/python -m tests.sim.lock_seeds --first",
            before="cd $CHECKOUT",
            instead={"--seeds 50": "--seeds 4"},
            after="cd -",
        ),
        # Few seeds may have none.
        "200 of 200 seeds": Step(variable=((r", \d+ throttles", ""), *_NUMBERS)),
        ".venv/bin/kafkaesque sim power-cuts": Step(instead=_FEWER),
        "50 power cuts": Step(variable=_NUMBERS),
        ".venv/bin/kafkaesque sim run --seeds 60 --activity text": Step(instead=_FEWER),
        ".venv/bin/kafkaesque sim run --seeds 20 --activity queues": Step(instead=_FEWER),
        ".venv/bin/kafkaesque sim queue-kills": Step(instead=_FEWER),
        ".venv/bin/kafkaesque sim run --seeds 20 --activity exchanges": Step(instead=_FEWER),
        "seed 7: ": Step(variable=_NUMBERS),
        "2 of 2 seeds": Step(variable=_NUMBERS),
    },
    "docs/sqs.md": {"[[listener]]": _checked(_IDENTITY, _TLS)},
}
