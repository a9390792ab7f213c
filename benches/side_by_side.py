#!/usr/bin/env python3
"""How much slower or faster one build of the program is than another.

Both take the same catalog in at the same time of the run, and wrk and h2load ask both in turns,
in every second round the other one first. For each row: the median rate of both, and the median
of the new rate divided by the old one, with quartiles. Rows of starts have times, for which the
division is the other way round: above 1, the new one is faster.

    benches/side_by_side.py [--rounds N] [--seconds N] [--starts N] [--row NAME]
                            OLD_PROGRAM NEW_PROGRAM FOLDER
"""

import argparse
import collections
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import tempfile
import time
import urllib.request

API = "/catalogs/catalog/api/v1/"
PATIENCE = 300


class Program:
    """A build that serves the catalog from a folder of its own."""

    def __init__(self, path, folder, data):
        started = time.monotonic()
        self.log = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen(
            [path, "serve", "--log-format=text", "--grpc=127.0.0.1:0", "--http=127.0.0.1:0",
             "--admin=127.0.0.1:0", "--poll=never", f"--data-dir={data}", f"catalog=file:{folder}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log,
        )
        self.addresses = {name: self.address(name) for name in ("grpc", "http", "admin")}
        self.await_ready()
        self.ready = time.monotonic() - started
        self.ready_processor = self.processor()

    def address(self, name):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                text = log.read()
            found = re.search(
                rf'listening.*"{name}".* address=(\S+)|listening.* address=(\S+).*"{name}"', text
            )
            if found:
                return found.group(1) or found.group(2)
            if self.process.poll() is not None:
                break
            time.sleep(0.001)
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            raise SystemExit(f"no address of {name} in the log:\n{log.read()}")

    def await_ready(self):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            try:
                with urllib.request.urlopen(f"http://{self.addresses['admin']}/readyz") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.002)
        raise SystemExit("not ready")

    def processor(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def anonymous(self):
        """Anonymous memory in MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) / 1024

    def await_idle(self):
        """Waits until what follows the publication is done."""
        limit, last = time.monotonic() + PATIENCE, -1.0
        while time.monotonic() < limit:
            now = self.processor()
            if now == last:
                return now
            last = now
            time.sleep(1)
        raise SystemExit("never idle")

    def get(self, path):
        request = urllib.request.Request(f"http://{self.addresses['http']}{path}")
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def field(number, text):
    """A protobuf field of text."""
    content = text.encode()
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def questions(program):
    """What is asked: row, kind, what the tools need."""
    blobs = [json.loads(line) for line in program.get(API + "metas?schema=olm.bundle").splitlines()]
    counts = collections.Counter(blob["package"] for blob in blobs)
    package = counts.most_common(1)[0][0]
    channels = program.get(API + f"metas?schema=olm.channel&package={package}").splitlines()
    entries = {json.loads(line)["name"]: json.loads(line)["entries"] for line in channels}
    channel, first = next((name, found[0]["name"]) for name, found in entries.items() if found)
    apis = collections.Counter(
        json.dumps(each["value"], sort_keys=True)
        for blob in blobs for each in blob.get("properties", []) if each["type"] == "olm.gvk"
    )
    api = json.loads(apis.most_common(1)[0][0])
    rows = [
        ("one package", "http", (f"metas?schema=olm.package&name={package}", False)),
        ("a package's blobs", "http", (f"metas?package={package}", False)),
        ("a package's blobs, gzip", "http", (f"metas?package={package}", True)),
        ("all channels", "http", ("metas?schema=olm.channel", False)),
        ("all channels, gzip", "http", ("metas?schema=olm.channel", True)),
        ("all", "http", ("all", False)),
        ("all, gzip", "http", ("all", True)),
        ("first page of packages", "http", ("packages", False)),
        ("details of a package", "http", (f"packages/{package}", False)),
        ("GetPackage", "grpc", ("GetPackage", field(1, package), 10)),
        ("GetBundle", "grpc", ("GetBundle", field(1, package) + field(2, channel) + field(3, first), 10)),
        ("ListBundles", "grpc", ("ListBundles", b"", 1)),
        ("GetLatestChannelEntriesThatProvide", "grpc",
         ("GetLatestChannelEntriesThatProvide",
          field(1, api["group"]) + field(2, api["version"]) + field(3, api["kind"]), 10)),
    ]
    return rows


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def rate(program, kind, question, seconds):
    """Answers a second."""
    if kind == "http":
        path, gzip = question
        report = run(["wrk", "-t", "2", "-c", "8", "--timeout", "60s", "-d", f"{seconds}s",
                      "-H", f"Accept-Encoding: {'gzip' if gzip else 'identity'}",
                      f"http://{program.addresses['http']}{API}{path}"])
        if "Non-2xx" in report:
            raise SystemExit(report)
        return float(re.search(r"Requests/sec:\s+([\d.]+)", report).group(1))
    call, message, streams = question
    with tempfile.NamedTemporaryFile() as body:
        body.write(b"\0" + struct.pack(">I", len(message)) + message)
        body.flush()
        report = run(["h2load", "-c", "8", "-m", str(streams), "-D", str(seconds), "--warm-up-time=1",
                      "-H", "content-type: application/grpc", "-H", "te: trailers", "-d", body.name,
                      f"http://{program.addresses['grpc']}/api.Registry/{call}"])
    if " 0 failed, 0 errored" not in report:
        raise SystemExit(report)
    return float(re.search(r"finished in [^,]+, ([\d.]+) req/s", report).group(1))


def show(row, old, new, ratios, unit):
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"{row:36} {statistics.median(old):10.3f} {statistics.median(new):10.3f} {unit:4}"
          f" {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


def starts(paths, folder, times):
    """A cold start and a restart of each, the first answers, and what follows."""
    found = collections.defaultdict(lambda: ([], []))
    for turn in range(times):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as data:
                for kind in ("cold", "restart"):
                    program = Program(paths[which], folder, data)
                    found[f"{kind}: ready", "s"][which].append(program.ready)
                    found[f"{kind}: processor time", "s"][which].append(program.ready_processor)
                    for which_all in ("first", "second"):
                        begun = time.monotonic()
                        program.get(API + "all")
                        taken = time.monotonic() - begun
                        found[f"{kind}: {which_all} all", "s"][which].append(taken)
                    found[f"{kind}: processor time, all", "s"][which].append(program.await_idle())
                    found[f"{kind}: anonymous memory", "MiB"][which].append(program.anonymous())
                    program.stop()
    for (row, unit), (old, new) in found.items():
        show(row, old, new, [a / b for a, b in zip(old, new)], unit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--row", help="ask only what this row names")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("folder")
    options = parser.parse_args()
    paths = (options.old, options.new)
    print(f"{'row':36} {'old':>10} {'new':>10}      new by old, with quartiles")
    if options.starts:
        starts(paths, options.folder, options.starts)
    if not options.rounds:
        return
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        programs = [Program(path, options.folder, data) for path, data in zip(paths, (old, new))]
        try:
            for program in programs:
                program.await_idle()
            for row, kind, question in questions(programs[0]):
                if options.row not in (None, row):
                    continue
                rates = ([], [])
                for turn in range(options.rounds):
                    for which in (0, 1) if turn % 2 == 0 else (1, 0):
                        rates[which].append(rate(programs[which], kind, question, options.seconds))
                show(row, *rates, [b / a for a, b in zip(*rates)], "1/s")
        finally:
            for program in programs:
                program.stop()


if __name__ == "__main__":
    main()
