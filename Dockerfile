# syntax=docker/dockerfile:1
# The server, with `--target cli` the command line, with `--target reporter` the reporter: one static program in an empty image. It
# is built natively for the target platform; the release workflow has a machine for each platform.
#
#   make docker-build        # flux-resourceset:local
#   docker build --target cli --tag flux-resourceset-cli:local .
#   docker build --target reporter --tag flux-resourceset-reporter:local .

FROM rust:1.95-bookworm AS sources
# musl's C compiler, for the C parts of the programs: SQLite, mimalloc, aws-lc. A static glibc could not resolve host names.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates musl-tools \
 && rm -rf /var/lib/apt/lists/*
RUN rustup target add "$(uname -m)-unknown-linux-musl"
# The other files of the final images: certificates, a name for the user, and folders that it may write to.
RUN install --directory /image/etc/ssl/certs \
 && install --directory --mode 1777 /image/tmp \
 && install --directory --owner 65532 --group 65532 --mode 0750 /image/var/lib/flux-resourceset /image/home/nonroot \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' > /image/etc/passwd \
 && echo 'nonroot:x:65532:' > /image/etc/group
WORKDIR /src
COPY . .

FROM sources AS build
# There is no Git repository in the build, so the commit for --version is an argument. It comes late, because it changes each time.
ARG GIT_COMMIT=""
ARG GIT_COMMIT_DATE=""
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-musl" \
 && cargo build --locked --profile dist --target "$target" --package flux-resourceset --package flux-resourceset-cli \
 && install --directory /bin-out \
 && cp "target/$target/dist/flux-resourceset" "target/$target/dist/flux-resourceset-cli" /bin-out/

# By itself: a build together with the server would add what the reporter needs to the server's dependencies.
FROM sources AS build-reporter
ARG GIT_COMMIT=""
ARG GIT_COMMIT_DATE=""
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-musl" \
 && cargo build --locked --profile dist --target "$target" --package flux-resourceset-reporter \
 && install --directory /bin-out \
 && cp "target/$target/dist/flux-resourceset-reporter" /bin-out/

FROM scratch AS base
ARG GIT_COMMIT=""
ARG VERSION=""
LABEL org.opencontainers.image.source="https://github.com/example/flux-resourceset" \
      org.opencontainers.image.documentation="https://github.com/example/flux-resourceset/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$GIT_COMMIT"
COPY --from=sources /image/ /
ENV HOME=/home/nonroot
# By number: from a name, Kubernetes cannot tell that the user is not root.
USER 65532:65532

FROM base AS cli
LABEL org.opencontainers.image.title="flux-resourceset-cli" \
      org.opencontainers.image.description="The command line of flux-resourceset."
COPY --from=build /bin-out/flux-resourceset-cli /flux-resourceset-cli
ENTRYPOINT ["/flux-resourceset-cli"]

FROM base AS reporter
LABEL org.opencontainers.image.title="flux-resourceset-reporter" \
      org.opencontainers.image.description="Tells flux-resourceset what came of the inputs of a cluster."
COPY --from=build-reporter /bin-out/flux-resourceset-reporter /flux-resourceset-reporter
ENTRYPOINT ["/flux-resourceset-reporter"]

FROM base AS server
LABEL org.opencontainers.image.title="flux-resourceset" \
      org.opencontainers.image.description="The desired state of a whole fleet of Kubernetes clusters behind one API."
COPY --from=build /bin-out/flux-resourceset /flux-resourceset
# Mount a volume there, or set another store.
ENV DATABASE_URL=sqlite:///var/lib/flux-resourceset/flux-resourceset.db?mode=rwc
WORKDIR /var/lib/flux-resourceset
EXPOSE 8080
# There is no curl and no shell, so the program checks itself. Kubernetes uses its own probes instead.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --start-interval=1s --retries=3 \
  CMD ["/flux-resourceset", "healthcheck"]
ENTRYPOINT ["/flux-resourceset"]
