# An image that serves the catalog in the folder `catalog` by itself, with
# almanac in the place of opm.
#
#     docker build --tag almanac-opm --target opm-image .
#     docker build --tag catalog --file deploy/catalog.Dockerfile deploy
#     docker run --publish 50051:50051 catalog
FROM almanac-opm

ADD catalog /configs

# Fails when a package has an error. At the start the cache is only read, by
# whatever user the image runs as.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

# Where others look for the catalog: almanac, catalogd, oc-mirror.
LABEL operators.operatorframework.io.index.configs.v1=/configs

ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
