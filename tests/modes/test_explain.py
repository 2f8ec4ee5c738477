import dataclasses
import io
import math
from pathlib import Path

import jax
import pytest
from launching import launch

from bahdanau_jax.cli.experiment import Experiment
from bahdanau_jax.config import Config, DataConfig, VocabularyConfig
from bahdanau_jax.model import kernels
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.modes import explain
from bahdanau_jax.modes.explain import Sizes, vocabulary_sizes
from bahdanau_jax.modes.work import Size
from bahdanau_jax.workdir import directory as workdir
from experiments import rnnencdec_50, rnnsearch_50

ABSENT = Path("no/such/run")


def small() -> Config:
    config = Config()
    config.data.source, config.data.max_length = "text:anywhere", 7
    config.data.vocabulary.size = 50
    model = config.model
    model.embedding = model.encoder.units = model.decoder.units = 16
    model.attention.units = model.readout_units = 16
    config.train.batch_size = 4
    return config


def sizes(**fields) -> Sizes:
    return vocabulary_sizes(DataConfig(vocabulary=VocabularyConfig(**fields)), ABSENT)


def test_vocabulary_sizes_are_the_configured_ones():
    assert sizes(kind="bpe", size=8000)[:2] == (8000, 8000)
    assert sizes(kind="bpe", size=8000, target_size=500)[:2] == (8000, 500)
    assert "configured" in sizes(kind="bpe", size=8000).known


def test_a_size_that_only_the_data_can_tell_is_assumed_and_said_to_be():
    found = sizes(kind="characters", target_kind="symbols", size=0)
    assert found[:2] == (explain.STAND_INS["characters"], explain.STAND_INS["symbols"])
    assert "assumed" in found.known
    half = sizes(kind="characters", target_kind="words", size=0, target_size=70)
    assert half[:2] == (explain.STAND_INS["characters"], 70)
    assert "assumed" in half.known


def test_a_run_of_the_same_data_lends_its_vocabularies(trained):
    run = vocabulary_sizes(trained.config.data, trained.directory)
    assert str(trained.directory) in run.known
    assert run[:2] == (4 + 6, 4 + 6)  # the six letters that tiny.write_corpus draws from
    other = dataclasses.replace(trained.config.data, lowercase=True)
    assert "assumed" in vocabulary_sizes(other, trained.directory).known


def test_a_workdir_that_cannot_be_read_is_as_good_as_none(tmp_path):
    (tmp_path / workdir.CONFIG).write_text("{")
    assert (
        "assumed"
        in vocabulary_sizes(
            DataConfig(vocabulary=VocabularyConfig(size=0, kind="words")), tmp_path
        ).known
    )


def test_each_module_has_its_own_parameters_and_no_array_is_made():
    config = small()
    config.model.encoder.layers = 2
    before = len(jax.live_arrays())
    counts = explain.parameter_counts(Seq2Seq(config.model, 30, 40))
    assert len(jax.live_arrays()) == before
    assert counts["source_embedding"] == 30 * 16
    assert counts["encoder.forward_0"] == 3 * 16 * (16 + 16 + 1)
    assert counts["encoder.backward_1"] == 3 * 16 * (32 + 16 + 1)
    assert counts["decoder.attention_cell.attention.score"] == 16 * 16 + 32 * 16 + 16


def test_the_papers_model_has_the_parameters_of_its_equations():
    model = Seq2Seq(rnnsearch_50.get_config().model, 30_004, 30_004)
    assert explain.parameter_counts(model) == {
        "source_embedding": 30_004 * 620,
        "target_embedding": 30_004 * 620,
        "encoder.forward_0": 3 * (620 + 1000 + 1) * 1000,
        "encoder.backward_0": 3 * (620 + 1000 + 1) * 1000,
        "decoder": 1000 * 1000,  # W_s
        "decoder.attention_cell.attention.score": (1000 + 2000 + 1) * 1000,
        "decoder.attention_cell.cell_0": 3 * (620 + 2000 + 1000 + 1) * 1000,
        "readout": (1000 + 620 + 2000 + 1) * 1000,
        "W_o": 500 * 30_004,
        "b_w": 30_004,
    }


def test_the_bottleneck_has_no_alignment_model():
    model = Seq2Seq(rnnencdec_50.get_config().model, 30_004, 30_004)
    counts = explain.parameter_counts(model)
    assert not any("score" in name or "backward" in name for name in counts)
    assert counts["decoder.attention_cell.cell_0"] == 3 * (620 + 1000 + 1000 + 1) * 1000


def test_the_largest_batch_has_the_longest_pairs():
    config = small()
    assert explain.largest_batch(config, 50) == Size(4, 8, 8, 50)
    config.train.batch_tokens = 50
    assert explain.largest_batch(config, 50).rows == 6  # 50 tokens hold six rows of eight


def test_memory_holds_state_and_batch_and_grows_with_the_batch():
    config = small()
    model = Seq2Seq(config.model, 50, 50)
    parameters = 4 * sum(explain.parameter_counts(model).values())
    before = sum(array.nbytes for array in jax.live_arrays())
    few = explain.step_memory(model, config, Size(4, 8, 8, 50))
    assert sum(array.nbytes for array in jax.live_arrays()) - before < parameters / 10
    # Parameters and Adam's two moments; then the batch, counters and keys.
    assert 3 * parameters < few.arguments < 3 * parameters + 2000
    assert few.results < 1000  # the state is written over itself
    many = explain.step_memory(model, config, Size(64, 8, 8, 50))
    assert many.temporary > few.temporary
    assert many.arguments - few.arguments == 60 * (8 + 8) * 4


def test_the_report_names_what_is_counted_and_what_is_planned():
    config, stream = small(), io.StringIO()
    explain.explain(config, ABSENT, stream)
    text = stream.getvalue()
    model = Seq2Seq(config.model, 50, 50)
    total = sum(explain.parameter_counts(model).values())
    assert f"{total:,}" in text
    assert "B = 4, S = 8, T = 8" in text
    assert "counted from their shapes" in text
    assert "planned by XLA" in text
    assert "model.attention.score" in text
    assert all(math.isfinite(float(x)) for x in text.split() if x.replace(".", "").isdecimal())


def test_explain_needs_neither_data_nor_workdir(tmp_path):
    experiment = "--config=" + str(Path(rnnsearch_50.__file__).with_name("rnnsearch_50.py"))
    fields = ["embedding", "encoder.units", "decoder.units", "attention.units", "readout_units"]
    tiny = [f"--config.model.{field}=8" for field in fields]
    done = launch(["--mode=explain", experiment, *tiny], tmp_path)
    assert done.status == 0
    out = done.out.decode()
    assert "Bahdanau et al. 2014, B.2: ρ = 0.95" in out
    assert "model.embedding" in out
    assert "this project" in out  # the sizes aren't the paper's any more
    assert "compiling" in done.err
    assert "\n  original says " in out
    assert "What still differs:" in out
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []


PRESETS = [
    "britz_grid",
    "groundhog_rnnsearch",
    "lium_multi30k",
    "luong_2015",
    "rnnencdec_50",
    "rnnsearch_50",
    "toshniwal_g2p",
]


@pytest.mark.parametrize("name", PRESETS)
def test_the_table_of_a_preset_is_shown_from_its_title_to_the_last_difference(name):
    header = Experiment(name).header
    table = explain.original_table(header)
    assert table.startswith("original says")
    assert header.rstrip().endswith(table)
    assert "\nWhat still differs:\n- " in table


def test_an_experiment_without_an_original_has_no_table():
    assert explain.original_table(Experiment("cmudict").header) == ""
    assert explain.original_table("What the original says is told elsewhere.") == ""


def test_a_field_that_is_wrong_is_refused_as_in_training(tmp_path):
    done = launch(["--mode=explain", "--config.model.attention.scale=sqrt"], tmp_path)
    assert done.status == 2
    assert done.out == b""
    assert "model.attention.scale=sqrt" in done.err


def test_it_says_which_kernels_run_on_this_device_and_why_the_others_do_not():
    config = small()
    model = config.model
    runs = {name: (yes, why) for name, yes, why in explain.kernel_choices(config)}
    assert runs.keys() == kernels.KERNELS.keys()
    assert runs["gru"][0] == runs["decoder_loop"][0] == runs["top_k"][0] == "yes"
    assert runs["fused_attention"] == ("no", "measured nowhere yet, and not used where it isn't")
    config.train.dropout.states = 0.1
    runs = {name: (yes, why) for name, yes, why in explain.kernel_choices(config)}
    for name in ("gru", "decoder_loop"):
        assert runs[name][0] == "no" and "no dropout of states" in runs[name][1]
    config.train.dropout.states = 0.0
    for side, name, other in (
        ("encoder", "gru", "decoder_loop"),
        ("decoder", "decoder_loop", "gru"),
    ):
        model.layer_norm = side
        runs = {name: (yes, why) for name, yes, why in explain.kernel_choices(config)}
        assert runs[name][0] == "no" and f"no layer_norm of the {side}" in runs[name][1]
        assert runs[other][0] == "yes"
    model.layer_norm, model.attention.window = "none", "local_m"
    runs = {name: (yes, why) for name, yes, why in explain.kernel_choices(config)}
    assert runs["decoder_loop"][0] == "no" and "window=global" in runs["decoder_loop"][1]
    model.kernels = "reference"
    for _, yes, why in explain.kernel_choices(config):
        assert (yes, why) == ("no", "model.kernels=reference")


def test_a_kernel_runs_on_no_platform_on_which_it_was_not_measured(monkeypatch):
    monkeypatch.setattr(kernels, "platform", lambda: "gpu")
    assert not any(kernels.may_run(name, "auto") for name in kernels.KERNELS)
    assert {yes for _, yes, _ in explain.kernel_choices(small())} == {"no"}
