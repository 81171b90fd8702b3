/* tests/fuzz/fuzz_frame.c - libFuzzer target: any bytes as messages of ranks to the watchdog of another
 * (runtime/net/watch.h).
 *
 * The first byte: whether this is rank 0, which rank sends, and in how many pieces the bytes arrive.  For all bytes, a
 * failure has a status and a text, a goodbye of a rank ends the run, and bytes that do not begin as a frame end it too.
 * The file under test is included for its static functions. */
#undef _GNU_SOURCE /* the file has its own */
#include "runtime/net/watch.c"

#include <sys/socket.h>

#include "base/die.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { WORLD = 4, MOST = 64 * 1024 };

/* A watch like that of watch_start, without its thread. */
static Watch *make_watch(bool first, int from, int fd) {
  Watch *w = calloc(1, sizeof *w);
  if (!w) die("no memory");
  w->options = (WatchOptions){.rank = first ? 0 : 1, .world = WORLD, .timeout_ms = 60000};
  w->n_peers = first ? WORLD : 1;
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->peers = calloc((size_t)w->n_peers, sizeof *w->peers);
  w->slots = aligned_alloc(64, sizeof *w->slots * (size_t)w->n_peers);
  w->polls = calloc((size_t)w->n_peers + 1, sizeof *w->polls);
  w->signs = calloc(WORLD, sizeof *w->signs);
  if (!w->peers || !w->polls || !w->signs || !w->slots || w->wake < 0 || w->failed_fd < 0) die("no memory");
  memset(w->slots, 0, sizeof *w->slots * (size_t)w->n_peers);
  for (int i = 0; i < w->n_peers; i++) w->peers[i].fd = -1;
  w->peers[first ? from : 0].fd = fd;
  w->lateness =
      (Lateness){.world = WORLD, .timeout_ms = 60000, .ranks = w->signs, .slots = w->slots, .command = &w->commands};
  if (first) lateness_begin(&w->lateness);
  w->looked_ms = sockets_now();
  return w;
}

static void check(Watch *w, bool first, const uint8_t *bytes, size_t n) {
  RtError error = {0};
  uint32_t head[2] = {FRAME_MAGIC, FRAME_BEAT};
  bool failed = watch_failed(w, &error);
  if (failed && (error.status == RT_OK || !*error.text)) die("a failure without a reason");
  if (!failed && *error.text) die("a reason without a failure");
  if (n < sizeof(Frame)) return;
  memcpy(head, bytes, sizeof head);
  bool bad =
      head[0] != FRAME_MAGIC || head[1] >= FRAME_KINDS || head[1] == FRAME_FAILURE || (head[1] == FRAME_BYE && first);
  if (bad && !failed) die("frame %#x of kind %u is unknown", head[0], head[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  int fds[2];
  if (n == 0) return 0;
  bool first = bytes[0] & 1;
  int from = 1 + (bytes[0] >> 1) % (WORLD - 1);
  size_t pieces = 1 + (bytes[0] >> 4);
  if (--n > MOST) n = MOST;
  bytes++;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) die("no sockets");
  Watch *w = make_watch(first, from, fds[0]);
  for (size_t i = 0; i < pieces; i++) {
    size_t at = n * i / pieces, end = n * (i + 1) / pieces;
    if (w->peers[first ? from : 0].fd < 0) break; /* it was closed */
    if (end > at && send(fds[1], bytes + at, end - at, MSG_NOSIGNAL) != (ssize_t)(end - at)) die("no room");
    read_peer(w, first ? from : 0);
    look(w);
  }
  check(w, first, bytes, n);
  for (int i = 0; i < w->n_peers; i++)
    if (w->peers[i].fd >= 0) close(w->peers[i].fd);
  close(fds[1]);
  free_watch(w);
  return 0;
}
