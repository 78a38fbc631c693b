# A hub and its content delivery network on two ports of the loopback: resolve with redirects to signed URLs that expire,
# and listings in pages. Both write down the requests that they got.
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_HIDDENtoken"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in {**dict(headers), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_range(self, content, headers):
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        place = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self.answer(206, {"Content-Range": place, **headers}, part)

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        self.server.respond(self, unquote(urlsplit(self.path).path), parse_qs(urlsplit(self.path).query))

    def log_message(self, *_):
        pass


class Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, respond, address="127.0.0.1"):
        super().__init__((address, 0), Handler)
        self.seen = []
        self.respond = respond
        self.origin = f"http://{address}:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class FakeHub:
    """`files`: (repository, revision) -> path -> bytes. Each signature is accepted `uses` times."""

    def __init__(self, files, private=False, uses=1000, address="127.0.0.1"):
        self.files = files
        self.private = private
        self.uses = uses
        self.left = {}
        self.renamed = {}
        self.hub = Listener(self.on_hub, address)
        self.network = Listener(self.on_network)

    def close(self):
        self.hub.close()
        self.network.close()

    def on_hub(self, request, path, query):
        if self.private and request.headers["authorization"] != f"Bearer {TOKEN}":
            return request.answer(401, {"X-Error-Code": "RepoNotFound"})
        for old, new in self.renamed.items():
            if path.startswith(f"/datasets/{old}/resolve"):
                return request.answer(307, {"Location": request.path.replace(old, new, 1)})
        if path.startswith("/api/datasets/"):
            return self.on_tree(request, path.removeprefix("/api/datasets/"), query)
        repository, _, rest = path.removeprefix("/datasets/").partition("/resolve/")
        found = self.find(request, repository, rest)
        if found is None:
            return None
        revision, path = found
        content = self.files[repository, revision].get(path)
        if content is None:
            return request.answer(404, {"X-Error-Code": "EntryNotFound"})
        if path.endswith(".json"):  # small files come from the hub itself
            return request.send_range(content, {"ETag": '"git-blob"'})
        signature = f"HIDDENsignature{len(self.left)}"
        self.left[signature] = self.uses
        place = f"{self.network.origin}/{quote(f'{repository}/{revision}/{path}')}?Signature={signature}&Expires=1"
        return request.answer(302, {"Location": place, "X-Linked-ETag": f'"{hash(content)}"', "X-Repo-Commit": "c"})

    def find(self, request, repository, rest):
        """(revision, path), or None after an answer."""
        if all(repository != known for known, _ in self.files):
            request.answer(401 if not request.headers["authorization"] else 404, {"X-Error-Code": "RepoNotFound"})
            return None
        for known, revision in self.files:
            if known == repository and (rest == revision or rest.startswith(revision + "/")):
                return revision, rest[len(revision) + 1 :]
        request.answer(404, {"X-Error-Code": "RevisionNotFound"})
        return None

    def on_tree(self, request, path, query):
        repository, _, rest = path.partition("/tree/")
        found = self.find(request, repository, rest)
        if found is None:
            return None
        revision, folder = found
        entries = self.entries(self.files[repository, revision], folder, query["recursive"] == ["true"])
        if not entries:
            return request.answer(404, {"X-Error-Code": "EntryNotFound"})
        start = int(query.get("cursor", ["0"])[0])
        more = start + 2 < len(entries)  # two entries a page
        url = f"{self.hub.origin}{urlsplit(request.path).path}?recursive={query['recursive'][0]}&cursor={start + 2}"
        headers = {"Link": f'<{url}>; rel="next"'} if more else {}
        return request.answer(200, headers, json.dumps(entries[start : start + 2]).encode())

    def entries(self, files, folder, recursive):
        start = f"{folder}/" if folder else ""
        below = sorted(path for path in files if path.startswith(start))
        entries = [{"type": "directory", "oid": "0", "size": 0, "path": f"{start}a-folder"}] if below else []
        for path in below:
            if recursive or "/" not in path.removeprefix(start):
                entries.append({"type": "file", "oid": "1", "size": len(files[path]), "path": path})
        return entries

    def on_network(self, request, path, query):
        signature = query.get("Signature", [""])[0]
        self.left[signature] = self.left.get(signature, 0) - 1
        if self.left[signature] < 0:
            return request.answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        for (repository, revision), files in self.files.items():
            start = f"/{repository}/{revision}/"
            if path.startswith(start):
                etag = f'"network-{len(self.network.seen)}"'  # of the server that answers, as it were
                return request.send_range(files[path.removeprefix(start)], {"ETag": etag})
        return request.answer(404)
