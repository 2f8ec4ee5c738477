"""What the command line does with a finished run, a file each, and what explains a configuration.

Imports the ground floor and the rooms up to `training`.
"""
