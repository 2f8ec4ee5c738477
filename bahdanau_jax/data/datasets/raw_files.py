"""The files that a data set is made from: in a directory, or downloaded; always the very same.

What is downloaded stays in memory until its checksum has been compared, so that a connection that
breaks off leaves no file behind.
"""

import gzip
import hashlib
import http.client
import io
import os
import pathlib
import queue
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from bahdanau_jax.data.text_files import given_path
from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.terminal import say

VARIABLE = "BAHDANAU_JAX_DATA"
PATIENCE = 10.0  # seconds without a byte after which a download is given up
_LARGEST = 1 << 26  # bytes of a file, packed or not; the largest there is has 3 MB


class RawFiles(NamedTuple):
    """Files of one public folder.

    Attributes:
      dataset: as `data.source` has it, without `tfds:`.
      folder: what their folder is called, in the directories where they are looked for.
      address: URL of the public folder, without a slash at its end.
      sha256: by each file's name, of what it holds; of a name in `.gz`, of what it holds unpacked.
    """

    dataset: str
    folder: str
    address: str
    sha256: Mapping[str, str]


def read_raw_files(
    raw: RawFiles, prepared_in: os.PathLike[str], derived: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Returns what each file holds, from the first place that has the folder.

    The places are `$BAHDANAU_JAX_DATA/FOLDER`, then `downloads/manual/FOLDER` where data sets are
    prepared, which is TFDS's own place for what it can't download, then the address. A folder may
    hold files in `.gz` as they are or unpacked.

    Args:
      raw: the files.
      prepared_in: the directory in which data sets are prepared.
      derived: names and checksums of files made from the raw ones; a folder that has all of them
        stands for one that has the raw ones.

    Returns:
      By each name, without `.gz`, what the file holds unpacked. The names are those of `derived`
      where a folder has these.

    Raises:
      InputError: a place can't be read; a file is missing in a folder, isn't the one that its
        checksum names, or can't be downloaded.
    """
    manual = pathlib.Path(prepared_in) / "downloads" / "manual" / raw.folder
    places = [manual]
    if named := os.environ.get(VARIABLE):
        root = given_path(named, VARIABLE)
        if not _is_directory(root):
            raise InputError(f"{VARIABLE}: {named} is no directory; it should hold {raw.folder}/")
        places.insert(0, root / raw.folder)
    for place in places:
        if _is_directory(place):
            if derived and all((place / name).is_file() for name in derived):
                return {name: _read_file(raw, place, name, derived[name]) for name in derived}
            return {
                _unpacked(name): _read_file(raw, place, name, sha256)
                for name, sha256 in raw.sha256.items()
            }
    looked = " or ".join(map(str, places))
    say(f"downloading the files of {raw.dataset} from {raw.address}, as there is no {looked}")
    contents = {}
    for name, sha256 in raw.sha256.items():
        try:
            contents[_unpacked(name)] = _checked(name, download(f"{raw.address}/{name}"), sha256)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise InputError(
                f"tfds:{raw.dataset}: can't get {raw.address}/{name} ({flat(error)}); try again, "
                f"or put {', '.join(raw.sha256)} of that address into {manual} (data.directory "
                f"says where that is), or into {raw.folder}/ in a directory that the environment "
                f"variable {VARIABLE} names"
            ) from error
    return contents


def download(address: str) -> bytes:
    """Returns what lies at an address, or raises if that doesn't come whole.

    Args:
      address: URL; proxies are those of the environment.

    Raises:
      OSError, ValueError, http.client.HTTPException: it can't be had, breaks off, or is too large.
    """
    blocks: queue.Queue[bytes | Exception] = queue.Queue()

    def fetch() -> None:
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE) as response:
                # `read(n)` doesn't tell a body that ends early from one that is over.
                expected, received = response.length, 0
                while block := response.read1(1 << 16):
                    received += len(block)
                    if received > _LARGEST:
                        raise ValueError(f"more than {_LARGEST:,} bytes")
                    blocks.put(block)
            if expected is not None and received < expected:
                raise ValueError(f"{received:,} of {expected:,} bytes came")
            blocks.put(b"")
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            blocks.put(OSError(f"HTTP status {error.code}, {error.reason}"))
        except urllib.error.URLError as error:
            blocks.put(OSError(flat(error.reason)))
        except Exception as error:
            blocks.put(error)  # raised where somebody waits for it

    # In a thread: looking up a host's name, and trying each of its addresses in turn, may take
    # minutes, whatever the limit for each step.
    threading.Thread(target=fetch, daemon=True, name="download").start()
    content = bytearray()
    while True:
        try:
            block = blocks.get(timeout=PATIENCE)
        except queue.Empty:
            raise TimeoutError(f"nothing came for {PATIENCE:g} seconds") from None
        if isinstance(block, Exception):
            raise block
        if not block:
            return bytes(content)
        content += block


def _is_directory(path: pathlib.Path) -> bool:
    """Returns whether a directory is there; raises InputError if it is and can't be entered."""
    # `Path.is_dir` takes such a one for absent in some versions of Python, and doesn't enter it.
    try:
        os.stat(f"{path}/.")
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(
            f"{path}: can't be read ({error.strerror}); {VARIABLE} and data.directory name the "
            "places where raw files are looked for"
        ) from error


def _unpacked(name: str) -> str:
    return name.removesuffix(".gz")


def _read_file(raw: RawFiles, place: pathlib.Path, name: str, sha256: str) -> bytes:
    paths = [place / name, place / _unpacked(name)]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise InputError(
            f"tfds:{raw.dataset}: {place} has no {name}; get it from {raw.address}/{name}"
        )
    try:
        return _checked(path.name, path.read_bytes(), sha256)
    except (OSError, ValueError) as error:
        raise InputError(
            f"tfds:{raw.dataset}: {path} can't be used ({flat(error)}); get it again from "
            f"{raw.address}/{name}, or give text of your own as data.source=text:DIR or tsv:DIR"
        ) from error


def _checked(name: str, content: bytes, sha256: str) -> bytes:
    """Returns a file's content, unpacked; raises ValueError if it isn't the one wanted."""
    if name.endswith(".gz"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(_LARGEST)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"no whole gzip file: {flat(error)}") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ValueError(f"its text has the SHA-256 {digest}, not {sha256}")
    return content
