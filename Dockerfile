# syntax=docker/dockerfile:1
# The command `informer` in an image without a shell, as a user without privileges.
#
#   docker build -t informer .                          # the image
#   docker build --target programs --output out .       # only the static programs, in out/amd64 or out/arm64
#
# Releases build the programs once for each architecture, and replace the stage `programs` with these files.

# On Alpine, Rust builds static programs with musl.
FROM rust:1.89-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package informer-cli \
    && mkdir /programs \
    && cp target/dist/informer target/dist/cargo-informer /programs/

FROM scratch AS programs
ARG TARGETARCH
COPY --from=build /programs/ /$TARGETARCH/

FROM gcr.io/distroless/static:nonroot
ARG TARGETARCH
COPY --from=programs --chmod=755 /$TARGETARCH/informer /informer
USER 65532:65532
ENTRYPOINT ["/informer"]
