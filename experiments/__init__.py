"""The experiments: one file each, whose `get_config` returns a configuration; imports only that."""
