#!/usr/bin/python3
"""waits.py TRACE: finds the waits of streams for events that a run needs, from a trace of the run.

TRACE is what one process wrote into DOUBLES_TRACE (tests/doubles/watch.c): the requests of the host, in order, and the
bytes that each piece of work touched.  For each wait, the orders without it are computed; if two pieces of work that
overlap, one of them writing, are then unordered, the wait is needed, and the first such pair is printed.  Else it is
free: either the stream was already ordered after it, or it separates no conflicting work.

A wait during capture makes edges of a graph, for every launch of it; without the wait that brings a stream into the
capture, or that joins it again, there is no graph.

This shares no code with the doubles, whose clocks detect the missing order in a run without the wait: it keeps, for
every piece of work, the set of all earlier work.  One line per wait: NUMBER needed|free REASON.
"""
import bisect
import sys


def read(path):
    """Steps in the order of the host; names, streams and touched ranges of work."""
    steps, name, stream, touched = [], {}, {}, {}
    for line in open(path, encoding="utf-8", errors="replace"):
        word = line.split(maxsplit=3)
        if word[0] in ("read", "write"):
            touched.setdefault(int(word[1]), ([], []))[word[0] == "write"].append((int(word[2]), int(word[3])))
            continue
        if word[0] in ("work", "node"):
            name[int(word[1])], stream[int(word[1])] = word[3].strip(), int(word[2])
        if word[0] != "node":
            steps.append((word[0], [int(x) for x in (word[1:3] if word[0] == "work" else " ".join(word[1:]).split())]))
    return steps, name, stream, touched


def overlap(x, y):
    """x and y: ranges; those of y are sorted and disjoint."""
    begins = [b for b, _ in y]
    for begin, end in x:
        i = bisect.bisect_left(begins, end) - 1
        if i >= 0 and y[i][1] > begin:
            return True
    return False


def conflicts(stream, touched):
    """For each piece of work the earlier ones of other streams that it conflicts with, as a set of bits."""
    found, before = {}, []
    for n in sorted(touched):
        reads, writes = (merged(r) for r in touched[n])
        bits = 0
        for m, (r, w) in before:
            if stream[m] != stream[n] and (overlap(writes, w) or overlap(writes, r) or overlap(reads, w)):
                bits |= 1 << m
        found[n] = bits
        before.append((n, (reads, writes)))
    return found


def merged(ranges):
    out = []
    for begin, end in sorted(ranges):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return [tuple(r) for r in out]


class NoGraph(Exception):
    """There is no graph without the wait."""


class Captures:
    """Graphs being captured: per graph the nodes directly before each node, as sets of bits."""

    def __init__(self):
        self.graph, self.tail, self.nodes, self.record = {}, {}, {}, {}

    def reached(self, graph, bits):
        for i in range(len(self.nodes[graph]) - 1, -1, -1):
            if bits >> i & 1:
                bits |= self.nodes[graph][i]
        return bits

    def begin(self, graph, stream):
        self.graph[stream], self.tail[stream], self.nodes[graph] = graph, 0, []

    def work(self, stream):
        if stream not in self.graph:
            raise NoGraph("brings its stream into what is captured")
        nodes = self.nodes[self.graph[stream]]
        nodes.append(self.tail[stream])
        self.tail[stream] = 1 << len(nodes) - 1

    def wait(self, stream, record, left_out):
        """True if it adds an order."""
        if record not in self.record:
            raise NoGraph("what is captured waits for what is not")
        graph, bits = self.record[record]
        new = stream not in self.graph or bool(bits & ~self.reached(graph, self.tail[stream]))
        if not left_out:
            self.graph[stream] = graph
            self.tail[stream] = self.tail.get(stream, 0) | bits
        return new

    def end(self, graph, stream):
        if self.reached(graph, self.tail[stream]) != (1 << len(self.nodes[graph])) - 1:
            raise NoGraph("joins what is captured again")
        for s in [s for s, g in self.graph.items() if g == graph]:
            del self.graph[s], self.tail[s]


def orders(steps, without):
    """Sets of all work before each piece of work; and whether the omitted wait would have added an order."""
    of, mark, host, before, new, captures = {}, {}, 0, {}, False, Captures()
    for kind, x in steps:
        if kind == "capture":
            captures.begin(*x)
        elif kind == "captured_work":
            captures.work(*x)
        elif kind == "captured":
            captures.end(*x)
        elif kind == "record" and x[1] in captures.graph:
            captures.record[x[0]] = captures.graph[x[1]], captures.tail[x[1]]
        elif kind == "wait" and (x[1] in captures.graph or x[2] in captures.record):
            said = captures.wait(x[1], x[2], x[0] == without)
            new |= x[0] == without and said
        elif kind == "launch":
            graph, s, first, _ = x
            all_before = of[s] | host
            of[s] = all_before
            for i, bits in enumerate(captures.nodes[graph]):
                before[first + i] = all_before
                for j in range(i):
                    if bits >> j & 1:
                        before[first + i] |= before[first + j] | 1 << first + j
                of[s] |= before[first + i] | 1 << first + i
        elif kind == "stream":
            of[x[0]] = 0
            for bits in of.values():
                of[x[0]] |= bits
        elif kind == "work":
            n, s = x
            before[n] = of[s] = of[s] | host
            of[s] |= 1 << n
        elif kind == "record":
            mark[x[0]] = of[x[1]]
        elif kind == "wait":
            k, s, m = x
            if k != without:
                of[s] |= mark.get(m, 0)
            else:
                new = bool(mark.get(m, 0) & ~(of[s] | host))
        elif kind == "order":
            of[x[0]] |= of[x[1]]
        elif kind == "happened":
            host |= mark[x[0]]
        elif kind == "idle":
            host |= of[x[0]]
    return before, new


def main():
    steps, name, stream, touched = read(sys.argv[1])
    conflict = conflicts(stream, touched)
    for k in [0] + [x[0] for kind, x in steps if kind == "wait"]:
        try:
            before, new = orders(steps, k)
        except NoGraph as why:
            print(f"{k} needed {why}")
            continue
        loose = [(n, conflict[n] & ~before[n]) for n in sorted(conflict) if conflict[n] & ~before[n]]
        if loose:
            n, bits = loose[0]
            m = (bits & -bits).bit_length() - 1
            print(f"{k} needed {name[m]} ({m}) before {name[n]} ({n})" if k else f"a race without any change: {m}, {n}")
        elif k:
            print(f"{k} free", "holds nothing against anything" if new else "follows from others")


main()
