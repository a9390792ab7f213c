# syntax=docker/dockerfile:1

# The image of almanac: one stripped program and the C library. Its debug
# information is the target debug-info.
#
#     docker build --tag almanac --build-arg COMMIT="$(git rev-parse HEAD)" .
#     docker build --tag almanac-opm --target opm-image .
#     docker build --tag almanac-olm-opm --target olm-opm-image .
#     docker run --publish 50051:50051 --publish 8080:8080 \
#         --volume ./almanac.toml:/etc/almanac/almanac.toml:ro \
#         --volume almanac:/var/lib/almanac almanac

# The image with the real opm, for the target olm-opm-image.
ARG OPM_IMAGE=quay.io/operator-framework/opm:latest

# The compiler of rust-toolchain.toml.
FROM rust:1.94-bookworm AS build
# The commit that `almanac version` shows: the repository is not copied.
ARG COMMIT=
WORKDIR /src
COPY . .
# Relative relocations in their short form take a megabyte less. The C library of
# Debian 12 reads it; older ones do not, so a build elsewhere has the long form.
ENV RUSTFLAGS="-C link-arg=-Wl,-z,pack-relative-relocs"
# The caches of cargo stay for the next build and are in no layer, so this step
# also copies the program out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    BUILD_COMMIT="$COMMIT" cargo build --profile dist --locked --bin almanac \
    && install -d /out/usr/bin /out/debug /out/opm/bin \
    && deploy/split-debug-info target/dist/almanac /out/usr/bin/almanac /out/debug/almanac.debug \
    && install -d -m 0750 /out/var/lib/almanac \
    && install -m 0755 /out/usr/bin/almanac /out/opm/bin/opm \
    && ln -s opm /out/opm/bin/grpc_health_probe

# The debug information of the program in the images below:
#
#     docker build --target debug-info --output debug .
FROM scratch AS debug-info
COPY --from=build /out/debug/ /

# almanac as a replacement for opm and for the probe that Operator Lifecycle Manager
# runs: the base of catalog images (deploy/catalog.Dockerfile). The Debian is the
# one of the build, so that the C library fits.
FROM gcr.io/distroless/cc-debian12:nonroot AS opm-image
LABEL org.opencontainers.image.title="almanac as a replacement for opm" \
      org.opencontainers.image.description="Serves the folder of a catalog over gRPC with the arguments of opm" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/opm/bin/ /bin/
USER 65532:65532
EXPOSE 50051
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs"]

# The same with the real opm for all other commands: Operator Lifecycle Manager
# has one image for serving extracted catalogs and for unpacking bundles.
FROM ${OPM_IMAGE} AS upstream
FROM opm-image AS olm-opm-image
COPY --from=upstream /bin/opm /bin/opm-upstream

FROM gcr.io/distroless/cc-debian12:nonroot AS almanac
LABEL org.opencontainers.image.title="almanac" \
      org.opencontainers.image.description="Follows Kubernetes operator catalogs by digest and serves them over gRPC and HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/usr/bin/almanac /usr/bin/almanac
# A new volume gets its owner from this folder.
COPY --from=build --chown=65532:65532 /out/var/lib/almanac /var/lib/almanac
USER 65532:65532
WORKDIR /var/lib/almanac
VOLUME /var/lib/almanac
# gRPC, HTTP
EXPOSE 50051 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s --retries=3 \
    CMD ["/usr/bin/almanac", "health"]
ENTRYPOINT ["/usr/bin/almanac"]
CMD ["serve", "--config", "/etc/almanac/almanac.toml"]
