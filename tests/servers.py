"""A web server on this machine that gives files, and fails in the ways that servers do."""

import contextlib
import hashlib
import http.server
import threading
import time


class Server:
    """Serves `files` (bytes by path); `faults` has functions of a handler that answer instead.

    A fault that returns False leaves the answer to the server.
    """

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.files, self.faults, self.asked = {}, {}, []
        self.has_marks = self.has_ranges = True
        self.lock = threading.Lock()

    def paths(self):
        return [path for path, _ in self.asked]

    def ranges(self):
        return [headers.get("Range") for _, headers in self.asked]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20  # so that a client that keeps its connection open fails a test, and does not hang

    def do_GET(self):
        served = self.server.served
        with served.lock:
            served.asked.append((self.path, dict(self.headers)))
        fault = served.faults.get(self.path)
        if fault is not None and fault(self) is not False:
            return
        if self.path not in served.files:
            self.answer(404)
            return
        data = served.files[self.path]
        mark = f'"{hashlib.md5(data).hexdigest()}"'
        marks = {"ETag": mark} if served.has_marks else {}
        asked = self.headers.get("Range")
        if self.headers.get("If-None-Match") == mark:
            self.answer(304, headers=marks)
        elif asked and served.has_ranges and self.headers.get("If-Range", mark) == mark:
            self.answer_part(asked, data, marks)
        else:
            self.answer(200, data, marks)

    def answer_part(self, asked, data, marks):
        first, last = asked.removeprefix("bytes=").split("-")
        start, stop = int(first), min(int(last or len(data) - 1) + 1, len(data))
        part = "*" if start >= stop else f"{start}-{stop - 1}"
        marks = {**marks, "Content-Range": f"bytes {part}/{len(data)}"}
        self.answer(416 if part == "*" else 206, data[start:stop], marks)

    def answer(self, status, data=b"", headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class _Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for them

    def handle_error(self, request, address):
        pass  # a client that went away


@contextlib.contextmanager
def serving():
    with _Quiet(("127.0.0.1", 0), Handler) as server:
        server.served = Server(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.served
        finally:
            server.shutdown()
            thread.join()


# -------------------- faults --------------------


def times(count, fault):
    """Return the fault that happens so many times."""
    left = [count]

    def answer(handler):
        with handler.server.served.lock:
            left[0] -= 1
            happens = left[0] >= 0
        return fault(handler) if happens else False

    return answer


def status(number, headers=None):
    return lambda handler: handler.answer(number, headers=headers)


def cut(count):
    """Return the fault that ends a body after so many bytes."""
    return told(lambda data: data[:count])


def told(change, length=None):
    """Return the fault of a body that is another one than the length in front of it says."""

    def answer(handler):
        data = handler.server.served.files[handler.path]
        marks = {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}
        handler.answer(200, change(data), marks, len(data) if length is None else length)
        handler.close_connection = True

    return answer


def slow(seconds):
    """Return the fault of a server that is silent for some time before it answers."""

    def answer(handler):
        time.sleep(seconds)
        return False

    return answer


def reset(handler):
    """Close the connection without an answer."""
    handler.close_connection = True


def redirect(to):
    return lambda handler: handler.answer(302, headers={"Location": to})
