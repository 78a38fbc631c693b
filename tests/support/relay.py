# A switch whose links have a delay, for kernels without netem: `relay.py SECONDS NAMESPACE...` makes the link eth0 in
# each namespace, prints a line, and passes on every frame after SECONDS until it is killed.
import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
TAP, NO_INFO = 0x0002, 0x1000
FRAME = 65536


def open_tap(namespace):
    with open(f"/run/netns/{namespace}") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", TAP | NO_INFO))
    return tap


def main():
    delay = float(sys.argv[1])
    taps = [open_tap(namespace) for namespace in sys.argv[2:]]
    print("ready", flush=True)
    ports = {}  # by address
    waiting = deque()  # (when, frame, from), in order, as the delay is the same for all
    while True:
        limit = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        for tap in select.select(taps, [], [], limit)[0]:
            frame = os.read(tap, FRAME)
            ports[frame[6:12]] = tap
            waiting.append((time.monotonic() + delay, frame, tap))
        while waiting and waiting[0][0] <= time.monotonic():
            _, frame, source = waiting.popleft()
            known = ports.get(frame[:6])
            for tap in [known] if known is not None else [tap for tap in taps if tap != source]:
                try:
                    os.write(tap, frame)
                except OSError:  # the link is down, or its queue is full
                    pass


main()
