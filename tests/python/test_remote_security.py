# A URL must not give away secrets, in files or messages, and a server must not send us elsewhere: redirects into the
# local network, bodies without an end, and certificates of a user's CA.
import base64
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import MNIST_OPS, PROGRAM, run_program, small_recipe


class Server:
    """Serves the files of a folder with ranges, after `check` of the request: None, or a status with headers."""

    def __init__(self, folder, address="127.0.0.1", check=lambda request: None, tls=None):
        self.seen = []
        self.sent = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.seen.append(self.path)
                refusal = check(self)
                path = folder / urlsplit(self.path).path.lstrip("/")
                if refusal is None and not path.is_file():
                    refusal = (404, {})
                if refusal is not None:
                    return self.answer(refusal[0], refusal[1], b"")
                first, last = self.headers["range"].removeprefix("bytes=").split("-")
                content = path.read_bytes()
                part = content[int(first) : int(last) + 1]
                place = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
                server.sent += len(part)
                self.answer(206, {"Content-Range": place, "ETag": '"1"'}, part)

            def answer(self, status, headers, body):
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.host = f"{address}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith(("SSL_", "CURL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("STOKER_PRIVATE_REDIRECTS", raising=False)
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def serve(tmp_path):
    """Starts servers of a folder with x.stk and x.tar."""
    www = tmp_path / "www"
    www.mkdir()
    run_program("pack", "synth:digits?count=200", "x.stk", cwd=www)
    run_program("pack", "synth:digits?count=200", "x.tar", cwd=www)
    started = []

    def start(*arguments, **options):
        started.append(Server(www, *arguments, **options))
        return started[-1]

    yield start
    for server in started:
        server.server.shutdown()
        server.server.server_close()


# ---- secrets ----


def requires(user, tokens):
    wanted = "Basic " + base64.b64encode(user.encode()).decode()

    def check(request):
        token = parse_qs(urlsplit(request.path).query).get("token", [""])[0]
        return None if request.headers["authorization"] == wanted and token in tokens else (401, {})

    return check


def without_secrets(done):
    assert "HIDDEN" not in done.out + done.err, done.out + done.err
    return done


def leaks(folder):
    """The files below `folder`, with their names, that contain the secrets of the tests."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if b"HIDDEN" in path.read_bytes() or "HIDDEN" in path.name]


def test_data_commands_keep_secrets(serve, stoker, tmp_path):
    data = "x.stk"
    server = serve(check=requires("HIDDENuser:HIDDENpw", ["HIDDEN1"]))
    url = f"http://HIDDENuser:HIDDENpw@{server.host}/{data}?token=HIDDEN1"
    assert f"http://{server.host}/{data}?..." in without_secrets(stoker("inspect", url)).out
    without_secrets(stoker("inspect", url, "--verify", "--json"))
    without_secrets(stoker("show", url))
    without_secrets(stoker("pack", url, "y.stk"))
    without_secrets(stoker("unpack", url, "y.d"))
    without_secrets(stoker("pack", url, "z.tar", "--json"))
    for wrong in (url + "x", url.replace(data, f"no-{data}"), url.replace(":HIDDENpw", ":HIDDEN/pw")):
        without_secrets(stoker("inspect", wrong, status=1))
    without_secrets(stoker("inspect", "s3://HIDDENKEY:HIDDEN/key@bucket/x.tar", status=1))
    assert not leaks(tmp_path)


def test_a_run_keeps_secrets(serve, stoker, tmp_path):
    if not (PROGRAM.parent / "stoker-engine").is_file():
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    server = serve(check=requires("HIDDENuser:HIDDENpw", ["HIDDEN1", "HIDDEN2"]))
    url = f"http://HIDDENuser:HIDDENpw@{server.host}/x.stk?token=HIDDEN1"
    (tmp_path / "recipe").mkdir()
    recipe = tmp_path / "recipe/r.toml"
    recipe.write_text(small_recipe(url, "synth:digits?count=30", 'cache = "disk"', 'cache_dir = "kept"', MNIST_OPS))
    without_secrets(stoker("train", recipe, "--out", "run"))
    without_secrets(stoker("runs", "list", "run", "--json"))
    without_secrets(stoker("eval", "run"))  # needs no training data

    stored = f"http://...@{server.host}/x.stk?..."
    assert f'train = "{stored}"' in (tmp_path / "run/recipe.toml").read_text()
    refused = stoker("train", "run/recipe.toml", "--out", "run", "--resume", "auto", status=1)
    assert f"[data.train] expected the whole URL, got {stored};" in refused.err and "--set data.train=URL" in refused.err

    server.sent = 0
    again = ["--set", f"data.train={url.replace('HIDDEN1', 'HIDDEN2')}", "--set", "train.epochs=2"]
    done = without_secrets(stoker("train", "run/recipe.toml", "--out", "run", "--resume", "auto", "--json", *again))
    assert done.json()["resumed_from_step"] == 25 and len(done.json()["epochs"]) == 2
    assert server.sent < 100, "another token is the same data: its blocks are in the disk cache"

    wrong = without_secrets(stoker("train", recipe, "--out", "wrong", "--set", f"data.train={url}x", status=1))
    assert "status 401" in wrong.err
    key = without_secrets(stoker("train", recipe, "--out", "wrong", "--set", f"data.decode={url}", status=2))
    assert "data.decode" in key.err
    shutil.rmtree(tmp_path / "recipe")
    assert not leaks(tmp_path)


# ---- redirects ----


def own_address():
    """An address of this machine that is not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing
        except OSError:
            pytest.skip("needs a network interface besides the loopback")
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("needs a network interface besides the loopback")
    return address


def redirects_to(host):
    return lambda request: (302, {"Location": f"http://{host}{request.path}"})


def test_a_redirect_into_this_machine_is_refused(serve, stoker):
    inside = serve()
    port = inside.host.split(":")[1]
    for target in (inside.host, f"localhost:{port}", f"0.0.0.0:{port}", f"[::ffff:127.0.0.1]:{port}"):
        outside = serve(address=own_address(), check=redirects_to(target))
        done = stoker("inspect", f"http://{outside.host}/x.stk", status=1)
        assert " to a loopback address (" in done.err and "STOKER_PRIVATE_REDIRECTS=1" in done.err, done.err
        assert outside.seen and not inside.seen, "nothing is asked of the inner server"
        assert done.err.count("\n") == 1
    stoker("inspect", f"http://{outside.host}/x.stk", env={"STOKER_PRIVATE_REDIRECTS": "1"})
    assert inside.seen


def test_a_redirect_within_this_machine_is_followed(serve, stoker):
    inside = serve()
    stoker("inspect", f"http://{serve(check=redirects_to(inside.host)).host}/x.stk")
    assert inside.seen


def test_a_proxy_does_not_speak_for_this_machine(serve, stoker):
    """The proxy is at a loopback address, and so is the server that its answer names, which no proxy stands before."""
    inside = serve()
    target = inside.host.replace("127.0.0.1", "localhost")
    proxy = serve(check=lambda request: (302, {"Location": f"http://{target}/x.stk"}))
    env = {"http_proxy": f"http://{proxy.host}", "no_proxy": "localhost"}
    done = stoker("inspect", "http://example.org/x.stk", env=env, status=1)
    assert " to a loopback address (" in done.err, done.err
    assert proxy.seen and not inside.seen


# ---- bodies without an end ----


@pytest.mark.parametrize(
    "head, said", [("404 Not Found", "status 404"), ("302 Found\r\nLocation: /x.tar", "more than 1 MiB")]
)
def test_the_body_of_a_refusal_is_not_read_for_ever(tmp_path, head, said):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(f"HTTP/1.1 {head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
                    while True:
                        connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.tar"
        done = run_program("inspect", url, cwd=tmp_path, status=1)
        server.shutdown(socket.SHUT_RDWR)
    assert said in done.err


# ---- certificates ----


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with ca.pem, and server.pem and server.key that it signed for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the program openssl")
    path = tmp_path_factory.mktemp("authority")
    (path / "names").write_text("subjectAltName = IP:127.0.0.1\n")

    def run(*arguments):
        subprocess.run([openssl, *arguments], cwd=path, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test CA")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    sign = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    run("x509", "-req", "-in", "server.csr", *sign, "-out", "server.pem")
    (path / "folder").mkdir()
    shutil.copy(path / "ca.pem", path / "folder")
    run("rehash", "folder")
    return path


def test_certificates_of_the_environment(serve, stoker, authority):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "server.pem", authority / "server.key")
    url = f"https://{serve(tls=tls).host}/x.stk"
    refused = stoker("inspect", url, status=1)
    assert "certificate" in refused.err and "SSL_CERT_FILE" in refused.err and refused.err.count("\n") == 1
    ca = str(authority / "ca.pem")
    stoker("inspect", url, env={"SSL_CERT_FILE": ca})
    stoker("inspect", url, env={"CURL_CA_BUNDLE": ca, "SSL_CERT_FILE": "/nowhere"})  # as curl: the first counts
    stoker("inspect", url, env={"SSL_CERT_DIR": str(authority / "folder")})
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        missing = stoker("inspect", url, env={name: "/nowhere"}, status=1)
        assert f"{name} must name a PEM file" in missing.err and missing.err.count("\n") == 1
