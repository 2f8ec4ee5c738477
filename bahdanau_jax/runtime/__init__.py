"""The machine: devices, processes of one run, signals, and what a process of JAX sets once.

Imports the ground floor only.
"""
