"""TFDS data sets that this project makes itself; importing this registers them with TFDS."""

from bahdanau_jax.data.datasets.cmudict import Cmudict
from bahdanau_jax.data.datasets.greek_nt import GreekNt
from bahdanau_jax.data.datasets.multi30k import Multi30k
from bahdanau_jax.data.datasets.pronalsyl import Pronalsyl
from bahdanau_jax.data.datasets.synthetic import CopyInsert, Reverse

BUILDERS = (Cmudict, CopyInsert, GreekNt, Multi30k, Pronalsyl, Reverse)
