# Shards over HTTP and S3: a real nginx, moto's S3, and a server that computes each signature with botocore. The program
# reports the same for a URL as for the file.
import io
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
KEYS = {"AWS_ACCESS_KEY_ID": "KEYID", "AWS_SECRET_ACCESS_KEY": "SECRET+/KEY", "AWS_REGION": "eu-west-3"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}")


class Nginx:
    """nginx in a new folder, serving `www` in it."""

    def __init__(self, folder, location=""):
        self.port = free_port()
        self.folder = folder
        self.location = location
        self.www = folder / "www"
        self.www.mkdir(parents=True)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        self.temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        self.start()

    def start(self):
        # pytest takes access to its folders from other users, so nginx's workers must not become one.
        user = "user root;" if os.getuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(
            f"{user} daemon off; worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log;\n"
            "events { worker_connections 64; }\n"
            f"http {{ access_log {self.folder}/access.log; {self.temporary}\n"
            f"server {{ listen 127.0.0.1:{self.port}; root {self.www}; {self.location} }} }}\n"
        )
        command = [NGINX, "-p", self.folder, "-c", self.folder / "nginx.conf"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_for(self.port)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)  # at once: connections are cut
        self.process.wait()

    def restart(self, location, seconds_down=0):
        self.stop()
        time.sleep(seconds_down)
        self.location = location
        self.start()

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws_config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws_credentials"))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def nginx(tmp_path):
    if NGINX is None:
        pytest.skip("needs nginx on PATH or in /usr/sbin")
    server = Nginx(tmp_path / "nginx")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shard():
    """A tar of 40 photos, some 1.2 MB."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(40):
            pixels = np.random.default_rng(number).integers(0, 256, (100, 100, 3), np.uint8)
            for ending, content in (("png", png(pixels)), ("cls", str(number % 4).encode())):
                info = tarfile.TarInfo(f"sample-{number:04}.{ending}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def report(stoker, data, **options):
    found = stoker("inspect", data, "--verify", "--json", **options).json()
    del found["path"]
    return found


def assert_same(stoker, tmp_path, url, file, index=17, **options):
    assert report(stoker, url, **options) == report(stoker, file)
    stoker("show", url, "--index", index, "--npy", "remote.npy", **options)
    stoker("show", file, "--index", index, "--npy", "local.npy")
    assert (np.load(tmp_path / "remote.npy") == np.load(tmp_path / "local.npy")).all()


def test_a_shard_behind_nginx(stoker, tmp_path, nginx, shard):
    (nginx.www / "shard 1.tar").write_bytes(shard)
    (tmp_path / "local.tar").write_bytes(shard)
    assert_same(stoker, tmp_path, nginx.url("shard%201.tar"), "local.tar")
    access = (nginx.folder / "access.log").read_text()
    assert "stoker/" in access and " 206 " in access and " 200 " not in access


TFRECORDS = ROOT / "tests/formats/tfrecord/files"
TF_FIELDS = ["--field", "tokens:tokens", "--field", "position"]


@pytest.mark.parametrize("name", ["plain-{00000..00001}-of-00002", "gzip.tfrecord", "zlib.tfrecord"])
def test_tfrecords_behind_nginx(stoker, tmp_path, nginx, name):
    for shard in TFRECORDS.glob("*[0d]*"):
        shutil.copy(shard, nginx.www)
    keys = [sample["key"] for sample in stoker("show", nginx.url(name), "--json").json()["samples"]]
    assert keys == [sample["key"] for sample in stoker("show", TFRECORDS / name, "--json").json()["samples"]]
    assert report(stoker, nginx.url(name)) == report(stoker, TFRECORDS / name)
    stoker("pack", nginx.url(name), "remote.stk", *TF_FIELDS)
    stoker("pack", TFRECORDS / name, "local.stk", *TF_FIELDS)
    packed = [report(stoker, target) for target in ("remote.stk", "local.stk")]
    assert [found.pop("bytes") > 0 for found in packed] == [True, True]  # they hold the source's name
    assert packed[0] == packed[1]
    assert " 200 " not in (nginx.folder / "access.log").read_text()


@pytest.fixture
def packed(stoker, tmp_path):
    """A folder x.stk of 60 digits in some ten shards."""
    stoker("pack", "synth:digits?count=60", "x.stk", "--shard-size", "8KB")
    assert len(list((tmp_path / "x.stk").iterdir())) > 4
    return tmp_path / "x.stk"


def test_a_loader_keeps_remote_samples_on_disk(tmp_path, nginx, shard):
    import stoker

    (nginx.www / "photos.tar").write_bytes(shard)
    loader = stoker.Loader(nginx.url("photos.tar"), 8, cache="disk", workers=1)
    first = sorted(key for batch in loader for key in batch["key"])
    cached = [name for name in map(open_file, os.listdir("/proc/self/fd")) if name.startswith(str(tmp_path / "cache"))]
    assert cached and first == sorted(key for batch in loader for key in batch["key"])


def open_file(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:  # closed meanwhile
        return ""


def test_a_packed_set_behind_nginx(stoker, tmp_path, nginx, packed):
    shutil.copytree(packed, nginx.www / "some where" / "x.stk")
    assert_same(stoker, tmp_path, nginx.url("some%20where/x.stk/"), packed)
    access = (nginx.folder / "access.log").read_text()
    assert " 206 " in access and " 200 " not in access and "stk.json" in access


def test_what_is_not_there(stoker, nginx):
    done = stoker("inspect", nginx.url("none.tar?X-Amz-Signature=abcdef"), status=1)
    assert done.err.count("\n") == 1 and "status 404" in done.err and "abcdef" not in done.err


@pytest.fixture(scope="module")
def moto():
    pytest.importorskip("moto.server")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def client(endpoint):
    boto3 = pytest.importorskip("boto3")
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region_name=KEYS["AWS_REGION"],
    )


def test_a_shard_in_s3(stoker, tmp_path, moto, shard):
    s3 = client(moto)
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    s3.put_object(Bucket="bucket", Key="some where/shard+1.tar", Body=shard)
    (tmp_path / "local.tar").write_bytes(shard)
    settings = {**KEYS, "AWS_ENDPOINT_URL": moto}
    assert_same(stoker, tmp_path, "s3://bucket/some where/shard+1.tar", "local.tar", env=settings)
    done = stoker("inspect", "s3://bucket/none.tar", env=settings, status=1)
    assert done.err.count("\n") == 1 and "404 (NoSuchKey)" in done.err and "Signature" not in done.err


def test_tfrecords_in_s3(stoker, tmp_path, moto):
    s3 = client(moto)
    s3.create_bucket(Bucket="records", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    for shard in TFRECORDS.glob("plain-*"):
        s3.put_object(Bucket="records", Key=f"a/{shard.name}", Body=shard.read_bytes())
    settings = {**KEYS, "AWS_ENDPOINT_URL": moto}
    found = report(stoker, "s3://records/a/plain-0000{0,1}-of-00002", env=settings)
    assert found == report(stoker, TFRECORDS / "plain-*-of-00002")


def test_a_packed_set_in_s3(stoker, tmp_path, moto, packed):
    s3 = client(moto)
    s3.create_bucket(Bucket="packed", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    for file in packed.iterdir():
        s3.put_object(Bucket="packed", Key=f"a b/x.stk/{file.name}", Body=file.read_bytes())
    settings = {**KEYS, "AWS_ENDPOINT_URL": moto}
    assert_same(stoker, tmp_path, "s3://packed/a b/x.stk", packed, env=settings)


@pytest.mark.parametrize("data", ["mds-0.13/plain", "mds-0.13/zstd", "litdata-0.2.76/batch"])
def test_a_folder_with_an_index_in_s3(stoker, tmp_path, moto, data):
    s3 = client(moto)
    folder = Path(__file__).with_name("shards") / data
    bucket = data.replace("/", "-").replace(".", "-")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    for file in folder.iterdir():
        s3.put_object(Bucket=bucket, Key=f"a b/train/{file.name}", Body=file.read_bytes())
    settings = {**KEYS, "AWS_ENDPOINT_URL": moto}
    assert_same(stoker, tmp_path, f"s3://{bucket}/a b/train", folder, index=2, env=settings)
    assert_same(stoker, tmp_path, f"s3://{bucket}/a b/train/index.json", folder, index=2, env=settings)


def test_settings_from_files(stoker, tmp_path, moto, shard):
    s3 = client(moto)
    s3.create_bucket(Bucket="files", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    s3.put_object(Bucket="files", Key="x.tar", Body=shard)
    (tmp_path / "aws_config").write_text(f"[profile mine]\nregion = eu-west-3\nendpoint_url = {moto}\n")
    (tmp_path / "aws_credentials").write_text("[mine]\naws_access_key_id = K\naws_secret_access_key = S\n")
    assert report(stoker, "s3://files/x.tar", env={"AWS_PROFILE": "mine"})["samples"] == 40
    done = stoker("inspect", "s3://files/x.tar", env={"AWS_PROFILE": "nobody"}, status=1)
    assert "nobody" in done.err


class SignatureServer(ThreadingHTTPServer):
    """Serves `body` to requests for `path` that carry the signature that botocore computes for them."""

    def __init__(self, body):
        super().__init__(("127.0.0.1", 0), SignatureHandler)
        self.body = body
        self.path = None
        self.problems = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class SignatureHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def expected(self):
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        signed = self.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        headers = {name: self.headers[name] for name in signed if name != "host"}
        request = AWSRequest("GET", f"http://{self.headers['host']}{self.path}", headers=headers)
        request.context["timestamp"] = self.headers["x-amz-date"]
        keys = Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"])
        auth = S3SigV4Auth(keys, "s3", KEYS["AWS_REGION"])
        to_sign = auth.string_to_sign(request, auth.canonical_request(request))
        return auth.signature(to_sign, request)

    def do_GET(self):
        expected = self.expected()
        if not self.headers["authorization"].endswith(f"Signature={expected}"):
            self.server.problems.append(f"{self.path}: {self.headers['authorization']} is not {expected}")
        if self.path != self.server.path:
            self.server.problems.append(f"{self.path} is not {self.server.path}")
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        body = self.server.body[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(self.server.body)}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def random_keys():
    rng = random.Random(11)
    alphabet = "ab/ +%~&=;:@$,!'()#\u00e9\u96ea\U0001f600-_.<>|^`\"\\"  # braces, * and ? choose among shards
    keys = ["a b+c.tar", "%2F%/x%20y.tar", "a//b/./../c.tar", "\u00e9t\u00e9/\u96ea~.tar", "/first.tar", "a#b&c=d.tar"]
    return keys + ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))) + ".tar" for _ in range(14)]


def test_signatures_of_any_key_are_botocores(stoker, shard):
    server = SignatureServer(shard)
    s3 = client(server.endpoint)
    try:
        for key in random_keys():
            asked = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key})
            server.path = urlsplit(asked).path
            assert server.path.startswith("/bucket/")
            done = stoker("inspect", f"s3://bucket/{key}", "--json", env={**KEYS, "AWS_ENDPOINT_URL": server.endpoint})
            assert done.json()["samples"] == 40
            assert not server.problems, key
    finally:
        server.shutdown()
        server.server_close()


def test_patterns_in_s3(stoker, moto, shard):
    s3 = client(moto)
    s3.create_bucket(Bucket="many", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_REGION"]})
    for number in range(3):
        s3.put_object(Bucket="many", Key=f"some where/x+{number} \u00e9&.tar", Body=shard)
    s3.put_object(Bucket="many", Key="some where/deep/x.tar", Body=shard)
    for number in range(1100):  # more than a page
        s3.put_object(Bucket="many", Key=f"some where/a-{number}.txt", Body=b"")
    settings = {**KEYS, "AWS_ENDPOINT_URL": moto}
    assert report(stoker, "s3://many/some where/*.tar", env=settings)["samples"] == 120
    assert report(stoker, "s3://many/**/*.tar", env=settings)["samples"] == 160
    done = stoker("inspect", "s3://many/none*.tar", env=settings, status=1)
    assert done.err.count("\n") == 1 and "match the pattern" in done.err
    done = stoker("inspect", "s3://nowhere/x*.tar", env=settings, status=1)
    assert "404 (NoSuchBucket)" in done.err and "Signature" not in done.err


def test_parquet_over_http(stoker, tmp_path, nginx):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pixels = np.random.default_rng(0).integers(0, 256, (300, 20, 30, 3), np.uint8)
    rows = [{"bytes": b"P6 30 20 255\n" + image.tobytes(), "path": None} for image in pixels]
    table = pa.table({"image": rows, "label": [i % 5 for i in range(300)], "box": [[float(i), 1.0] for i in range(300)]})
    for name, settings in (("a", {"row_group_size": 100}), ("b", {"compression": "none", "use_dictionary": False})):
        pq.write_table(table, nginx.www / f"{name}.parquet", data_page_size=1, write_batch_size=8, **settings)
        shutil.copy(nginx.www / f"{name}.parquet", tmp_path)
        reports = []
        for place in (nginx.url(f"{name}.parquet"), f"{name}.parquet"):
            reports.append(stoker("inspect", place, "--verify", "--json").json())
            del reports[-1]["path"]
        assert reports[0] == reports[1] and reports[0]["samples"] == 300
    stoker("pack", nginx.url("{a,b}.parquet"), "both.stk", "--field", "box")
    assert stoker("inspect", "both.stk", "--json").json()["samples"] == 600
