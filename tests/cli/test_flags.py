import functools
import importlib.util
import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest
from launching import launch as run_launch

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.cli import checks, help, sweeping
from bahdanau_jax.cli.command_line import parse
from bahdanau_jax.cli.experiment import INSTALLED
from bahdanau_jax.cli.flags import ALL, FLAGS, MODES, markdown
from bahdanau_jax.config import Config
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths, field_type, text_of, value_of, with_values
from bahdanau_jax.sweeps.grid import expand
from bahdanau_jax.workdir import directory as workdir

BY_NAME = {flag.name: flag for flag in FLAGS}

# A value that isn't the default, where the kind alone doesn't say one.
VALUES = {
    "mode": "train",
    "config": "reverse",
    "coordinator": "h:1",
    "sweep": "seed=3,4",
    "tune": "seed=3,4",
    "replicas": "2",
    "match": "params",
    "slurm": "timeout_min=1",
    "checkpoint": "latest",
    "threshold": "0.5",
    "metric": "dev/wer",
    "temperature": "0.5",
}


def given(name: str) -> str:
    """Returns a flag as it may be given."""
    flag = BY_NAME[name]
    kinds = {bool: "true", int: "3", float: "0.3", str: "x"}
    value = VALUES.get(name) or (flag.choices[-1] if flag.choices else kinds.get(flag.kind, "x"))
    return f"--{name}={value}"


def refusal(arguments):
    with pytest.raises(InputError) as caught:
        parse(["launch.py", *arguments])
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_flag_is_refused_in_exactly_the_modes_that_ignore_it(name):
    flag = BY_NAME[name]
    for mode in MODES:
        needs = [given(other.partition("=")[0]) for other in flag.needs[:1]]
        needs += ["--sweep=seed=3"] if flag.needs == ("executor=slurm",) else []
        arguments = [given(name), *needs] + ([f"--mode={mode}"] if name != "mode" else [])
        if mode in flag.modes:
            parsed = parse(["launch.py", *arguments])
            assert name in parsed.given
        else:
            # With what a flag needs, the first of the two that the table lists is named.
            assert " is for --mode=" in refusal(arguments)


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.needs])
def test_a_flag_is_refused_without_what_it_needs(name):
    mode = BY_NAME[name].modes[0]
    assert f"--{name} has no effect without --" in refusal([f"--mode={mode}", given(name)])


@pytest.mark.parametrize(
    ("name", "other"), [(flag.name, other) for flag in FLAGS for other in flag.excludes]
)
def test_a_flag_is_refused_beside_what_it_excludes(name, other):
    mode = BY_NAME[name].modes[0]
    beside = f"--{other}" if "=" in other else given(other)
    assert "can't be given together" in refusal([f"--mode={mode}", given(name), beside])


@pytest.mark.parametrize("name", [f.name for f in FLAGS if f.kind in (str, list) and not f.choices])
def test_an_empty_value_is_refused(name):
    assert f"--{name} is empty" in refusal([f"--mode={BY_NAME[name].modes[0]}", f"--{name}="])


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.kind is not tuple])
def test_a_flag_that_is_given_twice_is_refused(name):
    assert "already defined" in refusal([given(name), given(name)])


def test_the_table_names_flags_and_modes_that_exist():
    assert len(BY_NAME) == len(FLAGS)
    for flag in FLAGS:
        assert flag.modes and set(flag.modes) <= set(ALL)
        others = {other.partition("=")[0] for other in (*flag.needs, *flag.excludes)}
        assert others <= set(BY_NAME) - {flag.name}
        assert not flag.field or flag.field in field_paths()


def test_a_sweep_hands_on_every_flag_of_training_but_its_own():
    kept = [flag.name for flag in FLAGS if "train" in flag.modes and not flag.of_sweep]
    assert kept == [
        *("config", "deterministic", "distributed", "coordinator", "process", "processes"),
        "init_from",
    ]
    arguments = [given(name) for name in kept]
    line = parse(["launch.py", *arguments, "--workdir=w", "--sweep=seed=0", "--zip"])
    assert line.handed_on() == arguments


def test_the_help_and_the_tables_name_every_flag_and_every_field():
    text, flag_table, field_table = help.help_text("bahdanau_jax"), markdown(), help.field_table()
    for flag in FLAGS:
        assert f"\n  --{flag.name}" in text
        assert f"| `--{flag.name}" in flag_table
    comments = help.comments()
    assert set(comments) == set(field_paths())
    for path in field_paths():
        assert f"\n  --config.{path}=" in text
        assert f"| `{path}` |" in field_table
        assert all(name in help.describe(path) for name in CHOICES.get(path, ()))
    assert comments["data.pool"].startswith("batches sorted by length together")
    assert comments["train.precision"].startswith("float32 (on every device)")  # on the line below


@pytest.mark.parametrize(
    ("spelt", "path", "value"),
    [
        (["--config.model.attention.score=dot"], "model.attention.score", "dot"),
        (["--config.score=dot"], "model.attention.score", "dot"),
        (["--config.score", "dot"], "model.attention.score", "dot"),
        (["-config.attention.units=7"], "model.attention.units", 7),
        (["--config.residual"], "model.residual", True),
        (["--noconfig.residual"], "model.residual", False),
        (["--config.residual=1"], "model.residual", True),
        (["--config.learning_rate=1e-2"], "train.learning_rate", 0.01),
        (["--config.seed=3"], "seed", 3),
    ],
)
def test_a_field_is_read_however_it_is_spelt(spelt, path, value):
    line = parse(["launch.py", *spelt])
    assert dict(line.fields) == {path: value}
    assert type(line.fields[path]) is field_type(path)
    assert value_of(line.config(), path) == value


@pytest.mark.parametrize("path", field_paths())
def test_every_field_may_be_given(path):
    text = text_of(value_of(Config(), path))
    line = parse(["launch.py", f"--config.{path}={text}", "--config=reverse"])
    assert value_of(line.config(), path) == value_of(Config(), path)


def test_an_experiment_is_found_by_its_path_then_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("reverse", "reverse.py", "experiments/reverse.py"):
        line = parse(["launch.py", f"--config={name}"])
        assert line.experiment.path == INSTALLED / "reverse.py"
        assert str(line.directory) == "runs/reverse"
    (tmp_path / "reverse.py").write_text("raise ValueError")
    assert (
        parse(["launch.py", "--config=reverse.py"])
        .experiment.path.absolute()
        .is_relative_to(tmp_path)
    )
    assert parse(["launch.py"]).experiment.path.name == "cmudict.py"
    assert importlib.util.find_spec("experiments")


RECORDED = ["config.json", "CONFIG.JSON", "config.jsonl", "config", "config.PY", "a:b/config.json"]
SPELT = ["--config={}", "-config={}", "--config {}", "--flagfile=flags", "--config={}:"]


def recorded(directory, name, spelt, text):
    """Writes a configuration into a run, and returns the command line that names it so."""
    path = directory / "run" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (directory / "flags").write_text(f"--config=run/{name}\n")
    return parse(["launch.py", *spelt.format(f"run/{name}").split(" ")])


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("spelt", SPELT)
def test_a_recorded_configuration_is_never_executed(name, spelt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = "import pathlib; pathlib.Path('ran').touch()"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_text(program)  # what a:b/… might be cut down to
    line = recorded(tmp_path, name, spelt, program)
    with pytest.raises(InputError, match="not valid JSON"):
        line.config()
    assert line.experiment.sweeps == {}
    assert line.directory == (Path("run") / name).parent
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("spelt", SPELT)
def test_a_recorded_configuration_is_read_in_every_spelling(name, spelt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = recorded(tmp_path, name, spelt, '{"seed": 7}')
    assert line.config() == with_values(Config(), {"seed": 7})


def test_what_is_wrong_with_the_file_of_a_configuration_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "takes no argument; leave out :x" in refusal(["--config=config.json:x"])
    (tmp_path / "prose.txt").write_text("def get_config")
    with pytest.raises(InputError, match=r"not valid JSON.*an experiment's name ends in \.py"):
        parse(["launch.py", "--config=prose.txt"]).config()
    assert "an installed one: britz_grid, cmudict" in refusal(["--config=no_such"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config.train.steps=400"], "add --config.train.epochs=0"),
        (["--config.steps=400", "--config.epochs=2"], "add --config.train.epochs=0"),
        (["--config.length_penalty_alpha=1"], "decode.length_penalty=average has no alpha"),
        (["--config.half_width=3"], "use local_m or local_p"),
        (["--config.score=fixed", "--config.annotations=0.1"], "nothing reads the annotations"),
        (
            ["--config=reverse", "--config.patience=2", "--config.eval_every=9999999"],
            "there is one evaluation, after the last step; lower train.eval_every",
        ),
        (["--config.decode.seed=3"], "raise it to sample"),
        (
            ["--config.model.readout=linear", "--config.readout_units=9"],
            "use maxout, tanh or attentional",
        ),
        (
            ["--config.score=general", "--config.attention.units=9"],
            "additive, concat, projected do",
        ),
        (["--config=reverse", "--init_from=W", "--config.seed=1"], "seed has no effect: --init"),
    ],
)
def test_a_field_that_changes_nothing_is_refused_with_the_way_out(arguments, said):
    line = parse(["launch.py", *arguments])
    with pytest.raises(InputError, match="has no effect") as caught:
        checks.check(line)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_experiment_file_and_a_recorded_configuration_may_leave_fields_at_anything(tmp_path):
    config = parse(["launch.py"]).config()
    assert {"train.steps", "decode.seed"} <= set(ineffective(config))
    workdir.write_config(tmp_path, config)
    line = parse(["launch.py", f"--config={tmp_path}/config.json"])
    assert checks.check(line).config == config


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode=score", "--nbest=3"], "--nbest is for --mode=translate; leave it out"),
        (["--mode=compare", "--checkpoint=best"], "--checkpoint is for --mode=evaluate and"),
        (["--mode=compare", "--config.seed=1"], "leave out --config.seed"),
        (["--mode=compare", "--deterministic"], "--deterministic is for --mode=train and"),
        (["--mode=score", "--split=dev", "--source=s", "--target=t"], "choose one"),
        (["--mode=explain", "--sweep=seed=0,1"], "--sweep is for --mode=train"),
        (["--mode=align", "--draw=0", "--pictures=p"], "--pictures and --draw=0 can't be given"),
        (["--mode=score", "--config.decode.beam_size=2"], "--mode=score searches for no output"),
        (["--mode=evaluate", "--config=reverse", "--workdir=w"], "leave out --config"),
        (["--undefok=wokdir", "--wokdir=x"], "--undefok would hide"),
        (["--noconfig.residual=false"], "does not take an argument"),
    ],
)
def test_nothing_else_is_done(arguments, said, tmp_path):
    finished = run_launch(arguments, tmp_path)
    assert (finished.status, finished.out) == (2, b"")
    (line,) = finished.lines
    assert said in line


@pytest.mark.parametrize("place", vars(Config().train.dropout))
def test_a_seed_has_an_effect_wherever_something_is_dropped(place):
    given = ["--config=reverse", "--init_from=W", "--config.seed=1", "--config.encoder.layers=2"]
    checks.check(parse(["launch.py", *given, f"--config.train.dropout.{place}=0.1"]))


def test_a_trained_run_refuses_what_its_search_would_not_read(tmp_path):
    workdir.write_config(tmp_path, parse(["launch.py"]).config())
    place = f"--workdir={tmp_path}"

    def answer(*arguments):
        try:
            return checks.check(parse(["launch.py", place, *arguments])).settings
        except InputError as error:
            return str(error)

    evaluate, translate = "--mode=evaluate", "--mode=translate"
    assert "has no alpha" in answer(evaluate, "--length_penalty_alpha=1")
    assert "nothing to rank" in answer(evaluate, "--length_penalty=none")
    assert "nothing to rank" in answer(translate, "--coverage_penalty=0.2")
    assert answer(translate, "--length_penalty=none", "--nbest=1") == {
        "decode.length_penalty": "none"
    }
    assert answer(evaluate, "--length_penalty=none", "--beam_size=2") == {
        "decode.beam_size": 2,
        "decode.length_penalty": "none",
    }
    assert "samples, without a beam" in answer(translate, "--temperature=1", "--beam_size=2")
    assert answer("--mode=score", "--config.decode.batch_size=3") == {"decode.batch_size": 3}
    never = [translate, "--suppress_unk=true", "--replace_unk"]
    assert "--replace_unk has no effect: decode.suppress_unk=true" in answer(*never)
    assert answer(*never, "--prefixes=p") == {"decode.suppress_unk": True}
    assert answer(*never[:2]) == {"decode.suppress_unk": True}
    assert answer(translate, "--replace_unk") == {}


def test_an_evaluation_may_tokenise_otherwise(tmp_path):
    config = parse(["launch.py"]).config()
    config.evaluation.metrics, config.train.metric = "bleu", "nll_per_token"
    workdir.write_config(tmp_path, config)
    given = [f"--workdir={tmp_path}", "--config.evaluation.tokenize=zh"]
    (tmp_path / "words").mkdir()
    evaluate_words = ["launch.py", "--mode=evaluate", f"--workdir={tmp_path}/words"]
    evaluate = parse(["launch.py", "--mode=evaluate", *given])
    assert checks.check(evaluate).settings == {"evaluation.tokenize": "zh"}
    with pytest.raises(InputError, match=r"leave out --config.evaluation.tokenize=zh"):
        checks.check(parse(["launch.py", "--mode=score", *given]))
    with pytest.raises(InputError, match=r"leave out --config.evaluation.metrics=bleu"):
        checks.check(
            parse(["launch.py", "--mode=evaluate", *given, "--config.evaluation.metrics=bleu"])
        )
    config.evaluation.metrics = "error_rate"
    workdir.write_config(tmp_path / "words", config)
    with pytest.raises(InputError, match="BLEU alone is tokenised"):
        checks.check(parse([*evaluate_words, given[1]]))


def outcome(arguments):
    """Returns what a command line would do, without doing it; or its refusal."""
    try:
        line = parse(["launch.py", *arguments])
        if not sweeping.wanted(line):
            return repr((line.values, line.fields, line.directory, checks.check(line)))
        texts = line.values["sweep"] or [
            sweeping._seeds(0, text) for text in line.values["replicas"]
        ]
        if texts:
            cells = expand(line.config(), texts, {}, paired=line.values["zip"])
            sweeping._check_cells(line, cells)
        return repr((line.values, line.fields, line.directory))
    except InputError as error:
        assert "\n" not in str(error)
        return f"refused: {error}"


def test_of_any_two_flags_and_fields_each_has_an_effect_or_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = parse(["launch.py", "--config=reverse"])
    (tmp_path / "runs" / "reverse").mkdir(parents=True)
    workdir.write_config(tmp_path / "runs" / "reverse", line.config())  # for the modes that read it
    base = line.config()
    chance = random.Random(0)
    fields = []
    for path in field_paths():
        value = value_of(base, path)
        other = {bool: not value, str: "tsv:x"}.get(type(value), 3)
        if path in CHOICES:
            other = next(name for name in CHOICES[path] if name not in ("", value))
        fields.append(f"--config.{path}={text_of(other)}")
    single = [given(flag.name) for flag in FLAGS if flag.name not in ("mode", "config")]
    pairs = [*itertools.combinations([*single, *fields], 2)]
    drawn = [(*chance.choice(pairs), chance.choice(ALL)) for _ in range(1500)]
    drawn += [(*pair, "train") for pair in itertools.combinations(single, 2)]
    of_one = functools.cache(lambda *arguments: outcome(arguments))
    refused, ignored = 0, []
    for first, second, mode in drawn:
        rest = ["--config=reverse", f"--mode={mode}"]
        both = outcome([*rest, first, second])
        refused += both.startswith("refused")
        if both.startswith("refused"):
            continue
        if both in (of_one(*rest, first), of_one(*rest, second)):
            ignored.append((first, second, mode))
    assert ignored == []
    assert 100 < refused < len(drawn) - 100


def test_what_answers_a_wrong_flag_imports_no_jax():
    code = (
        "import sys\nfrom bahdanau_jax.cli.main import main\n"
        "assert main(['x', '--config.train.steps=3']) == 2\n"
        "assert main(['x', '--sweep=seed=0,1', '--dry_run', '--workdir=w']) == 0\n"
        "print(sorted({'jax', 'flax', 'orbax', 'ml_collections'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert done.stderr.startswith("bahdanau_jax: train.steps=3 has no effect")


def test_the_installed_command_starts_from_any_folder(tmp_path):
    command = [sys.executable, "-P", "-m", "bahdanau_jax", "--config=reverse", "--dry_run"]
    done = subprocess.run(
        [*command, "--sweep=seed=0"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.endswith(
        "-P -m bahdanau_jax --config=reverse --config.seed=0 --workdir=runs/reverse/seed=0\n"
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("flag", [flag.name for flag in FLAGS if flag.kind is float])
def test_a_flag_that_is_no_finite_number_is_refused(flag, value):
    mode = BY_NAME[flag].modes[0]
    assert f"--{flag}" in refusal([f"--mode={mode}", f"--{flag}={value}"])


def test_an_argument_that_is_not_utf_8_is_refused():
    assert "isn't UTF-8" in refusal(["--workdir=\udcff"])
