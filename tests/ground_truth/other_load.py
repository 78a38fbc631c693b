# The load of other processes, measured outside the program under test: its own rule for it cannot excuse its verdicts.
import os
import resource
import time

HIGH = 0.10  # of the time of the cores
BUSY_MACHINE = ("other-processes", "cpu-steal", "oversubscription")  # rules about the machine, not about the run


class OtherLoad:
    """`high` after the block: other processes took more than a tenth of the cores' time, or the host kept it."""

    def __enter__(self):
        self._begin = self._read()
        self.high = False
        return self

    def __exit__(self, *error):
        wall, busy, own = (now - before for now, before in zip(self._read(), self._begin))
        cores = len(os.sched_getaffinity(0))
        self.high = busy - own > HIGH * cores * max(wall, 0.1)

    @staticmethod
    def _read():
        """Seconds: wall time, busy and stolen time of the cores, CPU time of this process and of its ended children."""
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(of.ru_utime + of.ru_stime for of in usage)
        cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        ticks = 0
        with open("/proc/stat", encoding="ascii") as file:
            for name, *numbers in map(str.split, file):
                if name in cores:
                    user, nice, system, _, _, irq, softirq, steal = map(int, numbers[:8])
                    ticks += user + nice + system + irq + softirq + steal
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), own
