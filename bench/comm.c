/* bench/comm.c - times collectives between CPU ranks of this machine and prints a table.
 *
 * usage: bench_comm [RANKS...]     (default 2 4)
 *
 * First the cost of a session: the time from its start to the end of the first empty command, and the time of a further
 * empty command.  Then one line per size: bytes of the whole vector (all_reduce: the vector that every rank holds;
 * all_gather: the gathered one), rank 0's median time over repetitions, and the algorithm bandwidth, bytes / time.
 */
#include "tests/ranks/ranks.h"

enum { REPETITIONS_MOST = 400, WARM_UP = 5 };

typedef struct Payload {
  CommKind kind;
  DType dtype;
  size_t bytes;
  int repetitions;
} Payload;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void make_blocks(const RankContext *r, const Payload *p, CommBlock *send, CommBlock *recv) {
  size_t part = p->bytes / (size_t)r->world;
  send[0] = recv[0] = comm_contiguous(0, p->bytes);
  for (int j = 0; j < r->world && p->kind == COMM_all_gather; j++) {
    send[j] = comm_contiguous((size_t)r->rank * part, part);
    recv[j] = comm_contiguous((size_t)j * part, part);
  }
}

/* Rank 0 writes its median time to the start of the I/O area. */
static RtStatus command(RankContext *r, const SessionCommand *c, RtError *error) {
  Payload p;
  memcpy(&p, c->payload, sizeof p);
  if (p.bytes == 0) return RT_OK;
  CommBlock send[SESSION_MAX_RANKS], recv[SESSION_MAX_RANKS];
  make_blocks(r, &p, send, recv);
  char *buffer = malloc(p.bytes);
  memset(buffer, 0, p.bytes);
  CommOp op = {.kind = p.kind,
               .group = r->everyone,
               .dtype = p.dtype,
               .reduction = COMM_RED_sum,
               .src = buffer,
               .dst = buffer,
               .send = send,
               .recv = recv};
  double times[REPETITIONS_MOST];
  RtStatus status = RT_OK;
  for (int i = -WARM_UP; i < p.repetitions && status == RT_OK; i++) {
    CommTicket ticket;
    double before = ranks_now();
    status = comm_enqueue(r->comm, (uint64_t)(i + WARM_UP), &op, &ticket, error);
    if (status == RT_OK) status = comm_wait(r->comm, ticket, error);
    if (i >= 0) times[i] = ranks_now() - before;
  }
  free(buffer);
  qsort(times, (size_t)p.repetitions, sizeof times[0], by_value);
  if (r->rank == 0) memcpy(c->io, &times[p.repetitions / 2], sizeof times[0]);
  return status;
}

static int fail(const RtError *error) {
  fprintf(stderr, "%s\n", error->text);
  return rt_exit_code(error->status);
}

static double measure(Session *s, CommKind kind, DType dtype, size_t bytes, RtError *error) {
  void *io;
  size_t times = ((size_t)64 << 20) / bytes;
  Payload p = {kind, dtype, bytes, times > REPETITIONS_MOST ? REPETITIONS_MOST : times < 7 ? 7 : (int)times};
  if (session_io(s, sizeof(double), &io, error) != RT_OK || session_run(s, &p, sizeof p, error) != RT_OK ||
      session_wait(s, error) != RT_OK)
    return 0;
  double seconds;
  memcpy(&seconds, io, sizeof seconds);
  return seconds;
}

static RtStatus empty_command(Session *s, RtError *error) {
  Payload p = {0};
  RtStatus status = session_run(s, &p, sizeof p, error);
  return status == RT_OK ? session_wait(s, error) : status;
}

static void session_costs(Session *s, int world, double started, RtError *error) {
  enum { COMMANDS = 2000 };
  if (empty_command(s, error) != RT_OK) return;
  double first = ranks_now();
  for (int i = 0; i < COMMANDS; i++)
    if (empty_command(s, error) != RT_OK) return;
  printf("\n%d ranks: started in %.1f ms, an empty command takes %.1f us\n\n", world, (first - started) * 1e3,
         (ranks_now() - first) / COMMANDS * 1e6);
}

static int table(int world) {
  static const struct {
    const char *name;
    CommKind kind;
    DType dtype;
  } columns[] = {{"all_reduce f32", COMM_all_reduce, DT_f32},
                 {"all_reduce bf16", COMM_all_reduce, DT_bf16},
                 {"all_reduce f16", COMM_all_reduce, DT_f16},
                 {"all_gather", COMM_all_gather, DT_f32}};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  SessionOptions options = {.path = "/proc/self/exe", .world = world};
  Session *s;
  RtError error = {0};
  double started = ranks_now();
  if (session_start(&options, &s, &error) != RT_OK) return fail(&error);
  session_costs(s, world, started, &error);
  printf("| bytes |");
  for (int k = 0; k < COLUMNS; k++) printf(" %s us | GB/s |", columns[k].name);
  printf("\n| --- |");
  for (int k = 0; k < COLUMNS; k++) printf(" --- | --- |");
  printf("\n");
  for (size_t bytes = 1024; bytes <= (size_t)64 << 20 && error.status == RT_OK; bytes *= 4) {
    printf("| %zu |", bytes);
    for (int k = 0; k < COLUMNS && error.status == RT_OK; k++) {
      double seconds = measure(s, columns[k].kind, columns[k].dtype, bytes, &error);
      if (error.status == RT_OK) printf(" %.1f | %.2f |", seconds * 1e6, (double)bytes / seconds * 1e-9);
    }
    printf("\n");
    fflush(stdout);
  }
  session_stop(s);
  return error.status == RT_OK ? 0 : fail(&error);
}

static int host(int argc, char **argv) {
  int code = 0;
  for (int i = 1; i < argc && code == 0; i++) code = table(atoi(argv[i]));
  if (argc < 2) code = table(2);
  if (argc < 2 && code == 0) code = table(4);
  return code;
}

int main(int argc, char **argv) { return ranks_main(argc, argv, host, command); }
