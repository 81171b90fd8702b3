/* tests/unit/program_order.c - order_check accepts the output of the compiler and catches seeded wrong orders.
 *
 * Programs come from lowerings of a residual network under random strategies, stages and micro-batches.  Every mutant
 * is also judged by a second opinion that shares no code or reasoning with the checker: a search of all reachable
 * states of all ranks, where an operation happens when each rank of its group has reached it.  A mutant that the
 * checker accepts must be harmless in every interleaving; one that can go wrong in any must be caught. */
#include <stdlib.h>

#include "codegen/program.h"
#include "passes/lower/lower.h"
#include "program/order.h"
#include "tests/programs.h"

static uint64_t seed;
static uint32_t draw(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)((seed >> 33) % n) : 0;
}

/* ---- programs */

static const char *const model =
    "symbol b hint 9\nparam \"w1\" : f32[8, 12] = zeros\nparam \"w2\" : f32[12, 8] = zeros\nparam \"w3\" : f32[8, 8] = "
    "zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[b, 8]\n"
    "  %w1 = param {name=\"w1\"} : f32[8, 12]\n"
    "  %h = dot %x, %w1 {spec=\"bd,df->bf\"} : f32[b, 12]\n"
    "  %a = tanh %h : f32[b, 12]\n"
    "  %w2 = param {name=\"w2\"} : f32[12, 8]\n"
    "  %y = dot %a, %w2 {spec=\"bf,fd->bd\"} : f32[b, 8]\n"
    "  %r = add %x, %y : f32[b, 8]\n"
    "  %t = tanh %r : f32[b, 8]\n"
    "  %w3 = param {name=\"w3\"} : f32[8, 8]\n"
    "  %z = dot %t, %w3 {spec=\"bd,de->be\"} : f32[b, 8]\n"
    "  %q = add %z, %r : f32[b, 8]\n"
    "  %e = exp %q : f32[b, 8]\n"
    "  %s = mul %e, %x : f32[b, 8]\n"
    "  output \"y\" %s\n  output \"r\" %r\n}\n";

/* A nested loop, with communication in both under most strategies. */
static const char *const looping =
    "symbol b hint 9\nparam \"w1\" : f32[8, 8] = zeros\nparam \"w2\" : f32[8, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[b, 8]\n"
    "  %w1 = param {name=\"w1\"} : f32[8, 8]\n"
    "  %w2 = param {name=\"w2\"} : f32[8, 8]\n"
    "  %n = const {value=3} : i64[]\n"
    "  %e = exp %x : f32[b, 8]\n"
    "  %t = loop %n : i64[]\n"
    "  %h = carry %e : f32[b, 8]\n"
    "  %a = dot %h, %w1 {spec=\"bd,df->bf\"} : f32[b, 8]\n"
    "  %u = loop %n : i64[]\n"
    "  %g = carry %a : f32[b, 8]\n"
    "  %y = dot %g, %w2 {spec=\"bf,fd->bd\"} : f32[b, 8]\n"
    "  %z = tanh %y : f32[b, 8]\n"
    "  repeat \"u.repeat\" %u\n"
    "  %gT = leave %g, %z : f32[b, 8]\n"
    "  repeat \"t.repeat\" %t\n"
    "  %hT = leave %h, %gT : f32[b, 8]\n"
    "  %r = dot %hT, %w1 {spec=\"bd,df->bf\"} : f32[b, 8]\n"
    "  %s = add %r, %x : f32[b, 8]\n"
    "  output \"s\" %s\n}\n";

typedef struct Built {
  void *image;
  Program p;
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
} Built;

/* Random over the spatial axes; the micro-batch cuts the batch. */
static Strategy draw_strategy(Module *m, const Func *l1, const Op *op) {
  const Rule *r = rule_of(m, l1, op);
  const Strategy *list;
  Mesh whole = m->mesh;
  int mb = mesh_axis_find(&whole, "mb");
  if (mb >= 0) m->mesh.naxes = mb; /* it is the last axis */
  int n = strategy_enumerate(m->arena, m, r, true, &list);
  Strategy s = list[draw((uint32_t)n)];
  m->mesh = whole;
  for (int f = 0; mb >= 0 && f < r->nfactors; f++) {
    if (!r->factors[f].size || r->factors[f].size != ex_sym(m, module_symbol(m, "b"))) continue;
    memmove(&s.picks[1], &s.picks[0], sizeof(Pick) * (size_t)s.n);
    s.picks[0] = (Pick){(uint8_t)mb, (uint8_t)f};
    s.n++;
  }
  return s;
}

static bool finish(ProgramBuilder *b, uint32_t stages, uint32_t events, Built *out) {
  size_t bytes;
  RtError error = {0};
  ProgramFacts facts = {.name = "m", .target = "cpu", .producer = "test", .stages = stages, .n_events = events};
  bool ok = program_builder_finish(b, &facts, &out->image, &bytes, &error) == RT_OK &&
            program_open(out->image, bytes, &out->p, &error) == RT_OK;
  CHECKF(ok, "%s", error.text);
  for (uint32_t s = 0; ok && s < out->p.n_symbols; s++) out->symbols[s] = program_default_size(&out->p.symbols[s]);
  program_builder_free(b);
  return ok;
}

static void discard(Built *b) {
  program_close(&b->p);
  free(b->image);
}

/* The first operations of the stages after the first; none in a loop. */
static void draw_cuts(const Func *f, int stages, int *cuts) {
  int behind = 0; /* the loops */
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_leave) behind = (int)i + 1;
  for (int i = 1; i < stages; i++) cuts[i] = behind ? behind + i - 1 : 2 + (int)draw(3) + (i - 1) * 3;
}

/* False if the strategies cannot be lowered (a gather of micro-batches). */
static bool build(const char *text, const char *axes, int stages, int micro_batches, uint64_t case_seed, Built *out) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  seed = case_seed;
  const char *time = micro_batches > 1 ? arena_printf(a, "%smb=%d time", *axes ? ", " : "", micro_batches) : "";
  Module *m = ir_parse("model", arena_printf(a, "apc.ir 1\nmesh [%s%s] stages %d\n%s", axes, time, stages, text), d);
  bool ok = m != NULL;
  CHECK(ok);
  if (!ok) diags_print(d, stderr, false);
  const Func *l1 = m ? module_func(m, "main") : NULL;
  Func *l2 = NULL;
  if (ok) {
    Strategy *s = ARENA_ARRAY(a, Strategy, l1->ops.n);
    int *at = ARENA_ARRAY(a, int, l1->ops.n), cuts[4] = {0};
    draw_cuts(l1, stages, cuts);
    for (size_t i = 0; i < l1->ops.n; i++) {
      const Op *op = &l1->ops.items[i];
      s[i] = op->kind == OP_leave ? s[l1->values.items[op->in[0]].op] : draw_strategy(m, l1, op);
      for (int k = 1; k < stages; k++) at[i] += (int)i >= cuts[k];
    }
    LowerPlan plan = {.strategies = s, .stages = at};
    l2 = lower_spmd(m, l1, &plan, "rank", d);
    ok = l2 != NULL;
  }
  if (ok) {
    ProgramEntrySpec entry = {"main", l1, l2};
    Legal *legal = legalise(
        &(ProgramSource){.m = m, .nentries = 1, .entries = &entry, .device = target_device_traits(DEVICE_cpu)});
    ProgramResult r;
    kernels_print(legal);
    ok = codegen_program_of(legal, &r, d) && finish(r.b, (uint32_t)stages, 0, out);
    CHECK(ok);
  }
  module_free(m);
  arena_free(a);
  return ok;
}

/* ---- the second opinion: all reachable states of all ranks */

typedef struct At {
  uint32_t instr, micro_batch;
} At;

enum { MOST_STATES = 1 << 16, MOST_RANKS = 16, MOST_OPS = 255 };

typedef struct Search {
  const Program *p;
  At ops[MOST_RANKS][MOST_OPS];
  uint32_t n[MOST_RANKS];
  uint8_t (*states)[MOST_RANKS]; /* operations done, per rank */
  uint32_t *table, n_states;
  bool too_many, bad;
} Search;

static void add_state(Search *s, const uint8_t *done) {
  size_t i = hash64(done, MOST_RANKS, 0) % (4 * MOST_STATES);
  for (; s->table[i]; i = (i + 1) % (4 * MOST_STATES))
    if (memcmp(s->states[s->table[i] - 1], done, MOST_RANKS) == 0) return;
  if (s->n_states == MOST_STATES) {
    s->too_many = true;
    return;
  }
  memcpy(s->states[s->n_states], done, MOST_RANKS);
  s->table[i] = ++s->n_states;
}

/* All operations that can happen next; a meeting of different ones is bad, and so is a deadlock. */
static void expand(Search *s, const uint8_t *done) {
  bool ended = true, moved = false;
  for (uint32_t r = 0; r < s->p->ranks; r++) {
    if (done[r] == s->n[r]) continue;
    ended = false;
    At mine = s->ops[r][done[r]];
    const ProgramInstr *x = &s->p->instrs[mine.instr];
    ProgramMembers m = program_group_of(s->p, x->object, r);
    uint32_t members[MOST_RANKS], n = m.n;
    for (uint32_t k = 0; k < n; k++) members[k] = program_member(&m, k);
    bool ready = n > 0;
    uint32_t sends = 0;
    for (uint32_t k = 0; k < n && ready; k++) {
      if (done[members[k]] == s->n[members[k]]) ready = false;
      if (!ready) break;
      At other = s->ops[members[k]][done[members[k]]];
      const ProgramInstr *y = &s->p->instrs[other.instr];
      sends += y->kind == PI_send;
      ready = y->object == x->object;
      if (ready && (y->key != x->key || other.micro_batch != mine.micro_batch)) s->bad = true;
    }
    if (!ready) continue;
    if ((x->kind == PI_send || x->kind == PI_recv) && sends != 1) s->bad = true;
    moved = true;
    if (m.place != 0) continue; /* only for the first member */
    uint8_t next[MOST_RANKS];
    memcpy(next, done, MOST_RANKS);
    for (uint32_t k = 0; k < n; k++) next[members[k]]++;
    add_state(s, next);
  }
  if (!ended && !moved) s->bad = true;
}

typedef enum Opinion { FINE, BAD, TOO_LARGE } Opinion;

/* The operations of a call if all loops make `rounds` rounds; false if there are too many. */
static bool write_call(Search *s, uint32_t rank, const ProgramCall *call, int rounds) {
  const ProgramBody *b = &s->p->bodies[call->body];
  int made[PROGRAM_MAX_LOOPS], depth = 0;
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++) {
    const ProgramInstr *x = &s->p->instrs[i];
    if (x->kind == PI_loop && rounds == 0) i += x->dim;
    else if (x->kind == PI_loop) made[depth++] = 1;
    else if (x->kind == PI_repeat && made[depth - 1]++ < rounds) i -= x->dim;
    else if (x->kind == PI_repeat) depth--;
    if (!program_instr_is_comm(x->kind)) continue;
    if (s->n[rank] == MOST_OPS) return false;
    s->ops[rank][s->n[rank]++] = (At){i, call->micro_batch};
  }
  return true;
}

static bool has_loops(const Program *p) {
  for (uint32_t i = 0; i < p->n_instrs; i++)
    if (p->instrs[i].kind == PI_loop) return true;
  return false;
}

static Opinion opinion_of_rounds(const Program *p, int rounds) {
  static Search search;
  Search *s = &search;
  memset(s, 0, sizeof *s);
  s->p = p;
  if (p->ranks > MOST_RANKS) return TOO_LARGE;
  for (uint32_t r = 0; r < p->ranks; r++) {
    const ProgramSchedule *line = &p->schedules[program_stage(p, r)];
    for (uint32_t k = line->calls; k < line->calls + line->n; k++)
      if (!write_call(s, r, &p->calls[k], rounds)) return TOO_LARGE;
  }
  s->states = calloc(MOST_STATES, sizeof *s->states);
  s->table = calloc(4 * MOST_STATES, sizeof *s->table);
  uint8_t start[MOST_RANKS] = {0};
  add_state(s, start);
  for (uint32_t i = 0; i < s->n_states && !s->bad && !s->too_many; i++) {
    uint8_t done[MOST_RANKS];
    memcpy(done, s->states[i], sizeof done);
    expand(s, done);
  }
  free(s->states);
  free(s->table);
  return s->bad ? BAD : s->too_many ? TOO_LARGE : FINE;
}

static Opinion second_opinion(const Program *p) {
  Opinion worst = FINE;
  for (int rounds = has_loops(p) ? 0 : 1; rounds <= (has_loops(p) ? 3 : 1) && worst != BAD; rounds++) {
    Opinion now = opinion_of_rounds(p, rounds);
    if (now == BAD || worst == FINE) worst = now;
  }
  return worst;
}

/* ---- faults: each spoils the opened image; false if it does not apply */

static ProgramInstr *instrs(Program *p) { return (ProgramInstr *)(uintptr_t)p->instrs; }
static ProgramCall *calls(Program *p) { return (ProgramCall *)(uintptr_t)p->calls; }

/* A random communication instruction of a body; PROGRAM_NONE if there are fewer than `least`.  Prefers transfers. */
static uint32_t draw_comm(const Program *p, uint32_t body, uint32_t least, bool transfer) {
  const ProgramBody *b = &p->bodies[body];
  uint32_t found[256], n = 0;
  for (uint32_t i = b->instrs; i < b->instrs + b->n && n < 256; i++)
    if (program_instr_is_comm(p->instrs[i].kind) &&
        (!transfer || p->instrs[i].kind == PI_send || p->instrs[i].kind == PI_recv))
      found[n++] = i;
  return n >= least && n > 0 ? found[draw(n)] : PROGRAM_NONE;
}

static void nothing(ProgramInstr *x) { x->kind = PI_check; }

static bool is_border(const Program *p, uint32_t instr) {
  return p->instrs[instr].kind == PI_loop || p->instrs[instr].kind == PI_repeat;
}

static bool swap_two(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 2, true), j = draw_comm(p, body, 2, false);
  if (i == PROGRAM_NONE || j == PROGRAM_NONE || i == j) return false;
  ProgramInstr x = p->instrs[i];
  instrs(p)[i] = p->instrs[j];
  instrs(p)[j] = x;
  return true;
}

static bool drop_one(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 1, draw(4) > 0);
  if (i == PROGRAM_NONE) return false;
  nothing(&instrs(p)[i]);
  return true;
}

static bool duplicate_one(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 1, draw(2)), at = p->bodies[body].instrs + draw(p->bodies[body].n);
  if (i == PROGRAM_NONE || program_instr_is_comm(p->instrs[at].kind) || is_border(p, at)) return false;
  instrs(p)[at] = p->instrs[i];
  return true;
}

static bool move_first(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 2, true), j = draw_comm(p, body, 2, false);
  if (i == PROGRAM_NONE || j == PROGRAM_NONE || j >= i) return false;
  for (uint32_t k = j; k < i; k++)
    if (is_border(p, k)) return false;
  ProgramInstr x = p->instrs[i];
  memmove(&instrs(p)[j + 1], &instrs(p)[j], (i - j) * sizeof x);
  instrs(p)[j] = x;
  return true;
}

static bool change_key(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 1, true);
  if (i == PROGRAM_NONE) return false;
  instrs(p)[i].key += 1000;
  return true;
}

static bool cross_keys(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 2, true), j = draw_comm(p, body, 2, false);
  if (i == PROGRAM_NONE || j == PROGRAM_NONE || i == j) return false;
  uint32_t key = p->instrs[i].key;
  instrs(p)[i].key = p->instrs[j].key;
  instrs(p)[j].key = key;
  return true;
}

static bool wrong_group(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 1, true), g = draw(p->n_groups);
  if (i == PROGRAM_NONE || g >= p->n_groups || g == p->instrs[i].object || p->groups[g].from == PROGRAM_NONE)
    return false;
  uint32_t stage = p->bodies[body].stage;
  if (p->groups[g].from != stage && p->groups[g].to != stage) return false;
  instrs(p)[i].object = g;
  return true;
}

static bool send_for_recv(Program *p, uint32_t body) {
  uint32_t i = draw_comm(p, body, 1, true);
  if (i == PROGRAM_NONE) return false;
  instrs(p)[i].kind = p->instrs[i].kind == PI_send ? PI_recv : PI_send;
  return true;
}

static bool swap_calls(Program *p, uint32_t body) {
  const ProgramSchedule *s = &p->schedules[p->bodies[body].stage];
  if (s->n < 2) return false;
  uint32_t i = s->calls + draw(s->n), j = s->calls + draw(s->n);
  if (i == j) return false;
  uint32_t mb = p->calls[i].micro_batch;
  calls(p)[i].micro_batch = p->calls[j].micro_batch;
  calls(p)[j].micro_batch = mb;
  return true;
}

static bool repeat_call(Program *p, uint32_t body) {
  const ProgramSchedule *s = &p->schedules[p->bodies[body].stage];
  if (s->n < 2) return false;
  uint32_t i = s->calls + draw(s->n - 1);
  calls(p)[i + 1].micro_batch = p->calls[i].micro_batch;
  return true;
}

static bool drop_call(Program *p, uint32_t body) {
  ProgramSchedule *s = (ProgramSchedule *)(uintptr_t)&p->schedules[p->bodies[body].stage];
  if (s->n < 2) return false;
  s->n--;
  return true;
}

static const struct {
  const char *name;
  bool (*plant)(Program *, uint32_t);
} faults[] = {{"swap two", swap_two},
              {"drop one", drop_one},
              {"do one twice", duplicate_one},
              {"move before another", move_first},
              {"change a key", change_key},
              {"exchange keys", cross_keys},
              {"wrong pair of stages", wrong_group},
              {"send for recv", send_for_recv},
              {"swap micro-batches", swap_calls},
              {"repeat a micro-batch", repeat_call},
              {"drop a call", drop_call}};
enum { FAULTS = (int)(sizeof faults / sizeof faults[0]) };

static bool communicates_in_loop(const Program *p) {
  int depth = 0;
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    depth += (p->instrs[i].kind == PI_loop) - (p->instrs[i].kind == PI_repeat);
    if (depth && program_instr_is_comm(p->instrs[i].kind)) return true;
  }
  return false;
}

static int communicating; /* programs */
static int planted[FAULTS], caught[FAULTS], harmless[FAULTS], unsearched[FAULTS], confirmed, accepted;

static void plant_one(Built *b, int fault, const char *what) {
  Program *p = &b->p;
  size_t bytes = b->p.header->table_bytes;
  void *kept = malloc(bytes);
  memcpy(kept, b->image, bytes);
  if (faults[fault].plant(p, draw(p->n_bodies))) {
    RtError error = {0};
    RtStatus status = order_check(p, 0, b->symbols, &error);
    Opinion opinion = second_opinion(p);
    planted[fault]++;
    caught[fault] += status != RT_OK;
    confirmed += status != RT_OK && opinion == BAD;
    harmless[fault] += status == RT_OK && opinion == FINE;
    unsearched[fault] += status == RT_OK && opinion == TOO_LARGE;
    CHECKF(!(status == RT_OK && opinion == BAD), "%s: %s is not caught", what, faults[fault].name);
    CHECKF(status == RT_OK || (status == RT_INTERNAL && strstr(error.text, "rank ")), "%s", error.text);
    if (status != RT_OK && opinion == FINE) /* no rank notices, but a Program must not contain it */
      CHECKF(strstr(error.text, "key") || strstr(error.text, "twice"), "%s: %s: %s", what, faults[fault].name,
             error.text);
  }
  memcpy(b->image, kept, bytes);
  free(kept);
}

static void programs_and_faults(const char *text, int most_stages) {
  static const char *const axes[] = {"", "x=2", "x=3", "x=2, y=2"};
  for (int a = 0; a < 4; a++)
    for (int stages = 1; stages <= most_stages; stages++)
      for (int mb = 1; mb <= 4; mb++)
        for (uint64_t s = 0; s < 2; s++) {
          if (a == 0 && mb == 1) continue; /* a mesh has an axis */
          Built b = {0};
          char what[100];
          snprintf(what, sizeof what, "%s [%s] stages %d micro-batches %d seed %d",
                   text == looping ? "loops" : "network", axes[a], stages, mb, (int)s);
          if (!build(text, axes[a], stages, mb, 1000 * s + (uint64_t)(100 * a + 10 * stages + mb), &b)) continue;
          RtError error = {0};
          CHECKF(order_check(&b.p, 0, b.symbols, &error) == RT_OK, "%s: %s", what, error.text);
          CHECKF(second_opinion(&b.p) != BAD, "%s", what);
          accepted++;
          communicating += communicates_in_loop(&b.p);
          for (int f = 0; f < FAULTS; f++)
            for (int k = 0; k < 3; k++) plant_one(&b, f, what);
          discard(&b);
        }
}

static void networks(void) { programs_and_faults(model, 4); }
static void loops(void) {
  programs_and_faults(looping, 2);
  CHECKF(communicating >= 15, "%d programs communicate in a loop", communicating);
}

static void faults_are_caught(void) {
  int total = 0;
  for (int f = 0; f < FAULTS; f++) {
    printf("  %-22s planted %4d  caught %4d  harmless %3d  not searched %d\n", faults[f].name, planted[f], caught[f],
           harmless[f], unsearched[f]);
    CHECKF(caught[f] > 0, "%s", faults[f].name);
    total += caught[f];
  }
  printf("  %d programs accepted; %d wrong orders caught, %d of them seen to fail by the search\n", accepted, total,
         confirmed);
  CHECK(accepted >= 40);
  CHECK(total >= 200 && confirmed >= 200);
}

/* ---- two stages that both send first */

typedef enum Crossing { PLAIN, ASYNCHRONOUS, WAIT_TOO_SOON, EVENT_TWICE } Crossing;

static void put_side(Make *m, Crossing how, uint32_t to, uint32_t from, uint32_t stage) {
  uint32_t out = make_tensor(m, PC_activation, DT_f32, 1, MAKE_LIST(m, make_number(m, 4)));
  uint32_t in = make_tensor(m, PC_activation, DT_f32, 1, MAKE_LIST(m, make_number(m, 4)));
  ProgramInstr send = make_comm(m, PI_send, "there", to, MAKE_LIST(m, out)),
               recv = make_comm(m, PI_recv, "back", from, MAKE_LIST(m, in));
  ProgramInstr wait = make_instr(m, PI_wait, "there", (ProgramList){0, 0});
  send.key = stage;
  recv.key = 1 - stage;
  wait.event = 0;
  if (how >= ASYNCHRONOUS) send.event = 0;
  if (how == EVENT_TWICE) recv.event = 0;
  if (how == WAIT_TOO_SOON) make_put(m, wait);
  bool second = how == EVENT_TWICE && stage == 1; /* so that they meet */
  make_put(m, second ? recv : send);
  make_put(m, second ? send : recv);
  if (how == ASYNCHRONOUS || how == EVENT_TWICE) make_put(m, wait);
}

static void crossing(Crossing how, const char *message) {
  Make m = make_new(2);
  uint32_t there = program_add_groups(m.b, &(ProgramGroup){{0, 0}, 0, 1}),
           back = program_add_groups(m.b, &(ProgramGroup){{0, 0}, 1, 0});
  make_entry(&m, "main", 0, 0);
  for (uint32_t s = 0; s < 2; s++) {
    make_begin(&m, s);
    put_side(&m, how, s ? back : there, s ? there : back, s);
    make_call(&m, s, make_end(&m, "body"), 0);
  }
  make_schedules(&m);
  Built b = {0};
  if (!finish(m.b, 2, 1, &b)) return;
  RtError error = {0};
  RtStatus status = order_check_all(&b.p, &error);
  CHECKF(status == (message ? RT_INTERNAL : RT_OK) && strstr(error.text, message ? message : ""), "%d: %s", (int)how,
         error.text);
  discard(&b);
}

static void crossing_sends(void) {
  const char *for_ever =
      "rank 0, send of there from stage 0 to 1, micro-batch 0: it waits for ever, since rank 1 is at "
      "send of there from stage 1 to 0";
  crossing(PLAIN, for_ever);
  crossing(ASYNCHRONOUS, for_ever); /* each queue waits at its send */
  crossing(WAIT_TOO_SOON, "no communication of its event is pending");
  crossing(EVENT_TWICE, "its event is still under way");
}

int main(void) {
  RUN(crossing_sends);
  RUN(networks);
  RUN(loops);
  RUN(faults_are_caught);
  return test_summary();
}
