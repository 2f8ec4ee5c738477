"""The command line: its flags, how they are read, and what each mode starts.

Imports every room; the only one that imports absl.
"""
