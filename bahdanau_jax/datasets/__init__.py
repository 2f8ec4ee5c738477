"""TFDS data sets made from a corpus on this machine; importing this registers them with TFDS."""

from bahdanau_jax.datasets.cmudict import Cmudict

BUILDERS = (Cmudict,)
