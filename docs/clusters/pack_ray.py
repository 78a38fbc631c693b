# Packs /shared/train into /shared/train.stk on a Ray cluster, one task for each part. Ray runs a lost task again, which
# resumes the part.
import subprocess

import ray

PARTS = 8


@ray.remote(num_cpus=16, max_retries=5, retry_exceptions=True)
def pack(part):
    command = ["stoker", "pack", "/shared/train", "/shared/train.stk", "--codec", "dct", "--part", f"{part}/{PARTS}"]
    subprocess.run(command, check=True)


ray.init()
ray.get([pack.remote(part) for part in range(PARTS)])
subprocess.run(["stoker", "pack", "--merge", "/shared/train.stk"], check=True)
