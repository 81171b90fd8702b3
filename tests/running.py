"""tests/running.py - training programs whose lines are read as they come, and the processes of their ranks."""
import json
import pathlib
import threading


class Reading:
    """What processes print: JSON of steps on standard output, texts on standard error.  `changed`: notified at each."""

    def __init__(self):
        self.steps, self.said, self.changed, self.readers = [], [], threading.Condition(), []

    def follow(self, process):
        for x in ((process.stdout, self.steps, json.loads), (process.stderr, self.said, str)):
            self.readers.append(threading.Thread(target=self._read, args=x))
            self.readers[-1].start()

    def _read(self, stream, items, convert):
        for line in stream:
            with self.changed:
                items.append(convert(line))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def join(self):
        for reader in self.readers:
            reader.join()


def ranks_of(pid):
    """The rank processes that a program has started: rank -> process id."""
    found = {}
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            text = children.read_text()
        except OSError:  # the thread has ended
            continue
        for one in text.split():
            try:
                words = pathlib.Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
                found[int(words[words.index(b"--rank") + 1])] = int(one)
            except (OSError, ValueError):
                continue
    return found
