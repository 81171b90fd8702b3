#!/usr/bin/env python3
"""Serves a compiled language model over HTTP: completions of several clients at once.  An example, not a product.

    apc examples/llama.apc -D cache=1 -D slots=1 --dim batch=8 -o llama
    python3 examples/serve.py ./llama --port 8000 [--tokenizer tokenizer.json] [--stop 2]
    curl -s localhost:8000/v1/completions -d '{"prompt": [1, 17, 5], "max_tokens": 16}'

The program has the entries `step` and `admit` of slots (docs/guide/llm.md).  Each request takes a slot of the cache as
soon as one is free; its prompt is read in pieces, one between two steps, so that the others go on (continuous
batching).  Prompts are lists of token ids, or texts if the library `tokenizers` has the model's tokenizer.

    POST /v1/completions      {"prompt": ids or text, "max_tokens": 16, "temperature": 0, "top_k": 0, "top_p": 1,
                              "seed": 0, "stop": [ids], "stream": false}
    DELETE /v1/completions/ID ends a request; so does a client that closes its connection
    GET /health               the number of slots, and of those in use

With "stream" the answer consists of events, "data: {...}", the last of which is "data: [DONE]".  finish_reason is
"stop", "length", "full" (the cache has no more room), "cancelled", "not finite" (a logit is NaN or infinite, so that
there is no next token; the other requests go on) or "failed" (the model can no longer run).
"""
from __future__ import annotations

import argparse
import collections
import http.server
import itertools
import json
import queue
import select
import socket
import sys
import threading

import numpy as np

import apc

PIECE = 64         # tokens of a prompt that are read at once
LARGEST = 4 << 20  # bytes of a request's body
PATIENCE = 60      # seconds without a byte from or to a client


class Wrong(Exception):
    """A request that cannot be served, and the status of the answer."""

    def __init__(self, why, code=400):
        super().__init__(why)
        self.code = code


def number(body, name, default, least, most, kind=(int, float)):
    v = body.get(name, default)
    if isinstance(v, bool) or not isinstance(v, kind) or not least <= v <= most:
        raise Wrong(f"{name} must be a number from {least} to {most}")
    return v


class Request:
    """A prompt, how its answer is chosen, and the queue of its answer: ids, then the reason of its end as text."""

    numbers = itertools.count()

    def __init__(self, body, engine):
        prompt = body.get("prompt")
        if isinstance(prompt, str):
            if engine.tokenizer is None:
                raise Wrong("this server has no tokenizer: prompt must be a list of token ids")
            prompt = engine.tokenizer.encode(prompt).ids
        whole = isinstance(prompt, list) and all(type(i) is int and 0 <= i < engine.vocabulary for i in prompt)
        if not whole or not prompt:
            raise Wrong(f"prompt must be a list of token ids from 0 to {engine.vocabulary - 1}")
        if len(prompt) > engine.capacity:
            raise Wrong(f"the prompt has {len(prompt)} tokens, and the cache {engine.capacity}")
        stop = body.get("stop", [])
        if not isinstance(stop, list) or not all(type(i) is int for i in stop):
            raise Wrong("stop must be a list of token ids")
        self.id = f"cmpl-{next(Request.numbers)}"
        self.prompt, self.stop = prompt, set(stop) | engine.stop
        self.most = number(body, "max_tokens", 16, 0, 1 << 30, int)
        self.temperature = number(body, "temperature", 0, 0, 1e6)
        self.top_k = number(body, "top_k", 0, 0, 1 << 30, int)
        self.top_p = number(body, "top_p", 1, 0, 1)
        self.random = np.random.default_rng(number(body, "seed", 0, 0, 1 << 62, int))
        self.answer = queue.Queue()
        self.cancelled = False
        self.read = self.made = 0  # tokens of the prompt in the cache; tokens of the answer
        self.next = 0              # the last token, which is not in the cache yet

    @property
    def reading(self):
        return self.read < len(self.prompt)

    @property
    def at(self):
        """Tokens in the cache."""
        return self.read + max(self.made - 1, 0)

    def choose(self, logits):
        """The next token; None if there is none, because of a NaN or an infinity.  A token may have -infinity."""
        if not np.isfinite(logits.max()):
            return None
        if self.temperature == 0:
            return int(logits.argmax())
        order = np.argsort(-logits, kind="stable")[:self.top_k or None]
        share = np.exp((logits[order].astype(np.float64) - logits[order[0]]) / self.temperature)
        share /= share.sum()
        n = int(np.searchsorted(np.cumsum(share), self.top_p)) + 1 if self.top_p < 1 else len(share)
        return int(self.random.choice(order[:n], p=share[:n] / share[:n].sum()))


class Engine(threading.Thread):
    """The one thread that uses the model: fills slots, reads prompts in pieces, gives every other slot a token."""

    def __init__(self, model, tokenizer=None, stop=()):
        super().__init__(daemon=True)
        step = model.entries["step"]
        shapes = {t.name: t.dims for t in step.inputs}
        self.model, self.tokenizer, self.stop = model, tokenizer, set(stop)
        self.slots = [None] * shapes["tokens"][0]
        self.capacity = next(t.index_below for t in step.inputs if t.name == "at") - 1
        self.vocabulary = step.outputs[0].dims[-1]
        self.waiting, self.changed, self.failed = collections.deque(), threading.Condition(), None

    def submit(self, request):
        with self.changed:
            if self.failed:
                raise Wrong(self.failed)
            self.waiting.append(request)
            self.changed.notify()

    def cancel(self, name):
        """Ends the request of that name before its next token; False if there is none."""
        with self.changed:
            found = [r for r in [*self.slots, *self.waiting] if r and r.id == name]
            for r in found:
                r.cancelled = True
            return bool(found)

    def end(self, request, why):
        if request in self.slots:
            self.slots[self.slots.index(request)] = None
        request.answer.put(why)

    def fill(self):
        """Gives waiting requests free slots, and ends cancelled ones; waits while there is nothing to do."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or any(self.slots))
            for r in [r for r in [*self.slots, *self.waiting] if r and r.cancelled]:
                if r in self.waiting:
                    self.waiting.remove(r)
                self.end(r, "cancelled")
            for i, r in enumerate(self.slots):
                if r is None and self.waiting:
                    self.slots[i] = self.waiting.popleft()

    def take(self, request, logits):
        r = request
        if r.made < r.most:
            chosen = r.choose(logits)
            if chosen is None:
                return self.end(r, "not finite")
            r.next = chosen
            if r.next in r.stop:
                return self.end(r, "stop")
            r.made += 1
            r.answer.put(r.next)
        if r.made == r.most:
            self.end(r, "length")
        elif r.at == self.capacity:
            self.end(r, "full")

    def admit(self):
        """Reads a piece of the prompt that has waited longest."""
        reading = [(r.id, i, r) for i, r in enumerate(self.slots) if r and r.reading]
        if not reading:
            return
        _, slot, r = min(reading, key=lambda x: int(x[0].split("-")[1]))
        piece = r.prompt[r.read:r.read + PIECE]
        logits = self.model(entry="admit", tokens=np.array([piece]), slot=np.int64(slot), at=np.int64(r.read))
        r.read += len(piece)
        if not r.reading:
            self.take(r, logits[0, -1])

    def step(self):
        active = [r is not None and not r.reading for r in self.slots]
        if not any(active):
            return
        tokens = [[r.next] if a else [0] for r, a in zip(self.slots, active)]
        at = [r.at if r else 0 for r in self.slots]
        logits = self.model(entry="step", tokens=np.array(tokens), at=np.array(at), count=np.array(active, np.int64))
        for slot, r in enumerate(list(self.slots)):
            if active[slot]:
                self.take(r, logits[slot, -1])

    def run(self):
        try:
            while True:
                self.fill()
                self.admit()
                self.step()
        except Exception as e:  # every client learns why
            with self.changed:
                self.failed = f"the model has failed: {e}"
                for r in [*filter(None, self.slots), *self.waiting]:
                    r.answer.put("failed")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    @property
    def engine(self):
        return self.server.engine

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:  # the client is gone, or too slow
            pass

    def reply(self, code, document):
        data = json.dumps(document).encode()
        # bytes of a body that has not been read would be taken for the next request
        unread = self.command != "POST" and ("Content-Length" in self.headers or "Transfer-Encoding" in self.headers)
        self.send_response(code)
        if code >= 400 or unread:
            self.send_header("Connection", "close")  # sets close_connection
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path != "/health":
            return self.reply(404, {"error": f"there is no {self.path}"})
        used = sum(r is not None for r in self.engine.slots)
        self.reply(503 if self.engine.failed else 200, {"slots": len(self.engine.slots), "used": used})

    def do_DELETE(self):
        name = self.path.rsplit("/", 1)[-1]
        found = self.path == f"/v1/completions/{name}" and self.engine.cancel(name)
        self.reply(200 if found else 404, {"id": name, "cancelled": found})

    def body(self):
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or not lengths:
            raise Wrong("the body needs a Content-Length, and no Transfer-Encoding", 411)
        if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
            raise Wrong("Content-Length must be a number")
        if len(lengths[0]) > 20 or int(lengths[0]) > LARGEST:
            raise Wrong(f"a body has at most {LARGEST} bytes", 413)
        data = self.rfile.read(int(lengths[0]))
        if len(data) < int(lengths[0]):
            raise Wrong("the body is shorter than its Content-Length")
        try:
            body = json.loads(data)
        except RecursionError:
            raise Wrong("the body is nested too deeply") from None
        if not isinstance(body, dict):
            raise Wrong("the body must be an object")
        return body

    def do_POST(self):
        if self.path != "/v1/completions":
            return self.reply(404, {"error": f"there is no {self.path}"})
        try:
            body = self.body()
            request = Request(body, self.engine)
            self.engine.submit(request)
        except (Wrong, ValueError) as e:
            return self.reply(getattr(e, "code", 400), {"error": str(e)})
        try:
            (self.stream if body.get("stream") else self.whole)(request)
        except OSError:  # the client is gone, or too slow
            self.engine.cancel(request.id)
            self.close_connection = True

    def is_gone(self):
        """True if the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def answers(self, request):
        """The ids of the answer as they come, then the reason of its end."""
        while True:
            try:
                item = request.answer.get(timeout=0.2)
            except queue.Empty:
                if self.is_gone():
                    raise ConnectionResetError from None
                continue
            yield item
            if isinstance(item, str):
                return

    def document(self, request, ids, why):
        text = self.engine.tokenizer.decode(ids) if self.engine.tokenizer else ""
        choice = {"index": 0, "text": text, "tokens": ids, "finish_reason": why}
        return {"id": request.id, "object": "text_completion", "choices": [choice]}

    def whole(self, request):
        *ids, why = self.answers(request)
        if why == "failed":
            return self.reply(500, {"error": self.engine.failed})
        usage = {"prompt_tokens": len(request.prompt), "completion_tokens": len(ids)}
        self.reply(200, {**self.document(request, ids, why), "usage": usage})

    def event(self, text):
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self, request):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for item in self.answers(request):
            ids, why = ([], item) if isinstance(item, str) else ([item], None)
            self.event(json.dumps(self.document(request, ids, why)))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


def main():
    p = argparse.ArgumentParser(description="Serves a compiled language model over HTTP.")
    p.add_argument("program")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8000, help="0: any free one")
    p.add_argument("--weights", help="a safetensors file or folder instead of the compiled weights")
    p.add_argument("--tokenizer", help="tokenizer.json, read by the library tokenizers")
    p.add_argument("--stop", type=int, action="append", default=[], help="a token that ends an answer; repeatable")
    o = p.parse_args()
    tokenizer = None
    if o.tokenizer:
        import tokenizers
        tokenizer = tokenizers.Tokenizer.from_file(o.tokenizer)
    model = apc.load(o.program, weights=o.weights)
    if not {"step", "admit"} <= set(model.entries):
        sys.exit(f"{o.program} has no slots: compile it with -D cache=1 -D slots=1 --dim batch=SLOTS")
    engine = Engine(model, tokenizer, o.stop)
    server = http.server.ThreadingHTTPServer((o.host, o.port), Handler)
    server.daemon_threads = True
    server.engine = engine
    engine.start()
    print(f"http://{o.host}:{server.server_address[1]} with {len(engine.slots)} slots of {engine.capacity} tokens",
          flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
