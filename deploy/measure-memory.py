#!/usr/bin/env python3
"""Measures the memory of both modes with a fleet of N clusters, idle and under peak load.

    cargo build --release --bin flux-resourceset
    deploy/measure-memory.py target/release/flux-resourceset 1000 10000

Each cluster has 18 components, 3 of them patched, 15 namespaces and 10 rolebindings. Everything is polled once; then operators
plan a change of every cluster, make it, and fetch a backup. Linux only.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

KINDS = {"platform-components": 18, "namespaces": 15, "rolebindings": 10}


def fleet(clusters):
    for n in range(20):
        yield {"kind": "platform_components", "id": f"component-{n}", "component_path": f"component-{n}", "component_version": "1.2.3",
               "oci_url": "https://charts.example.com", "oci_tag": "1.2.3", "cluster_env_enabled": False, "depends_on": []}
    for n in range(40):
        yield {"kind": "namespaces", "id": f"namespace-{n}", "labels": {"team": f"team-{n}"}, "annotations": {"owner": f"owner-{n}"}}
    for n in range(20):
        yield {"kind": "rolebindings", "id": f"binding-{n}", "role": "view", "subjects": [{"kind": "Group", "name": f"group-{n}"}]}
    for n in range(clusters):
        yield {
            "kind": "clusters", "id": f"cluster-{n}", "cluster_name": f"cluster-{n}", "cluster_dns": f"cluster-{n}.k8s.example.com",
            "environment": ["dev", "qa", "prod"][n % 3], "labels": {"region": f"region-{n % 7}"},
            "platform_components": [{"id": f"component-{(n + i) % 20}", "enabled": True} for i in range(18)],
            "namespaces": [{"id": f"namespace-{(n + i) % 40}"} for i in range(15)],
            "rolebindings": [{"id": f"binding-{(n + i) % 20}"} for i in range(10)],
            "patches": {f"component-{(n + i) % 20}": {"replicaCount": str(n % 5), "ui.message": f"cluster {n}"} for i in range(3)},
        }


class Server:
    def __init__(self, binary, folder, mode):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([binary], cwd=folder, env=environment(folder) | {
            "API_MODE": mode, "LISTEN_ADDR": f"127.0.0.1:{self.port}", "REMOVAL_BUDGET": "off", "RUST_LOG": "error"})
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        began = time.monotonic()
        while True:
            try:
                if self.call("GET", "/ready")[0] == 200:
                    break
            except OSError:
                self.connection.close()
            if self.process.poll() is not None or time.monotonic() - began > 600:
                self.stop()
                sys.exit("the server did not become ready")
            time.sleep(0.02)
        self.ready_after = time.monotonic() - began

    def call(self, method, path, body=None):
        headers = {"Authorization": "Bearer token", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def need(self, method, path, body=None):
        status, text = self.call(method, path, body)
        if not 200 <= status < 300:
            sys.exit(f"{method} {path}: {status} {text[:500]}")

    def memory(self):
        """Resident now, and the most it was, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return tuple(int(lines[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()


def environment(folder):
    return {"DATABASE_URL": f"sqlite://{folder}/fleet.db?mode=rwc", "AUTH_TOKEN": "token"}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    binary = os.path.abspath(sys.argv[1])
    print("| clusters | mode | after | resident MiB | most MiB |\n| ---: | --- | --- | ---: | ---: |")
    for clusters in map(int, sys.argv[2:]):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/fleet.jsonl", "w") as lines:
                for document in fleet(clusters):
                    lines.write(json.dumps(document) + "\n")
            subprocess.run([binary, "import", f"{folder}/fleet.jsonl"], env=environment(folder), check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

            def row(mode, after, server):
                now, most = server.memory()
                print(f"| {clusters} | {mode} | {after} | {now} | {most} |", flush=True)

            for mode in ("read-only", "crud"):
                server = Server(binary, folder, mode)
                try:
                    use(server, clusters, mode, lambda after: row(mode, after, server))
                finally:
                    server.stop()


def use(server, clusters, mode, row):
    row(f"start ({server.ready_after:.1f} s)")
    for n in range(clusters):
        for kind in KINDS:
            server.need("GET", f"/api/v2/flux/clusters/cluster-{n}.k8s.example.com/{kind}")
    row("every poll once")
    if mode == "crud":
        patch = {"operations": [{"op": "patch", "kind": "platform_components", "id": "component-0", "selector": "*",
                                 "set": {"ui.color": "#3b82f6"}}]}
        server.need("POST", "/batch?dry_run=true", patch)
        row("a plan for every cluster")
        server.need("POST", "/batch", patch)
        row("that change")
        server.need("GET", "/backup")
        row("a backup")


main()
