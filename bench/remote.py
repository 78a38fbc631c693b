"""Sequential reads over HTTP: Stoker's remote files against curl, from one nginx on the loopback.

    python bench/remote.py --bench build/release/bin/remote_bench [--megabytes 500] [--rounds 5]

The ways take turns, so that a noisy machine slows all of them alike; medians are reported. nginx and curl must be
installed; nginx runs with a configuration, a port and a folder of its own.
"""

import argparse
import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start_nginx(folder):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        sys.exit("remote.py: expected nginx on PATH or in /usr/sbin, found none")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config.write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events { worker_connections 256; }\n"
        f"http {{ access_log off; sendfile on; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/www; }} }}\n"
    )
    process = subprocess.Popen([nginx, "-p", folder, "-c", config], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.05)
    sys.exit("remote.py: nginx did not start")


def timed(command):
    """Seconds of wall time and of this process's children's CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True, help="the program remote_bench")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block", type=int, nargs="*", default=[1 << 20], help="block sizes to measure")
    parser.add_argument("--request", type=int, default=8 << 20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-remote-") as name:
        folder = Path(name)
        (folder / "www").mkdir(mode=0o755)
        os.chmod(folder, 0o755)
        with open(folder / "www/object", "wb") as file:
            for _ in range(options.megabytes):
                file.write(random.randbytes(1_000_000))
        nginx, url = start_nginx(folder)
        ways = {
            "curl to /dev/null": ["curl", "-sf", "-o", "/dev/null", f"{url}/object"],
            "curl to a file": ["curl", "-sf", "-o", folder / "copy", f"{url}/object"],
        }
        for block in options.block:
            bench = [options.bench, f"{url}/object", "--block", block, "--request", max(block, options.request)]
            ways[f"stoker, blocks of {block >> 10} KiB"] = bench
            ways[f"stoker to a file, blocks of {block >> 10} KiB"] = [*bench, "--output", folder / "copy2"]
        ways["stoker, nothing announced"] = [options.bench, f"{url}/object", "--ahead", 0]
        ways["stoker, disk cache empty"] = [options.bench, f"{url}/object", "--cache-dir", folder / "cache",
                                            "--cache-bytes", 1 << 40]
        ways["stoker, disk cache full"] = ways["stoker, disk cache empty"]
        try:
            times = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way, command in ways.items():
                    if way == "stoker, disk cache empty":
                        shutil.rmtree(folder / "cache", ignore_errors=True)
                    times[way].append(timed(command))
            if (folder / "copy").read_bytes() != (folder / "copy2").read_bytes():
                sys.exit("remote.py: the bytes differ")
        finally:
            nginx.terminate()
            nginx.wait()
    base = statistics.median(wall for wall, _ in times["curl to /dev/null"])
    report = {}
    for way, measured in times.items():
        wall = statistics.median(wall for wall, _ in measured)
        report[way] = {
            "megabytes_per_second": round(options.megabytes / wall),
            "of_curl": round(base / wall, 2),
            "cpu_seconds": round(statistics.median(cpu for _, cpu in measured), 3),
            "rounds": [round(options.megabytes / wall) for wall, _ in measured],
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
