#!/usr/bin/env python3
"""Times and sizes of the pages for people, and the memory that they take.

    benches/pages.py PROGRAM FOLDER [--other FOLDER] [--every N] [--rounds N] [--rest SECONDS]

PROGRAM is almanac, built for release; FOLDER a catalog. Each kind of page is asked for
every Nth package over one connection, one after the other, compressed with gzip. The
first round is not counted. With an `--other` catalog, comparisons and plans lead from
one to the other. Memory is RssAnon: some seconds (`--rest`) after the start, after all
pages, and after more rest.
"""

import argparse
import gzip
import http.client
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from urllib.parse import quote

TABS = ["", "/versions", "/versions?rows=all&channels=all", "/versions?view=table", "/updates", "/apis", "/images",
        "/dependencies", "/install", "/problems", "/history", "/history.atom", "/graph.svg", "/graph.mmd"]
SITE = ["/", "/search", "/search?q=kafka", "/search?category=Database", "/apis", "/apis?q=kafka", "/compare",
        "/compare?show=all", "/changes", "/problems", "/mirror", "/api", "/catalogs/c", "/catalogs/c/changes",
        "/catalogs/c/changes.atom", "/catalogs/c/problems", "/catalogs/c/api/v1/graphql", "/suggest?q=kaf",
        "/opensearch.xml", "/robots.txt"]
# Pages of errors, with their statuses.
ERRORS = {"/nowhere": 404, "/catalogs/c/packages/no-such-package": 404, "/problems?code=no-such-code": 404,
          "/search?sort=colour": 400}


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel tells no RssAnon")


class Site:
    def __init__(self, program, folders, data):
        sources = [f"{name}=file:{folder}" for name, folder in folders.items()]
        command = [program, "serve", *sources, "--data-dir", data, "--log-format", "json",
                   "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        self.log = open(os.path.join(data, "..", "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.connection = None
        for _ in range(3000):
            time.sleep(0.1)
            if self.process.poll() is not None:
                raise RuntimeError("almanac ended")
            address, self.admin = self.address("http"), self.address("admin")
            if address and self.admin:
                self.connection = http.client.HTTPConnection(address, timeout=60)
                items = json.loads(self.ask("/catalogs", "application/json")[1])["items"]
                failing = [item["name"] for item in items if item["state"] == "failing"]
                if failing:
                    raise RuntimeError(f"{' and '.join(failing)} cannot be served: is the folder right?")
                if len(items) == len(folders) and all(item["state"] == "serving" for item in items):
                    return
        raise RuntimeError("the catalog is not served")

    def address(self, service):
        with open(self.log.name, encoding="utf-8") as log:
            lines = [line for line in log if '"listening"' in line and f'"{service}"' in line]
        found = re.search(r'"address":"([^"]+)"', lines[0]) if lines else None
        return found and found.group(1)

    def ask(self, path, accept="text/html", status=200):
        begin = time.perf_counter()
        self.connection.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "gzip"})
        reply = self.connection.getresponse()
        body = reply.read()
        took = (time.perf_counter() - begin) * 1000
        if reply.status != status:
            raise RuntimeError(f"{path}: {reply.status}")
        if reply.getheader("Content-Encoding") == "gzip":
            return took, gzip.decompress(body), len(body)
        return took, body, len(body)


def p95(values):
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]


def row(name, times, sizes):
    print(f"| {name} | {len(times)} | {statistics.median(times):.1f} | {p95(times):.1f} | {max(times):.1f} "
          f"| {statistics.median(sizes) / 1000:.1f} | {max(sizes) / 1000:.1f} |", flush=True)


def measure(site, name, paths, rounds, status=200):
    if not paths:
        return
    times, sizes = [], []
    for round_ in range(rounds + 1):
        for path in paths:
            took, _, size = site.ask(path, status=status)
            if round_ > 0:
                times.append(took)
                sizes.append(size)
    row(name, times, sizes)


def assets(site):
    """The files that every page takes, once for all of them."""
    text = site.ask("/")[1].decode()
    return sorted(set(re.findall(r'"(/assets/[^"]+)"', text)))


def pages(site, options, other):
    """Asks for every page."""
    often = options.rounds * 20
    everything = site.ask("/catalogs/c/api/v1/packages?limit=500", "application/json")
    packages = json.loads(everything[1])["items"][::options.every]
    for path in SITE + assets(site):
        measure(site, f"`{path}`", [path], often)
    for path, status in ERRORS.items():
        measure(site, f"`{path}`", [path], often, status)
    kinds = json.loads(site.ask("/api/v1/kinds?limit=500", "application/json")[1])["items"][::options.every]
    measure(site, "providers of a kind", [f"/apis/{quote(one['group'] or 'core', safe='')}/{quote(one['kind'], safe='')}" for one in kinds], options.rounds)
    base = "/catalogs/c/packages/"
    for tab in TABS:
        measure(site, f"package: `{tab or '/'}`", [base + one["name"] + tab for one in packages], options.rounds)
    ways, plans, bundles, differences, icons = [], [], [], [], []
    for one in packages:
        path = base + one["name"]
        if len(one["defaultChannel"]) > 1000:
            # No address has room for such a name.
            continue
        route = f"/catalogs/c/api/v1/packages/{one['name']}/channels/"
        channel = json.loads(site.ask(route + quote(one["defaultChannel"], safe=""), "application/json")[1])
        oldest, head = channel["entries"][-1]["name"], one.get("head")
        icons += re.findall(r'src="(/catalogs/c/icons/[^"]+)"', site.ask(path)[1].decode())
        if head and head != oldest:
            ways.append(f"{path}/versions?from={oldest}&to={head}")
            via = "&via=d" if other else ""
            plans += [f"{path}/updates?from={oldest}{via}", f"{path}/updates?from={oldest}&to={head}&rules=v1"]
            differences.append(f"{path}/bundles/{head}?with={oldest}")
        if head:
            bundles.append(f"{path}/bundles/{head}")
    measure(site, "way in the graph, from the oldest to the newest", ways, options.rounds)
    measure(site, "plan, from the oldest to the newest", plans, options.rounds)
    measure(site, "version", bundles, options.rounds)
    measure(site, "version beside the oldest", differences, options.rounds)
    measure(site, "icon", sorted(set(icons)), options.rounds)
    measure(site, "package in all catalogs", [f"/packages/{one['name']}" for one in packages], options.rounds)
    picks = [f"pick=c/{one['name']}" for one in packages if not one["quarantined"]]
    measure(site, "mirror plan of a package", [f"/mirror?{pick}" for pick in picks], options.rounds)
    several = "&".join(picks[:10])
    measure(site, "mirror plan of ten packages", [f"/mirror?{several}&to=mirror.example.com/a"], often)
    if other:
        measure(site, "difference of two catalogs", ["/compare/diff?from=c&to=d"], often)
    site.connection = http.client.HTTPConnection(site.admin, timeout=60)
    measure(site, "status, on the admin port", ["/"], often)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--other")
    parser.add_argument("--rest", type=int, default=30)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        folders = {"c": options.folder, "d": options.other}
        folders = {name: os.path.abspath(folder) for name, folder in folders.items() if folder}
        site = Site(os.path.abspath(options.program), folders, data)
        try:
            # What follows a publication ends first.
            time.sleep(options.rest)
            before = rss(site.process.pid)
            print(f"load {os.getloadavg()[0]:.1f}\n")
            print("| page | requests | median, ms | 95th percentile, ms | longest, ms | median, kB | largest, kB |")
            print("|---|---|---|---|---|---|---|")
            pages(site, options, "d" in folders)
            after = rss(site.process.pid)
            time.sleep(options.rest)
            rest = rss(site.process.pid)
            print(f"\nRssAnon: {before:.1f} MiB before, {after:.1f} MiB after, {rest:.1f} MiB at rest; "
                  f"load {os.getloadavg()[0]:.1f}")
        finally:
            site.process.terminate()
            site.process.wait()
            site.log.close()


main()
