"""A web server on this machine, whose files a test chooses."""

import contextlib
import http.server
import threading
from collections.abc import Iterator

CUT = b"...and here the connection breaks off"  # a file that ends in it is announced as longer


class Served(dict[str, bytes]):
    """What the server has, by file name.

    Attributes:
      address: URL of the folder.
      asked: the names of the files asked for, in order.
      silent: set to answer no more.
    """

    address: str
    asked: list[str]
    silent: bool = False


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Served]:
    """Serves files until the context ends."""
    served = Served(files)
    served.asked = []
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/folder/")
            served.asked.append(name)
            if served.silent:
                over.wait()
                return
            if name not in served:
                self.send_error(404)
                return
            self.send_response(200)
            longer = len(CUT) if served[name].endswith(CUT) else 0
            self.send_header("Content-Length", str(len(served[name]) + longer))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who asked may have heard enough
                self.wfile.write(served[name])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False  # so that their connections are closed when this ends
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        served.address = f"http://127.0.0.1:{server.server_port}/folder"
        try:
            yield served
        finally:
            over.set()
            server.shutdown()
            thread.join()
