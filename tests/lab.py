"""A JupyterLab on this machine, and pages of it in a browser without a window."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

LIMIT = 120
"""How many seconds anything may take, at most; no test takes nearly as long."""

SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    # All cells are on the page, not only those in sight.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    # The kernel may take longer to answer than the second that it has by default.
    "@jupyterlab/completer-extension:manager": {"providerTimeout": 1000 * LIMIT},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}

OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--ServerApp.disable_check_xsrf=True",
    "--ServerApp.terminals_enabled=False",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.extension_manager=readonly",
]

CHROMIUM = {
    "executable_path": "/usr/bin/chromium",
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
}


READY = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.context;
    return context?.isReady && context.sessionContext.session?.kernel?.status == "idle";
}"""

RUN = """async () => {
    const app = window.jupyterapp;
    await app.commands.execute("notebook:run-all-cells");
    const cells = app.shell.currentWidget.content.widgets;
    return cells.filter(cell => cell.model.type == "code").map(cell => cell.model.executionCount);
}"""

END = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()"

THEME = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"

WEAK = """() => {
    // The texts of views that stand out too little: a contrast, as WCAG has it, below 4.5.
    const parse = colour => {
        const [red, green, blue, alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
        return {rgb: [red, green, blue], alpha};
    };
    const over = (top, alpha, below) => below.map((one, at) => one + alpha * (top[at] - one));
    const upwards = element => element ? [element, ...upwards(element.parentElement)] : [];
    const luminance = rgb => rgb
        .map(one => one / 255)
        .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
    const weak = [];
    for (const view of document.querySelectorAll(".dataview")) {
        const texts = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode, element = text.parentElement;
            if (!text.data.trim() || !element.checkVisibility()) continue;
            const chain = upwards(element), look = getComputedStyle(element);
            const back = chain.map(one => parse(getComputedStyle(one).backgroundColor)).reverse()
                .reduce((below, one) => over(one.rgb, one.alpha, below), [255, 255, 255]);
            const letters = parse(element.closest("svg") ? look.fill : look.color);
            const alpha = chain.reduce(
                (product, one) => product * getComputedStyle(one).opacity, letters.alpha);
            const seen = [over(letters.rgb, alpha, back), back].map(luminance);
            const ratio = (Math.max(...seen) + 0.05) / (Math.min(...seen) + 0.05);
            if (ratio < 4.5) weak.push([text.data, ratio]);
        }
    }
    return weak;
}"""


def until(condition, what):
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT} s in vain for {what}")
        time.sleep(0.05)
    return found


def processes_with(text):
    """The processes whose environment has a text."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes().replace(b"\0", b" "))
    return found


def environment(folder):
    """An environment in which Jupyter keeps everything below a folder."""
    names = ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    own = {name: str(folder / name.lower()) for name in names}
    for name in own.values():
        os.makedirs(name)
    return {**os.environ, **own, "DATAVIEW_ENGINE": "numpy"}  # a plan names the engine


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def serving(folder, notebooks):
    """Serve a folder of notebooks, and give the address; afterwards no process is left."""
    inside = environment(folder)
    config = pathlib.Path(inside["JUPYTER_CONFIG_DIR"], "labconfig")
    config.mkdir()
    (config / "default_setting_overrides.json").write_text(json.dumps(SETTINGS))
    places = [f"--ServerApp.root_dir={notebooks}", f"--ServerApp.port={free_port()}"]
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, *places]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, env=inside, cwd=folder, stdout=log, stderr=log)
    try:
        written = pathlib.Path(inside["JUPYTER_RUNTIME_DIR"], f"jpserver-{server.pid}.json")
        until(lambda: written.exists() or server.poll() is not None, "a server")
        assert server.poll() is None, (folder / "log").read_text()
        yield until(lambda: json.loads(written.read_text() or "{}"), "its port")["url"]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(LIMIT)
    until(lambda: not processes_with(str(folder)), "the end of all kernels")


class Lab:
    """A page of a browser that shows notebooks in JupyterLab."""

    def __init__(self, page, url):
        self.page, self.url = page, url
        self.asked = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.set_default_timeout(1000 * LIMIT)

    def open(self, name):
        """Open a notebook; its kernel is idle then."""
        self.page.goto(f"{self.url}doc/tree/{name}.ipynb")
        self.page.wait_for_function(READY)

    def run(self):
        """Run all cells, and give their numbers."""
        return self.page.evaluate(RUN)

    def theme(self, name):
        self.page.evaluate(THEME, name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName == name", arg=name)

    def completions(self, text):
        """What the tab key offers behind a text in the last cell."""
        self.page.locator(".jp-CodeCell .cm-content").last.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.page.locator(".jp-mod-completer-enabled").wait_for()
        self.page.keyboard.press("Tab")
        self.page.locator(".jp-Completer-item").first.wait_for()
        items, before, found = self.page.locator(".jp-Completer-match"), None, [""]
        while before != found:  # many of them are put on the page piece by piece
            self.page.wait_for_timeout(300)
            before, found = found, items.all_text_contents()
        self.page.keyboard.press("Escape")
        self.page.locator(".jp-Completer-item").first.wait_for(state="hidden")
        return found

    def beyond(self):
        """The addresses that were asked and are not of this JupyterLab."""
        return [one for one in self.asked if not one.startswith((self.url, "data:", "blob:"))]

    def close(self):
        """Stop the kernel and close the page."""
        self.page.evaluate(END)
        self.page.close()
