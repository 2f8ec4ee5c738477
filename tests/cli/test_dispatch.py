"""Whatever flag a mode takes reaches what the mode runs; all that it runs is replaced here."""

import pytest

from bahdanau_jax.cli import checks, dispatch, sweeping
from bahdanau_jax.cli.command_line import parse
from bahdanau_jax.cli.flags import FLAGS, MODES
from bahdanau_jax.sweeps import executors, matching, replicas, sweep, tuning
from bahdanau_jax.workdir import directory as workdir

RUN = ["train", "explain", "evaluate", "score", "align", "translate_files", "report"]
RUN += ["open_run", "read_lexicon"]

# How a flag is given, and what has to be given with it.
GIVEN: dict[str, list[str]] = {
    "coordinator": ["--coordinator=h:1", "--distributed"],
    "process": ["--process=1", "--distributed"],
    "processes": ["--processes=2", "--distributed"],
    "zip": ["--zip", "--sweep=learning_rate=0.1,0.2"],
    "match": ["--match=params"],
    "executor": ["--executor=slurm"],
    "slurm": ["--slurm=timeout_min=1", "--executor=slurm"],
    "sweep": ["--sweep=learning_rate=0.1,0.2"],
    "tune": ["--tune=seed=3,4"],
    "trials": ["--trials=3", "--tune=seed=3,4"],
    "metric": ["--metric=dev/wer", "--tune=seed=3,4"],
    "replicas": ["--replicas=2"],
    "checkpoint": ["--checkpoint=latest"],
    "gold_base": ["--gold_base=1", "--gold=g"],
    "symmetrize": ["--symmetrize=union", "--reverse=r"],
    "reverse": ["--reverse=r", "--symmetrize=union"],
    "threshold": ["--threshold=0.5"],
    "temperature": ["--temperature=0.5"],
    "alignment_format": ["--alignment_format=pharaoh", "--alignments=a.json"],
    "length_penalty": ["--length_penalty=none"],
    "length_penalty_alpha": ["--length_penalty_alpha=0.3", "--length_penalty=gnmt"],
    "lexicon": ["--lexicon=l", "--replace_unk"],
}
# Two that need each other: another value is told apart, since neither can be left out alone.
OTHER = {"symmetrize": ["--symmetrize=intersection"], "reverse": ["--reverse=s"]}
# What a command line is about; `test_flags.py` tries them.
WHERE = ("mode", "config", "workdir")
CASES = [
    (mode, flag)
    for mode in MODES
    for flag in FLAGS
    if mode in flag.modes and flag.name not in WHERE
]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Returns what is called, in the folder of a run, by a list of arguments."""
    monkeypatch.chdir(tmp_path)
    config = parse(["launch.py", "--config=reverse"]).config()
    config.decode.beam_size = 2  # so that the penalties rank something
    (tmp_path / "run").mkdir()
    workdir.write_config(tmp_path / "run", config)
    made = []

    def note(name, result=lambda *_: "result"):
        def called(*args, **kwargs):
            made.append((name, repr(args), repr(kwargs)))
            return result(*args)

        return called

    class Texts:
        """Pairs that somebody gives."""

        pairs = ()

        def with_gold(self, *args):
            made.append(("with_gold", repr(args), ""))
            return self

        def __repr__(self):
            return "texts"

    def run_cells(directory, cells, command, run, say, notes):
        run([], say)
        return []

    for name in RUN:
        monkeypatch.setattr(dispatch, name, note(name))
    monkeypatch.setattr(dispatch, "given_texts", note("given_texts", lambda *_: Texts()))
    monkeypatch.setattr(dispatch.processes, "join", note("join"))
    monkeypatch.setattr(dispatch.setup, "configure", note("configure"))
    monkeypatch.setattr(executors, "run_local", note("run_local"))
    monkeypatch.setattr(executors, "run_slurm", note("run_slurm"))
    monkeypatch.setattr(matching, "match_parameters", note("match", lambda cells, *_: (cells, [])))
    monkeypatch.setattr(replicas, "train_replicas", note("train_replicas", lambda *_: []))
    monkeypatch.setattr(sweep, "print_commands", note("print_commands"))
    monkeypatch.setattr(sweep, "sweep", note("sweep", run_cells))
    monkeypatch.setattr(tuning, "tune", note("tune", lambda *_: []))

    def of(arguments):
        made.clear()
        line = parse(["launch.py", *arguments])
        if sweeping.wanted(line):
            sweeping.start(line, line.handed_on(), "compare")
        else:
            dispatch.run(line, checks.check(line))
        # Functions are named by where they lie in memory.
        return [(name, args.partition("<function")[0], kwargs) for name, args, kwargs in made]

    return of


@pytest.mark.parametrize(("mode", "flag"), CASES, ids=[f"{m} --{f.name}" for m, f in CASES])
def test_a_flag_reaches_what_its_mode_runs(mode, flag, calls):
    kinds = {bool: "true", int: "3", float: "0.25"}
    first, *beside = GIVEN.get(flag.name, [f"--{flag.name}={kinds.get(flag.kind, 'x')}"])
    if flag.of_sweep and flag.name not in ("tune", "trials", "metric", "replicas", "restart"):
        beside.append("--sweep=seed=3,4")
    if flag.name == "metric" or (flag.field and mode == "translate"):
        beside.append("--nbest=2" if flag.field else "--trials=2")
    beside.append("--config=reverse" if mode in ("train", "explain") else "--workdir=run")
    beside.append(f"--mode={mode}")
    with_it = calls([first, *beside])
    assert with_it
    assert with_it != calls([*OTHER.get(flag.name, []), *beside])


def test_what_nothing_reads_would_be_seen(calls):
    arguments = ["--config=reverse", "--mode=train"]
    assert calls(arguments) == calls(arguments) != []
