#!/usr/bin/env python3
"""bench/start.py ROUNDS COMMAND... - times of whole runs of programs, side by side.

Each COMMAND is one argument, split at blanks ("./old --inputs a.npz --outputs b.npz"); rounds alternate between them in
a rotating order.  Prints per command the medians of wall-clock and processor time (user and system, including ranks),
in milliseconds.
"""
import os, shlex, statistics, sys, time

rounds, commands = int(sys.argv[1]), [shlex.split(c) for c in sys.argv[2:]]
wall, work = [[] for _ in commands], [[] for _ in commands]
for r in range(-2, rounds):  # two to warm up
    for k in range(len(commands)):
        i = (k + r) % len(commands)
        begin = time.monotonic()
        pid = os.posix_spawn(commands[i][0], commands[i], os.environ)
        _, status, used = os.wait4(pid, 0)
        if status: sys.exit(f"{sys.argv[2 + i]}: status {status}")
        if r >= 0: wall[i].append((time.monotonic() - begin) * 1e3), work[i].append((used.ru_utime + used.ru_stime) * 1e3)
for i in range(len(commands)):
    print(f"wall {statistics.median(wall[i]):8.2f} ms (least {min(wall[i]):8.2f})   processors {statistics.median(work[i]):8.2f} ms   {sys.argv[2 + i]}")
