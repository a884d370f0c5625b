"""What a reader does beside typing what installs, builds, or takes long in a checkout.

What takes minutes on the pages is asked for less of: by options, where there are some.
"""

from __future__ import annotations

from tests.documentation.reader import Step

#: A distribution is built from a copy of the sources; nothing comes from an index.
_OFFLINE = """
cd sources
export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_DISABLE_PIP_VERSION_CHECK=1
export KAFKAESQUE_PURE=1 PYTHONPATH=$LENT
"""
_INSTALLED_IS_NEW = """
kafkaesque --version
python -c 'import kafkaesque, sys; assert kafkaesque.__file__.startswith(sys.prefix)'
test "$(command -v kafkaesque)" = "$PWD/.venv/bin/kafkaesque"
"""
#: The system that it changes is a folder, and what commands say is shown if they fail.
_SUDO = """
mkdir -p system/etc/systemd/system dist
touch system/etc/passwd system/etc/group system/etc/shadow system/etc/gshadow
python -m pip --quiet wheel --no-deps --wheel-dir dist .
sudo() {
    local program=$1
    shift
    case $program in
        useradd) set -- useradd --prefix "$PWD/system" "$@" ;;
        # Nothing can be started in a folder.
        systemctl) set -- systemctl --root "$PWD/system" "${@/--now/--quiet}" ;;
        *) set -- "$program" "$@" ;;
    esac
    "$@" > sudo.log 2>&1 || { cat sudo.log; return 1; }
}
"""
_SERVICE_RUNS = r"""
grep '^kafkaesque:' system/etc/passwd | grep ':/var/lib/kafkaesque:'
test -L system/etc/systemd/system/multi-user.target.wants/kafkaesque@1.service
grep '^kafkaesque:' system/etc/group
printf '[broker]\nid = 1\n' > system/broker-1.toml
unit=system/etc/systemd/system/kafkaesque@.service
started=$(sed -n 's/^ExecStartPre=//p' $unit | sed "s|/opt/|$PWD/system/opt/|; s/%i/1/")
${started/\/etc\/kafkaesque/system}
"""
_TAKEN_OUT_COUNTS = r"""
scripts/taken-out --list | sed -nE 's/^ ?([0-9]+)  .*/\1/p' | sort -n | uniq -c | awk '
    { printf "group %2d: %d of %d caught\n", $2, $1, $1; all += $1 }
    END { printf "%d checks taken out: %d caught, 0 not\n", all, all }'
"""

#: By page, and by how the block begins.
SCRIPTS_STEPS: dict[str, dict[str, Step]] = {
    "README.md": {
        "./scripts/quickstart": Step(
            instead={
                "./scripts/quickstart ": (
                    "./scripts/quickstart --without-spark --flights 20000 --rate 10000 "
                ),
                # It is what runs this.
                "./scripts/test ": "./scripts/test --install-only ",
            }
        ),
    },
    "docs/amqp.md": {
        "scripts/peers": Step(
            instead={
                "--rabbitmq       ": "--rabbitmq --sessions 2 ",
                "--sessions 1000": "--sessions 2",
            }
        ),
    },
    "docs/console.md": {
        "$ .venv/bin/python -m tests.sim.causes": Step(
            instead={
                "tests.sim.causes": "tests.sim.causes --kind delay --count 1 > causes.log 2>&1"
            },
            check="grep 'the bounds are kept' causes.log",
        ),
        "$ scripts/console": Step(
            instead={
                "scripts/console  ": "scripts/console > built.log 2>&1 ",
                "scripts/test-console       ": (
                    "scripts/test-console --test-name-pattern 'decoded' > tested.log 2>&1 "
                ),
            },
            # The ones are those of docs/performance.md; the others are of all pages, for minutes.
            left_out=("scripts/test-console --figures", "scripts/test-console --screenshots"),
            check="""
diff -r src/kafkaesque/console/static "$CHECKOUT/src/kafkaesque/console/static"
grep '# pass [1-9]' tested.log
""",
        ),
    },
    "docs/membership.md": {
        ".venv/bin/kafkaesque sim gossip": Step(
            instead={
                "gossip   ": "gossip --quick --only partitions ",
                "--quick   ": "--quick --only rounds ",
                "--only rumours": "--quick --only rumours",
            },
            check="head -c 4 gossip.svg | grep '<svg'",
        ),
    },
    "docs/operations.md": {
        "$ sudo useradd": Step(
            before=_OFFLINE + _SUDO,
            replaced={
                "/opt/kafkaesque": "system/opt/kafkaesque",
                "/etc/systemd": "system/etc/systemd",
            },
            check=_SERVICE_RUNS,
        ),
    },
    "docs/security-tests.md": {
        "scripts/taken-out": Step(
            instead={
                "scripts/taken-out   ": "scripts/taken-out --list ",
                "--group 13 14": "--group 13 14 --list",
            }
        ),
        "group  0": Step(printed_by=_TAKEN_OUT_COUNTS),
    },
    "docs/spark.md": {
        # `up` is run by others.
        "scripts/test-spark": Step(only="scripts/test-spark"),
    },
    "docs/tutorials/README.md": {
        "python3 -m venv": Step(before=_OFFLINE, check=_INSTALLED_IS_NEW),
    },
}
