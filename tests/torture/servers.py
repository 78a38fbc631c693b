# HTTP servers that lie, stall or send garbage. The program ends with success or an error line, and in time.
import gzip
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from attack import Attack, check_end
from conftest import run_program
from jobs import finish, start


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        try:
            self.server.behave(self)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.close_connection = True

    def asked(self):
        """The requested bytes [first, end), and whether a range was asked for."""
        size = len(self.server.data)
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return 0, size, False
        first, last = text[len("bytes=") :].split("-")
        if first == "":
            return max(0, size - int(last)), size, True
        return int(first), min(size, int(last) + 1 if last else size), True

    def answer(self, body=None, length=None, span=None, status=None, **headers):
        """An honest answer, except for the given arguments."""
        first, end, ranged = self.asked()
        size = len(self.server.data)
        self.send_response(status or (206 if ranged else 200))
        whole = self.server.data[first:end]
        self.send_header("Content-Length", str(len(whole) if length is None else length))
        self.send_header("ETag", '"torture"')
        self.send_header("Accept-Ranges", "bytes")
        if ranged:
            self.send_header("Content-Range", span or f"bytes {first}-{end - 1}/{size}")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(whole if body is None else body)

    def slice(self):
        first, end, _ = self.asked()
        return self.server.data[first:end]


def slow(handler):
    body = handler.slice()
    handler.answer(body=b"", length=len(body))
    if handler.command != "HEAD":
        for at in range(0, len(body), 1 << 15):
            handler.wfile.write(body[at : at + (1 << 15)])
            time.sleep(0.05)


def stalls(handler):
    body = handler.slice()
    handler.answer(body=body[: len(body) // 2], length=len(body))
    handler.wfile.flush()
    handler.server.stopped.wait()


def cut_bodies(handler):
    body = handler.slice()
    handler.answer(body=body[: len(body) // 2], length=len(body))


def ignores_ranges(handler):
    whole = handler.server.data
    handler.answer(status=200, body=whole, length=len(whole))


def gzip_bomb(handler):
    bomb = handler.server.bomb
    handler.answer(body=bomb, length=len(bomb), Content_Encoding="gzip")


def endless_headers(handler):
    handler.send_response(200)
    handler.flush_headers()
    while not handler.server.stopped.wait(0):
        handler.wfile.write(b"X-More: " + b"y" * 8000 + b"\r\n")


def endless_body(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while handler.command != "HEAD" and not handler.server.stopped.wait(0):
        handler.wfile.write(b"10000\r\n" + b"z" * 0x10000 + b"\r\n")


def endless_refusal(handler, status, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while not handler.server.stopped.wait(0):
        handler.wfile.write(b"10000\r\n" + b"z" * 0x10000 + b"\r\n")


def changes(handler):
    handler.server.requests += 1
    handler.server.data = bytes([handler.server.requests % 256]) * len(handler.server.data)
    handler.answer()


def fails_now_and_then(handler):
    handler.server.requests += 1
    if handler.server.requests % 3 == 0:
        handler.answer(status=503, body=b"", length=0, Retry_After="0")
    else:
        handler.answer()


BEHAVIOURS = {
    "honest": lambda handler: handler.answer(),
    "slow": slow,
    "stalls half-way": stalls,
    "fails now and then": fails_now_and_then,
    "always 500": lambda handler: handler.answer(status=500, body=b"", length=0),
    "Content-Length too large": lambda handler: handler.answer(length=len(handler.slice()) + 1000),
    "Content-Length too small": lambda handler: handler.answer(length=len(handler.slice()) // 2),
    "Content-Length of 2^62": lambda handler: handler.answer(length=1 << 62),
    "Content-Length that is not a number": lambda handler: handler.answer(length="many"),
    "negative Content-Length": lambda handler: handler.answer(length=-5),
    "another range": lambda handler: handler.answer(span=f"bytes 7-9/{len(handler.server.data)}"),
    "range of 2^62 bytes": lambda handler: handler.answer(span=f"bytes 0-99/{1 << 62}"),
    "range is garbage": lambda handler: handler.answer(span="bytes x-y/z"),
    "ignores ranges": ignores_ranges,
    "cut bodies": cut_bodies,
    "closes at once": lambda handler: None,
    "garbage": lambda handler: handler.wfile.write(b"\0\xff not HTTP at all \r\n\r\n" * 50),
    "garbage gzip": lambda handler: handler.answer(body=b"\x1f\x8b garbage" * 20, length=220, Content_Encoding="gzip"),
    "gzip bomb": gzip_bomb,
    "endless headers": endless_headers,
    "endless body": endless_body,
    "endless body of a refusal": lambda handler: endless_refusal(handler, 404),
    "endless body of a redirect": lambda handler: endless_refusal(handler, 302, Location=handler.path),
    "redirect loop": lambda handler: handler.answer(status=302, body=b"", length=0, Location=handler.path),
    "redirect to a file": lambda handler: handler.answer(status=302, body=b"", length=0, Location="file:///etc/passwd"),
    "changes all the time": changes,
}  # fmt: skip


class Server:
    def __init__(self, behave, data, bomb):
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.behave, self.http.data, self.http.bomb, self.http.requests = behave, data, bomb, 0
        self.http.stopped = threading.Event()
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self.http.server_address[1]

    def __exit__(self, *_):
        self.http.stopped.set()
        self.http.shutdown()
        self.http.server_close()


def server_attacks(count):
    state = {}
    names = list(BEHAVIOURS)

    def prepare(shared):
        run_program("synth", "photos", "photos", "--count", "24", cwd=shared)
        run_program("pack", "photos", "x.tar", cwd=shared)
        state["tar"] = (shared / "x.tar").read_bytes()
        state["bomb"] = gzip.compress(bytes(1 << 28))

    def run(case):
        name = names[case.number % len(names)]
        with Server(BEHAVIOURS[name], state["tar"], state["bomb"]) as port:
            url = f"http://127.0.0.1:{port}/x.tar"
            status, err = finish(start(["inspect", url, "--verify", "--json"], case.folder, environment(case.folder)))
        check_end(status, err, name)

    return [Attack("hostile-server", "success or an error line, no signal, in time", count, run, prepare, threads=12)]


def environment(folder):
    clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**clean, "STOKER_CACHE": str(folder / "cache")}
