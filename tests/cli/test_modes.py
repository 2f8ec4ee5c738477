import pytest
from absl import flags
from launching import launch as run_launch

import launch
from bahdanau_jax.cli import decode_flags, modes, sweep_flags
from bahdanau_jax.cli.modes import MODES, refuse_ignored
from bahdanau_jax.errors import InputError

FOR_ALL = {"config", "workdir", "mode", "deterministic"}
READ = {name: of for of, names in modes._READ.items() for name in names}


def test_every_flag_says_which_modes_read_it():
    ours = [launch.__name__, decode_flags.__name__, sweep_flags.__name__]
    defined = {flag.name for module in ours for flag in flags.FLAGS.flags_by_module_dict()[module]}
    assert {name for name in defined if not name.startswith("config.")} == FOR_ALL | set(READ)
    assert sum(len(names) for names in modes._READ.values()) == len(READ)
    for name, of in READ.items():
        said = (flags.FLAGS[name].help or "").partition(":")[0].split(", ")
        if set(said) <= set(MODES):
            assert tuple(said) == of, name


@pytest.mark.parametrize("name", READ)
def test_a_flag_is_refused_in_exactly_the_modes_that_ignore_it(name, monkeypatch):
    for mode in MODES:
        refuse_ignored(mode)
    monkeypatch.setattr(flags.FLAGS[name], "present", 1)
    for mode in MODES:
        if mode in READ[name]:
            refuse_ignored(mode)
        else:
            with pytest.raises(InputError, match=f"--{name} is for .*; leave it out"):
                refuse_ignored(mode)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--mode=score", "--nbest=3"], "--nbest is for --mode=translate; leave it out"),
        (["--mode=compare", "--checkpoint=best"], "--checkpoint is for --mode=evaluate and"),
        (["--mode=compare", "--config.seed=1"], "leave out --config.seed=1"),
        (["--mode=score", "--split=dev", "--source=s", "--target=t"], "give one"),
        (["--mode=explain", "--sweep=seed=0,1"], "--sweep is for --mode=train"),
    ],
)
def test_nothing_else_is_done(given, said, tmp_path):
    finished = run_launch(given, tmp_path)
    assert (finished.status, finished.out) == (2, b"")
    (line,) = finished.lines
    assert said in line
