/* tests/unit/runtime_comm.c - every collective on 1 to 8 rank processes against a sequential reference.
 *
 * Operations are drawn at random from a seed that all ranks share, so each rank knows every member's input and computes
 * the expected bytes of its own destination with the slow loops below; the whole destination buffer is compared,
 * including the bytes around it.  APC_TEST_SEED=N repeats one seed. */
#include <inttypes.h>
#include <math.h>

#include "tests/ranks/ranks.h"
#include "tests/test.h"

enum { OPS_MOST = 4, GROUPS_MOST = 6, BUFFER = 4 << 20, SEVERAL = 3 };

typedef enum Job { JOB_RANDOM, JOB_CROSSING, JOB_COLUMNS, JOB_DISAGREE, JOB_COUNTS, JOB_ALIASES } Job;

typedef struct Payload {
  Job job;
  uint64_t seed;
  int positions;
} Payload;

/* ---- random operations ---- */

typedef struct Draw {
  CommOp op;
  int n, self, members[SESSION_MAX_RANKS];
  CommBlock send[SESSION_MAX_RANKS][SESSION_MAX_RANKS]; /* [i][j]: the block that group rank i sends to j */
  CommBlock recv[SESSION_MAX_RANKS][SESSION_MAX_RANKS]; /* [j][i]: where j receives it; shape differs */
  size_t src_bytes[SESSION_MAX_RANKS], dst_bytes[SESSION_MAX_RANKS];
  bool in_place;
  uint64_t data_seed;
} Draw;

typedef struct Buffers {
  char *src, *dst, *want, *other;
} Buffers;

static size_t below(uint64_t *seed, size_t n) { return n ? (size_t)(ranks_random(seed) % n) : 0; }

static size_t draw_count(uint64_t *seed) {
  switch (below(seed, 8)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return below(seed, 40000);
    default: return below(seed, 700);
  }
}

/* A block of `count` units somewhere after *end, in rows if they divide it. */
static CommBlock draw_block(uint64_t *seed, size_t count, size_t unit, size_t *end) {
  size_t rows = 1;
  if (count > 1 && below(seed, 2)) {
    rows = 1 + below(seed, count < 50 ? count : 50);
    while (count % rows) rows--;
  }
  size_t gap = below(seed, 3) * unit, row_bytes = count / rows * unit;
  CommBlock b = {*end + below(seed, 3) * unit, rows, row_bytes, row_bytes + gap};
  *end = b.offset + rows * b.stride;
  return b;
}

static void draw_reduction(uint64_t *seed, Draw *d) {
  do {
    d->op.dtype = (DType)below(seed, DT_COUNT);
    d->op.reduction = (CommReduction)below(seed, COMM_REDUCTION_COUNT);
  } while (!comm_reduction_defined(d->op.reduction, d->op.dtype));
}

static void draw_all_reduce(uint64_t *seed, Draw *d) {
  size_t unit = dtype_bytes(d->op.dtype), count = draw_count(seed);
  d->in_place = below(seed, 2);
  for (int i = 0; i < d->n; i++) {
    d->send[i][0] = draw_block(seed, count, unit, &d->src_bytes[i]);
    d->recv[i][0] = draw_block(seed, count, unit, &d->dst_bytes[i]);
    if (d->in_place) d->recv[i][0] = d->send[i][0];
    if (d->in_place) d->dst_bytes[i] = d->src_bytes[i];
  }
}

static void draw_reduce_scatter(uint64_t *seed, Draw *d) {
  size_t unit = dtype_bytes(d->op.dtype);
  for (int j = 0; j < d->n; j++) {
    size_t count = draw_count(seed);
    for (int i = 0; i < d->n; i++) d->send[i][j] = draw_block(seed, count, unit, &d->src_bytes[i]);
    d->recv[j][0] = draw_block(seed, count, unit, &d->dst_bytes[j]);
  }
}

static void draw_move(uint64_t *seed, Draw *d) {
  size_t unit = (size_t)1 << below(seed, 4);
  for (int i = 0; i < d->n; i++)
    for (int j = 0; j < d->n; j++) {
      size_t count = draw_count(seed);
      d->send[i][j] = draw_block(seed, count, unit, &d->src_bytes[i]);
      d->recv[j][i] = draw_block(seed, count, unit, &d->dst_bytes[j]);
    }
}

static void draw(uint64_t *seed, Draw *d, int group, const int *members, int n) {
  memset(d, 0, sizeof *d);
  d->n = n;
  d->op.group = group;
  memcpy(d->members, members, (size_t)n * sizeof *members);
  d->op.kind = (CommKind)below(seed, COMM_KIND_COUNT);
  draw_reduction(seed, d);
  if (d->op.kind == COMM_all_reduce) draw_all_reduce(seed, d);
  else if (d->op.kind == COMM_reduce_scatter) draw_reduce_scatter(seed, d);
  else draw_move(seed, d);
  d->data_seed = ranks_random(seed);
}

/* ---- contents ---- */

static double draw_value(uint64_t *seed, bool nan_too) {
  size_t what = below(seed, 40);
  if (what == 0) return -0.0;
  if (what == 1) return 0.0;
  if (what == 2 && nan_too) return (double)NAN;
  double mantissa = (double)(int64_t)(ranks_random(seed) >> 11) / 9007199254740992.0 - 0.5;
  return ldexp(mantissa, (int)below(seed, 16) - 8);
}

/* The source bytes of group rank i. */
static void fill_src(const Draw *d, int i, char *src) {
  uint64_t seed = d->data_seed + (uint64_t)i * 1000003;
  DType t = d->op.dtype;
  size_t unit = dtype_bytes(t);
  bool typed = d->op.kind == COMM_all_reduce || d->op.kind == COMM_reduce_scatter;
  bool nan_too = d->op.reduction == COMM_RED_max || d->op.reduction == COMM_RED_min;
  for (size_t at = 0; at < d->src_bytes[i]; at += typed ? unit : 1) {
    if (!typed) src[at] = (char)ranks_random(&seed);
    else if (d->op.reduction == COMM_RED_one && ranks_random(&seed) % (uint64_t)d->n) memset(src + at, 0, unit);
    else if (dtype_is_float(t)) dtype_store_f(t, src + at, draw_value(&seed, nan_too));
    else dtype_store_i(t, src + at, (int64_t)ranks_random(&seed));
  }
}

/* ---- the reference ---- */

static char *at_stream(char *base, CommBlock b, size_t byte) {
  return base + b.offset + byte / b.row_bytes * b.stride + byte % b.row_bytes;
}

static float float_step(CommReduction r, float a, float b) {
  switch (r) {
    case COMM_RED_sum: return a + b;
    case COMM_RED_product: return a * b;
    case COMM_RED_max: return isnan(a) ? a : isnan(b) ? b : b > a ? b : a;
    default: return isnan(a) ? a : isnan(b) ? b : b < a ? b : a;
  }
}

static double double_step(CommReduction r, double a, double b) {
  switch (r) {
    case COMM_RED_sum: return a + b;
    case COMM_RED_product: return a * b;
    case COMM_RED_max: return isnan(a) ? a : isnan(b) ? b : b > a ? b : a;
    default: return isnan(a) ? a : isnan(b) ? b : b < a ? b : a;
  }
}

static uint64_t int_step(CommReduction r, bool is_signed, uint64_t a, uint64_t b) {
  bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
  switch (r) {
    case COMM_RED_sum: return a + b;
    case COMM_RED_product: return a * b;
    case COMM_RED_max: return less ? b : a;
    case COMM_RED_min: return less ? a : b;
    case COMM_RED_and: return a & b;
    default: return a | b;
  }
}

/* One element, from the sources of all members. */
static void reduce_element(const Draw *d, void *to, char *const *from) {
  DType t = d->op.dtype;
  if (d->op.reduction == COMM_RED_one) {
    size_t unit = dtype_bytes(t);
    memset(to, 0, unit);
    for (int i = 0; i < d->n; i++)
      for (size_t k = 0; k < unit; k++) ((char *)to)[k] = (char)(((char *)to)[k] | from[i][k]);
  } else if (t == DT_f64) {
    double acc = dtype_load_f(t, from[0]);
    for (int i = 1; i < d->n; i++) acc = double_step(d->op.reduction, acc, dtype_load_f(t, from[i]));
    dtype_store_f(t, to, acc);
  } else if (dtype_is_float(t)) {
    float acc = (float)dtype_load_f(t, from[0]);
    for (int i = 1; i < d->n; i++) acc = float_step(d->op.reduction, acc, (float)dtype_load_f(t, from[i]));
    dtype_store_f(t, to, (double)acc);
  } else {
    bool is_signed = dtype_class(t) == DTC_I;
    uint64_t acc = (uint64_t)dtype_load_i(t, from[0]);
    for (int i = 1; i < d->n; i++) acc = int_step(d->op.reduction, is_signed, acc, (uint64_t)dtype_load_i(t, from[i]));
    dtype_store_i(t, to, (int64_t)acc);
  }
}

/* The expected destination of group rank `self`; `sources` holds all members' sources. */
static void expect(const Draw *d, int self, char *const *sources, char *want) {
  bool all_reduce = d->op.kind == COMM_all_reduce;
  if (all_reduce || d->op.kind == COMM_reduce_scatter) {
    CommBlock to = d->recv[self][0];
    for (size_t at = 0; at < comm_block_bytes(to); at += dtype_bytes(d->op.dtype)) {
      char *from[SESSION_MAX_RANKS];
      for (int i = 0; i < d->n; i++) from[i] = at_stream(sources[i], d->send[i][all_reduce ? 0 : self], at);
      reduce_element(d, at_stream(want, to, at), from);
    }
    return;
  }
  for (int i = 0; i < d->n; i++)
    for (size_t at = 0; at < comm_block_bytes(d->recv[self][i]); at++)
      *at_stream(want, d->recv[self][i], at) = *at_stream(sources[i], d->send[i][self], at);
}

/* ---- the rank's jobs ---- */

static char *allocate(size_t bytes) {
  char *p = calloc(1, bytes + 1);
  if (!p) abort();
  return p;
}

static void prepare(Draw *d, int self, Buffers *b) {
  char *sources[SESSION_MAX_RANKS];
  for (int i = 0; i < d->n; i++) {
    sources[i] = allocate(d->src_bytes[i]);
    fill_src(d, i, sources[i]);
  }
  b->src = allocate(d->src_bytes[self]);
  memcpy(b->src, sources[self], d->src_bytes[self]);
  b->dst = d->in_place ? b->src : allocate(d->dst_bytes[self]);
  if (!d->in_place) memset(b->dst, 0x5a, d->dst_bytes[self]);
  b->want = allocate(d->dst_bytes[self]);
  memcpy(b->want, b->dst, d->dst_bytes[self]);
  expect(d, self, sources, b->want);
  for (int i = 0; i < d->n; i++) free(sources[i]);
  d->self = self;
  d->op.src = b->src;
  d->op.dst = b->dst;
  d->op.send = d->send[self];
  d->op.recv = d->recv[self];
}

static RtStatus compare(const Draw *d, Buffers *b, int position, RtError *error) {
  RtStatus status = RT_OK;
  for (size_t i = 0; i < d->dst_bytes[d->self] && status == RT_OK; i++)
    if (b->dst[i] != b->want[i])
      status = rt_error(error, RT_FAILED, "position %d: %s %s %s of %d members%s: byte %zu of %zu is wrong", position,
                        program_comm_kind_name(d->op.kind), program_comm_reduction_name(d->op.reduction),
                        dtype_name(d->op.dtype), d->n, d->in_place ? " in place" : "", i, d->dst_bytes[d->self]);
  if (!d->in_place) free(b->dst);
  free(b->src);
  free(b->want);
  return status;
}

/* Random groups, the same on all ranks: everyone, everyone shuffled, then any subsets. */
static int make_groups(RankContext *r, uint64_t *seed, int groups[][SESSION_MAX_RANKS], int *sizes, int *ids,
                       RtError *error) {
  for (int g = 0; g < GROUPS_MOST; g++) {
    int *members = groups[g];
    for (int i = 0; i < r->world; i++) members[i] = i;
    for (int i = r->world - 1; g > 0 && i > 0; i--) {
      int j = (int)below(seed, (size_t)i + 1), t = members[i];
      members[i] = members[j];
      members[j] = t;
    }
    sizes[g] = g < 2 ? r->world : 1 + (int)below(seed, (size_t)r->world);
    if (comm_group(r->comm, members, sizes[g], &ids[g], error) != RT_OK) return -1;
  }
  return 0;
}

static int rank_in(const RankContext *r, const Draw *d) {
  for (int i = 0; i < d->n; i++)
    if (d->members[i] == r->rank) return i;
  return -1;
}

typedef struct Flight {
  Draw *draws;
  Buffers buffers[OPS_MOST];
  int index[OPS_MOST], n; /* the draws this rank takes part in */
  CommTicket tickets[OPS_MOST];
} Flight;

static RtStatus launch(RankContext *r, Flight *f, int n, int position, RtError *error) {
  RtStatus status = RT_OK;
  f->n = 0;
  for (int k = 0; k < n && status == RT_OK; k++) {
    int self = rank_in(r, &f->draws[k]);
    if (self < 0) continue;
    prepare(&f->draws[k], self, &f->buffers[f->n]);
    status = comm_enqueue(r->comm, (uint64_t)position, &f->draws[k].op, &f->tickets[f->n], error);
    f->index[f->n++] = k;
  }
  return status;
}

static RtStatus land(RankContext *r, Flight *f, int position, RtError *error) {
  RtStatus status = RT_OK;
  for (int k = 0; k < f->n && status == RT_OK; k++) {
    status = comm_wait(r->comm, f->tickets[k], error);
    if (status == RT_OK) status = compare(&f->draws[f->index[k]], &f->buffers[k], position, error);
  }
  f->n = 0;
  return status;
}

/* Up to SEVERAL groups of operations in flight at a time, waited for in any order. */
static RtStatus random_job(RankContext *r, const Payload *p, RtError *error) {
  uint64_t seed = p->seed;
  int groups[GROUPS_MOST][SESSION_MAX_RANKS], sizes[GROUPS_MOST], ids[GROUPS_MOST];
  if (make_groups(r, &seed, groups, sizes, ids, error)) return error->status;
  Flight flights[SEVERAL] = {0};
  for (int i = 0; i < SEVERAL; i++) flights[i].draws = calloc(OPS_MOST, sizeof(Draw));
  RtStatus status = RT_OK;
  for (int position = 0; position < p->positions && status == RT_OK; position += SEVERAL) {
    int order = (int)below(&seed, SEVERAL);
    for (int f = 0; f < SEVERAL && status == RT_OK; f++) {
      int n = 1 + (int)below(&seed, OPS_MOST);
      for (int k = 0; k < n; k++) {
        int g = (int)below(&seed, GROUPS_MOST);
        draw(&seed, &flights[f].draws[k], ids[g], groups[g], sizes[g]);
      }
      rank_place_step(session_rank_place(r->session), (uint32_t)(position + f));
      status = launch(r, &flights[f], n, position + f, error);
    }
    for (int f = 0; f < SEVERAL && status == RT_OK; f++) {
      int which = (f + order + r->rank) % SEVERAL;
      status = land(r, &flights[which], position + which, error);
    }
  }
  for (int i = 0; i < SEVERAL; i++) free(flights[i].draws);
  return status;
}

/* Every rank sends far more than a ring holds to its right and left neighbour, both at once. */
static RtStatus crossing_job(RankContext *r, RtError *error) {
  size_t bytes = 1 << 20;
  int n = r->world, right = (r->rank + 1) % n, left = (r->rank + n - 1) % n;
  char *buffer = allocate(4 * bytes);
  memset(buffer, r->rank + 1, 2 * bytes);
  CommBlock send[2][SESSION_MAX_RANKS] = {0}, recv[2][SESSION_MAX_RANKS] = {0};
  CommTicket tickets[2];
  RtStatus status = RT_OK;
  for (int k = 0; k < 2 && status == RT_OK; k++) {
    send[k][k ? left : right] = comm_contiguous((size_t)k * bytes, bytes);
    recv[k][k ? right : left] = comm_contiguous((size_t)(k + 2) * bytes, bytes);
    CommOp op = {
        .kind = COMM_send, .group = r->everyone, .src = buffer, .dst = buffer, .send = send[k], .recv = recv[k]};
    status = comm_enqueue(r->comm, 7, &op, &tickets[k], error);
  }
  for (int k = 0; k < 2 && status == RT_OK; k++) status = comm_wait(r->comm, tickets[k], error);
  for (size_t i = 0; i < bytes && status == RT_OK; i++)
    if (buffer[2 * bytes + i] != left + 1 || buffer[3 * bytes + i] != right + 1)
      status = rt_error(error, RT_FAILED, "wrong byte %zu", i);
  free(buffer);
  return status;
}

/* all_gather along columns, in place: rank i owns columns [2i, 2i + 2) of 100 rows. */
static RtStatus columns_job(RankContext *r, RtError *error) {
  int n = r->world, rows = 100, columns = 2 * n;
  float *matrix = calloc((size_t)(rows * columns), sizeof *matrix);
  CommBlock send[SESSION_MAX_RANKS], recv[SESSION_MAX_RANKS];
  for (int i = 0; i < rows; i++)
    for (int k = 0; k < 2; k++) matrix[i * columns + 2 * r->rank + k] = (float)(1000 * i + 2 * r->rank + k);
  for (int j = 0; j < n; j++) {
    send[j] = (CommBlock){(size_t)r->rank * 8, (size_t)rows, 8, (size_t)columns * 4};
    recv[j] = (CommBlock){(size_t)j * 8, (size_t)rows, 8, (size_t)columns * 4};
  }
  CommOp op = {.kind = COMM_all_gather, .group = r->everyone, .src = matrix, .dst = matrix, .send = send, .recv = recv};
  CommTicket ticket;
  RtStatus status = comm_enqueue(r->comm, 1, &op, &ticket, error);
  bool done = false;
  while (status == RT_OK && !done) status = comm_poll(r->comm, ticket, &done, error);
  for (int i = 0; i < rows * columns && status == RT_OK; i++)
    if (matrix[i] != (float)(1000 * (i / columns) + i % columns))
      status = rt_error(error, RT_FAILED, "wrong element %d", i);
  free(matrix);
  return status;
}

static RtStatus all_reduce_floats(RankContext *r, uint64_t key, float *values, size_t n, RtError *error) {
  CommBlock block = comm_contiguous(0, n * sizeof *values);
  CommOp op = {.kind = COMM_all_reduce,
               .group = r->everyone,
               .dtype = DT_f32,
               .reduction = COMM_RED_sum,
               .src = values,
               .dst = values,
               .send = &block,
               .recv = &block};
  CommTicket ticket;
  RtStatus status = comm_enqueue(r->comm, key, &op, &ticket, error);
  return status == RT_OK ? comm_wait(r->comm, ticket, error) : status;
}

/* The last rank believes to be elsewhere in the program. */
static RtStatus disagree_job(RankContext *r, RtError *error) {
  float values[4] = {1, 2, 3, 4};
  return all_reduce_floats(r, r->rank == r->world - 1 ? 42 : 41, values, 4, error);
}

/* The bytes sent are those of the algorithm, and bad operations are refused. */
static RtStatus counts_job(RankContext *r, RtError *error) {
  enum { N = 10000 };
  static float values[N];
  uint64_t before = comm_count(r->comm, COMM_all_reduce).bytes_sent;
  RtStatus status = all_reduce_floats(r, 3, values, N, error);
  if (status != RT_OK) return status;
  uint64_t sent = comm_count(r->comm, COMM_all_reduce).bytes_sent - before, w = (uint64_t)r->world;
  uint64_t own = N * (uint64_t)(r->rank + 1) / w - N * (uint64_t)r->rank / w;
  uint64_t want = w == 1 ? 0 : 4 * (N - own + own * (w - 1));
  if (sent != want) return rt_error(error, RT_FAILED, "sent %" PRIu64 " bytes instead of %" PRIu64, sent, want);
  CommBlock block = comm_contiguous(0, 6);
  CommOp op = {.kind = COMM_all_reduce,
               .group = r->everyone,
               .dtype = DT_f32,
               .reduction = COMM_RED_sum,
               .src = values,
               .dst = values,
               .send = &block,
               .recv = &block};
  CommOp wrong[4] = {op, op, op, op};
  wrong[0].dtype = DT_bool;
  wrong[1].group = 99;
  wrong[3].src = NULL;
  for (int i = 0; i < 4; i++) {
    RtError refused = {0};
    CommTicket ticket;
    if (comm_enqueue(r->comm, 4, &wrong[i], &ticket, &refused) != RT_INTERNAL || !refused.text[0])
      return rt_error(error, RT_FAILED, "bad operation %d was accepted", i);
  }
  return RT_OK;
}

/* A large reduce_scatter that writes where it reads its own block. */
static RtStatus aliases_job(RankContext *r, RtError *error) {
  size_t n = 50000, w = (size_t)r->world;
  float *values = malloc(n * w * sizeof *values);
  CommBlock send[SESSION_MAX_RANKS];
  for (size_t i = 0; i < n * w; i++) values[i] = (float)(i % 1000) + (float)r->rank;
  for (size_t j = 0; j < w; j++) send[j] = comm_contiguous(j * n * 4, n * 4);
  CommOp op = {.kind = COMM_reduce_scatter,
               .group = r->everyone,
               .dtype = DT_f32,
               .reduction = COMM_RED_sum,
               .src = values,
               .dst = values,
               .send = send,
               .recv = &send[r->rank]};
  CommTicket ticket;
  RtStatus status = comm_enqueue(r->comm, 1, &op, &ticket, error);
  if (status == RT_OK) status = comm_wait(r->comm, ticket, error);
  for (size_t i = 0; i < n && status == RT_OK; i++) {
    float want = (float)w * (float)(((size_t)r->rank * n + i) % 1000) + (float)(w * (w - 1) / 2);
    if (values[(size_t)r->rank * n + i] != want) status = rt_error(error, RT_FAILED, "wrong element %zu", i);
  }
  free(values);
  return status;
}

static RtStatus command(RankContext *r, const SessionCommand *c, RtError *error) {
  Payload p;
  memcpy(&p, c->payload, sizeof p);
  switch (p.job) {
    case JOB_RANDOM: return random_job(r, &p, error);
    case JOB_CROSSING: return crossing_job(r, error);
    case JOB_COLUMNS: return columns_job(r, error);
    case JOB_DISAGREE: return disagree_job(r, error);
    case JOB_COUNTS: return counts_job(r, error);
    case JOB_ALIASES: return aliases_job(r, error);
  }
  return rt_error(error, RT_INTERNAL, "unknown job");
}

/* ---- the host ---- */

static RtStatus run(Session *s, Payload p, RtError *error) {
  RtStatus status = session_run(s, &p, sizeof p, error);
  return status == RT_OK ? session_wait(s, error) : status;
}

static Session *start(int world) {
  SessionOptions options = {.path = "/proc/self/exe", .world = world, .timeout_ms = 20000};
  Session *s = NULL;
  RtError error = {0};
  CHECKF(session_start(&options, &s, &error) == RT_OK, "%s", error.text);
  return s;
}

static void all_jobs(int world, int positions) {
  Session *s = start(world);
  if (!s) return;
  const char *text = getenv("APC_TEST_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)world * 7919;
  printf("%d ranks, seed %" PRIu64 "\n", world, seed);
  Job jobs[] = {JOB_RANDOM, JOB_CROSSING, JOB_COLUMNS, JOB_COUNTS, JOB_ALIASES};
  for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
    RtError error = {0};
    RtStatus status = run(s, (Payload){jobs[i], seed, positions}, &error);
    CHECKF(status == RT_OK, "%d ranks, seed %" PRIu64 ", job %zu: %s", world, seed, i, error.text);
    if (status != RT_OK) break;
  }
  session_stop(s);
}

static void test_one_rank(void) { all_jobs(1, 90); }
static void test_two_ranks(void) { all_jobs(2, 300); }
static void test_three_ranks(void) { all_jobs(3, 150); }
static void test_four_ranks(void) { all_jobs(4, 150); }
static void test_five_ranks(void) { all_jobs(5, 60); }
static void test_eight_ranks(void) { all_jobs(8, 60); }

static void test_sixty_four_ranks(void) {
  Session *s = start(64);
  if (!s) return;
  RtError error = {0};
  CHECKF(run(s, (Payload){.job = JOB_COUNTS}, &error) == RT_OK, "%s", error.text);
  CHECKF(run(s, (Payload){.job = JOB_COLUMNS}, &error) == RT_OK, "%s", error.text);
  session_stop(s);
}

static void test_disagreement_is_found(void) {
  Session *s = start(3);
  if (!s) return;
  RtError error = {0};
  CHECK(run(s, (Payload){.job = JOB_DISAGREE}, &error) == RT_INTERNAL);
  CHECKF(strstr(error.text, "disagree"), "%s", error.text);
  session_stop(s);
}

static int host(int argc, char **argv) {
  (void)argc;
  (void)argv;
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_three_ranks);
  RUN(test_four_ranks);
  RUN(test_five_ranks);
  RUN(test_eight_ranks);
  RUN(test_sixty_four_ranks);
  RUN(test_disagreement_is_found);
  return test_summary();
}

int main(int argc, char **argv) { return ranks_main(argc, argv, host, command); }
