"""What the tests of corpora share."""

import pytest


@pytest.fixture
def folder(tmp_path):
    """Returns a function that writes files, by name, and returns their folder."""

    def write(files):
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
        return tmp_path

    return write
