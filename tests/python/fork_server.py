# Runs programs in forks of a process that has loaded torch, which takes 1.5 s of CPU time in Python and 0.4 s in C++; a
# fork takes 10 ms. A Python program sees what a new interpreter would show it: argv, __main__, its folder first on
# sys.path, its environment. Only what happens before `import torch` differs: tests of that start an interpreter.
import atexit
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from importlib.machinery import SourceFileLoader


class ForkServer:
    """Like subprocess.run(words, capture_output=True, text=True), one program at a time.

    command: the server, which gets the number of its socket as its last argument: this file, or engine_server.cpp.
    """

    def __init__(self, command, environment):
        ours, theirs = socket.socketpair()
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        command = [*command, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, **quiet)
        theirs.close()
        self._socket = ours
        self._lines = ours.makefile("r")
        self._lock = threading.Lock()
        atexit.register(self.close)

    def close(self):
        self._lines.close()
        self._socket.close()
        self._process.wait()

    def run(self, words, cwd, env, timeout):
        outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
        request = json.dumps({"words": list(words), "cwd": str(cwd), "env": env}).encode() + b"\n"
        with self._lock:
            socket.send_fds(self._socket, [request], outputs)
            pid = int(self._lines.readline())
            killer = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            killer.start()
            status = int(self._lines.readline())
        if not killer.is_alive():
            raise subprocess.TimeoutExpired(words, timeout)
        killer.cancel()
        texts = []
        for output in outputs:
            with open(output, "rb") as file:
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(words, status, *texts)


@functools.cache
def python_server(*environment):
    return ForkServer([sys.executable, __file__], dict(environment))


def run_python(words, cwd, env, timeout):
    """env: one for all calls, since PyTorch reads some of it when it is loaded."""
    return python_server(*env.items()).run(words, cwd, env, timeout)


def receive(connection):
    text, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
    while text and not text.endswith(b"\n"):
        text += connection.recv(1 << 20)
    return (json.loads(text), descriptors) if text else (None, descriptors)


def serve(connection):
    """Returns in each child, with its request; exits when the tests do."""
    gc.freeze()  # else each child copies torch's objects when it visits them at its end
    while True:
        request, outputs = receive(connection)
        if request is None:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            for output, descriptor in zip(outputs, (1, 2), strict=True):
                os.dup2(output, descriptor)
            os.closerange(3, 64)
            return request
        for output in outputs:
            os.close(output)
        connection.sendall(f"{pid}\n".encode())
        connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def print_error(kind, error, traceback):
    """As Python prints it, without the frames of this file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


def execute(words):
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.excepthook = print_error
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], os.getcwd()
        runpy._run_module_as_main(words[1])
        return
    if words[0] == "-c":
        path, text = "<string>", words[1]
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
    else:
        path = words[0]
        sys.argv, sys.path[0] = words, os.path.dirname(os.path.realpath(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        main.__file__, main.__loader__, main.__cached__ = os.path.abspath(path), SourceFileLoader("__main__", path), None
    exec(compile(text, path, "exec"), main.__dict__)


if __name__ == "__main__":
    import torch.utils.data  # noqa: F401  what the programs would load

    request = serve(socket.socket(fileno=int(sys.argv[1])))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    execute(request["words"])
