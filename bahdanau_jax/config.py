"""The configuration of an experiment: dataclasses, and nothing else.

Fields are overridden on the command line by their path, `--config.model.attention.score=dot`
(`fields.py`). The comment behind a field, or on the line below it, says its unit and what is
allowed, also to `--help`, which adds the names in `allowed.CHOICES` that the comment leaves out.
`validation.py` holds the rules between fields. Nothing here has a default that another file
repeats.
"""

import dataclasses


@dataclasses.dataclass
class VocabularyConfig:
    """How text becomes ids; `kind` serves both sides unless `target_kind` names another."""

    kind: str = "bpe"  # characters | symbols | words | unigram | bpe (the last two: SentencePiece)
    target_kind: str = ""  # the same names; empty: as `kind`
    size: int = 8000  # entries, special ones included; 0: all that occur (not for unigram, bpe)
    target_size: int = 0  # entries of the target side; 0: as `size`
    joint: bool = False  # one vocabulary from both sides' text

    @property
    def of_target(self) -> str:
        """The kind of the target side's vocabulary."""
        return self.target_kind or self.kind

    @property
    def sides(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The kind and the size of the source side's vocabulary, and of the target side's."""
        return (self.kind, self.size), (self.of_target, self.target_size or self.size)


@dataclasses.dataclass
class DataConfig:
    """Where the pairs come from, and the order in which they are read."""

    source: str = ""  # KIND:NAME; text | tsv | jsonl | csv | parquet: a directory; tfds: a data set
    source_language: str = ""  # text: the file suffix; tfds: the feature; records: the key
    target_language: str = ""
    directory: str = ""  # tfds: where prepared data sets lie; empty: TFDS's own default
    lowercase: bool = False  # lower-case both sides before anything else
    train_links: str = ""  # file of links between the words of the training pairs, a Pharaoh line
    # for each, which train.guide teaches the alignment; empty: none
    links_base: int = 0  # number of a sentence's first word in train_links, 0 or 1
    max_length: int = 50  # tokens a side, end mark not counted; longer training pairs are left out
    shapes: int = 12  # padded (source, target) shapes that training may compile, at most
    pool: int = 0  # batches sorted by length together; 0: filled by shape. The paper: 20
    seed: int = 0  # order of the examples
    vocabulary: VocabularyConfig = dataclasses.field(default_factory=VocabularyConfig)


@dataclasses.dataclass
class EncoderConfig:
    """The recurrence over the source."""

    units: int = 256  # hidden units of each direction
    layers: int = 1
    bidirectional: bool = True


@dataclasses.dataclass
class DecoderConfig:
    """The recurrence over the target."""

    units: int = 256  # hidden units
    layers: int = 1


@dataclasses.dataclass
class AttentionConfig:
    """The alignment model: which score, at which moment, over which positions.

    `allowed.SCORES` has the scores, and which of the other fields each reads.
    """

    score: str = "additive"  # how the query is compared with each annotation
    units: int = 128  # A, hidden size of the alignment model
    scale: str = "none"  # what products are divided by: none | sqrt (of their length) | linear
    # (their length), or multiplied by: learned
    bias: bool = False  # + b inside the score's tanh; projected: + b on the query
    normalize: bool = False  # g v / |v| in place of v_a
    normalize_keys: bool = False  # layer norm of query and keys, each after its matrix
    coverage: bool = False  # the sum of past weights enters the score's tanh
    window: str = "global"  # global | local_m | local_p
    half_width: int = 10  # positions on each side of a local window's centre
    renormalize: bool = True  # local_p: weights sum to one after the Gaussian; Luong's don't
    query: str = "previous"  # previous (s_{i-1}) | intermediate (s'_i) | current (s_i)


@dataclasses.dataclass
class ModelConfig:
    """What is computed; score, query, feeding and readout are separate on purpose."""

    cell: str = "gru"  # gru | lstm
    gru_reset: str = "before"  # before (Cho 2014, the paper) | after (cuDNN, PyTorch)
    forget_bias: int = 0  # lstm: 0 | 1, a constant in the forget gate beside its learnt bias
    embedding: int = 128  # size of a word's vector, both sides
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    decoder: DecoderConfig = dataclasses.field(default_factory=DecoderConfig)
    attention: AttentionConfig = dataclasses.field(default_factory=AttentionConfig)
    reverse_source: bool = False  # the encoder reads the words from the last to the first; the end
    # mark stays last, and positions are those of the sentence as it is written
    feeding: str = "none"  # what enters the next step beside the word, where query = current:
    # none | context (c_{i-1}) | attentional (Luong's input feeding)
    initial_state: str = "backward"  # backward (the paper) | final | mean | zero | layers
    # layers: each decoder layer starts from the encoder layer of its number, memory included
    readout: str = "maxout"  # maxout (the paper) | tanh (of a sum) | attentional (Luong) | linear
    readout_parts: str = "state_word_context"  # what tanh sums up:
    # state_word_context | state_word | state_context | state
    readout_units: int = 128  # size of the readout vector (maxout: after pairs are reduced)
    tie_embeddings: str = "none"  # what is one matrix with the target embedding:
    # none | output (W_o, transposed) | all (W_o and the source embedding)
    residual: bool = False  # layers above the first add their input to their output
    layer_norm: str = "none"  # of the products inside the cells: none | encoder | decoder | both
    initialization: str = "glorot"  # glorot | paper (Bahdanau 2014, B.1) | uniform (Luong 2015)
    kernels: str = "auto"  # auto (where measured on this kind of device) | reference (none)

    @property
    def annotation_units(self) -> int:
        """C, the size of an annotation: H, or 2H with both directions."""
        return self.encoder.units * (2 if self.encoder.bidirectional else 1)

    @property
    def fed_units(self) -> int:
        """The size of what `feeding` hands to the next step; 0 for nothing."""
        fed = {"none": 0, "context": self.annotation_units, "attentional": self.readout_units}
        return fed[self.feeding]

    def normalises(self, side: str) -> bool:
        """Returns whether the cells of `encoder` or `decoder` have layer normalisation."""
        return self.layer_norm in (side, "both")

    def reads(self, part: str) -> bool:
        """Returns whether the tanh readout reads state, word or context."""
        return part in self.readout_parts.split("_")

    @property
    def readout_size(self) -> int:
        """The size of t_i, the vector before the output layer: R, or with linear the state's."""
        return self.decoder.units if self.readout == "linear" else self.readout_units


@dataclasses.dataclass
class DropoutConfig:
    """Probability that a component is zeroed, from 0 up to but not 1."""

    source_words: float = 0.0  # of a whole source word, the end mark included
    target_words: float = 0.0  # of a word y_{i-1} that the decoder reads; never the begin mark
    embedding: float = 0.0
    layers: float = 0.0  # of what a layer hands to the one above, in encoder and decoder
    states: float = 0.0  # of the state that a cell's recurrence reads; one mask for all its steps
    annotations: float = 0.0
    readout: float = 0.0


@dataclasses.dataclass
class TrainConfig:
    """How the parameters are found."""

    steps: int = 10_000  # updates; ignored where epochs > 0
    epochs: float = 0.0  # passes over the training split; 0: count by steps
    eval_every: int = 1000  # steps
    checkpoint_every: int = 1000  # steps
    batch_size: int = 64  # sentences, over all devices
    batch_tokens: int = 0  # padded tokens of the longer side, over all devices; 0: by sentences
    accumulate: int = 1  # parts of a batch that a device takes one after another, to save memory
    precision: str = "float32"
    # float32 (on every device) | tf32 (products of NVIDIA's GPUs) | default (the device's own) |
    # bfloat16_storage (annotations and keys) | bfloat16 (these, and every product)
    normalize: str = "tokens"  # what loss and gradient are divided by: tokens | sentences
    optimizer: str = "adam"  # adam | adadelta | sgd
    beta1: float = 0.9  # adam: decay of the gradient's mean
    beta2: float = 0.999  # adam: decay of its square's mean
    epsilon: float = 0.0  # beside the root of a mean square; 0: 1e-8 (adam), 1e-6 (adadelta)
    weight_decay: float = 0.0  # λ; a matrix W adds λ W to its gradient, before the clip
    learning_rate: float = 1e-3
    schedule: str = "constant"  # constant | linear | cosine | inverse_sqrt | halving | plateau,
    # after the warm-up
    decay_factor: float = 0.5  # halving, plateau: what the rate is multiplied by
    decay_start: float = 8.0  # halving: epochs at the full rate; steps where train.epochs is 0
    decay_every: float = 1.0  # halving: epochs (steps) from one halving to the next
    decay_patience: int = 1  # plateau: evaluations without a better train.metric that it waits for
    warmup_steps: int = 0  # steps of linear growth from zero
    clip_norm: float = 1.0  # global norm of the gradient; 0: none
    average: float = 0.0  # decay of a moving average of the parameters, which is what is
    # evaluated, chosen and decoded with; below 1; 0: the parameters themselves
    label_smoothing: float = 0.0  # mass spread evenly over the vocabulary, from 0 up to but not 1
    coverage: float = 0.0  # λ of the loss of positions that are attended to again; 0: none
    guide: float = 0.0  # weight of the alignment's cross entropy against data.train_links; 0: none
    dropout: DropoutConfig = dataclasses.field(default_factory=DropoutConfig)
    max_skipped: int = 10  # steps in a row without a finite gradient before the run gives up
    log_every: int = 50  # steps between two lines of training figures in metrics.jsonl
    keep: int = 2  # newest checkpoints kept, beside the best; --checkpoint=average:N takes N
    keep_best: int = 1  # best checkpoints kept, by train.metric; --checkpoint=best:N takes N
    patience: int = 0  # evaluations without a better train.metric before stopping; 0: never
    metric: str = "nll_per_token"  # of the development split; chooses the best checkpoint:
    # nll_per_token, or a metric of outputs that evaluation.metrics has computed


@dataclasses.dataclass
class DecodeConfig:
    """How output is searched for; never changes the model."""

    batch_size: int = 128  # sentences decoded together
    beam_size: int = 1  # hypotheses kept a sentence; 1: greedy. Not read when sampling
    length_penalty: str = "average"  # none | average (the paper: per token) | gnmt
    length_penalty_alpha: float = 0.6  # gnmt: alpha, at least 0; 0 is none
    coverage_penalty: float = 0.0  # beta of GNMT's penalty for words not attended to; 0: none
    min_length_ratio: float = 0.0  # output has at least this many times the source's tokens
    max_length_ratio: float = 2.0  # output may have this many times the source's tokens, plus 10
    suppress_unk: bool = False  # never choose the unknown word
    temperature: float = 0.0  # 0: search; above: sample from p^(1 / temperature)
    seed: int = 0  # of sampling


@dataclasses.dataclass
class EvaluationConfig:
    """What an evaluation computes from decoded text."""

    metrics: str = "bleu"  # bleu (BLEU, chrF, TER) | error_rate (PER or CER, and WER)
    tokenize: str = "13a"  # BLEU's tokeniser, by sacreBLEU's names (bleu)
    # 13a | intl | char | zh | ja-mecab | ko-mecab | flores200 | none
    samples: int = 20  # decoded development examples shown at the end of training


@dataclasses.dataclass
class Config:
    """One experiment."""

    follows: str = ""  # the paper whose setting it is, for explain
    # bahdanau_2014 | luong_2015 | empty: none
    seed: int = 0  # initialisation and dropout
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    decode: DecodeConfig = dataclasses.field(default_factory=DecodeConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
