"""What a reader does beside typing docs/security.md: of `up --secure`, and of a broker by hand."""

from __future__ import annotations

from tests.documentation.reader import Step

PAGE = "docs/security.md"
_ADDED = (r"it matches (no existing )?", "it matches ")
#: What is typed at a prompt stands on the page behind the prompt.
_TYPED = (r"(?<=have none\): )\d{6}\n?", "")

_SECOND_FACTOR = (
    (r"(?m)^(?: *[█▀▄][█▀▄ ]*\n|\n(?= *[█▀▄]))+", "(a QR code)\n"),
    (r"totp/[\w-]+", "totp/ID"),
    _TYPED,
    (r"(?<=the session is in )\S+", "PLACE"),
)
_TYPES = 'python "$CHECKOUT/tests/documentation/prompts.py"'
_CODES = """
code() {
    python - "$1" <<'END'
import sys
import time
from pathlib import Path

from kafkaesque.cli.totp_file import codes_at

print(codes_at(Path(sys.argv[1]), int(1000 * time.time()))[0])
END
}
"""

#: By how the block begins.
UP_STEPS = {
    "$ kafkaesque up --secure": Step(
        instead={"kafkaesque up --secure --data ./secured": "cat up.log"},
        variable=(
            *_SECOND_FACTOR,
            (r"(?<=the data is in )\S+", "PLACE"),
            (r"(?m)^still waiting for .*\n", ""),
        ),
    ),
    "$ . secured/clients/app.env": Step(),
    "$ . secured/clients/cluster.env": Step(
        before="""
unset KAFKAESQUE_USER KAFKAESQUE_PASSWORD_FILE
"""
        + _CODES,
        instead={
            "kafkaesque login admin": (
                f'{_TYPES} "$(code secured/admin.totp)" -- kafkaesque login admin'
            )
        },
        variable=(_TYPED, (r"(?<=the session is in )\S+", "PLACE")),
    ),
    "$ openssl s_client": Step(
        instead={
            "openssl s_client -quiet -connect 127.0.0.1:7070 -CAfile secured/certs/ca.pem": (
                r"printf 'AUTH app %s\nQUIT\n' $(cat secured/app.password) | openssl s_client"
                " -quiet -connect 127.0.0.1:7070 -CAfile secured/certs/ca.pem 2> tls.log"
            )
        },
        variable=((r"(?m)^(AUTH app a-password|QUIT)\n", ""),),
    ),
}

#: The broker that all others of the page are about; its file is what several blocks say.
FIRST = (
    "$ kafkaesque certs init",
    "$ (umask 077; head -c 32 /dev/urandom | base64 > /etc/kafkaesque/keeper.keys",
    "[broker]\nid = 1\ncluster.id",
    '[broker]\nkey.keeper.file = "/etc/kafkaesque/keeper.keys"\n\n[options]',
    '[[listener]]\nname = "services"',
    '[[listener]]\nprotocol = "admin"',
    "[broker]\nsasl.oauthbearer",
    "(umask 077; head -c 32 /dev/urandom | base64 > cluster.secret)",
)
#: And those for which it is stopped.
LAST = ("$ kafkaesque log dump",)
_AS_APP = """
export KAFKAESQUE_BOOTSTRAP_SERVER=127.0.0.1:9094 KAFKAESQUE_CA=ca.pem
export KAFKAESQUE_USER=app KAFKAESQUE_PASSWORD_FILE=app.password
"""
_AS_ADMIN = """
export KAFKAESQUE_BOOTSTRAP_SERVER=127.0.0.1:9094 KAFKAESQUE_CA=ca.pem
export KAFKAESQUE_USER=admin KAFKAESQUE_PASSWORD_FILE=admin.password
"""
_AS_BEFORE = """
export KAFKAESQUE_BOOTSTRAP_SERVER=127.0.0.1:9092
unset KAFKAESQUE_CA KAFKAESQUE_USER KAFKAESQUE_PASSWORD_FILE
"""
#: In a directory without data, at ports that are free.
_CHECK = """
mkdir -p {0} && cd {0}
export KAFKAESQUE_KAFKA_PORT=9093 KAFKAESQUE_PEER_PORT=9191 KAFKAESQUE_TEXT_PORT=7070
KAFKAESQUE_ADMIN_PORT=8080 kafkaesque broker --config ../{0}.toml --check
unset KAFKAESQUE_KAFKA_PORT KAFKAESQUE_PEER_PORT KAFKAESQUE_TEXT_PORT; cd ..
"""
_HOST = {"10.0.0.7": "127.0.0.1"}
_MERGE = """
cat > merge.py <<'END'
import sys
from pathlib import Path

sections = {}
for name in sys.argv[1:]:
    section = "[broker]"
    for line in Path(name).read_text().splitlines():
        if line.startswith("["):
            section = f"{line}{name if line.startswith('[[') else ''}"
        sections.setdefault(section, []).append(line)
for lines in sections.values():
    head, *others = lines
    print(head, *(each for each in others if each != head), sep="\\n")
END
"""
_PUBLIC_KEYS = """
python - <<'END'
import json
from pathlib import Path

from joserfc.jwk import ECKey

key = ECKey.generate_key("P-256", {"kid": "of the provider", "alg": "ES256", "use": "sig"})
Path("jwks.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
END
"""
_START = """
python merge.py part-*.toml > broker.toml
export KAFKAESQUE_PEER_PORT=9190
python -m kafkaesque.cli.app broker --config broker.toml > broker.log 2>&1 & broker=$!
unset KAFKAESQUE_PEER_PORT
for _ in $(seq 300); do
    kill -0 $broker || { cat broker.log; break; }
    kafkaesque topic list > topics.log 2>&1 && break
done
"""

BROKER_STEPS = {
    "$ kafkaesque certs init": Step(
        before=_MERGE,
        replaced={**_HOST},
        after="""
cp certs/broker-1.pem certs/broker-1.key certs/ca.pem .
""",
    ),
    "$ (umask 077; head -c 32 /dev/urandom | base64 > /etc/kafkaesque/keeper.keys": Step(),
    "[broker]\nid = 1\ncluster.id": Step(file="part-1.toml", replaced=_HOST),
    '[broker]\nkey.keeper.file = "/etc/kafkaesque/keeper.keys"\n\n[options]': Step(
        file="part-2.toml"
    ),
    '[[listener]]\nname = "services"': Step(
        file="part-3.toml", check="echo tls.client.auth > /dev/null"
    ),
    '[[listener]]\nprotocol = "admin"': Step(file="part-4.toml", replaced=_HOST),
    "[broker]\nsasl.oauthbearer": Step(file="part-5.toml", after=_PUBLIC_KEYS),
    "(umask 077; head -c 32 /dev/urandom | base64 > cluster.secret)": Step(
        instead={"kafkaesque broker --config broker.toml": _START},
    ),
    "curl -sf https://id.example.org": Step(
        before="""
provider=provider/realms/orders/protocol/openid-connect
mkdir -p $provider
cp jwks.json $provider/certs
echo '{}' > jwks.json
""",
        instead={"https://id.example.org": "file://$PWD/provider"},
        check="cmp $provider/certs jwks.json",
    ),
    "kafkaesque://CLUSTER_ID/broker/ID": Step(
        printed_by="openssl x509 -in broker-1.pem -noout -ext subjectAltName"
        " | grep -o 'kafkaesque://[^,]*'",
        replaced={"CLUSTER_ID/broker/ID": "orders/broker/1"},
    ),
    "level=error broker=1": Step(
        before="""
cp broker-1.key good.key
openssl ecparam -name prime256v1 -genkey -noout -out broker-1.key
until grep -q 'TLS of the listener clients: the key' broker.log; do :; done
""",
        printed_by="grep 'TLS of the listener clients: the key' broker.log"
        " | grep -o 'level=error.*' | head -n 1",
        after="cp good.key broker-1.key",
    ),
    "$ kafkaesque broker --config broker.toml --check": Step(
        before="""
mkdir -p beyond && cd beyond
printf '[broker]\\nid = 1\\ndata = "data"\\nhost = "10.0.0.7"\\n' > broker.toml
""",
        after="cd ..",
    ),
    "$ kafkaesque user create app": Step(before="kafkaesque topic create orders-eu"),
    "$ export KAFKAESQUE_USER=app": Step(
        before="kafkaesque topic create salaries" + _AS_APP, after=_AS_BEFORE
    ),
    "security.protocol=SASL_SSL": Step(
        file="client.properties",
        replaced={"sasl.password=...": "sasl.password=PASSWORD"},
        check="""
sed -e 's/ *#.*//' -e "s/PASSWORD/$(cat app.password)/" client.properties > librdkafka.conf
kcat -F librdkafka.conf -b 127.0.0.1:9094 -X ssl.ca.location=ca.pem -L | grep orders-eu
""",
    ),
    "$ kafkaesque rule create User:billing": Step(
        before="kafkaesque topic create invoices",
        replaced=_HOST,
        check="kafkaesque consume invoices --from-beginning --max 1 | grep paid",
    ),
    "$ kafkaesque token create": Step(
        before=_AS_APP,
        after=_AS_BEFORE,
        variable=((r"token \S{22}", "token TOKEN"), (r"(?m)^\S{22}\b", "TOKEN")),
    ),
    "$ kafkaesque role create": Step(
        before="""
kafkaesque user delete app --yes
kafkaesque rule delete --principal User:app --yes
kafkaesque topic create orders-us
kafkaesque user create mia --password-file mia.password
""",
    ),
    "$ kafkaesque user totp add alice": Step(
        before=_CODES
        + "kafkaesque user create alice --password-file alice.password"
        + "; kafkaesque rule create User:alice -o read --topic orders-eu"
        + _AS_ADMIN,
        after=_AS_BEFORE,
        instead={
            "kafkaesque user totp add alice": "kafkaesque user totp add alice | tee alice.shown",
            "kafkaesque login alice": (
                "unset KAFKAESQUE_USER KAFKAESQUE_PASSWORD_FILE;"
                " grep otpauth alice.shown > alice.totp; chmod 600 alice.totp;"
                f' {_TYPES} "$(cat alice.password)" "$(code alice.totp)" -- kafkaesque login alice'
            ),
        },
        variable=_SECOND_FACTOR,
    ),
    "$ kafkaesque audit show": Step(
        is_excerpt=True,
        before="""
kafkaesque topic delete salaries --yes
"""
        + _AS_ADMIN
        + """
kafkaesque topic create salaries
kafkaesque rule create User:mia -o read --topic salaries
kafkaesque user create app --password-file app.second
KAFKAESQUE_USER=app KAFKAESQUE_PASSWORD_FILE=app.password kafkaesque topic list || true
KAFKAESQUE_USER=app KAFKAESQUE_PASSWORD_FILE=app.second kafkaesque topic describe salaries || true
"""
        + _AS_BEFORE,
        variable=(
            (r"(?m)Z[\t ]+\d\b", "Z N"),
            (r"\((kafka|clients)\)", "(LISTENER)"),
        ),
    ),
    "$ kafkaesque rule create User:auditor": Step(variable=(_ADDED,)),
    "$ kafkaesque audit verify\n16": Step(variable=((r"\d+ entries in \d+ chains?", "N entries"),)),
    "$ kafkaesque audit verify --save": Step(
        variable=((r"\d+ entries in \d+ chains?", "N entries"), (r"\d+ chains?", "N chains"))
    ),
    "$ kafkaesque broker --config broker-1.toml --check": Step(
        before="""
mkdir -p named && cp broker-1.pem broker-1.key ca.pem named && cd named
printf '[broker]\\nid = 1\\nadvertised.host = "kafka-9.example.org"\\n[tls]\\n' > broker-1.toml
printf 'certificate = "broker-1.pem"\\nkey = "broker-1.key"\\nca = "ca.pem"\\n' >> broker-1.toml
printf 'listeners = true\\npeers = "on"\\n' >> broker-1.toml
sed -i 's/^id = 1/id = 1\\ncluster.id = "orders"\\npeer.host = "127.0.0.1"/' broker-1.toml
""",
        after="cd ..",
    ),
    "[tls]\ncertificate": Step(
        file="outside.toml",
        before="""
kafkaesque certs issue --broker 1 --host kafka.example.org --host 127.0.0.1 --directory certs
cp certs/broker-1.pem certs/broker-1.key .
""",
        check=_CHECK.format("outside"),
    ),
    "$ kafkaesque certs renew": Step(),
    "$ kafkaesque certs revoke": Step(after="kafkaesque certs issue --user billing > issued.log"),
    "$ export KAFKAESQUE_CA=certs/ca.pem": Step(
        replaced={"kafka-1.example.org:9092": "127.0.0.1:9095"},
        variable=((r"(?m)\s\d+$", " N"),),
        after="unset KAFKAESQUE_CLIENT_CERTIFICATE KAFKAESQUE_CLIENT_KEY" + _AS_BEFORE,
    ),
    '[broker]\nkey.keeper.file = "/etc/kafkaesque/keeper.keys"\n': Step(
        file="keeper.toml", check=_CHECK.format("keeper")
    ),
    "$ kafkaesque topic create payments": Step(
        before=_AS_ADMIN,
        is_excerpt=True,
        variable=((r"file \w{16}", "file KEY"), (r"of \d replicas?", "of N replicas")),
        after="kafkaesque publish payments ten twenty",
    ),
    "$ kafkaesque key reseal": Step(after=_AS_BEFORE, variable=((r"\d+ messages", "N messages"),)),
    "$ kafkaesque log dump": Step(
        before="kill $broker; wait $broker; broker=",
        variable=((r"\b1\d{12}\b", "TIME"),),
    ),
}
