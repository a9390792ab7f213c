#!/usr/bin/env python3
"""How long small requests take while large images are read.

Two OCI layouts change together: each gets a layer of --size MB. Until both are served,
probes, the admin port and both APIs are asked every few milliseconds, each over one
connection. With --cpu the program runs on that core alone, as with a CPU quota of one.

    benches/latency.py [--size MB] [--cpu N] [--runs N] target/release/almanac
"""

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import tarfile
import tempfile
import threading
import time
import zlib

PACKAGES = 200
PAUSE = 0.005
PATHS = ["/livez", "/readyz", "/status", "/metrics"]


def catalog(generation):
    """A catalog of some packages, as lines of JSON."""
    lines = []
    for number in range(PACKAGES):
        name = f"package-{number}"
        bundle = f"{name}.v{generation}.0.0"
        lines += [
            {"schema": "olm.package", "name": name, "defaultChannel": "stable"},
            {"schema": "olm.channel", "package": name, "name": "stable", "entries": [{"name": bundle}]},
            {
                "schema": "olm.bundle", "package": name, "name": bundle, "image": f"example.com/{name}:1",
                "properties": [{"type": "olm.package",
                                "value": {"packageName": name, "version": f"{generation}.0.0"}}],
            },
        ]
    return "\n".join(json.dumps(line) for line in lines).encode()


def layout(folder, generation, size):
    """Adds an image to a layout, whose index is written beside it, and returns the index."""
    blobs = os.path.join(folder, "blobs/sha256")
    os.makedirs(blobs, exist_ok=True)

    def put(content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as file:
            file.write(content)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(content)}

    path = os.path.join(blobs, "layer")
    with open(path, "wb") as file:
        packed = zlib.compressobj(1, zlib.DEFLATED, 31)
        plain = hashlib.sha256()

        def write(data):
            plain.update(data)
            file.write(packed.compress(data))

        def entry(name, length):
            info = tarfile.TarInfo(name)
            info.size = length
            write(info.tobuf())

        content = catalog(generation)
        entry("configs/catalog.json", len(content))
        write(content + bytes(-len(content) % 512))
        # Text that halves: a chunk is longer than the window of deflate.
        chunk = random.Random(generation).randbytes(1 << 19).hex().encode()
        entry("usr/lib/filler", size * 2 * len(chunk))
        for _ in range(size * 2):
            write(chunk)
        write(bytes(1024))
        file.write(packed.flush())
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
             "digest": "sha256:" + digest.hexdigest(), "size": os.path.getsize(path)}
    os.rename(path, os.path.join(blobs, digest.hexdigest()))
    config = put(json.dumps({
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + plain.hexdigest()]},
        "config": {"Labels": {"operators.operatorframework.io.index.configs.v1": "/configs"}},
    }).encode(), "application/vnd.oci.image.config.v1+json")
    media_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = put(json.dumps({
        "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer],
    }).encode(), media_type)
    with open(os.path.join(folder, "oci-layout"), "w") as file:
        file.write('{"imageLayoutVersion": "1.0.0"}')
    return json.dumps({"schemaVersion": 2, "manifests": [manifest]})


def show(folder, index):
    with open(os.path.join(folder, "next"), "w") as file:
        file.write(index)
    os.rename(os.path.join(folder, "next"), os.path.join(folder, "index.json"))


def connect(address):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host.strip("[]"), int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def http(address, path):
    """A function that asks for a path over one connection."""
    connection = connect(address)
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()

    def ask():
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(1 << 16)
        head, body = answer.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
        while len(body) < length:
            body += connection.recv(1 << 16)
        return body

    return ask


def health(address):
    """A function that asks grpc.health.v1.Health/Check, frame by frame."""
    connection = connect(address)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    stream = -1

    def read(length):
        data = b""
        while len(data) < length:
            piece = connection.recv(length - len(data))
            if not piece:
                raise ConnectionError("the connection was closed")
            data += piece
        return data

    def ask():
        nonlocal stream
        stream += 2
        fields = b"".join(
            b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
            for name, value in [
                (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/grpc.health.v1.Health/Check"),
                (b":authority", b"a"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
            ])
        connection.sendall(frame(1, 4, stream, fields) + frame(0, 1, stream, bytes(5)))
        while True:
            head = read(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = read(length)
            if kind in (4, 6) and not flags & 1:
                connection.sendall(frame(kind, 1, 0, payload if kind == 6 else b""))
            if int.from_bytes(head[5:], "big") == stream and flags & 1:
                return

    return ask


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def measure(questions, over):
    """The sorted times of each question until `over` says so, in milliseconds."""
    times = {name: [] for name in questions}
    stop = threading.Event()

    def run(name):
        ask = questions[name]
        while not stop.is_set():
            begin = time.perf_counter()
            ask()
            times[name].append((time.perf_counter() - begin) * 1000)
            time.sleep(PAUSE)

    threads = [threading.Thread(target=run, args=[name]) for name in questions]
    for thread in threads:
        thread.start()
    begin = time.perf_counter()
    while not over():
        time.sleep(0.05)
    seconds = time.perf_counter() - begin
    stop.set()
    for thread in threads:
        thread.join()
    return seconds, {name: sorted(all_times) for name, all_times in times.items()}


def report(what, seconds, times):
    print(f"{what}, {seconds:.1f} s: milliseconds (median, 99th percentile, most)")
    for name, some in times.items():
        rank = min(len(some) - 1, int(len(some) * 0.99))
        print(f"  {name:14} {some[len(some) // 2]:8.2f} {some[rank]:8.2f} {some[-1]:8.2f}  of {len(some)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=800, help="size of each layer in MB")
    parser.add_argument("--cpu", type=int, help="the only core of the program")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="time without a change")
    parser.add_argument("program")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="latency")
    try:
        bench(options, folder)
    finally:
        shutil.rmtree(folder)


def bench(options, folder):
    names = ["a", "b"]
    folders = {name: os.path.join(folder, name) for name in names}
    runs = range(options.runs)
    indexes = {name: [layout(folders[name], 1, 0)] + [layout(folders[name], run + 2, options.size) for run in runs]
               for name in names}
    for name in names:
        show(folders[name], indexes[name][0])
    command = ["taskset", "-c", str(options.cpu)] if options.cpu is not None else []
    ports = ["--grpc=127.0.0.1:0", "--http=127.0.0.1:0", "--admin=127.0.0.1:0"]
    sources = [f"{name}=oci:{folders[name]}" for name in names]
    command += [options.program, "serve", "--log-format=text", f"--data-dir={folder}/data", "--poll=200ms", *ports, *sources]
    log = open(os.path.join(folder, "log"), "w+")
    program = subprocess.Popen(command, stderr=log)
    try:
        addresses = {}
        while len(addresses) < 3:
            time.sleep(0.1)
            log.seek(0)
            plain = re.sub(r"\x1b\[[0-9;]*m", "", log.read())
            assert program.poll() is None, plain
            addresses = dict(re.findall(r'listening service="(\w+)" address=(\S+)', plain))
        status = http(addresses["admin"], "/status")

        def served(index):
            wanted = {name: json.loads(indexes[name][index])["manifests"][0]["digest"] for name in names}
            catalogs = json.loads(status())["catalogs"]
            return all(one["revision"] and one["revision"]["digest"] == wanted[one["name"]] for one in catalogs)

        while not served(0):
            time.sleep(0.1)
        questions = {path: http(addresses["admin"], path) for path in PATHS}
        questions["gRPC Check"] = health(addresses["grpc"])
        questions["HTTP metas"] = http(addresses["http"], "/catalogs/a/api/v1/metas?package=package-7")
        until = time.perf_counter() + options.seconds
        report("idle", *measure(questions, lambda: time.perf_counter() > until))
        for run in runs:
            for name in names:
                show(folders[name], indexes[name][run + 1])
            report(f"change {run + 1}", *measure(questions, lambda: served(run + 1)))
    except AssertionError:
        log.seek(0)
        print(log.read())
        raise
    finally:
        program.terminate()
        program.wait()


if __name__ == "__main__":
    main()
