"""Search for outputs on the device: beam search, sampling, and the penalties of hypotheses.

Imports the ground floor's `config` and `special_ids`, and `model`.
"""
