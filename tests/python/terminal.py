# Runs a program whose stdout or stderr is a terminal, as a person has it, and returns what it prints there.
import fcntl
import os
import select
import struct
import subprocess
import termios


def on_terminal(columns, command, cwd, stream="stdout", status=0):
    """The lines on a terminal of `columns` columns; the other stream is dropped."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: slave}
    shown = b""
    with subprocess.Popen(list(map(str, command)), cwd=cwd, **streams) as process:
        # The slave stays open until all is read: Linux may drop what the master has not read when the last one closes.
        while True:
            ended = process.poll() is not None
            if select.select([master], [], [], 0.05)[0]:
                shown += os.read(master, 4096)
            elif ended:
                break
    os.close(slave)
    os.close(master)
    assert process.returncode == status, shown
    return shown.decode().replace("\r\n", "\n").splitlines()
