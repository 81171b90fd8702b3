/* tests/unit/program_loop.c - loops of hand-made Programs: rounds, ends, communication, failures; refusals of the
 * loader and the checkers. */
#include <stdlib.h>
#include <sys/wait.h>

#include "program/memory.h"
#include "program/order.h"
#include "program/traffic.h"
#include "tests/programs.h"

static const char kernel_text[] =
    "#include <signal.h>\n#include <stdint.h>\n#include <unistd.h>\n"
    "void step(void *const *t, const int64_t *x) {\n" /* h = 2 h + round */
    "  float *h = t[0];\n  for (int64_t i = 0; i < x[0]; i++) h[i] = 2 * h[i] + (float)*(int64_t *)t[1];\n}\n"
    "void less(void *const *t, const int64_t *x) { *(unsigned char *)t[1] = *(float *)t[0] < (float)x[0]; }\n"
    "void trouble(void *const *t, const int64_t *x) {\n" /* in round 3 input 666 kills rank 1, 777 delays it, 888 stops
                                                            it */
    "  if (x[0] != 1 || *(int64_t *)t[1] != 3) return;\n"
    "  if (x[1] == 666) kill(getpid(), SIGKILL);\n"
    "  if (x[1] == 777) sleep(20);\n"
    "  if (x[1] == 888) kill(getpid(), SIGSTOP);\n}\n";

enum { N = 4, MOST = 5 };

/* ---- programs of x, n -> y */

typedef struct Parts {
  uint32_t x, n, t, flag, batch; /* tensors; an expression */
} Parts;

static Make begin(Parts *p, uint32_t ranks) {
  Make m = make_new(1);
  if (ranks > 1) make_axis(&m, "tp", ranks, false);
  p->batch = make_number(&m, N);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, p->batch));
  make_port(&m, "n", DT_i64, (ProgramList){0, 0});
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, p->batch));
  make_entry(&m, "main", 2, 1);
  make_begin(&m, 0);
  p->x = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, p->batch));
  p->n = make_tensor(&m, PC_activation, DT_i64, 1, (ProgramList){0, 0});
  p->t = make_tensor(&m, PC_activation, DT_i64, 1, (ProgramList){0, 0});
  p->flag = make_tensor(&m, PC_activation, DT_bool, 1, (ProgramList){0, 0});
  make_io(&m, PI_feed, 0, p->x, 0, MAKE_LIST(&m, make_number(&m, 0)));
  make_io(&m, PI_feed, 1, p->n, 0, (ProgramList){0, 0});
  return m;
}

static void end(Make *m, uint32_t y, uint32_t mask) {
  make_io(m, PI_fetch, 0, y, mask, MAKE_LIST(m, make_number(m, 0)));
  make_call(m, 0, make_end(m, "body"), 0);
  make_schedules(m);
  m->kernels = kernel_text;
}

static float run(ApcModel *m, float first, int64_t n) {
  float x[N] = {first, 1, 2, 3}, y[N] = {0};
  OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){N}, x));
  OK(apc_bind_input(m, "n", APC_I64, 0, NULL, &n));
  OK(apc_run(m, NULL));
  OK(apc_read_output(m, "y", y, sizeof y));
  return y[0];
}

/* ---- numbers of rounds */

static void rounds(void) {
  for (int limit = 0; limit < 2; limit++) {
    Parts p;
    Make make = begin(&p, 1);
    uint32_t loop = make_loop(&make, "rnn", p.t, p.n, limit ? make_number(&make, MOST) : PROGRAM_NONE);
    make_launch(&make, "step", MAKE_LIST(&make, p.x, p.t), MAKE_LIST(&make, p.batch));
    make_repeat(&make, loop, PROGRAM_NONE);
    end(&make, p.x, 0);
    ApcModel *m = make_load(make_artifact(&make, "rounds"));
    static const int64_t counts[] = {3, 0, 1, -7, 5, INT64_MIN, 8, 2};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
      int64_t n = limit && counts[i] > MOST ? MOST : counts[i];
      float want = 1;
      for (int64_t t = 0; t < n; t++) want = 2 * want + (float)t;
      float got = run(m, 1, counts[i]);
      CHECKF(got == want, "%lld rounds: %g, not %g", (long long)counts[i], (double)got, (double)want);
    }
    if (limit) CHECK(run(m, 1, INT64_MAX) == 58); /* 2 (2 (2 (2 2 + 1) + 2) + 3) + 4 */
    apc_close(m);
  }
}

/* A call that reaches outside its tensor is an error only when it is executed. */
static void calls_that_reach_outside(void) {
  Parts p;
  Make make = begin(&p, 1);
  uint32_t zero = make_number(&make, 0), three = make_number(&make, 3);
  uint32_t loop = make_loop(&make, "rnn", p.t, p.n, PROGRAM_NONE);
  uint32_t y = make_tensor(&make, PC_activation, DT_f32, 1, MAKE_LIST(&make, p.batch));
  ProgramInstr copy = make_instr(&make, PI_copy, "shifted", MAKE_LIST(&make, p.x, y));
  copy.exprs = MAKE_LIST(&make, three, zero, three);
  make_put(&make, copy);
  make_repeat(&make, loop, PROGRAM_NONE);
  end(&make, p.x, 0);
  ApcModel *m = make_load(make_artifact(&make, "outside"));
  CHECK(run(m, 5, 0) == 5);
  const float x[N] = {5};
  const int64_t n = 1;
  OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){N}, x));
  OK(apc_bind_input(m, "n", APC_I64, 0, NULL, &n));
  CHECK(apc_run(m, NULL) == APC_INTERNAL);
  CHECKF(strstr(apc_error(m), "copy 'shifted' on rank 0: the box reaches outside a tensor"), "%s", apc_error(m));
  apc_close(m);
}

/* The inner loop makes as many rounds as the outer one's number, none in the first. */
static void nested(void) {
  Parts p;
  Make make = begin(&p, 1);
  uint32_t inner_round = make_tensor(&make, PC_activation, DT_i64, 1, (ProgramList){0, 0});
  uint32_t outer = make_loop(&make, "outer", p.t, p.n, PROGRAM_NONE);
  uint32_t inner = make_loop(&make, "inner", inner_round, p.t, PROGRAM_NONE);
  make_launch(&make, "step", MAKE_LIST(&make, p.x, inner_round), MAKE_LIST(&make, p.batch));
  make_repeat(&make, inner, PROGRAM_NONE);
  make_launch(&make, "step", MAKE_LIST(&make, p.x, p.t), MAKE_LIST(&make, p.batch));
  make_repeat(&make, outer, PROGRAM_NONE);
  end(&make, p.x, 0);
  ApcModel *m = make_load(make_artifact(&make, "nested"));
  for (int64_t n = 0; n < 5; n++) {
    float want = 1;
    for (int64_t t = 0; t < n; t++) {
      for (int64_t i = 0; i < t; i++) want = 2 * want + (float)i;
      want = 2 * want + (float)t;
    }
    CHECK(run(m, 1, n) == want);
  }
  apc_close(m);
}

static void ends_itself(void) {
  Parts p;
  Make make = begin(&p, 1);
  uint32_t loop = make_loop(&make, "search", p.t, p.n, PROGRAM_NONE);
  make_launch(&make, "step", MAKE_LIST(&make, p.x, p.t), MAKE_LIST(&make, p.batch));
  make_launch(&make, "less", MAKE_LIST(&make, p.x, p.flag), MAKE_LIST(&make, make_number(&make, 20)));
  make_repeat(&make, loop, p.flag);
  end(&make, p.x, 0);
  ApcModel *m = make_load(make_artifact(&make, "search"));
  CHECK(run(m, 1, 100) == 27); /* 2 5 12 27 */
  CHECK(run(m, 1, 3) == 12);
  CHECK(run(m, 50, 100) == 100); /* the first round always runs */
  CHECK(run(m, 50, 0) == 50);
  CHECK(run(m, 1, INT64_MAX) == 27);
  apc_close(m);
}

/* x and z are swapped in every round. */
static void swapped_carries(void) {
  Parts p;
  Make make = begin(&p, 1);
  uint32_t z = make_tensor(&make, PC_activation, DT_f32, 1, MAKE_LIST(&make, p.batch));
  uint32_t s = make_tensor(&make, PC_activation, DT_f32, 1, MAKE_LIST(&make, p.batch));
  ProgramInstr fill = make_instr(&make, PI_fill, "z", MAKE_LIST(&make, z));
  fill.value = -4;
  make_put(&make, fill);
  uint32_t loop = make_loop(&make, "swap", p.t, p.n, PROGRAM_NONE), zero = make_number(&make, 0);
  uint32_t moves[3][2] = {{p.x, s}, {z, p.x}, {s, z}};
  for (int i = 0; i < 3; i++) {
    ProgramInstr x = make_instr(&make, PI_copy, "swap", MAKE_LIST(&make, moves[i][0], moves[i][1]));
    x.exprs = MAKE_LIST(&make, p.batch, zero, zero);
    make_put(&make, x);
  }
  make_repeat(&make, loop, PROGRAM_NONE);
  end(&make, p.x, 0);
  ApcModel *m = make_load(make_artifact(&make, "swap"));
  for (int64_t n = 0; n < 5; n++) CHECK(run(m, 9, n) == (n % 2 ? -4 : 9));
  apc_close(m);
}

/* ---- two ranks */

static Make communicating(Parts *p) {
  Make make = begin(p, 2);
  uint32_t tp = program_coordinate(make.b, 0);
  uint32_t group = program_add_groups(make.b, &(ProgramGroup){MAKE_LIST(&make, 0), PROGRAM_NONE, PROGRAM_NONE});
  uint32_t loop = make_loop(&make, "rnn", p->t, p->n, make_number(&make, 2000));
  make_launch(&make, "trouble", MAKE_LIST(&make, p->x, p->t), MAKE_LIST(&make, tp, make_number(&make, 0)));
  make_launch(&make, "step", MAKE_LIST(&make, p->x, p->t), MAKE_LIST(&make, p->batch));
  ProgramInstr sum = make_comm(&make, PI_all_reduce, "rnn.sum", group, MAKE_LIST(&make, p->x, p->x));
  sum.reduction = COMM_RED_max;
  make_put(&make, sum);
  make_repeat(&make, loop, PROGRAM_NONE);
  return make;
}

static void communicates(void) {
  Parts p;
  Make make = communicating(&p);
  end(&make, p.x, 1);
  ApcModel *m = make_load(make_artifact(&make, "pair"));
  CHECK(run(m, 1, 4) == 27 && run(m, 1, 0) == 1);
  CHECK(run(m, 0, 900) > 0);
  ApcReport r;
  OK(apc_report(m, 1, &r));
  CHECKF(r.communications == 904, "%llu", (unsigned long long)r.communications);
  apc_close(m);
}

static void a_rank_dies_or_is_late(void) {
  static const struct {
    int64_t x;
    ApcStatus status;
    const char *text;
  } cases[] = {{666, APC_FAILED, "rank 1"}, {777, APC_LATE, "rank 1 is late"}, {888, APC_LATE, "rank 1 is stopped"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Parts p;
    Make make = communicating(&p);
    for (uint32_t k = 0; k < program_count_instrs(make.b); k++) {
      ProgramInstr *x = program_at_instrs(make.b, k);
      if (x->kind == PI_launch && x->exprs.n == 2)
        *program_at_indices(make.b, x->exprs.first + 1) = make_number(&make, cases[i].x);
    }
    end(&make, p.x, 1);
    ApcModel *m = make_load_late(make_artifact(&make, "trouble"));
    float x[N] = {0};
    int64_t n = 10;
    OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){N}, x));
    OK(apc_bind_input(m, "n", APC_I64, 0, NULL, &n));
    CHECK(apc_run(m, NULL) == cases[i].status);
    CHECKF(strstr(apc_error(m), cases[i].text) && strstr(apc_error(m), "launch of trouble, round 4)"), "%s",
           apc_error(m));
    n = 3; /* and the next request is unaffected */
    OK(apc_run(m, NULL));
    apc_close(m);
  }
}

/* ---- refusals */

typedef struct Built {
  void *image;
  size_t bytes;
  Program p;
} Built;

static RtStatus finish(Make *m, Built *out, RtError *error) {
  ProgramFacts facts = {"m", "cpu", "test", m->stages, m->events, NULL, NULL, 0, NULL};
  RtStatus status = program_builder_finish(m->b, &facts, &out->image, &out->bytes, error);
  if (!status) status = program_open(out->image, out->bytes, &out->p, error);
  program_builder_free(m->b);
  return status;
}

static void discard(Built *b) {
  program_close(&b->p);
  free(b->image);
}

typedef enum Fault {
  SOUND,
  NO_REPEAT,
  NO_LOOP,
  CROSSING,
  TOO_FAR,
  ZERO,
  OTHER_ROUND,
  GUARD_LOOP,
  GUARD_REPEAT,
  COUNT_TYPE,
  COUNT_RANK,
  FLAG_TYPE,
  FEED_INSIDE,
  TWO_BOUNDS,
  TOO_DEEP,
  FAULTS
} Fault;

/* Two nested loops, spoiled; the instruction that is blamed. */
static uint32_t spoil(Make *m, const Parts *p, Fault fault) {
  uint32_t t2 = make_tensor(m, PC_activation, DT_i64, 1, (ProgramList){0, 0});
  uint32_t outer = make_loop(m, "outer", p->t, p->n, PROGRAM_NONE),
           inner = make_loop(m, "inner", t2, p->n, PROGRAM_NONE);
  make_launch(m, "step", MAKE_LIST(m, p->x, p->t), MAKE_LIST(m, p->batch));
  if (fault == FEED_INSIDE) make_io(m, PI_feed, 0, p->x, 0, MAKE_LIST(m, make_number(m, 0)));
  make_repeat(m, inner, p->flag);
  make_repeat(m, outer, PROGRAM_NONE);
  uint32_t outer_end = outer + program_at_instrs(m->b, outer)->dim,
           inner_end = inner + program_at_instrs(m->b, inner)->dim;
  ProgramInstr *loop = program_at_instrs(m->b, outer), *inside = program_at_instrs(m->b, inner);
  ProgramInstr *repeat = program_at_instrs(m->b, outer_end), *inside_end = program_at_instrs(m->b, inner_end);
  switch (fault) {
    case NO_REPEAT: *repeat = make_instr(m, PI_fill, "x", MAKE_LIST(m, p->x)); return outer;
    case NO_LOOP: *loop = make_instr(m, PI_fill, "x", MAKE_LIST(m, p->x)); return outer_end;
    case CROSSING: loop->dim--, inside->dim++; return inner_end;
    case TOO_FAR: loop->dim = 1000; return outer;
    case ZERO: loop->dim = 0; return outer;
    case OTHER_ROUND: repeat->tensors = MAKE_LIST(m, t2); return outer_end;
    case GUARD_LOOP: inside->guard = make_number(m, 1); return inner;
    case GUARD_REPEAT: inside_end->guard = make_number(m, 0); return inner_end;
    case COUNT_TYPE: loop->tensors = MAKE_LIST(m, p->t, p->flag); return outer;
    case COUNT_RANK: loop->tensors = MAKE_LIST(m, p->t, p->x); return outer;
    case FLAG_TYPE: inside_end->tensors = MAKE_LIST(m, t2, p->n); return inner_end;
    case FEED_INSIDE: return inner + 2;
    case TWO_BOUNDS: loop->exprs = MAKE_LIST(m, p->batch, p->batch); return outer;
    default: return PROGRAM_NONE;
  }
}

static void the_loader_refuses(void) {
  for (int fault = 0; fault < TOO_DEEP; fault++) {
    Parts p;
    Built b = {0};
    RtError error = {0};
    char want[40];
    Make m = begin(&p, 1);
    uint32_t instr = spoil(&m, &p, (Fault)fault);
    end(&m, p.x, 0);
    program_add_kernels(m.b, &(ProgramKernel){.name = program_string(m.b, "k")});
    RtStatus status = finish(&m, &b, &error);
    CHECKF((status == RT_OK) == (fault == SOUND), "fault %d: %s", fault, error.text);
    snprintf(want, sizeof want, "of instrs[%u] is wrong", instr);
    if (fault)
      CHECKF(strstr(error.text, want) && rt_exit_code(RT_BAD_INPUT) == 1, "fault %d: %s, not '%s'", fault, error.text,
             want);
    if (!status) discard(&b);
  }
}

static void loops_inside_each_other(void) {
  for (uint32_t depth = PROGRAM_MAX_LOOPS; depth <= PROGRAM_MAX_LOOPS + 1; depth++) {
    Parts p;
    Built b = {0};
    RtError error = {0};
    Make m = begin(&p, 1);
    uint32_t loops[PROGRAM_MAX_LOOPS + 1];
    for (uint32_t i = 0; i < depth; i++) loops[i] = make_loop(&m, "deep", p.t, p.n, PROGRAM_NONE);
    make_launch(&m, "step", MAKE_LIST(&m, p.x, p.t), MAKE_LIST(&m, p.batch));
    for (uint32_t i = depth; i-- > 0;) make_repeat(&m, loops[i], PROGRAM_NONE);
    end(&m, p.x, 0);
    RtStatus status = finish(&m, &b, &error);
    CHECKF((status == RT_OK) == (depth <= PROGRAM_MAX_LOOPS), "%u loops: %s", depth, error.text);
    if (status) continue;
    uint32_t most = 0, again = PROGRAM_NONE;
    for (uint32_t i = 0; i < b.p.n_instrs; i = program_next(&b.p, i, &again)) most += b.p.instrs[i].kind == PI_launch;
    CHECKF(most == depth + 1, "%u", most);
    discard(&b);
  }
}

/* An artifact whose loop was damaged, with a right checksum: `./model` reports it and exits with 1. */
static void a_damaged_artifact(void) {
  Parts p;
  Make make = begin(&p, 1);
  uint32_t loop = make_loop(&make, "rnn", p.t, p.n, PROGRAM_NONE);
  make_launch(&make, "step", MAKE_LIST(&make, p.x, p.t), MAKE_LIST(&make, p.batch));
  make_repeat(&make, loop, PROGRAM_NONE);
  end(&make, p.x, 0);
  const char *path = make_artifact(&make, "damaged");
  Artifact a;
  RtError error = {0};
  CHECKF(artifact_open(path, path, &a, &error) == RT_OK, "%s", error.text);
  ProgramHeader h = *a.program.header;
  size_t at = (size_t)((const unsigned char *)&a.program.instrs[loop].dim - a.image);
  unsigned char *tables = malloc(h.table_bytes);
  memcpy(tables, a.image, h.table_bytes);
  artifact_close(&a);
  tables[at] = 0;
  size_t begins = offsetof(ProgramHeader, table_bytes);
  h.table_hash = hash64(tables + begins, h.table_bytes - begins, 0);
  memcpy(tables, &h, sizeof h);
  FILE *f = fopen(path, "r+b");
  ArtifactTrailer t;
  CHECK(f && fseek(f, -(long)sizeof t, SEEK_END) == 0 && fread(&t, sizeof t, 1, f) == 1);
  t.hash = h.table_hash;
  CHECK(fseek(f, -(long)sizeof t, SEEK_END) == 0 && fwrite(&t, sizeof t, 1, f) == 1);
  CHECK(fseek(f, (long)t.offset, SEEK_SET) == 0 && fwrite(tables, h.table_bytes, 1, f) == 1 && fclose(f) == 0);
  free(tables);
  char command[5000], line[300] = "";
  snprintf(command, sizeof command, "%s 2>&1", path);
  FILE *out = popen(command, "r");
  CHECK(out && fgets(line, sizeof line, out));
  int status = pclose(out);
  CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%x", (unsigned)status);
  CHECKF(strstr(line, "the loop of instrs[2] is wrong"), "%s", line);
}

/* ---- the checkers walk the body */

typedef enum Life { WHOLE, ENDS_INSIDE, BEGINS_INSIDE } Life;

static void lifetimes(void) {
  static const char *const texts[] = {NULL, "'step' uses buffer 'activation' outside its lifetime",
                                      "buffer 'activation' begins in a loop and does not end in it"};
  for (int life = WHOLE; life <= BEGINS_INSIDE; life++) {
    Parts p;
    Built b = {0};
    RtError error = {0};
    Make m = begin(&p, 1);
    uint32_t z = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, p.batch));
    uint32_t loop = make_loop(&m, "rnn", p.t, p.n, PROGRAM_NONE);
    make_launch(&m, "step", MAKE_LIST(&m, z, p.t), MAKE_LIST(&m, p.batch));
    make_launch(&m, "step", MAKE_LIST(&m, p.x, p.t), MAKE_LIST(&m, p.batch));
    make_repeat(&m, loop, PROGRAM_NONE);
    end(&m, p.x, 0);
    ProgramBuffer *buffer = program_at_buffers(m.b, make_buffer_of(&m, z));
    if (life == ENDS_INSIDE) buffer->last = loop + 1;
    if (life == BEGINS_INSIDE) buffer->first = loop + 1;
    CHECKF(finish(&m, &b, &error) == RT_OK, "%s", error.text);
    MemoryPlan plan;
    CHECK(memory_plan(&b.p, 0, 0, NULL, &plan, &error) == RT_OK);
    RtStatus status = memory_check(&b.p, 0, 0, &plan, &error);
    CHECKF((status == RT_OK) == (life == WHOLE) && (!texts[life] || strstr(error.text, texts[life])), "%d: %s", life,
           error.text);
    memory_plan_free(&plan);
    discard(&b);
  }
}

typedef enum Waiting { AT_ONCE, SAME_ROUND, NEXT_ROUND, BEHIND_LOOP, FROM_BEFORE, TWICE_A_KEY } Waiting;

static void order_of_rounds(void) {
  static const char *const texts[] = {NULL,
                                      NULL,
                                      "it waits for communication of another round",
                                      "a round ends while its communication is still under way",
                                      "it waits for communication of another round or outside the loop",
                                      "its key belongs to another instruction as well"};
  for (int how = AT_ONCE; how <= TWICE_A_KEY; how++) {
    Parts p;
    Built b = {0};
    RtError error = {0};
    Make m = begin(&p, 2);
    uint32_t group = program_add_groups(m.b, &(ProgramGroup){MAKE_LIST(&m, 0), PROGRAM_NONE, PROGRAM_NONE});
    ProgramInstr sum = make_comm(&m, PI_all_reduce, "sum", group, MAKE_LIST(&m, p.x, p.x)),
                 wait = make_instr(&m, PI_wait, "sum", (ProgramList){0, 0});
    if (how != AT_ONCE && how != TWICE_A_KEY) sum.event = 0;
    wait.event = 0;
    m.events = 1;
    if (how == FROM_BEFORE) make_put(&m, sum);
    uint32_t loop = make_loop(&m, "rnn", p.t, p.n, make_number(&m, 7));
    if (how == NEXT_ROUND || how == FROM_BEFORE) make_put(&m, wait);
    if (how != FROM_BEFORE) make_put(&m, sum);
    if (how == TWICE_A_KEY) make_put(&m, sum);
    if (how == SAME_ROUND) make_put(&m, wait);
    make_repeat(&m, loop, PROGRAM_NONE);
    if (how == BEHIND_LOOP) make_put(&m, wait);
    end(&m, p.x, 1);
    program_add_kernels(m.b, &(ProgramKernel){.name = program_string(m.b, "k")});
    CHECKF(finish(&m, &b, &error) == RT_OK, "%s", error.text);
    RtStatus status = order_check_all(&b.p, &error);
    CHECKF((status == RT_OK) == !texts[how] && (!texts[how] || strstr(error.text, texts[how])), "%d: %s", how,
           error.text);
    uint64_t sent[COMM_KIND_COUNT] = {0};
    CHECK(traffic_sent(&b.p, 0, 1, NULL, sent, &error) == RT_OK);
    if (how == AT_ONCE)
      CHECKF(sent[COMM_all_reduce] == 7 * program_comm_all_reduce_sent(N * 4, 4, 2, 1), "%llu",
             (unsigned long long)sent[COMM_all_reduce]);
    discard(&b);
  }
}

static void a_transfer_in_a_loop(void) {
  Make m = make_new(2);
  Built b = {0};
  RtError error = {0};
  uint32_t pair = program_add_groups(m.b, &(ProgramGroup){{0, 0}, 0, 1});
  make_entry(&m, "main", 0, 0);
  for (uint32_t s = 0; s < 2; s++) {
    make_begin(&m, s);
    uint32_t t = make_tensor(&m, PC_activation, DT_i64, 1, (ProgramList){0, 0}),
             n = make_tensor(&m, PC_activation, DT_i64, 1, (ProgramList){0, 0});
    uint32_t loop = make_loop(&m, "rnn", t, n, PROGRAM_NONE);
    make_put(&m, make_comm(&m, s ? PI_recv : PI_send, "h", pair, MAKE_LIST(&m, t)));
    make_repeat(&m, loop, PROGRAM_NONE);
    make_call(&m, s, make_end(&m, "body"), 0);
  }
  make_schedules(&m);
  CHECK(finish(&m, &b, &error) == RT_INTERNAL);
  CHECKF(strstr(error.text, "the loop around of instrs[1] is wrong"), "%s", error.text);
}

static void prints(void) {
  Parts p;
  Built b = {0};
  RtError error = {0};
  Make m = begin(&p, 1);
  uint32_t t2 = make_tensor(&m, PC_activation, DT_i64, 1, (ProgramList){0, 0});
  uint32_t outer = make_loop(&m, "outer", p.t, p.n, make_number(&m, 12)),
           inner = make_loop(&m, "inner", t2, p.t, PROGRAM_NONE);
  make_launch(&m, "step", MAKE_LIST(&m, p.x, t2), MAKE_LIST(&m, p.batch));
  make_repeat(&m, inner, p.flag);
  make_repeat(&m, outer, PROGRAM_NONE);
  end(&m, p.x, 0);
  CHECKF(finish(&m, &b, &error) == RT_OK, "%s", error.text);
  Arena *a = arena_new();
  Text t = {.arena = a};
  program_print(&b.p, &t);
  const char *want =
      "  loop b2:i64[] below b1:i64[] at most [12]  # outer\n"
      "    loop b4:i64[] below b2:i64[]  # inner\n"
      "      launch step b0:f32[4] b4:i64[] [4]  # step\n"
      "    repeat b4:i64[] while b3:bool[]  # inner\n"
      "  repeat b2:i64[]  # outer\n";
  CHECKF(strstr(text_str(&t), want), "%s", text_str(&t));
  arena_free(a);
  discard(&b);
}

int main(void) {
  setenv("APC_CHECK", "1", 1);
  RUN(rounds);
  RUN(calls_that_reach_outside);
  RUN(nested);
  RUN(ends_itself);
  RUN(swapped_carries);
  RUN(communicates);
  RUN(a_rank_dies_or_is_late);
  RUN(the_loader_refuses);
  RUN(loops_inside_each_other);
  RUN(a_damaged_artifact);
  RUN(lifetimes);
  RUN(order_of_rounds);
  RUN(a_transfer_in_a_loop);
  RUN(prints);
  return test_summary();
}
