#!/usr/bin/env bash
# Makes the virtual environment that everything here runs in, and keeps it up to date.
#
#   scripts/setup.sh [--dev]      --dev adds the tools for tests and lint
#
# run_benchmarks.sh and the Makefile call it every time; when nothing changed it takes a moment.
# Environment variables: see `./run_benchmarks.sh --help`.
set -euo pipefail

ROOT="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
VENV="${NCF_BENCH_VENV:-$ROOT/.venv}"
case "$VENV" in /*) ;; *) VENV="$PWD/$VENV" ;; esac
STAMP="$VENV/.ncf-bench-stamp"     # written last: its presence means a whole environment
OURS="$VENV/.ncf-bench-made"       # we made it, so we may remake it
BUSY="$VENV/.ncf-bench-installing" # left behind by a set-up that was cut short
FIRST_PYTHONS="python3 python3.13 python3.12 python3.11 python3.10 python"

say() { echo "set-up: $*"; }
die() {
  echo "set-up: error: $*" >&2
  exit 2
}

# step NAME COMMAND...: run a command, say its name and how long it took.
step() {
  local name="$1" start="$SECONDS"
  shift
  say "$name"
  "$@" || return
  say "  took $((SECONDS - start)) s"
}

in_range() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'; }

# PYTHON, else the one that the environment was made with, else the first that fits. What counts
# is the interpreter behind a virtual environment: its packages are what a new one can see.
choose_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON: no such program"
    in_range "$PYTHON" 2>/dev/null ||
      die "PYTHON=$PYTHON is $("$PYTHON" --version 2>&1 || true); Python 3.10 to 3.13 is needed"
    candidate="$PYTHON"
  else
    for candidate in "$VENV/bin/python" $FIRST_PYTHONS ""; do
      case "$candidate" in /*) [ -e "$OURS" ] || continue ;; esac
      if [ -n "$candidate" ] && in_range "$candidate" 2>/dev/null; then break; fi
    done
    [ -n "$candidate" ] ||
      die "no Python 3.10 to 3.13 among: $FIRST_PYTHONS; install one or set PYTHON=/path/to/python"
  fi
  "$candidate" -c '
import os, sys
print(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))'
}

# Three lines: the Python's version, its TensorFlow's version (or -), a hash of what we install.
facts() {
  "$BASE" - "$ROOT" <<'PY'
import hashlib, importlib.metadata, pathlib, platform, sys
names = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-cpu-aws"}
found = {str(d.metadata["Name"]).lower().replace("_", "-"): d.version
         for d in reversed(list(importlib.metadata.distributions()))}  # the first on the path wins
digest = hashlib.sha256()
for name in ("pyproject.toml", "constraints.txt", "scripts/setup.sh", "scripts/build_horovod.py",
             "scripts/horovod_log.py", "scripts/horovod_recipe.py", "scripts/horovod_tools.py"):
    digest.update(pathlib.Path(sys.argv[1], name).read_bytes())
print(platform.python_version())
print(next((found[n] for n in sorted(names) if n in found), "-"))
print(digest.hexdigest())
PY
}

# What the base Python's TensorFlow needs, as installed there: numpy and its like must stay.
base_pins() {
  "$BASE" - <<'PY'
import importlib.metadata, re
found = {re.sub(r"[-_.]+", "-", str(d.metadata["Name"])).lower(): d
         for d in reversed(list(importlib.metadata.distributions()))}
todo = [n for n in found if n in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu",
                                  "tensorflow-cpu-aws")]
seen = set()
while todo:
    name = todo.pop()
    if name in seen or name not in found:
        continue
    seen.add(name)
    print(f"{name}=={found[name].version}")
    for need in found[name].requires or ():
        if "extra ==" not in need:
            todo.append(re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", need)[0]).lower())
PY
}

gpu_listed() {
  command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '
}

# An explicit NCF_BENCH_FLAVOUR asks for a TensorFlow of our own; else one that is there is kept.
choose_flavour() {
  case "${NCF_BENCH_FLAVOUR:-}" in
    cpu | cuda) FLAVOUR="$NCF_BENCH_FLAVOUR" ;;
    "") case "$BASE_TF" in
        2.1[5-9] | 2.1[5-9].* | 2.2[01] | 2.2[01].*) FLAVOUR=base ;;
        *) if gpu_listed; then FLAVOUR=cuda; else FLAVOUR=cpu; fi ;;
      esac ;;
    *) die "NCF_BENCH_FLAVOUR=$NCF_BENCH_FLAVOUR: choose cpu or cuda, or leave it unset" ;;
  esac
}

stamped() { [ -f "$STAMP" ] && grep -qx "$1" "$STAMP"; }

up_to_date() {
  stamped "key=$KEY" && { [ "$DEV" = 0 ] || stamped dev=1; } && [ ! -e "$BUSY" ] &&
    "$VENV/bin/python" -c '' 2>/dev/null
}

# Whole, made here for this flavour and Python, and running.
healthy() {
  [ ! -e "$BUSY" ] && [ "$(cat "$OURS")" = "$MADE_FOR" ] &&
    "$VENV/bin/python" -c 'import pip' 2>/dev/null
}

ensure_venv() {
  if [ -n "$(ls -A "$VENV" 2>/dev/null)" ]; then
    [ -e "$OURS" ] || die "$VENV was not made by set-up, so it is left alone; remove it, or set" \
      "NCF_BENCH_VENV to another folder"
    if healthy; then return; fi
    say "the environment in $VENV is incomplete, moved, or for other needs; making it anew"
    rm -rf -- "$VENV"
  fi
  step "creating the environment in $VENV (Python $VERSION)" create_venv
}

create_venv() {
  local output
  mkdir -p -- "$VENV" || die "cannot make the folder $VENV"
  printf '%s\n' "$MADE_FOR" >"$OURS"
  : >"$BUSY"
  local visible=()
  if [ "$FLAVOUR" = base ]; then visible=(--system-site-packages); fi
  output="$("$BASE" -m venv ${visible[@]+"${visible[@]}"} "$VENV" 2>&1)" || {
    rm -rf -- "$VENV"
    case "$output" in
      *ensurepip*) die "$BASE cannot make virtual environments; install its venv package" \
        "(Debian, Ubuntu: apt-get install python3-venv) and run this again" ;;
      *) die "$BASE -m venv failed: $output" ;;
    esac
  }
}

install_packages() {
  local extras="$1" pins="$ROOT/constraints.txt" code=0
  : >"$BUSY"
  if [ "$FLAVOUR" = base ]; then
    pins="$VENV/base-constraints.txt"
    base_pins >"$pins"
  fi
  (cd -- "$ROOT" && "$VENV/bin/python" -m pip install --disable-pip-version-check -qq \
    -c "$pins" -e ".$extras") || code=$?
  [ "$code" = 0 ] || die "pip could not install $ROOT$extras (exit code $code, see above)"
  rm -f -- "$BUSY"
}

# Sets HOROVOD to ok, missing (no compiler: go on, 1 rank works) or skipped.
ensure_horovod() {
  local code=0 arguments=()
  if [ "${NCF_BENCH_HOROVOD:-}" = skip ]; then
    HOROVOD=skipped
    say "Horovod skipped (NCF_BENCH_HOROVOD=skip): only 1 rank works"
    return
  fi
  if [ "$FLAVOUR" != base ]; then
    arguments=(--flavour "$FLAVOUR" --constraint "$ROOT/constraints.txt")
  fi
  step "Horovod, for more than one rank" "$VENV/bin/python" "$ROOT/scripts/build_horovod.py" \
    ${arguments[@]+"${arguments[@]}"} || code=$?
  case "$code" in
    0) HOROVOD=ok ;;
    3) HOROVOD=missing ;;
    *) die "Horovod could not be built; NCF_BENCH_HOROVOD=skip sets up without it (1 rank only)" ;;
  esac
}

write_stamp() {
  printf 'key=%s\ndev=%s\nhorovod=%s\n' "$KEY" "$1" "$HOROVOD" >"$STAMP.part"
  mv -f -- "$STAMP.part" "$STAMP"
}

# One set-up of a clone at a time; the lock goes with this process, however it ends.
take_lock() {
  command -v flock >/dev/null || return 0
  exec 9<"$ROOT/scripts/setup.sh"
  if ! flock -n 9; then
    say "another set-up of this clone is running; waiting for it"
    flock 9 || say "cannot lock here; going on without"
  fi
}

# Puts the facts into globals and says whether there is nothing to do.
look() {
  local lines
  lines="$(facts)" || die "$BASE does not work"
  { read -r VERSION && read -r BASE_TF && read -r HASH; } <<<"$lines"
  choose_flavour
  MADE_FOR="$FLAVOUR $VERSION $BASE_TF $BASE $ROOT"
  KEY="$HASH $MADE_FOR"
  up_to_date && { stamped horovod=ok ||
    { stamped horovod=skipped && [ "${NCF_BENCH_HOROVOD:-}" = skip ]; }; }
}

main() {
  DEV=0
  case "${1:-}" in
    "") ;;
    --dev) DEV=1 ;;
    *) die "$1: unknown option; the only one is --dev" ;;
  esac
  # Some systems default pip to per-user installs, which virtual environments refuse.
  export PIP_USER=0
  BASE="$(choose_python)"
  local start="$SECONDS" dev="$DEV" extras=""
  if look; then
    say "ready ($VENV, Python $VERSION)"
    return
  fi
  take_lock
  trap 'say "cut short; run it again to go on" >&2; exit 130' INT TERM
  if look; then return; fi
  if stamped dev=1; then dev=1; fi
  if ! up_to_date; then
    if [ "$FLAVOUR" = base ] && ! "$BASE" -c 'import tensorflow' >/dev/null 2>&1; then
      say "TensorFlow $BASE_TF of $BASE does not import: installing our own"
      if gpu_listed; then FLAVOUR=cuda; else FLAVOUR=cpu; fi
    fi
    ensure_venv
    rm -f -- "$STAMP"
    if [ "$FLAVOUR" = base ]; then
      say "keeping TensorFlow $BASE_TF of $BASE and the packages it needs"
      if [ "$dev" = 1 ]; then extras="[dev]"; fi
    else
      extras="[$FLAVOUR]"
      if [ "$dev" = 1 ]; then extras="[$FLAVOUR,dev]"; fi
    fi
    step "installing the packages$extras (a first time may download gigabytes)" \
      install_packages "$extras"
  fi
  ensure_horovod
  write_stamp "$dev"
  say "ready in $((SECONDS - start)) s ($VENV, Python $VERSION)"
}

main "$@"
