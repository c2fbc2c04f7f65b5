# What the scripts beside this file share; sourced, not run. Starts in the project's top folder.
# Relative paths that a script is given count from $called_from.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
me=$(basename "$0")

say() { printf '%s\n' "$*" >&2; }
die() { say "$me: $*"; exit 1; }

# need COMMAND:PACKAGE…  installs the Debian package of each command that is missing.
need() {
    local pair command package missing=() as_root=()
    for pair in "$@"; do
        command=${pair%%:*} package=${pair#*:}
        PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "please install as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    command -v apt-get >/dev/null || die "please install: ${missing[*]}"
    say "$me: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# python_env [FOLDER [REQUIREMENTS]]  makes a Python environment, once for each requirements.txt;
# by default the tests' in target/venv.
python_env() {
    local env=${1:-target/venv} wanted=${2:-tests/e2e/requirements.txt}
    cmp -s "$wanted" "$env/requirements.txt" && return
    say "$me: making $env"
    rm -rf "$env"
    mkdir -p target
    python3 -m venv "$env" || die "please install as root: apt-get install python3-venv"
    "$env/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "$wanted" >&2
    cp "$wanted" "$env/requirements.txt"
}
