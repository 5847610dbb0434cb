# The benchmark on a DGX: NVIDIA's TensorFlow container, which brings TensorFlow (with TF32 and
# XLA as NVIDIA builds them), CUDA, NCCL, Open MPI and, in most releases, Horovod.
#
#   docker build -t ncf-bench .
#   docker run --rm --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 \
#     -v "$PWD/data:/ncf-bench/data" -v "$PWD/results:/ncf-bench/results" \
#     -v "$PWD/plots:/ncf-bench/plots" ncf-bench dgx --data data/ml-20m.zip
#
# --ipc=host and the ulimits are what NVIDIA asks for: NCCL shares memory between the ranks.
# UNTESTED: nobody has built this yet, for want of a GPU and of that registry. The set-up that keeps
# a container's TensorFlow was run with a plain Python that has TensorFlow 2.20 (see docs/multi-gpu.md).
#
# The tag is a suggestion; a container with any of TensorFlow 2.15 to 2.21 and Python 3.10 to 3.13 is
# taken as it is: docker build --build-arg BASE=...
ARG BASE=nvcr.io/nvidia/tensorflow:25.02-tf2-py3
FROM ${BASE}

WORKDIR /ncf-bench
# Set-up needs these to make its environment, and to build Horovod where the container has none.
RUN apt-get update \
  && apt-get install -y --no-install-recommends python3-venv g++ cmake make openssh-client \
  && rm -rf /var/lib/apt/lists/*

# First what set-up depends on, so that a change of the code does not build Horovod again.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scripts scripts
COPY ncf ncf
COPY bench bench
RUN bash scripts/setup.sh

COPY . .
# The code may have changed the facts that set-up remembers; it then takes a moment, else none.
RUN bash scripts/setup.sh

# As root: mpirun asks for it in so many words.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ENTRYPOINT ["./run_benchmarks.sh"]
CMD ["smoke"]
