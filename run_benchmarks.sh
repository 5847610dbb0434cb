#!/usr/bin/env bash
# Set up, train the grid of a suite, write its tables and pictures. See --help below.
set -euo pipefail

ROOT="$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd -P)"

usage() {
  cat <<'TEXT'
Train NeuMF over GPUs x precisions x seeds and regenerate the published tables, yours beside them.

  ./run_benchmarks.sh                        the smoke suite: generated data, CPU, minutes
  ./run_benchmarks.sh ml-100k                the same grid on MovieLens 100k (fetched)
  ./run_benchmarks.sh dgx --data ml-20m.zip  the published grid on a DGX, with your ratings file
  ./run_benchmarks.sh plan dgx               what a suite would run here, without running it
  ./run_benchmarks.sh report smoke           the tables and pictures again, from stored records

The first call sets up a virtual environment (TensorFlow, Horovod built for it: minutes); later
calls start at once. Every argument goes to `python -m bench`; `./run_benchmarks.sh run --help`
lists its options. Running a suite again trains only what is missing. Records and tables go to
results/, pictures to plots/, both in the folder you start it from.

Environment variables:
  PYTHON             the Python to use, 3.10 to 3.13       (default: python3, else a newer name)
  NCF_BENCH_VENV     where the virtual environment goes    (default: .venv beside this script)
  NCF_BENCH_FLAVOUR  cpu or cuda: our own TensorFlow build (default: keep a TensorFlow that the
                     Python already has, 2.15 to 2.21; else cuda where nvidia-smi lists a GPU)
  NCF_BENCH_CACHE    where the built Horovod wheel is kept (default: ~/.cache/ncf-bench)
  NCF_BENCH_HOROVOD  skip: set up without Horovod, 1 rank only
TEXT
}

case "${1:-}" in
  -h | --help | help)
    usage
    exit 0
    ;;
esac

# Set-up talks on standard error: standard output is the benchmark's own.
bash "$ROOT/scripts/setup.sh" >&2
[ "$#" -gt 0 ] || set -- run smoke
exec "${NCF_BENCH_VENV:-$ROOT/.venv}/bin/python" -m bench "$@"
