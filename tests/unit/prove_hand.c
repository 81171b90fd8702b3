/* The prover on level-2 programs as a person would write them by hand (tests/hand_write.h), not as lowering makes them.
 *
 * Random level-1 functions over all kinds of operations are written for a few ranks, correctly or with slips: wrong
 * starts, pads, units, reductions, axes, parts, at all sizes or only at odd, large or small ones.  Every program that
 * is proved is run, at sizes of every kind that the symbols allow, modulo p and in doubles, also with infinities, NaN
 * and -0.0 unless the proof is over the real numbers; if it computes something else, that is a fault of the prover.  It
 * is printed with its seed, reduced by leaving out slips and outputs.  Not examined: `starts` of reductions, which
 * affect only the order of a sum, and states shared by entries.
 *
 * usage: test_prove_hand [first seed [count of graphs [folder for the faults]]] */
#include <math.h>
#include <stdlib.h>

#include "tests/hand_write.h"
#include "tests/random_shapes.h"

enum { VERSIONS = 10, MAX_SIZES = 24, MAX_CELLS = 8000 };

static const int64_t sizes[MAX_SIZES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12,
                                         13, 16, 21, 24, 31, 32, 40, 41, 51, 64, 80, 97};
static const char *const meshes[] = {"[a=2]",
                                     "[a=2]",
                                     "[a=3]",
                                     "[a=2, b=2]",
                                     "[a=2, b=2]",
                                     "[a=2, b=3]",
                                     "[a=3] stages 2",
                                     "[a=2, mb=2 time]",
                                     "[a=2, b=2] stages 2"};
static const char *const symbols[] = {
    "",      "min 1",        "min 1 max 8", "min 2 max 24", "min 1 multiple 2", "min 3 multiple 3 max 60",
    "min 8", "min 1 max 41", "min 5 max 5"};

static long graphs, written, verdicts[3], faults, unknown_right, refuted_right, proved_with_slips, over_reals;

/* ---- results of level 1, at every size, in both domains; computed on demand */

/* Modulo p; in doubles whose sums are exact; in doubles with infinities and NaN. */
typedef enum Mode { MODULO_P, EXACT, SPECIAL, MODES } Mode;
static const char *const mode_names[] = {"modulo p", "in doubles", "with infinities and NaN"};

typedef struct Want {
  bool made, runs;
  int ninputs;
  InterpNamed *inputs;
  InterpResult result;
} Want;

typedef struct Case {
  Module *m;
  const Func *l1;
  Arena *arena;
  int nsizes;
  const int64_t *values[MAX_SIZES]; /* of the symbols */
  Want want[MAX_SIZES][MODES];
} Case;

static void fill(InterpTensor *t, Mode mode, uint64_t seed) {
  static const double numbers[] = {-0.0,       1, -1,   2,    0.5, -3, 4,    257,      -0.25,     33,  -7,
                                   1.0 / 1024, 5, -129, 0.75, -2,  0,  -0.0, INFINITY, -INFINITY, NAN, 3};
  for (int64_t i = 0; i < interp_elements(t); i++)
    t->cells[i].f = numbers[random_below(seed, 3, (uint64_t)i, mode == EXACT ? 16 : 22)];
}

/* Inputs small enough to run quickly. */
static bool is_small(const Case *c, const int64_t *values) {
  int64_t all = 0;
  for (size_t i = 0; i < c->l1->ops.n; i++) {
    int64_t dims[MAX_RANK], n = 1;
    const Op *op = &c->l1->ops.items[i];
    if (!op->out) continue;
    if (!interp_dims(type_of(c->l1, op->out), values, dims)) return false;
    for (int d = 0; d < type_of(c->l1, op->out)->rank && n <= MAX_CELLS; d++) n *= dims[d];
    all += n;
  }
  return all <= MAX_CELLS;
}

static InterpDomain domain_of(Mode mode) { return mode == MODULO_P ? DOMAIN_MODP : DOMAIN_FLOAT; }

static Want *want_of(Case *c, int size, Mode mode) {
  Want *w = &c->want[size][mode];
  InterpDomain domain = domain_of(mode);
  if (w->made) return w;
  w->made = true;
  if (!is_small(c, c->values[size])) return w;
  Diags *diags = diags_new(c->arena);
  InterpOptions o = {.domain = domain, .symbols = c->values[size], .max_cells = MAX_CELLS, .max_rounds = 100};
  w->inputs = interp_random_inputs(c->m, c->l1, domain, o.symbols, 11, c->arena, &w->ninputs, diags);
  for (int i = 0; w->inputs && i < w->ninputs; i++)
    if (domain == DOMAIN_FLOAT && dtype_is_float(w->inputs[i].tensor.dtype))
      fill(&w->inputs[i].tensor, mode, (uint64_t)i);
  w->runs = w->inputs && interp_run(c->m, c->l1, &o, w->ninputs, w->inputs, c->arena, &w->result, diags);
  return w;
}

static const char *differs(const Want *w, const InterpResult *got, InterpDomain domain, double tolerance,
                           Arena *arena) {
  const char *why;
  if (got->noutputs != w->result.noutputs || got->nstates != w->result.nstates) return "other outputs";
  for (int i = 0; i < w->result.noutputs + w->result.nstates; i++) {
    bool state = i >= w->result.noutputs;
    const InterpNamed *want = state ? &w->result.states[i - w->result.noutputs] : &w->result.outputs[i];
    const InterpTensor *have = state ? interp_find(got->states, got->nstates, want->name)
                                     : interp_find(got->outputs, got->noutputs, want->name);
    if (!have) return arena_printf(arena, "%s is missing", want->name);
    if (!interp_equal(&want->tensor, have, domain, tolerance, arena, &why))
      return arena_printf(arena, "%s: %s", want->name, why);
  }
  return NULL;
}

/* The promise of a proof: the same numbers; the same bits if ranks do not add; infinities, NaN and the sign of zeros
 * unless the proof is over the real numbers. */
typedef struct Promise {
  bool adds, reals;
} Promise;

static const char *run_at(Case *c, const Func *l2, int size, Mode mode, Promise promise, Arena *arena) {
  const Want *w = want_of(c, size, mode);
  if (!w->runs) return NULL;
  Arena *scratch = arena_new();
  Diags *diags = diags_new(scratch);
  InterpResult r;
  InterpOptions o = {
      .domain = domain_of(mode), .symbols = c->values[size], .max_cells = 40 * MAX_CELLS, .max_rounds = 100};
  if (mode != MODULO_P && (promise.adds || promise.reals)) o.tolerance = 1e-7;
  const char *why =
      interp_run(c->m, l2, &o, w->ninputs, w->inputs, scratch, &r, diags)
          ? differs(w, &r, o.domain, o.tolerance, scratch)
          : arena_printf(scratch, "it does not run: %s", diags->n ? diags->items[0].message : "no reason given");
  if (why) {
    int n = module_symbol_find(c->m, "n");
    why = arena_printf(arena, "n = %lld, %s: %s", n >= 0 ? (long long)c->values[size][n] : 0, mode_names[mode], why);
  }
  arena_free(scratch);
  return why;
}

/* NULL if the program keeps the promise wherever level 1 computes anything. */
static const char *run_everywhere(Case *c, const Func *l2, Promise promise, Arena *arena) {
  const char *why = NULL;
  for (int mode = 0; mode < MODES; mode++)
    for (int i = 0; i < c->nsizes && !why; i++) {
      bool few = mode != MODULO_P && i > 0 && i + 2 < c->nsizes; /* doubles at a few of the sizes */
      if (!few && !(mode == SPECIAL && promise.reals)) why = run_at(c, l2, i, (Mode)mode, promise, arena);
    }
  return why;
}

/* ---- reducing a fault */

static bool is_live(const bool *live, const Op *op) {
  return op->kind == OP_write || op_is_loop_part(op->kind) || (op->out && live[op->out]);
}

/* Leaves out operations that no output needs. */
static Func *pruned(Module *m, const Func *f) {
  Func *g = copy_func(m, f);
  bool *live = ARENA_ARRAY(m->arena, bool, f->values.n);
  size_t n = 0;
  for (size_t i = 0; i < g->outputs.n; i++) live[g->outputs.items[i].value] = true;
  for (size_t i = g->ops.n; i-- > 0;)
    for (int k = 0; is_live(live, &g->ops.items[i]) && k < g->ops.items[i].nin; k++) live[g->ops.items[i].in[k]] = true;
  for (size_t i = 0; i < g->ops.n; i++) {
    Op op = g->ops.items[i];
    if (!is_live(live, &op)) {
      if (op.out) g->values.items[op.out].type = type_get(m, DT_f64, 0, NULL); /* its extents are dropped */
      continue;
    }
    if (op.out) g->values.items[op.out].op = (int)n;
    g->ops.items[n++] = op;
  }
  g->ops.n = n;
  return g;
}

static void drop_output(Func *f, const char *name) {
  size_t n = 0;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, name) != 0) f->outputs.items[n++] = f->outputs.items[i];
  f->outputs.n = n;
}

static bool still_wrong(Case *c, const Func *l1, const Func *l2, bool adds, Arena *arena, const char **why) {
  Case *small = ARENA_NEW(arena, Case);
  const char *reason = NULL;
  *small = *c;
  small->l1 = l1;
  memset(small->want, 0, sizeof small->want);
  Diags *diags = diags_new(arena);
  Proof p = {.verdict = UNKNOWN};
  if (verify_func(c->m, l1, diags) && verify_func(c->m, l2, diags)) p = prove(c->m, l1, l2);
  if (p.verdict == PROVED) reason = run_everywhere(small, l2, (Promise){adds, p.over_reals != NULL}, arena);
  if (reason) *why = reason;
  return reason != NULL;
}

static void make_small(Case *c, const Func **l1, const Func **l2, bool adds, Arena *arena, const char **why) {
  for (size_t i = 0; i < (*l1)->outputs.n && (*l1)->outputs.n > 1;) {
    Func *x = copy_func(c->m, *l1), *y = copy_func(c->m, *l2);
    const char *name = (*l1)->outputs.items[i].name;
    drop_output(x, name);
    drop_output(y, name);
    x = pruned(c->m, x), y = pruned(c->m, y);
    if (still_wrong(c, x, y, adds, arena, why)) *l1 = x, *l2 = y;
    else i++;
  }
  Func *x = pruned(c->m, *l1), *y = pruned(c->m, *l2);
  if (still_wrong(c, x, y, adds, arena, why)) *l1 = x, *l2 = y;
}

static const char *fault_text(Module *m, const Func *l1, const Func *l2, const char *what, Arena *arena) {
  Text t = {.arena = arena};
  Module head = *m;
  head.funcs.n = 0;
  text_printf(&t, "# %s\n# PROVE: main,rank\n# EXPECT: refuted\n", what);
  module_print(&head, &t);
  func_print(m, &t, l1);
  func_print(m, &t, l2);
  return text_str(&t);
}

static const char *folder; /* where faults are written; NULL if nowhere */

static void keep(const char *text, const char *kind, uint64_t seed, int version) {
  if (!folder) return;
  Arena *a = arena_new();
  FILE *f = fopen(arena_printf(a, "%s/%s-%llu-%d.ir", folder, kind, (unsigned long long)seed, version), "w");
  if (f) fputs(text, f), fclose(f);
  arena_free(a);
}

static void report(const char *text, uint64_t seed, int version) {
  faults++;
  if (faults <= 10) fprintf(stderr, "%s\n", text);
  keep(text, "wrong", seed, version);
}

/* ---- one graph */

typedef struct Draw { /* the origin of a program, to draw it again */
  Random r;
  int rate;
} Draw;

/* Slips that do not matter are undone one by one. */
static void examine_fault(Case *c, const Draw *draw, int decisions, uint64_t seed, int version, Arena *arena) {
  bool held[MAX_HELD] = {false};
  HandResult result;
  const char *why = "";
  for (int i = 0; i < decisions && i < MAX_HELD; i++) {
    Random r = draw->r;
    held[i] = true;
    Func *f = hand_write(c->m, c->l1, &r, draw->rate, held, arena, &result);
    if (!f || !still_wrong(c, c->l1, f, result.adds, arena, &why)) held[i] = false;
  }
  Random r = draw->r;
  const Func *l1 = c->l1, *l2 = hand_write(c->m, c->l1, &r, draw->rate, held, arena, &result);
  if (!l2 || !still_wrong(c, l1, l2, result.adds, arena, &why)) return;
  make_small(c, &l1, &l2, result.adds, arena, &why);
  const char *what =
      arena_printf(arena, "proved, but wrong at %s (seed %llu, version %d)", why, (unsigned long long)seed, version);
  report(fault_text(c->m, l1, l2, what, arena), seed, version);
}

static void check_version(Case *c, Random *r, uint64_t seed, int version, Arena *arena) {
  static const int rates[] = {40, 20, 10, 5};
  Draw draw = {*r, version == 0 ? 0 : rates[below(r, 4)]};
  HandResult result;
  draw.r = *r;
  const Func *l2 = hand_write(c->m, c->l1, r, draw.rate, NULL, arena, &result);
  Diags *diags = diags_new(arena);
  if (!l2 || !verify_func(c->m, l2, diags)) return;
  written++;
  Proof p = prove(c->m, c->l1, l2);
  verdicts[p.verdict]++;
  if (p.verdict != PROVED) {
    bool right = result.slips == 0 && !run_everywhere(c, l2, (Promise){result.adds, true}, arena);
    unknown_right += right && p.verdict == UNKNOWN;
    refuted_right += right && p.verdict == REFUTED;
    if (right && folder)
      keep(fault_text(c->m, c->l1, l2,
                      arena_printf(arena, "right, but %s at %s: %s", verdict_name(p.verdict), p.op, p.reason), arena),
           "right", seed, version);
    return;
  }
  proved_with_slips += result.slips > 0;
  over_reals += p.over_reals != NULL;
  if (run_everywhere(c, l2, (Promise){result.adds, p.over_reals != NULL}, arena))
    examine_fault(c, &draw, result.decisions, seed, version, arena);
}

/* Sizes that the symbol allows: a few small ones, and some random ones. */
static void choose_sizes(Case *c, Random *r) {
  int n = module_symbol_find(c->m, "n");
  const Symbol *s = &c->m->symbols.items[n];
  int fitting[MAX_SIZES], count = 0;
  for (int i = 0; i < MAX_SIZES; i++)
    if (sizes[i] >= s->min && (!s->max || sizes[i] <= s->max) && sizes[i] % s->multiple == 0) fitting[count++] = i;
  for (int i = 0; i < count; i++) {
    if (i > 2 && below(r, count) > 5) continue;
    int64_t *values = ARENA_ARRAY(c->arena, int64_t, c->m->symbols.n);
    values[n] = sizes[fitting[i]];
    c->values[c->nsizes++] = values;
  }
}

static GraphShape any_shape(Module *m, Random *r) {
  static const int constants[] = {1, 1, 2, 3, 4, 5, 6, 8, 12};
  GraphShape s = {.least = 1, .most = 6, .loops = below(r, 6) == 0, .further = make_awkward};
  const Expr *n = ex_sym(m, module_symbol_find(m, "n"));
  const Expr *late[] = {n,
                        n,
                        n,
                        ex_muli(m, n, 2),
                        ex_addi(m, n, 1),
                        ex_addi(m, n, 8),
                        ex_min(m, n, ex_const(m, 8)),
                        ex_max(m, n, ex_const(m, 4)),
                        ex_addi(m, ex_div(m, n, ex_const(m, 2)), 1),
                        ex_muli(m, n, 6),
                        ex_addi(m, ex_min(m, ex_const(m, 1), ex_div(m, n, ex_const(m, 40))), 2)};
  int nlate = below(r, 3);
  for (int i = 0; i < 5; i++) s.extents[i] = i < nlate ? late[below(r, 11)] : ex_const(m, constants[below(r, 9)]);
  return s;
}

static void check_graph(uint64_t seed) {
  Random r = {.seed = seed};
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  const char *mesh = meshes[below(&r, (int)(sizeof meshes / sizeof *meshes))],
             *symbol = symbols[below(&r, (int)(sizeof symbols / sizeof *symbols))];
  Module *m = ir_parse("graph", arena_printf(arena, "apc.ir 1\nsymbol n %s\nmesh %s\n", symbol, mesh), diags);
  Case *c = ARENA_NEW(arena, Case);
  GraphShape shape = any_shape(m, &r);
  *c = (Case){.m = m, .l1 = make_graph(m, &r, &shape, diags), .arena = arena};
  if (c->l1->outputs.n && verify_func(m, c->l1, diags_new(arena))) {
    choose_sizes(c, &r);
    bool runs = false; /* some graphs have a negative extent at every size */
    for (int i = 0; i < c->nsizes; i++) runs |= want_of(c, i, MODULO_P)->runs;
    graphs += runs;
    for (int v = 0; runs && v < VERSIONS; v++) check_version(c, &r, seed, v, arena);
  }
  module_free(m);
  arena_free(arena);
}

static uint64_t first_seed = 1;
static int count = SANITIZED ? 600 : 14000;

static void nothing_wrong_is_proved(void) {
  Quarter q = quarter_range(count);
  for (int i = q.from; i < q.to; i++) check_graph(first_seed + (uint64_t)i);
  printf(
      "seeds %llu to %llu: %ld graphs, %ld programs written, %ld proved (%ld of them with slips, %ld over the real "
      "numbers), %ld refuted, %ld unknown\n",
      (unsigned long long)first_seed + (unsigned)q.from, (unsigned long long)first_seed + (unsigned)q.to - 1, graphs,
      written, verdicts[PROVED], proved_with_slips, over_reals, verdicts[REFUTED], verdicts[UNKNOWN]);
  printf("written without slips and right: %ld refuted, %ld unknown\n", refuted_right, unknown_right);
  CHECKF(faults == 0, "%ld programs are proved and wrong", faults);
}

int main(int argc, char **argv) {
  if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2) count = atoi(argv[2]);
  if (argc > 3) folder = argv[3];
  RUN(nothing_wrong_is_proved);
  return test_summary();
}
