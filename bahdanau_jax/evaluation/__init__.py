"""Numbers: metrics, decoding, alignments, trained runs, and what is more than noise.

Imports the ground floor and the rooms `model`, `runtime`, `search`, `data` and `workdir`.
"""
