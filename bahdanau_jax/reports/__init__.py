"""Files and pictures made from an evaluation's numbers; the only room that draws.

Imports the ground floor and the rooms up to `evaluation`.
"""
