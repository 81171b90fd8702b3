#!/usr/bin/env python3
"""tests/launch/strangers.py - processes that are no ranks of a run neither join, end nor delay it, and learn nothing.

usage: strangers.py APC [--connections N] [--verbose]

The handshake is implemented here a second time (runtime/launch/admission.h has the first), with and without the secret:

  - N connections (1000) while ranks meet and while they connect to each other: silent, one byte, garbage, greetings and
    claims cut at each byte, other versions, keys, worlds, ranks and roles, recorded greetings and claims of a rank of
    an earlier run.  The run ends with 0 and the bits of an undisturbed run, at most 3 s later; strangers receive at
    most the challenge, so none sees an input;
  - a joiner that has the program, but not the secret;
  - two runs at one port, two at one file;
  - a rank that says goodbye in the middle of a run; endless connections and a FIFO as meeting file against --timeout;
  - without a secret, on the loopback: a second process with the number of a connected rank, ranks of other worlds,
    processes of another user, and the key in a meeting file.
"""
import argparse
import hashlib
import hmac
import os
import pathlib
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
INPUTS = SOURCE / "examples/gpt-tiny.inputs.npz"
MAGIC = 0x324b4e41524350a1
CHALLENGE, CLAIM, GREETING = 56, 48, 40
WELCOME_HEAD = 8 + 8 + 1024 + 32
WELCOME = WELCOME_HEAD + 64 * 136
LATER = 3.0  # seconds of delay that strangers may cause
CONTROL, DATA = 0, 1

failed = passed = 0


def check(what, holds):
    global failed, passed
    passed += bool(holds)
    failed += not holds
    if not holds:
        print("FAILED:", what)


# ---- the handshake

def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def key_of(secret):
    """None if there is no secret."""
    return bytes(32) if secret is None else mac(b"apc: the secret of a run".ljust(32, b"\0"), secret)


class Handshake:
    """The messages of a connecting process.  `key`: None if it knows none."""

    def __init__(self, key, rank=1, world=4, role=CONTROL, to=0, port=1, protocol=b"apc ranks 3", run_id=b""):
        self.key, self.claim, self.to, self.protocol = key or os.urandom(32), struct.pack("<IiiI", role, rank, world, port), to, protocol
        self.label = mac(bytes(32), b"APC_RUN_ID " + run_id if run_id else b"")
        self.nonce = os.urandom(32)

    def greeting(self):
        return struct.pack("<Q", MAGIC) + self.nonce

    def statement(self, challenge, direction):
        return (self.protocol.ljust(16, b"\0") + self.label + challenge[40:56] + self.nonce + challenge[8:40] + self.claim +
                struct.pack("<II", self.to, direction))

    def claim_after(self, challenge):
        return self.claim + mac(self.key, self.statement(challenge, 0))

    def answer(self, challenge):
        return mac(self.key, self.statement(challenge, 1))


def receive(s, n, seconds=5.0):
    data = b""
    s.settimeout(seconds)
    try:
        while len(data) < n:
            piece = s.recv(n - len(data))
            if not piece:
                break
            data += piece
    except OSError:
        pass
    return data


def join(port, handshake):
    """An admitted connection, or None."""
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(handshake.greeting())
    challenge = receive(s, CHALLENGE)
    if len(challenge) == CHALLENGE:
        s.sendall(handshake.claim_after(challenge))
        if receive(s, 32) == handshake.answer(challenge):
            return s
    s.close()
    return None


def be_first(port):
    """Listens like rank 0 without a secret; returns the message of a rank that it accepted."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(10)
        s, _ = listener.accept()
        h = Handshake(bytes(32), rank=1, world=2)
        h.nonce = receive(s, GREETING)[8:]
        challenge = struct.pack("<Q", MAGIC) + os.urandom(32) + bytes(16)
        s.sendall(challenge)
        h.claim = receive(s, CLAIM)[:16]
        s.sendall(h.answer(challenge))
        return receive(s, 1)


def as_nobody(work):
    """The result of work() in a process of another user."""
    end, other = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(other, work())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(other)
    with os.fdopen(end, "rb") as pipe:
        heard = pipe.read()
    return heard if os.waitpid(child, 0)[1] == 0 else None


# ---- strangers

class Storm:
    """N connections to some ports, kept as long as they are allowed; their received bytes are kept as well."""

    def __init__(self, recorded, seed=1):
        self.pick, self.recorded, self.heard, self.made, self.open = random.Random(seed), recorded, [], 0, []

    def words(self, number):
        """The messages of stranger `number`: the first one, and (True: made for the challenge) the second."""
        kinds = 11
        kind, step = number % kinds, number // kinds
        h = Handshake(None, rank=self.pick.choice([0, 1, 2, 3, -1, 99]), world=self.pick.choice([4, 5, 0]), role=self.pick.choice([CONTROL, DATA]))
        if kind == 0:
            return b"", b""
        if kind == 1:
            return bytes([self.pick.randrange(256)]), b""
        if kind == 2:
            return self.pick.randbytes(self.pick.randrange(2, 300)), b""
        if kind == 3:
            return h.greeting()[:step % GREETING], b""
        if kind in (4, 5):
            return h.greeting(), self.pick.randbytes(CLAIM)[:step % CLAIM]
        if kind == 6:
            return struct.pack("<Q", MAGIC + 1 + step) + os.urandom(32), b""
        if kind == 7:
            return struct.pack("<QIIiiQQII", 0x3154454d435450a1, 1, 0, 1, 4, step, 0, 0, 0), b""  # of a version without secrets
        if kind == 8 and self.recorded:
            return self.recorded[step % len(self.recorded)][:GREETING], self.recorded[step % len(self.recorded)][GREETING:]
        if kind == 9:
            h.protocol = b"apc ranks 1"
        return h.greeting(), h

    def one(self, port):
        try:
            s = socket.create_connection(("127.0.0.1", port), timeout=2)
        except OSError:  # the run is over
            return
        number, self.made = self.made, self.made + 1
        first, then = self.words(number)
        self.open.append([s, then, b""])
        try:
            s.sendall(first)
        except OSError:
            pass

    def listen(self):
        """Reads the received bytes; answers challenges."""
        ready = select.select([c[0] for c in self.open], [], [], 0)[0] if self.open else []
        for c in [c for c in self.open if c[0] in ready]:
            try:
                data = c[0].recv(4096)
            except OSError:
                data = b""
            c[2] += data
            if data and len(c[2]) >= CHALLENGE and c[1]:
                try:
                    c[0].sendall(c[1].claim_after(c[2]) if isinstance(c[1], Handshake) else c[1])
                except OSError:
                    pass
                c[1] = None
            if not data:
                self.end(c)

    def end(self, c):
        self.heard.append(len(c[2]))
        c[0].close()
        self.open.remove(c)

    def blow(self, ports, n):
        for i in range(n):
            self.one(ports[i % len(ports)])
            if i % 8 == 7:
                self.listen()
            while len(self.open) > 600:  # descriptors
                self.end(self.open[0])

    def over(self):
        self.listen()
        for c in list(self.open):
            self.end(c)
        return self.heard


class Recorder(threading.Thread):
    """Forwards connections to another port, and keeps the bytes of the connecting side."""

    def __init__(self, port, to):
        super().__init__(daemon=True)
        self.to, self.said = to, []
        self.listener = socket.create_server(("127.0.0.1", port))

    def run(self):
        while True:
            a, _ = self.listener.accept()
            for _ in range(200):
                try:
                    b = socket.create_connection(("127.0.0.1", self.to))
                    break
                except OSError:
                    time.sleep(0.02)
            self.said.append(bytearray())
            threading.Thread(target=self.pump, args=(a, b, self.said[-1]), daemon=True).start()
            threading.Thread(target=self.pump, args=(b, a, None), daemon=True).start()

    @staticmethod
    def pump(a, b, keep):
        try:
            while data := a.recv(65536):
                if keep is not None and len(keep) < GREETING + CLAIM:
                    keep += data
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


# ---- ranks

class Ranks:
    def __init__(self, program, world, folder, secret=None):
        self.program, self.world, self.folder, self.jobs = str(program), world, folder, {}
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("APC_", "OMPI_", "PMI", "SLURM_")) and
                            k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")} | {"OMP_NUM_THREADS": "1"}
        if secret:
            self.environment["APC_SECRET_FILE"] = str(secret)

    def start(self, rank, place, *more, **environment):
        words = [self.program, "--rank", str(rank), "--world", str(self.world), "--rendezvous", str(place), *more]
        self.jobs[rank] = subprocess.Popen(words, env=self.environment | environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self, rank, seconds=60):
        """Exit code and output."""
        try:
            text = self.jobs[rank].communicate(timeout=seconds)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            self.jobs[rank].kill()
            return None, self.jobs[rank].communicate()[1].decode(errors="replace") + " (hung)"
        return self.jobs[rank].returncode, text

    def ended(self, what, **codes):
        """All of them end with these codes; rN=code, the others 0."""
        for rank in list(self.jobs):
            code, text = self.end(rank)
            want = codes.get(f"r{rank}", 0)
            check(f"{what}: rank {rank} ended with {code}, wanted {want}: {text}", code == want)


def listening(pid):
    """The TCP ports at which a process listens."""
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
            if link.startswith("socket:"):
                inodes.add(link[8:-1])
    except OSError:
        pass
    ports = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.append(int(words[1].split(":")[1], 16))
    return ports


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


class Test:
    def __init__(self, apc, folder, connections, verbose):
        self.folder, self.connections, self.verbose = folder, connections, verbose
        self.next_port = 20000 + os.getpid() * 37 % 12000
        for name, options in {"mixed4": ["cpux4", "--tp", "2", "--dp", "2"], "tp2": ["cpux2", "--tp", "2"]}.items():
            subprocess.run([apc, str(SOURCE / "examples/gpt-tiny.onnx"), "--target", *options, "--dim-hint", "batch=4", "--dim-hint", "seq=32", "-q",
                            "-o", str(folder / name)], check=True)
        self.secret, self.other = self.make_secret("secret"), self.make_secret("other")
        self.key = key_of((folder / "secret").read_bytes())

    def make_secret(self, name):
        path = self.folder / name
        path.write_bytes(os.urandom(32).hex().encode())
        path.chmod(0o600)
        return path

    def port(self):
        while True:
            self.next_port += 1
            try:
                socket.create_server(("127.0.0.1", self.next_port)).close()
                return self.next_port
            except OSError:
                pass

    def say(self, *words):
        if self.verbose:
            print(*words, flush=True)

    def wanted(self):
        return (self.folder / "alone.npz").read_bytes()

    def same(self, what, name):
        path = self.folder / name
        check(f"{what}: the results are other ones", path.exists() and path.read_bytes() == self.wanted())

    def record(self):
        """An undisturbed run of 4 ranks: its results, and the messages with which its ranks are admitted."""
        port, before = self.port(), self.port()
        recorder = Recorder(before, port)
        recorder.start()
        ranks = Ranks(self.folder / "mixed4", 4, self.folder, self.secret)
        for rank in (1, 2, 3):
            ranks.start(rank, f"127.0.0.1:{before}")
        ranks.start(0, f"127.0.0.1:{port}", "--inputs", str(INPUTS), "--outputs", "alone.npz")
        ranks.ended("an undisturbed run")
        return [bytes(w[:GREETING + CLAIM]) for w in recorder.said if len(w) >= GREETING + CLAIM]

    def run_of_four(self, name, storm, secret):
        """Seconds from the start of the last rank to the end of all."""
        place = f"127.0.0.1:{self.port()}"
        ranks = Ranks(self.folder / "mixed4", 4, self.folder, secret)
        ranks.start(0, place, "--inputs", str(INPUTS), "--outputs", name)
        for rank in (1, 2):
            ranks.start(rank, place)
        ports = [wait_for(lambda r=r: listening(ranks.jobs[r].pid)) for r in (0, 1, 2)]
        check(f"{name}: ranks listen at {ports}", all(ports))
        ports = [p[0] for p in ports if p]
        if storm:
            storm.blow(ports, self.connections)
        begin = time.monotonic()
        ranks.start(3, place)
        if storm:
            storm.blow(ports, self.connections // 4)  # most find that the run has ended
        ranks.ended(name)
        took = time.monotonic() - begin
        self.same(name, name)
        return took

    def strangers(self):
        recorded = self.record()
        check(f"{len(recorded)} greetings were recorded", len(recorded) >= 6)  # 3 to meet, 3 to rank 0's data port
        for secret in (self.secret, None):
            quiet = self.run_of_four("quiet.npz", None, secret)
            storm = Storm(recorded)
            took = self.run_of_four("storm.npz", storm, secret)
            heard = storm.over()
            self.say(f"{storm.made} strangers, {heard.count(CHALLENGE)} challenged: {took:.2f} s, without them {quiet:.2f} s")
            check(f"strangers cost {took - quiet:.2f} s", took < 2 * quiet + LATER)
            check(f"strangers hear {sorted(set(heard))} bytes", set(heard) <= {0, CHALLENGE})
            check(f"{storm.made} strangers came, {heard.count(CHALLENGE)} were challenged", storm.made >= self.connections and
                  heard.count(CHALLENGE) > self.connections // 10)

    def no_secret(self):
        """The program with another secret or none: refused; the run goes on without it."""
        place = f"127.0.0.1:{self.port()}"
        ranks = Ranks(self.folder / "tp2", 2, self.folder, self.secret)
        ranks.start(0, place, "--inputs", str(INPUTS), "--outputs", "joined.npz")
        for secret in (None, self.other):
            joiner = Ranks(self.folder / "tp2", 2, self.folder, secret)
            joiner.start(1, place, "--timeout", "500ms")
            code, text = joiner.end(1)
            check(f"a joiner without the secret: {code}: {text}", code == 1 and "was refused" in text)
        ranks.start(1, place)
        ranks.ended("a run that others wanted to join")
        own = subprocess.run([str(self.folder / "tp2"), "--inputs", str(INPUTS), "--outputs", "own.npz"], cwd=self.folder, env=ranks.environment)
        check("the program alone", own.returncode == 0 and (self.folder / "own.npz").read_bytes() == (self.folder / "joined.npz").read_bytes())

    def two_runs(self):
        """With different secrets or names, and with nothing to distinguish them; at a port and at a file.  All at
        once."""
        cases = [("port", "secret"), ("port", "name"), ("port", ""), ("file", "secret"), ("file", "")]
        pairs = {}
        for place, apart in cases:
            at = f"127.0.0.1:{self.port()}" if place == "port" else str(self.folder / f"meeting-{apart}")
            runs = [Ranks(self.folder / "tp2", 2, self.folder, s) for s in (self.secret, self.other if apart == "secret" else self.secret)]
            for i, run in enumerate(runs):
                name = {"APC_RUN_ID": f"run {i}"} if apart == "name" else {}
                run.start(0, at, "--timeout", "3s", "--inputs", str(INPUTS), "--outputs", f"{place}-{apart}-{i}.npz", **name)
                wait_for(lambda: place == "file" or i == 1 or listening(run.jobs[0].pid))
                time.sleep(0.05)
                run.start(1, at, "--timeout", "3s", **name)
            pairs[(place, apart)] = runs
        for (place, apart), runs in pairs.items():
            self.end_two_runs(place, apart, [[run.end(rank) for rank in (0, 1)] for run in runs])

    def end_two_runs(self, place, apart, codes):
        what = f"two runs at one {place}, distinguished by {apart or 'nothing'}"
        for i, run in enumerate(codes):
            told = all(code == 0 or "error: " in text for code, text in run)
            check(f"{what}: run {i} ended with {run}", told and all(code in (0, 1, 2, 6, 7) for code, _ in run))
            path = self.folder / f"{place}-{apart}-{i}.npz"
            right = path.exists() and path.read_bytes() == (self.folder / "own.npz").read_bytes()
            check(f"{what}: run {i} ended with 0 and other results", run[0][0] != 0 or right)
        if apart:
            check(f"{what}: ranks of one joined the other: {codes}", all((run[0][0] == 0) == (run[1][0] == 0) for run in codes))
        check(f"{what}: none came through: {codes}", any(run[0][0] == 0 for run in codes))

    def goodbye(self):
        """A rank that says goodbye before and after it has connected to rank 0, and keeps its connections."""
        for connected in (False, True):
            port = self.port()
            ranks = Ranks(self.folder / "tp2", 2, self.folder, self.secret)
            ranks.start(0, f"127.0.0.1:{port}", "--timeout", "20s", "--bench=10")
            wait_for(lambda: listening(ranks.jobs[0].pid))
            control = join(port, Handshake(self.key, rank=1, world=2))
            check("this is admitted as rank 1", control)
            welcome = receive(control, WELCOME)
            status, key = struct.unpack_from("<QI", welcome)[1], welcome[1040:1072]
            check("this is welcome", len(welcome) == WELCOME and status == 0)
            data = join(port, Handshake(key, rank=1, world=2, role=DATA)) if connected else None
            check("this connects", not connected or data)
            begin = time.monotonic()
            control.sendall(struct.pack("<II", 0x61706357, 2) + bytes(1096 - 8))
            code, text = ranks.end(0)
            check(f"a goodbye: {code}: {text}", code == 6 and "rank 1 was lost: it left" in text)
            check(f"a goodbye was noticed after {time.monotonic() - begin:.1f} s", time.monotonic() - begin < 2 + LATER)

    def patience(self):
        """--timeout holds while connections arrive one after the other, and at a FIFO."""
        port = self.port()
        ranks = Ranks(self.folder / "tp2", 2, self.folder, self.secret)
        begin = time.monotonic()
        ranks.start(0, f"127.0.0.1:{port}", "--timeout", "1s", "--bench=1")
        os.mkfifo(self.folder / "fifo")
        ranks.start(1, self.folder / "fifo", "--timeout", "1s")
        wait_for(lambda: listening(ranks.jobs[0].pid))
        storm = Storm([])
        while ranks.jobs[0].poll() is None and time.monotonic() - begin < 20:
            storm.blow([port], 8)
        storm.over()
        ranks.ended("no rank joined", r0=7, r1=1)
        check(f"it took {time.monotonic() - begin:.1f} s", time.monotonic() - begin < 1 + LATER)

    def nonsense(self):
        """A process that answers nonsense is not rank 0; one that stops in the middle may have been rank 0, and is
        gone."""
        for stays, want, says in (True, 1, "is not rank 0 of rank 1's run"), (False, 7, "did not find rank 0"):
            with socket.create_server(("127.0.0.1", self.port())) as listener:
                ranks = Ranks(self.folder / "tp2", 2, self.folder)
                ranks.start(1, f"127.0.0.1:{listener.getsockname()[1]}", "--timeout", "1s")
                listener.settimeout(0.1)
                while ranks.jobs[1].poll() is None:
                    try:
                        s = listener.accept()[0]
                    except TimeoutError:
                        continue
                    receive(s, GREETING)
                    s.sendall(os.urandom(CHALLENGE) if stays else b"")
                    s.close()
                    if not stays: break
            code, text = ranks.end(1)
            check(f"who answered {'nonsense' if stays else 'nothing'}: {code}: {text}", code == want and says in text)

    def twice(self):
        """Without a secret any process of the machine may be a rank; a connected rank stays."""
        port = self.port()
        ranks = Ranks(self.folder / "mixed4", 4, self.folder)
        ranks.start(0, f"127.0.0.1:{port}", "--inputs", str(INPUTS), "--outputs", "twice.npz")
        ranks.start(1, f"127.0.0.1:{port}")
        wait_for(lambda: listening(ranks.jobs[1].pid))
        time.sleep(0.3)
        second = Ranks(self.folder / "mixed4", 4, self.folder)
        second.start(1, f"127.0.0.1:{port}", "--timeout", "2s")
        code, text = second.end(1)
        check(f"a second rank 1: {code}: {text}", code == 2 and "two processes have rank 1" in text)
        for rank in (2, 3):
            ranks.start(rank, f"127.0.0.1:{port}")
        ranks.ended("a run with a second rank 1")
        self.same("a run with a second rank 1", "twice.npz")

    def twice_late(self):
        """All ranks have joined and are about to connect in pairs: a second rank 1 learns at once that there is one."""
        ranks, port = self.first(f"127.0.0.1:{self.port()}", "--timeout", "8s", "--bench=1")
        slow = join(port, Handshake(bytes(32), rank=1, world=2))  # and sends nothing more
        heard = receive(slow, WELCOME_HEAD) if slow else b""
        check(f"the first rank 1 hears {len(heard)} bytes", len(heard) == WELCOME_HEAD)
        begin = time.monotonic()
        second = Ranks(self.folder / "tp2", 2, self.folder)
        second.start(1, ranks.place, "--timeout", "20s")
        code, text = second.end(1)
        check(f"a second rank 1 that is late: {code}: {text}", code == 2 and "two processes have rank 1" in text)
        check(f"a second rank 1 waited {time.monotonic() - begin:.1f} s", time.monotonic() - begin < 8)
        if slow: slow.close()
        code, text = ranks.end(0)
        check(f"rank 0 with a second rank 1 that is late: {code}: {text}", code == 6 and "two processes" not in text)

    def own(self, what, ranks, name):
        """Rank 1 joins, and the run gives the right result."""
        ranks.start(1, ranks.place)
        ranks.ended(what)
        path = self.folder / name
        check(f"{what}: the results are other ones", path.exists() and path.read_bytes() == (self.folder / "own.npz").read_bytes())

    def first(self, place, *more):
        """Rank 0 of 2 without a secret, and its port."""
        ranks = Ranks(self.folder / "tp2", 2, self.folder)
        ranks.place = place
        ranks.start(0, place, *more)
        return ranks, wait_for(lambda: listening(ranks.jobs[0].pid))[0]

    def other_worlds(self):
        """Any process of the machine can say that; it gets an answer, and changes nothing."""
        def come(port, rank, world):
            s = join(port, Handshake(bytes(32), rank=rank, world=world))
            heard = receive(s, WELCOME) if s else b""
            return heard[16:16 + 1024].split(b"\0")[0].decode()

        ranks, port = self.first(f"127.0.0.1:{self.port()}", "--inputs", str(INPUTS), "--outputs", "worlds.npz")
        for rank, world in ((1, 3), (0, 2), (2, 2), (-1, 2), (1, 0)):
            text = come(port, rank, world)
            check(f"rank {rank} of {world} hears: {text}", f"rank {rank} of {world} connected to" in text)
        self.own("a run to which ranks of other worlds came", ranks, "worlds.npz")
        ranks, port = self.first(f"127.0.0.1:{self.port()}", "--timeout", "1s", "--bench=1")
        come(port, 1, 3)
        code, text = ranks.end(0)
        check(f"only a rank of another world came: {code}: {text}", code == 7 and "last refused: rank 1 of 3 connected to" in text)

    def file_key(self):
        """Without a secret a file that only its user can read has a key."""
        path = self.folder / "keyed"
        ranks, port = self.first(path, "--inputs", str(INPUTS), "--outputs", "keyed.npz")
        text = wait_for(lambda: path.exists() and path.read_text().endswith("end\n") and path.read_text())
        lines = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith("key "))
        check(f"the meeting file: mode {path.stat().st_mode:o}, {text}", path.stat().st_mode & 0o777 == 0o600 and len(lines.get("key", "")) == 64)
        for key in (bytes(32), None):
            check("who has not read the file joins", join(port, Handshake(key, rank=1, world=2)) is None)
        self.own("a run that has a key in a file", ranks, "keyed.npz")

    def other_user(self):
        """Another user of the machine neither joins nor is joined."""
        if os.geteuid() != 0:
            print("not run: processes of another user, which needs root")
            return
        ranks, port = self.first(f"127.0.0.1:{self.port()}", "--inputs", str(INPUTS), "--outputs", "users.npz")

        def come():
            s = join(port, Handshake(bytes(32), rank=1, world=2))
            return receive(s, WELCOME) if s else b""

        check("another user's process gets a welcome", as_nobody(come) == b"")
        self.own("a run to which another user's process came", ranks, "users.npz")
        ranks, port = self.first(f"127.0.0.1:{self.port()}", "--timeout", "1s", "--bench=1")
        as_nobody(come)
        code, text = ranks.end(0)
        check(f"only another user's process came: {code}: {text}", code == 7 and "last refused: a process of another user" in text)

        port = self.port()
        ranks = Ranks(self.folder / "tp2", 2, self.folder)
        ranks.start(1, f"127.0.0.1:{port}", "--timeout", "1s")
        heard = as_nobody(lambda: be_first(port))
        code, text = ranks.end(1)
        check(f"a rank that met another user's process: {code}: {text}", code == 1 and "belongs to another user" in text)
        check(f"it said {heard!r}", heard == b"")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("apc")
    arguments.add_argument("--connections", type=int, default=1000)
    arguments.add_argument("--verbose", action="store_true")
    a = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(os.path.abspath(a.apc), pathlib.Path(folder), a.connections, a.verbose)
        for part in (test.strangers, test.no_secret, test.two_runs, test.goodbye, test.patience, test.nonsense, test.twice, test.twice_late, test.other_worlds, test.file_key, test.other_user):
            begin = time.monotonic()
            part()
            test.say(f"{part.__name__}: {time.monotonic() - begin:.1f} s")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0 or passed < 80)


main()
