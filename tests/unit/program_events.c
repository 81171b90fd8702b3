/* Communication beside computation, in the output of code generation: random models, plans, stages and micro-batches,
 * for devices with all combinations of traits.  The checkers accept all Programs; every slip that is planted in one
 * with events, at all possible places, is refused.
 *
 * usage: test_program_events [first seed [count]].  A failure prints its seed. */
#include <stdlib.h>

#include "codegen/program.h"
#include "frontend/topo/target.h"
#include "program/flow.h"
#include "program/memory.h"
#include "program/order.h"
#include "tests/random_plan.h"
#include "tests/test.h"

typedef enum Slip {
  NO_WAIT,
  WAIT_BEHIND_READER,
  WAIT_BEHIND_REUSE,
  WAIT_IN_ANOTHER_ROUND,
  WAIT_FOR_ANOTHER,
  WAIT_TWICE,
  WAIT_WITH_LAG,
  EVENT_DROPPED,
  EVENT_TWICE,
  ASKED_BEFORE_ITS_PRODUCER,
  OVERWRITTEN_MEANWHILE,
  BUFFER_TOO_SMALL,
  PAIR_IN_ANOTHER_ORDER,
  SLIPS
} Slip;

static const char *const slip_names[SLIPS] = {"no wait",
                                              "a wait after a reader",
                                              "a buffer that ends before the wait",
                                              "a wait in another round",
                                              "a wait for another event",
                                              "two waits for one event",
                                              "a wait for another micro-batch",
                                              "a wait for communication without an event",
                                              "an event that is under way",
                                              "communication before its producer",
                                              "a value that is sent, overwritten meanwhile",
                                              "a buffer that is too small",
                                              "receives in another order"};

static long programs, with_events, beside, planted[SLIPS];

/* ---- checking */

static RtStatus check(const Program *p, RtError *error) {
  RtStatus status = order_check_all(p, error);
  if (!status) status = flow_check_all(p, error);
  return status ? status : memory_check_all(p, error);
}

/* ---- slips: records are changed in place, and restored */

typedef struct Plant {
  const Program *p;
  ProgramInstr *x; /* the instructions */
  const char *what;
} Plant;

static void refused(const Plant *k, Slip slip, uint32_t i) {
  RtError error = {0};
  planted[slip]++;
  CHECKF(check(k->p, &error) == RT_INTERNAL, "%s: %s at %u is not refused", k->what, slip_names[slip], i);
}

static void swap(ProgramInstr *a, ProgramInstr *b) {
  ProgramInstr x = *a;
  *a = *b, *b = x;
}

static const ProgramBody *body_with(const Program *p, uint32_t i) {
  const ProgramBody *b = p->bodies;
  while (i < b->instrs || i >= b->instrs + b->n) b++;
  return b;
}

/* The communication that instruction `wait` waits for: earlier in the same list. */
static uint32_t waited_for(const Plant *k, uint32_t wait) {
  uint32_t i = wait - 1;
  while (!program_instr_is_comm(k->x[i].kind) || k->x[i].event != k->x[wait].event) i--;
  return i;
}

static uint32_t tensor_of(const Plant *k, uint32_t instr, uint32_t i) {
  return program_list(k->p, k->x[instr].tensors)[i];
}

static uint32_t last_of(const Plant *k, uint32_t instr) { return tensor_of(k, instr, k->x[instr].tensors.n - 1); }

static ProgramBuffer *buffer_of(const Plant *k, uint32_t tensor) {
  return (ProgramBuffer *)(uintptr_t)&k->p->buffers[k->p->tensors[tensor].buffer];
}

/* Weights and states stay: sends of them need no wait. */
static bool ends(const Plant *k, uint32_t comm) {
  for (uint32_t t = 0; t < k->x[comm].tensors.n; t++)
    if (buffer_of(k, tensor_of(k, comm, t))->body == PROGRAM_NONE) return false;
  return true;
}

static bool touches(const Plant *k, uint32_t instr, uint32_t tensor) {
  for (uint32_t t = 0; t < k->x[instr].tensors.n; t++)
    if (buffer_of(k, tensor_of(k, instr, t)) == buffer_of(k, tensor)) return true;
  return false;
}

static void slips_of_wait(const Plant *k, uint32_t w) {
  ProgramInstr *x = k->x, was = x[w], *next = &x[w + 1];
  const ProgramBody *body = body_with(k->p, w);
  uint32_t comm = waited_for(k, w), last = last_of(k, comm);
  bool behind = w + 1 < body->instrs + body->n, wait = behind && next->kind == PI_wait;
  bool repeat = behind && next->kind == PI_repeat;
  if (!ends(k, comm)) return;
  x[w].kind = PI_check;
  refused(k, NO_WAIT, w);
  x[w] = was;
  if (behind && !wait && !repeat && next->kind != PI_loop && was.event != PROGRAM_NONE && x[comm].kind != PI_send &&
      touches(k, w + 1, last)) {
    swap(&x[w], next);
    refused(k, WAIT_BEHIND_READER, w);
    swap(&x[w], next);
  }
  ProgramBuffer *b = buffer_of(k, last);
  uint32_t lived = b->last;
  b->last = w - 1 - body->instrs;
  if (b->last >= b->first) refused(k, WAIT_BEHIND_REUSE, w);
  b->last = lived;
  if (repeat) {
    swap(&x[w], next);
    refused(k, WAIT_IN_ANOTHER_ROUND, w);
    swap(&x[w], next);
  }
  x[w].event = (was.event + 1) % k->p->header->n_events;
  if (x[w].event != was.event) refused(k, WAIT_FOR_ANOTHER, w);
  x[w] = was;
  if (wait) {
    uint32_t event = next->event;
    next->event = was.event;
    refused(k, WAIT_TWICE, w);
    next->event = event;
  }
  x[w].lag = 1;
  refused(k, WAIT_WITH_LAG, w);
  x[w] = was;
}

/* While communication i is in flight, instruction j. */
static void slips_meanwhile(const Plant *k, uint32_t i, uint32_t j) {
  ProgramInstr *x = k->x;
  uint32_t event = x[j].event, n = x[j].tensors.n;
  if (program_instr_is_comm(x[j].kind)) {
    x[j].event = x[i].event;
    refused(k, EVENT_TWICE, j);
    x[j].event = event;
  } else if (x[j].kind == PI_launch && n && x[j].dim && x[i].kind != PI_recv) {
    uint32_t *list = (uint32_t *)(uintptr_t)program_list(k->p, x[j].tensors), was = list[n - 1];
    list[n - 1] = tensor_of(k, i, 0);
    refused(k, OVERWRITTEN_MEANWHILE, j);
    list[n - 1] = was;
  }
  if (x[i].kind == PI_recv && x[j].kind == PI_recv && x[j].object == x[i].object) {
    swap(&x[i], &x[j]);
    refused(k, PAIR_IN_ANOTHER_ORDER, j);
    swap(&x[i], &x[j]);
  }
}

static void slips_of_comm(const Plant *k, uint32_t i) {
  const Program *p = k->p;
  ProgramInstr *x = k->x;
  const ProgramBody *body = body_with(p, i);
  uint32_t event = x[i].event, zero = 0;
  x[i].event = PROGRAM_NONE;
  refused(k, EVENT_DROPPED, i);
  x[i].event = event;
  for (uint32_t j = i + 1; x[j].kind != PI_wait || x[j].event != event; j++) slips_meanwhile(k, i, j);
  bool makes = i > body->instrs && x[i].kind != PI_recv && x[i - 1].kind == PI_launch && x[i - 1].dim == 1 &&
               last_of(k, i - 1) == tensor_of(k, i, 0);
  if (makes && buffer_of(k, tensor_of(k, i, 0))->first == i - 1 - body->instrs) {
    swap(&x[i], &x[i - 1]);
    refused(k, ASKED_BEFORE_ITS_PRODUCER, i);
    swap(&x[i], &x[i - 1]);
  }
  while (zero < p->n_exprs && (p->exprs[zero].kind != PX_const || p->exprs[zero].value != 0)) zero++;
  ProgramBuffer *b = buffer_of(k, last_of(k, i));
  uint32_t bytes = b->bytes;
  b->bytes = zero;
  if (zero < p->n_exprs && p->exprs[bytes].kind == PX_const && p->exprs[bytes].value > 0)
    refused(k, BUFFER_TOO_SMALL, i);
  b->bytes = bytes;
}

static void plant_slips(const Program *p, const char *what) {
  Plant k = {p, (ProgramInstr *)(uintptr_t)p->instrs, what};
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    bool event = program_instr_is_comm(p->instrs[i].kind) && p->instrs[i].event != PROGRAM_NONE;
    if (p->instrs[i].kind == PI_wait) slips_of_wait(&k, i);
    if (event && ends(&k, i)) slips_of_comm(&k, i);
  }
}

/* ---- programs */

static void count_beside(const Program *p) {
  for (uint32_t i = 0; i + 1 < p->n_instrs; i++)
    beside += program_instr_is_comm(p->instrs[i].kind) && p->instrs[i].event != PROGRAM_NONE &&
              p->instrs[i + 1].kind != PI_wait;
}

static void check_program(Module *m, const Func *l1, const Func *l2, const DeviceTraits *device, bool slips,
                          const char *what, Arena *arena) {
  ProgramEntrySpec entry = {"main", l1, l2};
  ProgramResult r;
  Program p;
  RtError error = {0};
  void *tables = NULL;
  size_t bytes;
  Diags *diags = diags_new(arena);
  Legal *legal = legalise(&(ProgramSource){.m = m, .nentries = 1, .entries = &entry, .device = device});
  kernels_print(legal);
  bool ok = codegen_program_of(legal, &r, diags);
  CHECKF(ok, "%s: %s", what, diags->n ? diags->items[0].message : "");
  if (!ok) return;
  ProgramFacts facts = {
      .name = "m", .target = "t", .producer = "test", .stages = (uint32_t)m->mesh.stages, .n_events = r.events};
  ok = program_builder_finish(r.b, &facts, &tables, &bytes, &error) == RT_OK &&
       program_open(tables, bytes, &p, &error) == RT_OK;
  CHECKF(ok, "%s: %s", what, error.text);
  if (ok) {
    bool right = check(&p, &error) == RT_OK;
    CHECKF(right, "%s: %s", what, error.text);
    CHECKF(device->asynchronous || device->reduces_beside || r.events == 0, "%s: events", what);
    programs++, with_events += r.events > 0;
    count_beside(&p);
    if (slips && r.events && right) plant_slips(&p, what);
    program_close(&p);
  }
  free(tables);
  program_builder_free(r.b);
}

static const char *const meshes[] = {"[a=2]",
                                     "[a=2, b=2]",
                                     "[a=3] stages 3",
                                     "[a=2, b=2] stages 2",
                                     "[mb=2 time, a=2]",
                                     "[mb=2 time, a=2] stages 3",
                                     "[mb=3 time] stages 2"};

/* Micro-batches share weights. */
static bool cuts_weights_in_time(const Module *m, const Func *f, const Strategy *s) {
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < s[i].n && f->ops.items[i].kind == OP_param; k++)
      if (m->mesh.axes[s[i].picks[k].axis].temporal) return true;
  return false;
}

static void check_seed(uint64_t seed) {
  Random r = {.seed = seed};
  const char *mesh = meshes[below(&r, (int)(sizeof meshes / sizeof *meshes))];
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("mesh", arena_printf(arena, "apc.ir 1\nmesh %s\n", mesh), diags);
  Func *f = m ? make_function(m, &r, diags) : NULL;
  CHECKF(f && !diags->n, "seed %llu: no graph", (unsigned long long)seed);
  const Target *t = topo_target_find(diags, arena, arena_printf(arena, "cpux%d", mesh_ranks(&m->mesh)));
  CostModel *cost = cost_model_new(m, t);
  LowerPlan p = make_plan(cost, m, f, &r, arena);
  p.cost = cost_move, p.cost_context = cost;
  const Func *l2 = lower_spmd(m, f, &p, "rank", diags);
  for (int i = 0; l2 && i < 5 && !cuts_weights_in_time(m, f, p.strategies); i++) {
    DeviceTraits device = *target_device_traits(i == 0 ? DEVICE_cuda : DEVICE_cpu);
    const char *what = arena_printf(arena, "seed %llu, device %d, mesh %s", (unsigned long long)seed, i, mesh);
    if (i) device.contiguous_collectives = i & 1, device.asynchronous = i & 2, device.reduces_beside = i == 4;
    check_program(m, f, l2, &device, (i == 2 || i == 4) && seed % 3 == 0, what, arena);
  }
  cost_model_free(cost);
  module_free(m);
  arena_free(arena);
}

static uint64_t first_seed = 1;
static int seeds = SANITIZED ? 40 : 120;

static void all_are_accepted_but_slips(void) {
  for (int i = 0; i < seeds; i++) check_seed(first_seed + (uint64_t)i);
  printf("seeds %llu to %llu: %ld programs, %ld with events, %ld communications with something beside them\n",
         (unsigned long long)first_seed, (unsigned long long)(first_seed + (uint64_t)seeds - 1), programs, with_events,
         beside);
  CHECK(with_events > programs / 4 && beside > programs / 4);
  for (int s = 0; s < SLIPS; s++) {
    printf("%6ld  %s\n", planted[s], slip_names[s]);
    CHECKF(planted[s] > 0 || seeds < 100, "%s was never planted", slip_names[s]);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2) seeds = atoi(argv[2]);
  RUN(all_are_accepted_but_slips);
  return test_summary();
}
