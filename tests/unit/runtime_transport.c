/* tests/unit/runtime_transport.c - strided copies, and the rings and the connections between threads of one process
 * (where the thread sanitizer can see them): many messages of all sizes in all directions at once, then an abort. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/transport_local.h"
#include "runtime/comm/transport_tcp.h"
#include "tests/ranks/ranks.h"
#include "tests/test.h"

/* ---- strided blocks ---- */

/* Byte i of the stream, computed slowly. */
static char *stream_byte(const Strided *b, size_t i) {
  return b->data + i / b->row_bytes * b->stride + i % b->row_bytes;
}

static void test_strided_copies(void) {
  uint64_t seed = 11;
  static char space[3][8192];
  for (int round = 0; round < 3000; round++) {
    size_t rows = 1 + ranks_random(&seed) % 12, row_bytes = 1 + ranks_random(&seed) % 20;
    Strided a = {space[0], rows, row_bytes, row_bytes + ranks_random(&seed) % 3};
    Strided b = {space[1], row_bytes, rows, rows + ranks_random(&seed) % 3}; /* another shape, as many bytes */
    size_t n = rows * row_bytes, first = ranks_random(&seed) % n, count = ranks_random(&seed) % (n - first + 1);
    for (size_t i = 0; i < sizeof space[0]; i++) space[0][i] = (char)ranks_random(&seed);
    strided_gather(space[2], &a, first, count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += space[2][i] != *stream_byte(&a, first + i);
    memset(space[1], 7, sizeof space[1]);
    strided_scatter(&b, first, space[2], count);
    size_t changed = 0;
    for (size_t i = 0; i < count; i++) wrong += space[2][i] != *stream_byte(&b, first + i);
    for (size_t i = 0; i < sizeof space[1]; i++) changed += space[1][i] != 7;
    CHECK(changed <= count);
    char *direct = strided_direct(&a, first, count);
    if (direct)
      for (size_t i = 0; i < count; i++) wrong += direct + i != stream_byte(&a, first + i);
    strided_copy(&b, &a);
    for (size_t i = 0; i < n; i++) wrong += *stream_byte(&b, i) != *stream_byte(&a, i);
    CHECKF(wrong == 0, "round %d: %zu wrong", round, wrong);
  }
}

/* ---- rings ---- */

enum { WORLD = 4, MESSAGES = 300, LONGEST = 600000 };

typedef struct Worker {
  pthread_t thread;
  void *memory; /* NULL over connections */
  int fds[WORLD];
  int rank;
  bool crowded, endless;
  RtStatus status;
  size_t wrong;
} Worker;

/* Message k from a to b: its length and first byte. */
static size_t message_length(int a, int b, int k) {
  uint64_t seed = (uint64_t)(k * 100 + a * 10 + b);
  uint64_t v = ranks_random(&seed);
  return 1 + (k % 50 == 0 ? v % LONGEST : v % 5000);
}
static char message_byte(int a, int b, int k, size_t i) { return (char)(a * 31 + b * 17 + k + (int)(i * 7)); }

typedef struct Lane {
  Transfer transfer;
  int sent; /* messages so far */
  bool send;
  char *buffer;
} Lane;

static void begin(Transport *t, Lane *lane, int peer) {
  int from = lane->send ? t->rank : peer, to = lane->send ? peer : t->rank;
  size_t n = message_length(from, to, lane->sent);
  for (size_t i = 0; i < n && lane->send; i++) lane->buffer[i] = message_byte(from, to, lane->sent, i);
  lane->transfer = (Transfer){.peer = peer, .tag = (uint64_t)lane->sent, .block = {lane->buffer, 1, n, n}, .length = n};
  if (lane->send) t->ops->isend(t, &lane->transfer);
  else t->ops->irecv(t, &lane->transfer);
}

static size_t verify(const Transport *t, const Lane *lane, int peer) {
  size_t wrong = 0;
  for (size_t i = 0; i < lane->transfer.length && !lane->send; i++)
    wrong += lane->buffer[i] != message_byte(peer, t->rank, lane->sent, i);
  return wrong;
}

/* Advances all lanes until their messages are through; the endless ones only wait. */
static RtStatus pump(Worker *w, Transport *t, Lane lanes[WORLD][2], RtError *error) {
  int left = w->endless ? 1 : 2 * (WORLD - 1);
  for (unsigned spins = 0; left;) {
    bool moved;
    RtStatus status = t->ops->progress(t, &moved, error);
    if (status != RT_OK) return status;
    for (int p = 0; p < WORLD && !w->endless; p++)
      for (int d = 0; d < 2; d++) {
        Lane *lane = &lanes[p][d];
        if (p == w->rank || lane->sent == MESSAGES || !lane->transfer.done) continue;
        w->wrong += verify(t, lane, p);
        if (++lane->sent < MESSAGES) begin(t, lane, p);
        else left--;
      }
    if (moved) spins = 0;
    else t->ops->sleep(t, spins++, 10000);
  }
  return RT_OK;
}

static void *work(void *argument) {
  Worker *w = argument;
  static _Thread_local Lane lanes[WORLD][2];
  memset(lanes, 0, sizeof lanes);
  RtError error = {0};
  Transport *t = NULL;
  w->status = w->memory ? transport_local_open(w->memory, w->rank, WORLD, w->crowded, &t, &error)
                        : transport_tcp_open(w->fds, w->rank, WORLD, NULL, &t, &error);
  if (w->status != RT_OK) return NULL;
  for (int p = 0; p < WORLD; p++)
    for (int d = 0; d < 2; d++) {
      if (p == w->rank) continue;
      lanes[p][d] = (Lane){.send = d == 0, .buffer = malloc(LONGEST)};
      begin(t, &lanes[p][d], p);
      if (w->endless && d == 0) break; /* no receiver: all get stuck */
    }
  w->status = pump(w, t, lanes, &error);
  t->ops->close(t);
  for (int p = 0; p < WORLD; p++)
    for (int d = 0; d < 2; d++) free(lanes[p][d].buffer);
  return NULL;
}

static void run_workers(bool crowded, bool endless, RtStatus want) {
  size_t bytes = transport_local_bytes(WORLD);
  void *memory = aligned_alloc(4096, bytes);
  memset(memory, 0, bytes);
  Worker workers[WORLD] = {0};
  for (int i = 0; i < WORLD; i++) {
    workers[i].memory = memory;
    workers[i].rank = i;
    workers[i].crowded = crowded;
    workers[i].endless = endless;
    pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  }
  double before = ranks_now();
  if (endless) {
    usleep(50000);
    before = ranks_now();
    transport_local_abort_all(memory, WORLD);
  }
  for (int i = 0; i < WORLD; i++) {
    pthread_join(workers[i].thread, NULL);
    CHECKF(workers[i].status == want, "rank %d: status %d", i, (int)workers[i].status);
    CHECKF(workers[i].wrong == 0, "rank %d: %zu wrong bytes", i, workers[i].wrong);
  }
  /* Sleeps last up to ten seconds, so a lost wake-up shows in the time. */
  CHECKF(ranks_now() - before < (endless ? 1 : 8), "%.2f s", ranks_now() - before);
  free(memory);
}

static void test_rings_spinning(void) { run_workers(false, false, RT_OK); }
static void test_rings_sleeping(void) {
  for (int i = 0; i < 3; i++) run_workers(true, false, RT_OK);
}
static void test_abort_wakes_everyone(void) { run_workers(true, true, RT_ABORTED); }

/* ---- connections ---- */

static void connect_workers(Worker *workers) {
  for (int i = 0; i < WORLD; i++) {
    workers[i].rank = i;
    workers[i].fds[i] = -1;
    for (int j = i + 1; j < WORLD; j++) {
      int pair[2] = {-1, -1};
      CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
      workers[i].fds[j] = pair[0];
      workers[j].fds[i] = pair[1];
    }
  }
}

static void test_connections(void) {
  Worker workers[WORLD] = {0};
  connect_workers(workers);
  for (int i = 0; i < WORLD; i++) pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  for (int i = 0; i < WORLD; i++) {
    pthread_join(workers[i].thread, NULL);
    CHECKF(workers[i].status == RT_OK, "rank %d: status %d", i, (int)workers[i].status);
    CHECKF(workers[i].wrong == 0, "rank %d: %zu wrong bytes", i, workers[i].wrong);
  }
}

static RtStatus until_done(Transport *t, const Transfer *x, RtError *error) {
  RtStatus status = RT_OK;
  bool moved;
  for (unsigned spins = 0; !x->done && !status; spins++) {
    status = t->ops->progress(t, &moved, error);
    if (!moved && !status) t->ops->sleep(t, spins, 100);
  }
  return status;
}

/* Rows on one side, another shape on the other; then the sides disagree about a length; then one is gone. */
static void test_connection_ends(void) {
  int pair[2] = {-1, -1};
  char from[3000], to[3000] = {0};
  RtError error = {0};
  Transport *a, *b;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
  CHECK(transport_tcp_open((int[]){-1, pair[0]}, 0, 2, NULL, &a, &error) == RT_OK);
  CHECK(transport_tcp_open((int[]){pair[1], -1}, 1, 2, NULL, &b, &error) == RT_OK);
  for (size_t i = 0; i < sizeof from; i++) from[i] = (char)(i * 7);
  Transfer send = {.peer = 1, .tag = 5, .block = {from, 10, 20, 50}, .length = 200};
  Transfer receive = {.peer = 0, .tag = 5, .block = {to, 25, 8, 9}, .length = 200};
  a->ops->isend(a, &send);
  b->ops->irecv(b, &receive);
  CHECK(until_done(a, &send, &error) == RT_OK && until_done(b, &receive, &error) == RT_OK);
  size_t wrong = 0;
  for (size_t i = 0; i < 200; i++) wrong += *stream_byte(&send.block, i) != *stream_byte(&receive.block, i);
  CHECK(wrong == 0);
  send.length = 100;
  a->ops->isend(a, &send);
  b->ops->irecv(b, &receive);
  CHECK(until_done(a, &send, &error) == RT_OK && until_done(b, &receive, &error) == RT_INTERNAL);
  CHECK(strstr(error.text, "ranks disagree"));
  a->ops->irecv(a, &(Transfer){.peer = 1, .tag = 6, .block = {to, 1, 10, 10}, .length = 10});
  b->ops->close(b);
  error = (RtError){0};
  CHECK(until_done(a, &(Transfer){0}, &error) == RT_FAILED && strstr(error.text, "lost its connection to rank 1"));
  a->ops->close(a);
}

static void test_sizes(void) {
  for (int world = 1; world <= TRANSPORT_LOCAL_MAX_WORLD; world++) CHECK(transport_local_bytes(world) % 4096 == 0);
  CHECK(transport_local_bytes(TRANSPORT_LOCAL_MAX_WORLD) < (size_t)256 << 20);
  RtError error = {0};
  Transport *t;
  CHECK(transport_local_open(NULL, 0, TRANSPORT_LOCAL_MAX_WORLD + 1, false, &t, &error) == RT_UNSUPPORTED);
  CHECK(transport_local_open(NULL, 2, 2, false, &t, &error) == RT_UNSUPPORTED);
}

int main(void) {
  RUN(test_strided_copies);
  RUN(test_sizes);
  RUN(test_rings_spinning);
  RUN(test_rings_sleeping);
  RUN(test_abort_wakes_everyone);
  RUN(test_connections);
  RUN(test_connection_ends);
  return test_summary();
}
