/* tests/unit/runtime_beside.c - communication beside computation on CPU ranks: a computing rank calls `check` now and
 * then, which moves all that can be moved, so that a message many times as large as a ring arrives without any wait. */
#include <stdlib.h>

#include "runtime/comm/cpu.h"
#include "runtime/comm/transport_local.h"
#include "tests/test.h"

enum { MESSAGE = 3 << 20, PAGE = 4096 };

typedef struct Rank {
  Comm *comm;
  int group;
  CommTicket ticket;
} Rank;

static bool open_rank(void *memory, int rank, Rank *out) {
  Transport *t;
  RtError error = {0};
  const int both[] = {0, 1};
  bool ok = transport_local_open(memory, rank, 2, true, &t, &error) == RT_OK &&
            comm_cpu_open(t, NULL, &out->comm, &error) == RT_OK &&
            comm_group(out->comm, both, 2, &out->group, &error) == RT_OK;
  CHECKF(ok, "%s", error.text);
  return ok;
}

static void ask(Rank *r, bool sends, char *bytes) {
  RtError error = {0};
  const CommBlock none = {0}, all = {0, 1, MESSAGE, MESSAGE};
  const CommBlock to_1[] = {none, all}, from_0[] = {all, none}, nothing[] = {none, none};
  const CommOp op = {.kind = sends ? COMM_send : COMM_recv,
                     .group = r->group,
                     .src = sends ? bytes : NULL,
                     .dst = sends ? NULL : bytes,
                     .send = sends ? to_1 : nothing,
                     .recv = sends ? nothing : from_0};
  CHECKF(comm_enqueue(r->comm, 7, &op, &r->ticket, &error) == RT_OK, "%s", error.text);
}

static bool is_over(const Rank *r) {
  RtError error = {0};
  bool done = false;
  CHECKF(comm_poll(r->comm, r->ticket, &done, &error) == RT_OK, "%s", error.text);
  return done;
}

static void checks_move_all_they_can(void) {
  size_t bytes = transport_local_bytes(2);
  void *memory = aligned_alloc(PAGE, bytes);
  char *from = malloc(MESSAGE), *to = calloc(1, MESSAGE);
  Rank sender = {0}, receiver = {0};
  RtError error = {0};
  memset(memory, 0, bytes);
  for (size_t i = 0; i < MESSAGE; i++) from[i] = (char)(i * 7 + i / 251);
  if (open_rank(memory, 0, &sender) && open_rank(memory, 1, &receiver)) {
    CHECK(sender.comm->ops->moves_when_asked);
    ask(&sender, true, from);
    for (int i = 0; i < 3; i++) CHECK(comm_check(sender.comm, &error) == RT_OK); /* its receiver is not there yet */
    CHECK(!is_over(&sender));
    ask(&receiver, false, to);
    int turns = 0;
    for (; !is_over(&receiver) && turns < 1000; turns++)
      CHECK(comm_check(sender.comm, &error) == RT_OK && comm_check(receiver.comm, &error) == RT_OK);
    CHECKF(turns <= MESSAGE / (256 << 10) + 1, "%d turns for a ring of 256 KiB", turns);
    CHECK(is_over(&sender) && memcmp(from, to, MESSAGE) == 0);
  }
  comm_close(sender.comm);
  comm_close(receiver.comm);
  free(from);
  free(to);
  free(memory);
}

int main(void) {
  RUN(checks_move_all_they_can);
  return test_summary();
}
