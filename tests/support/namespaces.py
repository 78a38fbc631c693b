# Hosts on one machine: network namespaces with an address each, whose links meet in a bridge. A link has a rate where
# one is set: tc's token bucket limits what its host sends. With a latency a relay takes the bridge's place. Needs root
# and iproute2.
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

NETWORK = "10.77.0"
RELAY = Path(__file__).with_name("relay.py")
RELAY_MTU = 9000  # fewer frames for the relay
BURST = 64 * 1024  # bytes: the largest packet that TCP hands to a link
serials = itertools.count()
lock = threading.Lock()  # of the numbers, as hosts are made in threads


def call(*words):
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ip(*words):
    return call("ip", *words)


def address(index):
    return f"{NETWORK}.{index + 1}"


def why_not(rates=False):
    """Why hosts cannot be made here, with `rates` those of links; empty where they can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root and iproute2"
    if rates and shutil.which("tc") is None:
        return "needs tc"
    try:
        with Hosts(2) as hosts:
            if rates:
                hosts.set_rate(1e8)
    except OSError as error:
        return f"no network namespaces{' with rates' * rates}: {error}"
    return ""


class Hosts:
    """Namespaces whose links meet in a bridge, which lies in a namespace of its own. `latency`: seconds from one host
    to another; 0: no relay."""

    def __init__(self, count, latency=0.0):
        with lock:
            prefix = f"stk{os.getpid()}x{next(serials)}"
        self.switch = f"{prefix}s"
        self.names = [f"{prefix}h{index}" for index in range(count)]
        self.latency = latency
        self.made = contextlib.ExitStack()

    def __enter__(self):
        try:
            for name in (self.switch, *self.names):
                ip("netns", "add", name)
                self.made.callback(ip, "netns", "del", name)
            if self.latency > 0:
                self.start_relay()
            else:
                self.make_bridge()
            for index, name in enumerate(self.names):
                ip("-n", name, "addr", "add", f"{address(index)}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
                self.write_names(index)
        except OSError:
            self.made.close()
            raise
        return self

    def make_bridge(self):
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for index, name in enumerate(self.names):
            port = f"port{index}"
            ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")

    def start_relay(self):
        words = [sys.executable, RELAY, self.latency, *self.names]
        relay = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.made.callback(relay.wait)
        self.made.callback(relay.kill)
        if not relay.stdout.readline():
            raise OSError(f"no relay: {relay.stderr.read().decode().strip()}")
        for name in self.names:
            ip("-n", name, "link", "set", "eth0", "mtu", RELAY_MTU)

    def write_names(self, index):
        """/etc/hosts as Debian writes it: a host's own name has a loopback address."""
        folder = Path("/etc/netns") / self.names[index]  # `ip netns exec` puts its files into /etc
        folder.mkdir(parents=True)
        self.made.callback(shutil.rmtree, folder)
        own = {index: "127.0.1.1"}
        lines = [f"{own.get(other, address(other))} host{other}" for other in range(len(self.names))]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def __exit__(self, *_):
        self.kill()
        self.made.close()

    def kill(self):
        for index in range(len(self.names)):
            for pid in self.processes(index):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def set_link(self, index, state):
        ip("-n", self.switch, "link", "set", f"port{index}", state)

    def set_rate(self, bits):
        """Bits a second that each host sends, with the headers of its packets."""
        for name in self.names:
            bucket = ["tbf", "rate", f"{bits:.0f}bit", "burst", BURST, "latency", "100ms"]
            call("tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", *bucket)

    def processes(self, index):
        return [int(pid) for pid in ip("netns", "pids", self.names[index]).split()]

    def inside(self, index, *command):
        """The command as it runs on a host, under the host's own name."""
        named = ["unshare", "--uts", "sh", "-c", f'echo host{index} >/proc/sys/kernel/hostname; exec "$0" "$@"']
        return [str(word) for word in ("ip", "netns", "exec", self.names[index], *named, *command)]
