# The job files in docs/clusters: their fields are those that Kubernetes knows, and Slurm runs them on two network
# namespaces of this host. Needs tests/python/extras.txt and Debian's slurm-wlm: `./dev test-extras` installs both.
import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests/support"))

from namespaces import Hosts, why_not  # noqa: E402

CLUSTERS = ROOT / "docs/clusters"


def documents(name):
    yaml = pytest.importorskip("yaml", reason="needs tests/python/extras.txt")
    return list(yaml.safe_load_all((CLUSTERS / name).read_text()))


@pytest.mark.parametrize("name", ["pack_kubernetes.yaml", "train_kubernetes.yaml"])
def test_kubernetes_knows_all_fields(name):
    kubernetes = pytest.importorskip("kubernetes_validate", reason="needs tests/python/extras.txt")
    for document in documents(name):
        kubernetes.validate(document, "1.31", strict=True)


def test_kubernetes_knows_all_fields_of_the_pods_of_a_pytorchjob():
    kubernetes = pytest.importorskip("kubernetes_validate", reason="needs tests/python/extras.txt")
    (job,) = documents("train_pytorchjob.yaml")
    assert (job["apiVersion"], job["kind"], set(job["spec"])) == (
        "kubeflow.org/v1",
        "PyTorchJob",
        {"runPolicy", "pytorchReplicaSpecs"},
    )
    for name, replicas in job["spec"]["pytorchReplicaSpecs"].items():
        assert set(replicas) == {"replicas", "restartPolicy", "template"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower()}, **replicas["template"]}
        kubernetes.validate(pod, "1.31", strict=True)
        assert [container["name"] for container in pod["spec"]["containers"]] == ["pytorch"]
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1


CONFIGURATION = """
ClusterName=stoker
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=host[0-1] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def files(path):
    """The bytes of a file, or of all files of a folder by their names."""
    return path.read_bytes() if path.is_file() else {each.name: each.read_bytes() for each in path.iterdir()}


class Slurm:
    """Two nodes. Paths under /shared become those of `folder`."""

    def __init__(self, folder, hosts):
        self.folder = folder
        self.hosts = hosts
        self.daemons = []
        for name in ("munge", "state", "shared"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # the default looks for mounts that are not there
        (folder / "munge/key").write_bytes(os.urandom(64))
        (folder / "munge/key").chmod(0o600)
        paths = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "log", "pid", "seed")]
        self.begin(0, "munged", "--foreground", "--force", f"--socket={folder}/munge/socket", *paths)
        self.begin(0, "slurmctld", "-D")
        for host in range(2):
            self.begin(host, "slurmd", "-D")
        self.wait(lambda: self("sinfo", "--noheader", "--format=%T %D").stdout.split() == ["idle", "2"])

    def begin(self, host, *command):
        """A process of a host, which ends with the hosts."""
        with open(self.folder / f"{command[0]}{host}.log", "w") as log:
            daemon = subprocess.Popen(self.hosts.inside(host, *command), env=self.environment(), stdout=log, stderr=log)
        self.daemons.append(daemon)

    def environment(self):
        path = f"{PROGRAM.parent}:/usr/sbin:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __call__(self, *command):
        options = {"env": self.environment(), "cwd": self.folder, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(self.hosts.inside(0, *command), **options)

    def submit(self, name, *options, change=lambda text: text):
        """The file of docs/clusters as a job; its number."""
        text = change((CLUSTERS / name).read_text().replace("/shared", str(self.folder / "shared")))
        (self.folder / name).write_text(text)
        done = self("sbatch", "--parsable", *options, name)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job):
        shown = self("scontrol", "show", "job", job).stdout
        return set(re.findall(r"JobState=(\w+)", shown)), shown

    def wait(self, holds, seconds=60):
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, "\n".join(
                [path.read_text()[-2000:] for path in [*self.folder.glob("*.log"), *self.folder.glob("slurm-*.out")]]
                + [self("scontrol", "show", "job").stdout[-2000:]]
            )
            time.sleep(0.2)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if not all(shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("slurmctld", "slurmd", "munged")):
        pytest.skip("needs Debian's slurm-wlm, which `./dev test-extras` installs")
    if missing := why_not():
        pytest.skip(missing)
    with Hosts(2) as hosts:
        slurm = Slurm(tmp_path_factory.mktemp("slurm"), hosts)
        yield slurm
    for daemon in slurm.daemons:
        daemon.wait(20)


def test_slurm_packs_with_an_array_of_jobs(slurm, stoker, tmp_path):
    shared = slurm.folder / "shared"
    stoker("synth", "photos", shared / "train", "--count", "24")
    parts = slurm.submit("pack_slurm.sh", "--cpus-per-task=1")
    merge = ["--array=0", f"--dependency=afterok:{parts}", "--cpus-per-task=1", "pack_slurm.sh", "merge"]
    job = slurm("sbatch", "--parsable", *merge).stdout.strip()
    slurm.wait(lambda: slurm.state(job)[0] == {"COMPLETED"}, 120)
    stoker("pack", shared / "train", "whole.stk", "--codec", "dct")
    assert files(shared / "train.stk") == files(tmp_path / "whole.stk")


RECIPE = """
device = "cpu"
[data]
train = "synth:digits?count=2000"
batch_size = 32
workers = 1
train_ops = [{op = "normalize", preset = "mnist"}]
[model]
hidden = [32]
[train]
epochs = EPOCHS
threads = 1
precision = "fp32"
"""


def last_model(run):
    newest = max((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
    return (newest / "model.safetensors").read_bytes()


@pytest.mark.parametrize("interrupted", [False, True])
def test_slurm_trains_on_two_nodes(slurm, stoker, tmp_path, interrupted):
    """They train what two processes of one host train, also where Slurm's SIGTERM requeues the job."""
    epochs = "40" if interrupted else "2"
    for folder in (slurm.folder, tmp_path):
        (folder / "recipe.toml").write_text(RECIPE.replace("EPOCHS", epochs))
    run = slurm.folder / "shared/runs/a"
    shutil.rmtree(run, ignore_errors=True)
    job = slurm.submit(
        "train_slurm.sh",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        change=lambda text: text.replace("srun --cpus-per-task=8", "srun --cpus-per-task=1"),
    )
    if interrupted:
        slurm.wait(lambda: (run / "metrics.jsonl").exists())
        slurm("scancel", "--signal=TERM", job)  # as Slurm does before the time is over
        slurm.wait(lambda: "Restarts=1" in slurm.state(job)[1])
        assert slurm.state(job)[0] != {"COMPLETED"}, "the run was over before the signal came"
        # Without the two minutes that Slurm waits. In the second in which it ended, slurmd takes it for the old job.
        slurm("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    slurm.wait(lambda: slurm.state(job)[0] == {"COMPLETED"}, 300)
    stoker("launch", "--nproc-per-node", "2", "--", PROGRAM, "train", "recipe.toml", "--out", "run")
    assert last_model(run) == last_model(tmp_path / "run")
