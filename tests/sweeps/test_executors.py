import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.signals import REPEAT, Stopped
from bahdanau_jax.sweeps import executors
from bahdanau_jax.sweeps.executors import Job, run_local


def job(tmp_path, name, code):
    return Job(name, [sys.executable, "-S", "-c", textwrap.dedent(code)], tmp_path / name)


def run(jobs, parallel=1):
    begun = []
    ended = list(run_local(jobs, parallel, lambda job: begun.append(job.name)))
    return begun, {name: status for name, status, _ in ended}


def test_every_job_runs_and_a_failure_stops_no_other(tmp_path):
    jobs = [
        job(tmp_path, "good", "print('fine')"),
        job(tmp_path, "bad", "import sys; print('why'); sys.exit(2)"),
        job(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)"),
        job(tmp_path, "last", "print('also fine')"),
    ]
    begun, statuses = run(jobs)
    assert begun == ["good", "bad", "killed", "last"]
    assert statuses == {"good": 0, "bad": 2, "killed": -signal.SIGKILL, "last": 0}
    assert executors.last_line(tmp_path / "bad" / executors.LOG) == "why"
    assert executors.last_line(tmp_path / "absent") == ""


def test_a_log_keeps_what_earlier_runs_wrote(tmp_path):
    for text in ("first", "second"):
        run([job(tmp_path, "cell", f"print({text!r})")])
    assert (tmp_path / "cell" / executors.LOG).read_text() == "first\nsecond\n"


def test_jobs_run_side_by_side_up_to_the_limit(tmp_path):
    # Each waits until another one is there, so that neither could end alone.
    code = """
        import os, sys, time
        here = os.path.dirname({own!r})
        open({own!r}, 'w').close()
        while not os.path.exists({other!r}):
            time.sleep(0.01)
    """
    a, b = str(tmp_path / "a.there"), str(tmp_path / "b.there")
    jobs = [
        job(tmp_path, "a", code.format(own=a, other=b)),
        job(tmp_path, "b", code.format(own=b, other=a)),
    ]
    assert run(jobs, parallel=2)[1] == {"a": 0, "b": 0}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_each_gets_its_share_of_the_cores(tmp_path):
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"
    run([job(tmp_path, name, code) for name in "ab"], parallel=2)
    shares = [set((tmp_path / name / executors.LOG).read_text().split()) for name in "ab"]
    cores = {str(core) for core in os.sched_getaffinity(0)}
    assert shares[0] | shares[1] == cores
    assert len(cores) == 1 or not shares[0] & shares[1]
    run([job(tmp_path, "alone", code)], parallel=1)
    assert set((tmp_path / "alone" / executors.LOG).read_text().split()) == cores


def test_each_gets_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-x")
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    # As many at once as there are GPUs, where nothing else is said.
    begun, _ = run([job(tmp_path, name, code) for name in "abc"], parallel=0)
    shown = {name: (tmp_path / name / executors.LOG).read_text().strip() for name in begun}
    assert {shown["a"], shown["b"]} == {"4", "GPU-x"}
    assert shown["c"] in ("4", "GPU-x")
    run([job(tmp_path, "alone", code)], parallel=1)
    assert (tmp_path / "alone" / executors.LOG).read_text().strip() == "4,GPU-x"


@pytest.mark.parametrize(
    ("whole", "slots", "shares"),
    [
        ("abcd", 1, ["abcd"]),
        ("abcd", 2, ["ab", "cd"]),
        ("abc", 2, ["a", "bc"]),
        ("ab", 3, ["a", "a", "b"]),
        ("", 2, ["", ""]),
    ],
)
def test_shares_leave_nothing_out(whole, slots, shares):
    parts = ["".join(executors._share(list(whole), slot, slots)) for slot in range(slots)]
    assert set("".join(parts)) == set(whole)
    assert [len(share) for share in parts] == [len(share) for share in shares]


def test_without_gpus_none_is_shared(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert executors.visible_gpus() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert executors.visible_gpus() == []


SWEEPER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.sweeps.executors import Job, run_local
code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
job = Job("cell", [sys.executable, "-S", "-c", code], Path({cell!r}))
try:
    list(run_local([job], 1, lambda job: None))
except Stopped as stop:
    sys.exit(stop.status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is seen on Linux only")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.usefixtures("signals_are_heard")
def test_no_cell_outlives_its_sweep(tmp_path, how):
    cell = tmp_path / "cell"
    code = SWEEPER.format(root=str(Path(__file__).parents[2]), cell=str(cell))
    sweeper = subprocess.Popen([sys.executable, "-c", code])
    log = cell / executors.LOG
    while not (log.exists() and log.read_text().endswith("\n")):
        time.sleep(0.02)
        assert sweeper.poll() is None
    pid = int(log.read_text())
    sweeper.send_signal(how)
    assert sweeper.wait(20) == (-how if how == signal.SIGKILL else 128 + how)
    for _ in range(500):
        try:
            # It is nobody's child here; a zombie of another parent counts as gone.
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} lives on")


DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_second_signal_ends_a_sweep_whose_cell_does_not_end(tmp_path):
    cell = tmp_path / "cell"
    code = SWEEPER.format(root=str(Path(__file__).parents[2]), cell=str(cell))
    code = code.replace('code = "import os', f'code = {DEAF!r} or "import os')
    sweeper = subprocess.Popen([sys.executable, "-c", code])
    log = cell / executors.LOG
    while not (log.exists() and log.read_text().endswith("\n")):
        time.sleep(0.02)
        assert sweeper.poll() is None
    sweeper.send_signal(signal.SIGTERM)
    time.sleep(REPEAT + 0.5)
    assert sweeper.poll() is None  # it waits for the cell
    sweeper.send_signal(signal.SIGTERM)
    assert sweeper.wait(10) == -signal.SIGTERM
    os.kill(int(log.read_text()), signal.SIGKILL)


def test_cells_that_end_with_their_sweep_have_not_failed(tmp_path):
    """As when a machine shuts down, and all processes get the signal."""
    jobs = [job(tmp_path, "cell", "import os, time; print(os.getpid(), flush=True); time.sleep(9)")]
    ended, log = run_local(jobs, 1, lambda job: None), tmp_path / "cell" / executors.LOG

    def end_all():
        while not (log.exists() and log.read_text().endswith("\n")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(int(log.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=end_all)
    thread.start()
    with pytest.raises(Stopped):
        next(ended)
    thread.join()


def test_the_slurm_executor_runs_an_array_and_reports_failures(tmp_path):
    pytest.importorskip("submitit")
    jobs = [
        job(tmp_path, "good", "print('fine')"),
        job(tmp_path, "bad", "import sys; print('why'); sys.exit(3)"),
    ]
    begun = []
    ended = executors.run_slurm(
        jobs, tmp_path / "slurm", 0, {"timeout_min": 2}, begun.append, cluster="local"
    )
    statuses = {name: status for name, status, _ in ended}
    assert [job.name for job in begun] == ["good", "bad"]
    assert statuses == {"good": 0, "bad": 3}
    assert executors.last_line(tmp_path / "bad" / executors.LOG) == "why"


SBATCH = "#!/bin/sh\necho Submitted batch job 4321\n"
SCANCEL = '#!/bin/sh\necho "$@" >> "$(dirname "$0")/cancelled"\n'
SACCT = """#!/bin/sh
echo 'JobID|State|NodeList'
echo '4321_[0-1]|RUNNING|node'
"""
SUBMITTER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.sweeps.executors import Job, run_slurm
jobs = [Job(name, ["true"], Path({place!r}) / name) for name in "ab"]
def started(job):
    print(job.name, flush=True)
try:
    list(run_slurm(jobs, Path({place!r}) / "slurm", 0, {{}}, started))
except Stopped as stop:
    sys.exit(stop.status)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.usefixtures("signals_are_heard")
def test_jobs_of_slurm_are_cancelled_when_the_sweep_stops(tmp_path, how):
    pytest.importorskip("submitit")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL), ("sacct", SACCT), ("srun", "")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    code = SUBMITTER.format(root=str(Path(__file__).parents[2]), place=str(tmp_path))
    sweeper = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert sweeper.stdout is not None
    assert [sweeper.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
    sweeper.send_signal(how)
    assert sweeper.wait(60) == 128 + how
    sweeper.stdout.close()
    assert (programs / "cancelled").read_text() == "4321_0\n4321_1\n"


def test_slurm_that_is_not_there_is_said_in_one_line(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"--executor=slurm: .*srun"):
        list(executors.run_slurm([], tmp_path / "slurm", 0, {}, print))
    with pytest.raises(InputError, match=r"--executor=slurm: .*no_such"):
        list(executors.run_slurm([], tmp_path, 0, {"no_such": 1}, print, cluster="local"))


def test_without_submitit_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(InputError, match=r'pip install "bahdanau_jax\[slurm\]"'):
        list(executors.run_slurm([], tmp_path, 0, {}, print))


def test_a_preempted_cell_is_submitted_again_with_the_same_command():
    submitit = pytest.importorskip("submitit")
    cell = executors.SlurmCell(["true"], "log")
    again = cell.checkpoint()
    assert isinstance(again, submitit.helpers.DelayedSubmission)
    assert again.function is cell
