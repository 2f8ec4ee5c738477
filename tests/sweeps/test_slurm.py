"""The Slurm executor against a real Slurm of one node, where Debian's slurm-wlm is installed."""

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from bahdanau_jax.sweeps import executors
from bahdanau_jax.sweeps.executors import Job

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("slurmctld"), reason="Slurm isn't installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons want to be root"),
]
DAEMONS = ("slurmctld", "slurmd")
SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A controller and a node, both on this machine, whose files all lie in the scratch."""
    place = tmp_path / "slurm"
    for name in ("state", "spool"):
        (place / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    settings = SETTINGS.format(host=host, ports=free_ports(2), place=place, cores=os.cpu_count())
    (place / "slurm.conf").write_text(settings)
    monkeypatch.setenv("SLURM_CONF", str(place / "slurm.conf"))
    for name in DAEMONS:
        subprocess.run([name, "-f", str(place / "slurm.conf"), "-c"], check=True)
    try:
        for _ in range(100):
            shown = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
            if shown.stdout.strip() == "idle":
                break
            time.sleep(0.2)
        else:
            pytest.skip(f"no node of Slurm's comes up here: {shown.stdout}{shown.stderr}")
        yield
    finally:
        for name in DAEMONS:
            pid = place / f"{name}.pid"
            if pid.exists():
                os.kill(int(pid.read_text()), 15)


def test_cells_run_as_one_array_and_report_their_status(slurm, tmp_path):
    pytest.importorskip("submitit")
    code = "import os, sys; print('task', os.environ['SLURM_ARRAY_TASK_ID']); sys.exit({})"
    jobs = [
        Job(name, [sys.executable, "-S", "-c", code.format(status)], tmp_path / name)
        for name, status in (("good", 0), ("bad", 3))
    ]
    ended = executors.run_slurm(jobs, tmp_path / "jobs", 0, {"timeout_min": 2}, lambda _: None)
    assert {name: status for name, status, _ in ended} == {"good": 0, "bad": 3}
    tasks = [executors.last_line(job.directory / executors.LOG) for job in jobs]
    assert tasks == ["task 0", "task 1"]
