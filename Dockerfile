# Images for the kernel (the default), for nodes (--target node) and for development (.devcontainer):
# docs/how-to/operate/run-in-containers.md. No image contains a secret, and none runs as root.
ARG PYTHON=3.13.7

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /source
COPY . .
# Only wheels with known hashes, as scripts/environment installs them.
RUN sed '/^# Development needs/,$d' constraints.txt >/tmp/requirements.txt \
    && python -m venv /opt/agent-worker \
    && /opt/agent-worker/bin/pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: \
        --requirement /tmp/requirements.txt \
    && /opt/agent-worker/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/agent-worker/bin/pip check

FROM python:${PYTHON}-slim-bookworm AS system
# The user who owns the project outside the container: --build-arg UID=$(id -u)
ARG UID=10001
# Versions of Debian's packages follow the security updates of the release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git mawk openssh-client tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid "$UID" agent \
    && install -d -o agent -m 0700 /state \
    && install -d -o agent /project
WORKDIR /project

FROM system AS develop
ARG UID=10001
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends man-db openssh-server tmux \
    && rm -rf /var/lib/apt/lists/*
USER $UID

FROM system AS program
ARG UID=10001
COPY --from=build /opt/agent-worker /opt/agent-worker
ENV PATH=/opt/agent-worker/bin:$PATH AGENT_WORKER_HOME=/state
USER $UID
VOLUME /state
# The first process adopts and reaps processes whose parents have exited.
ENTRYPOINT ["tini", "--"]

FROM program AS node
# Healthy while a TCP connection is established, which the node keeps to the kernel.
HEALTHCHECK --interval=15s --start-period=30s CMD ["grep", "-qs", " 01 [0-9A-F]*:", "/proc/net/tcp", "/proc/net/tcp6"]
CMD ["sh", "-c", "exec agent-worker node --join - </run/secrets/awk-join"]

FROM program AS kernel
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["agent-worker", "status"]
CMD ["agent-worker", "start", "--foreground"]
