# An image that serves the catalog in the folder `catalog`, with almanac as a
# replacement for opm.
#
#     docker build --tag almanac-opm --target opm-image .
#     docker build --tag catalog --file deploy/catalog.Dockerfile deploy
#     docker run --publish 50051:50051 catalog
FROM almanac-opm

ADD catalog /configs

# Fails when a package has an error. A start only reads the cache, as any user.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

# almanac, catalogd and oc-mirror read the catalog's folder here.
LABEL operators.operatorframework.io.index.configs.v1=/configs

ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
