# gs:// names against a stand-in for Google Cloud Storage's XML interface, which computes each signature with botocore.
# moto lists buckets as S3 does.
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from conftest import run_program

KEYS = {"GS_ACCESS_KEY_ID": "GOOGHIDDEN1", "GS_SECRET_ACCESS_KEY": "HIDDEN+/secret"}
LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://doc.s3.amazonaws.com/2006-03-01">'
    "<Name>bucket</Name><EncodingType>url</EncodingType>{}</ListBucketResult>"
)


class Storage(ThreadingHTTPServer):
    """`objects`: key -> bytes, in "bucket". `allows` decides by the Authorization header."""

    daemon_threads = True

    def __init__(self, objects, allows):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = objects
        self.allows = allows
        self.seen = []
        self.host = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append(self.path)
        path = unquote(urlsplit(self.path).path)
        if not self.server.allows(self):
            return self.answer(403, {}, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if path == "/bucket/":
            return self.answer(200, {}, self.listing(parse_qs(urlsplit(self.path).query)).encode())
        content = self.server.objects.get(path.removeprefix("/bucket/"))
        if content is None:
            return self.answer(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        place = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return self.answer(206, {"Content-Range": place, "ETag": '"1"'}, part)

    def listing(self, query):
        assert query["list-type"] == ["2"] and query["encoding-type"] == ["url"]
        prefix = query.get("prefix", [""])[0]
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        if "delimiter" in query:
            keys = [key for key in keys if "/" not in key.removeprefix(prefix)]
        start = int(query.get("continuation-token", ["0+"])[0].removesuffix("+"))
        part = "".join(
            f"<Contents><Key>{escape(quote(key, safe='/'))}</Key><Size>{len(self.server.objects[key])}</Size></Contents>"
            for key in keys[start : start + 2]
        )
        if start + 2 < len(keys):
            part += f"<IsTruncated>true</IsTruncated><NextContinuationToken>{start + 2}+</NextContinuationToken>"
        return LISTING.format(part)

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def is_signed(request):
    """True for botocore's signature, with GCS's region."""
    auth_module = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = request.headers["authorization"] or ""
    if "/auto/s3/aws4_request" not in given:
        return False
    signed = given.split("SignedHeaders=")[1].split(",")[0].split(";")
    headers = {name: request.headers[name] for name in signed if name != "host"}
    asked = AWSRequest("GET", f"http://{request.headers['host']}{request.path}", headers=headers)
    asked.context["timestamp"] = request.headers["x-amz-date"]
    keys = Credentials(KEYS["GS_ACCESS_KEY_ID"], KEYS["GS_SECRET_ACCESS_KEY"])
    auth = auth_module.S3SigV4Auth(keys, "s3", "auto")
    signature = auth.signature(auth.string_to_sign(asked, auth.canonical_request(asked)), asked)
    return given.endswith(f"Signature={signature}")


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith(("GS_", "GCS_", "GOOGLE_", "BOTO", "STORAGE_", "AWS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    run_program("pack", "synth:digits?count=60", "x.tar", cwd=folder)
    content = (folder / "x.tar").read_bytes()
    names = ["a b/x-0.tar", "a b/x-1+.tar", "a b/x-2&é.tar", "a b/deep/x-3.tar", "a b/y.txt", "z.tar"]
    return {name: content for name in names}


@pytest.fixture
def serve(monkeypatch):
    started = []

    def start(objects, allows):
        started.append(Storage(objects, allows))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", started[-1].host)
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def samples(stoker, data, **options):
    return stoker("inspect", data, "--json", **options).json()["samples"]


def test_objects_and_patterns_with_hmac_keys(stoker, tmp_path, serve, shards):
    serve(shards, is_signed)
    assert samples(stoker, "gs://bucket/a b/x-2&é.tar", env=KEYS) == 60
    assert samples(stoker, "gs://bucket/a b/x-*.tar", env=KEYS) == 180
    assert samples(stoker, "gs://bucket/**/x-*.tar", env=KEYS) == 240
    assert samples(stoker, "gs://bucket/{a b/x-0,z}.tar", env=KEYS) == 120
    home = tmp_path / "home"
    home.mkdir()
    lines = f"gs_access_key_id = {KEYS['GS_ACCESS_KEY_ID']}\ngs_secret_access_key={KEYS['GS_SECRET_ACCESS_KEY']}\n"
    (home / ".boto").write_text("[Credentials]\n# of gsutil\n" + lines)
    assert samples(stoker, "gs://bucket/z.tar") == 60
    (tmp_path / "other").write_text("[Credentials]\n" + lines.replace("HIDDEN", "OTHER"))
    done = stoker("inspect", "gs://bucket/z.tar", env={"BOTO_CONFIG": str(tmp_path / "other")}, status=1)
    assert "403 (SignatureDoesNotMatch)" in done.err and "OTHER" not in done.err


def test_tokens_and_public_buckets(stoker, serve, shards):
    serve(shards, lambda request: request.headers["authorization"] == "Bearer ya29.HIDDEN")
    for name in ("GCS_OAUTH_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        assert samples(stoker, "gs://bucket/a b/x-*.tar", env={name: "ya29.HIDDEN"}) == 180
    refused = stoker("inspect", "gs://bucket/z.tar", status=1)
    assert "GS_ACCESS_KEY_ID" in refused.err
    serve(shards, lambda request: request.headers["authorization"] is None)
    assert samples(stoker, "gs://bucket/a b/x-*.tar") == 180
    assert samples(stoker, "gs://bucket/z.tar", env={**KEYS, "GS_NO_SIGN_REQUEST": "1"}) == 60


def test_nothing_secret_is_kept(stoker, tmp_path, serve, shards):
    serve(shards, is_signed)
    runs = [
        stoker("inspect", "gs://bucket/a b/x-*.tar", "--verify", "--json", env=KEYS),
        stoker("pack", "gs://bucket/z.tar", "y.stk", env=KEYS),
        stoker("inspect", "gs://bucket/none.tar", env=KEYS, status=1),
        stoker("inspect", "gs://bucket/none*.tar", env=KEYS, status=1),
        stoker("inspect", "gs://bucket/z.tar", env={**KEYS, "GS_SECRET_ACCESS_KEY": "HIDDENwrong"}, status=1),
        stoker("inspect", "gs://bucket/z.tar", env={"GS_ACCESS_KEY_ID": "HIDDEN"}, status=None),
        stoker("inspect", "gs://HIDDEN:HIDDEN@bucket/z.tar", status=None),
    ]
    assert all("HIDDEN" not in run.out + run.err for run in runs)
    assert all(run.err.count("\n") == 1 for run in runs[2:])
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"HIDDEN" in path.read_bytes()]
