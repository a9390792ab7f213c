# syntax=docker/dockerfile:1

# The image of almanac: one program and the C library, nothing else.
#
#     docker build --tag almanac .
#     docker run --publish 50051:50051 --publish 8080:8080 \
#         --volume ./almanac.toml:/etc/almanac/almanac.toml:ro \
#         --volume almanac:/var/lib/almanac almanac

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# What cargo fetched and compiled is kept for the next build and is in no layer,
# so the program is taken out of there in the same step.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin almanac \
    && install -D -m 0755 target/release/almanac /out/usr/bin/almanac \
    && install -d -m 0750 /out/var/lib/almanac

# The same Debian as above, so that the C library fits.
FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="almanac" \
      org.opencontainers.image.description="Follows Kubernetes operator catalogs by digest and serves them over gRPC and HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/usr/bin/almanac /usr/bin/almanac
# A new volume takes its owner from here.
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
