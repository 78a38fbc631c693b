# SIGKILL at random moments, up to three times in a row; then the command must finish with the undisturbed result.
import time

from attack import Attack, Failure
from jobs import finish, set_up, start, undisturbed


def kill_attacks(count):
    return [attack("kill-pack", count - count // 2, "pack"), attack("kill-train", count // 2, "train")]


def attack(name, count, command):
    def run(case):
        jobs = [job for job in undisturbed().jobs if job.name.startswith(command)]
        job = jobs[case.number % len(jobs)]
        seconds = undisturbed().expected(job).seconds
        set_up(case.folder)
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

    means = "the same command again finishes with the undisturbed result, bit for bit"
    return Attack(name, means, count, run, lambda shared: undisturbed())
