#!/usr/bin/env python3
"""tests/cli/report_browser.py PAGE... - opens pages of --emit=html in a headless Chromium: no error of a script, no
request, nothing wider than the window at 400 and 1,400 pixels, all sections drawn, light and in dark mode, with
pictures of the usual size and their words; prints how long each page takes to open.  --shots FOLDER also writes
pictures of every section.  Ends with 77 if there is no Chromium."""
import base64
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

WINDOWS = (1400, False), (400, True)  # width, dark mode
OPENED = """JSON.stringify({
  wide: [document.documentElement.scrollWidth, innerWidth],
  over: [...document.querySelectorAll('main *, header *')].filter(e => !e.closest('nav, .scroll, svg, .rows') &&
    e.getBoundingClientRect().right > WIDTH + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 120)),
  ms: performance.timing.domComplete - performance.timing.navigationStart,
  layers: document.querySelectorAll('details.group').length, rows: document.querySelectorAll('.row').length,
  values: document.querySelectorAll('.value-row').length, limits: document.querySelectorAll('.limit').length,
  sections: [...document.querySelectorAll('section')].filter(e => !e.hidden).map(e => e.id),
  back: getComputedStyle(document.body).backgroundColor })"""


class Browser:
    """Speaks the protocol of the developer tools over two pipes."""

    def __init__(self, program, folder):
        to_read, self.out = os.pipe()
        self.inn, to_write = os.pipe()

        def pipes():  # the browser reads from 3 and writes to 4
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3), os.dup2(write, 4)

        self.process = subprocess.Popen([program, "--headless=new", "--no-sandbox", "--disable-gpu",
                                         "--remote-debugging-pipe", f"--user-data-dir={folder}"],
                                        preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.text, self.n, self.events = b"", 0, []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self(domain + ".enable")

    def message(self):
        while b"\0" not in self.text:
            part = os.read(self.inn, 1 << 20)
            if not part: sys.exit("the browser ended")
            self.text += part
        one, self.text = self.text.split(b"\0", 1)
        return json.loads(one)

    def __call__(self, method, **parameters):
        self.n += 1
        request = {"id": self.n, "method": method, "params": parameters}
        if hasattr(self, "session"): request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.n: return m["result"] if "result" in m else sys.exit(f"{method}: {m['error']}")
            self.events.append(m)

    def wait(self, event):
        while not any(m.get("method") == event for m in self.events): self.events.append(self.message())

    def value(self, expression):
        r = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r: sys.exit(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def open(self, page, width, dark):
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self("Page.navigate", url=page.resolve().as_uri())
        self.wait("Page.loadEventFired")

    def faults(self):
        """Errors of scripts, and requests other than for the page."""
        found = []
        for m in self.events:
            if m.get("method") == "Runtime.exceptionThrown":
                found.append(m["params"]["exceptionDetails"].get("exception", {}).get("description", "exception"))
            if m.get("method") == "Log.entryAdded" and m["params"]["entry"]["level"] == "error":
                found.append(m["params"]["entry"]["text"])
            if m.get("method") == "Network.requestWillBeSent" and m["params"]["type"] != "Document":
                found.append("requests " + m["params"]["request"]["url"][:80])
        return found

    def shoot(self, selector, file):
        box = self.value(f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect(); "
                         "return JSON.stringify([0, r.y + scrollY, innerWidth, Math.min(r.height, 2400)]) })()")
        x, y, w, h = json.loads(box)
        if h < 1: return
        picture = self("Page.captureScreenshot", captureBeyondViewport=True,
                       clip={"x": x, "y": y, "width": w, "height": h + 8, "scale": 1})
        file.write_bytes(base64.b64decode(picture["data"]))


# Sections: the least and largest height of a picture, and words that it shows.
SHOWN = {"top": (200, 1200, ["memory per rank", "copy", "apc plan"]),
         "pipeline": (150, 1500, ["micro-batches", "forward", "idle"]),
         "memory": (150, 1500, ["weights"]),
         "limits": (200, 2400, ["one run", "of peak", "arithmetic twice as fast", "--what-if bandwidth*2", "times the throughput"])}


def check_pictures(browser, width):
    """Pictures of sections have the width of the window, a usual height, more than one colour, and their text."""
    faults = []
    for name, (least, most, words) in SHOWN.items():
        text = browser.value(f"document.querySelector('#{name}').innerText")
        faults += [f"#{name} does not show '{word}'" for word in words if word not in text]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "picture.png"
            browser.shoot("#" + name, file)
            data = file.read_bytes() if file.exists() else b""
        w, h = struct.unpack(">II", data[16:24]) if data else (0, 0)
        if w != width or not least <= h <= most: faults.append(f"the picture of #{name} has {w} x {h} pixels")
        if len(data) < w * h / 50: faults.append(f"the picture of #{name} is nearly empty: {len(data)} bytes")
    return faults


def check(browser, page, width, dark, shots):
    browser.open(page, width, dark)
    # Everything is used once: groups are opened, rows scrolled and searched, the timeline zoomed.
    browser.value("document.querySelectorAll('details.group').forEach(d => { d.open = true; })")
    browser.value("new Promise(r => setTimeout(r, 100))")
    x = json.loads(browser.value(OPENED.replace("WIDTH", str(width))))
    faults = browser.faults()
    if x["wide"][0] > width or x["over"]: faults.append(f"wider than {width}: {x['wide']} {x['over']}")
    for name, least in ("layers", 1), ("rows", 1), ("values", 1):
        if x[name] < least: faults.append(f"{x[name]} {name}")
    if (int(re.findall(r"\d+", x["back"])[0]) < 128) != dark: faults.append(f"background {x['back']} {'in the dark' if dark else ''}")
    faults += check_pictures(browser, width)
    browser.value("(() => { document.querySelector('#rows').scrollTop = 1e6; const s = document.querySelector('#search'); "
                  "s.value = 'no such name'; s.dispatchEvent(new Event('input')); })()")
    if "0 of" not in browser.value("document.querySelector('#found').textContent"): faults.append("search finds it")
    browser.value("(() => { const s = document.querySelector('#search'); s.value = ''; s.dispatchEvent(new Event('input')); "
                  "document.querySelectorAll('#pipeline-tools button').forEach(b => b.click()); })()")
    faults += [f for f in browser.faults() if f not in faults]
    print(f"{page.name} {width} {'dark' if dark else 'light'}: {x['ms']} ms, sections {' '.join(x['sections'])}")
    if shots:
        browser.open(page, width, dark)
        browser.value("new Promise(r => setTimeout(r, 200))")
        for name in ["top", *x["sections"]]:
            browser.shoot("#" + name, shots / f"{page.stem}-{width}-{'dark' if dark else 'light'}-{name}.png")
    return [f"{page.name} at {width}: {f}" for f in faults]


def main(arguments):
    shots = None
    if arguments[:1] == ["--shots"]:
        shots = pathlib.Path(arguments[1])
        arguments = arguments[2:]
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program: return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(program, folder)
        for page in map(pathlib.Path, arguments):
            for width, dark in WINDOWS if not shots else [(w, d) for w in (400, 1400) for d in (False, True)]:
                faults += check(browser, page, width, dark, shots)
        browser.process.terminate()
        browser.process.wait()
    print(*faults, sep="\n")
    return bool(faults)


sys.exit(main(sys.argv[1:]))
