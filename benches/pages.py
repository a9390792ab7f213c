#!/usr/bin/env python3
"""Times and sizes of the pages for people, and the memory that they take.

    benches/pages.py PROGRAM FOLDER [--every N] [--rounds N]

PROGRAM is almanac, built for release; FOLDER a catalog. Each kind of page is asked for
every Nth package over one connection, one after the other, compressed with gzip. The
first round is not counted. Memory is RssAnon: after the start, after all pages, and
after half a minute of rest.
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

TABS = ["", "/versions", "/versions?rows=all&channels=all", "/updates", "/apis", "/images", "/dependencies",
        "/install", "/problems", "/history", "/graph.svg"]
SITE = ["/", "/search", "/search?q=kafka", "/search?category=Database", "/apis", "/apis/kafka.strimzi.io/Kafka",
        "/compare", "/changes", "/problems", "/mirror", "/api", "/catalogs/c", "/catalogs/c/changes",
        "/catalogs/c/problems", "/suggest?q=kaf"]


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel tells no RssAnon")


class Site:
    def __init__(self, program, folder, data):
        command = [program, "serve", f"c=file:{folder}", "--data-dir", data, "--log-format", "json",
                   "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        self.log = open(os.path.join(data, "..", "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.connection = None
        for _ in range(600):
            time.sleep(0.1)
            if self.process.poll() is not None:
                raise RuntimeError("almanac ended")
            with open(self.log.name, encoding="utf-8") as log:
                found = re.search(r'"listening".*"http".*?"address":"([^"]+)"|"address":"([^"]+)".*"http"', log.read())
            if found:
                self.connection = http.client.HTTPConnection(found.group(1) or found.group(2), timeout=60)
                items = json.loads(self.ask("/catalogs", "application/json")[1])["items"]
                if items[0]["state"] == "serving":
                    return
        raise RuntimeError("the catalog is not served")

    def ask(self, path, accept="text/html"):
        begin = time.perf_counter()
        self.connection.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "gzip"})
        reply = self.connection.getresponse()
        body = reply.read()
        took = (time.perf_counter() - begin) * 1000
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply.status}")
        if reply.getheader("Content-Encoding") == "gzip":
            return took, gzip.decompress(body), len(body)
        return took, body, len(body)


def p95(values):
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]


def row(name, times, sizes):
    print(f"| {name} | {len(times)} | {statistics.median(times):.1f} | {p95(times):.1f} | {max(times):.1f} "
          f"| {statistics.median(sizes) / 1000:.1f} | {max(sizes) / 1000:.1f} |", flush=True)


def measure(site, name, paths, rounds):
    times, sizes = [], []
    for round_ in range(rounds + 1):
        for path in paths:
            took, _, size = site.ask(path)
            if round_ > 0:
                times.append(took)
                sizes.append(size)
    row(name, times, sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        site = Site(os.path.abspath(options.program), os.path.abspath(options.folder), data)
        try:
            # What follows a publication ends first.
            time.sleep(20)
            before = rss(site.process.pid)
            print(f"load {os.getloadavg()[0]:.1f}\n")
            print("| page | requests | median, ms | 95th percentile, ms | longest, ms | median, kB | largest, kB |")
            print("|---|---|---|---|---|---|---|")
            body = json.loads(site.ask("/catalogs/c/api/v1/packages?limit=500", "application/json")[1])
            packages = body["items"][::options.every]
            for path in SITE:
                measure(site, f"`{path}`", [path], options.rounds * 20)
            base = "/catalogs/c/packages/"
            for tab in TABS:
                measure(site, f"package: `{tab or '/'}`", [base + one["name"] + tab for one in packages], options.rounds)
            bundles = [f"{base}{one['name']}/bundles/{one['head']}" for one in packages if one.get("head")]
            measure(site, "version", bundles, options.rounds)
            measure(site, "package in all catalogs", [f"/packages/{one['name']}" for one in packages], options.rounds)
            picks = [f"/mirror?pick=c/{one['name']}" for one in packages]
            measure(site, "mirror plan of a package", picks, options.rounds)
            after = rss(site.process.pid)
            time.sleep(30)
            rest = rss(site.process.pid)
            print(f"\nRssAnon: {before:.1f} MiB before, {after:.1f} MiB after, {rest:.1f} MiB at rest; "
                  f"load {os.getloadavg()[0]:.1f}")
        finally:
            site.process.terminate()
            site.process.wait()
            site.log.close()


main()
