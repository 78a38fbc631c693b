# SIGKILL at random moments, up to three times in a row; then the command must finish with the undisturbed result.
import time

from attack import TIMEOUT, Attack, Failure
from jobs import finish, set_up, start, start_job, undisturbed


def kill_attacks(count):
    ranks = count // 10
    return [
        attack("kill-pack", count - count // 2, "pack"),
        attack("kill-train", count // 2 - ranks, "train"),
        Attack("kill-ranks", MEANS, ranks, kill_ranks, lambda shared: undisturbed(), threads=1),
    ]


MEANS = "the same command again finishes with the undisturbed result, bit for bit"


def kill_ranks(case):
    """All processes of a training, while they write a checkpoint together."""
    job = next(job for job in undisturbed().jobs if job.name == "ranks")
    set_up(case.folder, job)
    processes = start_job(job, job.arguments, case.folder)
    checkpoints = case.folder / "out/run/checkpoints"
    step = 15 * case.random.randint(1, 8)  # a checkpoint is written after every 15 steps
    deadline = time.monotonic() + TIMEOUT
    while not any(int(path.name.rpartition("-")[2]) >= step for path in checkpoints.glob(".writing-*")):
        if processes.poll() is not None or time.monotonic() > deadline:
            processes.kill()
            status, err = finish(processes)
            raise Failure(f"ended with status {status} before the kill: {err.strip()[-300:]}")
        time.sleep(0.0002)
    time.sleep(case.random.uniform(0, 0.03))
    processes.kill()
    finish(processes)
    undisturbed().finish_and_check(job, case.folder)


def attack(name, count, command):
    def run(case):
        jobs = [job for job in undisturbed().jobs if job.name.startswith(command)]
        job = jobs[case.number % len(jobs)]
        seconds = undisturbed().expected(job).seconds
        set_up(case.folder, job)
        arguments = job.arguments
        for _ in range(case.random.choice((1, 1, 2, 3))):
            process = start(arguments, case.folder)
            time.sleep(case.random.uniform(0, seconds))
            process.kill()
            status, err = finish(process)
            if status not in (0, -9):
                raise Failure(f"{job.name}: ended with status {status} before the kill: {err.strip()[-300:]}")
            arguments = job.resume
        undisturbed().finish_and_check(job, case.folder)

    return Attack(name, MEANS, count, run, lambda shared: undisturbed())
