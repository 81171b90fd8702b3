/* codegen/print_c.c - prints row programs as C with OpenMP.
 *
 * Four loop schedules:
 *   elements - no reduction: rows cut into pieces of at most 16384 elements, one piece per iteration of the parallel loop;
 *   tiles    - no reduction, but some operand is contiguous in another dimension (a transpose): tiles of 32 x 32, so that the
 *              lines of both sides stay in the cache (2048 x 1024 floats: 23 ms by rows, 5 ms by tiles);
 *   rows     - one row per iteration; every stage is a loop over blocks of 1024 elements that puts what is reduced into a
 *              small array, which a prelude function reduces in the canonical order;
 *   columns  - the reduced dimension is not the last one: 64 columns per iteration, 32 lanes of them.
 * A special function whose value a later stage needs is kept in row storage; cheaper values are computed again.
 */
#include "codegen/print_c.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

enum { PIECE = 16384, BLOCK = 1024, KEEP_FROM = 10, MAX_KEPT = 8, PARALLEL_FROM = 16384 };

typedef enum Schedule { ELEMENTS, TILES, ROWS, COLUMNS } Schedule;

typedef struct Printer {
  Module *m;
  const RowProgram *p;
  Scalars *scalars;
  Text *t;
  Schedule schedule;
  int across; /* TILES: the other dimension; COLUMNS: the one columns are counted in */
  int indent;
  bool *wanted;  /* node is needed by some store */
  int *kept;     /* node -> slot of row storage, -1 */
  bool *in_scope; /* printed in an enclosing scope */
} Printer;

/* ---- scalars */

const char *scalar_text(Module *m, Scalars *s, const Expr *e) {
  int64_t v;
  if (ex_get_const(e, &v)) {
    if (v == INT64_MIN) return "INT64_MIN";
    return arena_printf(m->arena, v < 0 ? "(INT64_C(%lld))" : "INT64_C(%lld)", (long long)v);
  }
  size_t i = 0;
  while (i < s->n && s->items[i] != e) i++;
  if (i == s->n) ARENA_PUSH(m->arena, s, e);
  return arena_printf(m->arena, "x[%zu]", i);
}

static const char *scalar(const Printer *c, const Expr *e) { return scalar_text(c->m, c->scalars, e); }

__attribute__((format(printf, 2, 3))) static void line(const Printer *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (int i = 0; i < c->indent; i++) text_add(c->t, "  ");
  text_add(c->t, arena_vprintf(c->m->arena, format, args));
  text_add(c->t, "\n");
  va_end(args);
}

/* ---- types */

const char *c_stored_type(DType t) {
  static const char *const names[DT_COUNT] = {
      [DT_f32] = "float", [DT_f64] = "double", [DT_f16] = "uint16_t", [DT_bf16] = "uint16_t", [DT_i8] = "int8_t",
      [DT_i16] = "int16_t", [DT_i32] = "int32_t", [DT_i64] = "int64_t", [DT_u8] = "uint8_t", [DT_u16] = "uint16_t",
      [DT_u32] = "uint32_t", [DT_u64] = "uint64_t", [DT_bool] = "uint8_t"};
  return names[t];
}

/* The type a value is computed in. */
static DType computed(DType t) { return t == DT_f16 || t == DT_bf16 ? DT_f32 : t; }
static const char *value_type(DType t) { return t == DT_bool ? "_Bool" : c_stored_type(computed(t)); }
static const char *suffix(DType t) { return dtype_name(computed(t)); }

/* ---- expressions */

static const char *affine_text(const Printer *c, const Affine *a) {
  Text t = {.arena = c->m->arena};
  bool any = false;
  for (int d = 0; d < c->p->ndims; d++) {
    if (!a->coef[d] || ex_is_const(a->coef[d], 0)) continue;
    text_printf(&t, any ? " + i%d" : "i%d", d);
    if (!ex_is_const(a->coef[d], 1)) text_printf(&t, " * %s", scalar(c, a->coef[d]));
    any = true;
  }
  if (!any || !ex_is_const(a->offset, 0)) text_printf(&t, any ? " + %s" : "%s", scalar(c, a->offset));
  return text_str(&t);
}

static const char *number_text(const Printer *c, const RowNode *n) {
  if (!dtype_is_float(n->dtype)) {
    if (n->dtype == DT_bool) return n->i ? "1" : "0";
    if (n->dtype == DT_u64 || n->dtype == DT_u32)
      return arena_printf(c->m->arena, "(%s)%lluull", c_stored_type(n->dtype), (unsigned long long)n->i);
    if (n->i == INT64_MIN) return "INT64_MIN";
    return arena_printf(c->m->arena, "(%s)%lldll", c_stored_type(n->dtype), (long long)n->i);
  }
  if (isnan(n->f)) return "__builtin_nanf(\"\")";
  if (isinf(n->f)) return n->f > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
  double v = n->f;
  if (n->dtype != DT_f64) {
    unsigned char bytes[8];
    dtype_store_f(n->dtype, bytes, v);
    v = dtype_load_f(n->dtype, bytes);
    if (isinf(v)) return v > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
  }
  return arena_printf(c->m->arena, n->dtype == DT_f64 ? "(%a)" : "(%af)", v);
}

static const char *op_text(const Printer *c, const RowNode *n) {
  Arena *a = c->m->arena;
  const RowNode *x = &c->p->nodes.items[n->args[0]];
  if (n->op == OP_select) return arena_printf(a, "v%d ? v%d : v%d", n->args[0], n->args[1], n->args[2]);
  if (n->op == OP_cast) return arena_printf(a, "to_%s_%s(v%d)", dtype_name(n->dtype), suffix(x->dtype), n->args[0]);
  const char *name = op_name(n->op), *s = suffix(x->dtype);
  if (n->nargs == 1) return arena_printf(a, "%s_%s(v%d)", name, s, n->args[0]);
  return arena_printf(a, "%s_%s(v%d, v%d)", name, s, n->args[0], n->args[1]);
}

static const char *random_text(const Printer *c, const RowNode *n) {
  bool normal = strcmp(op_str(n->source, AT_kind), "normal") == 0;
  unsigned long long seed = (unsigned long long)op_int(n->source, AT_seed, 0);
  const char *from = normal ? "f64" : "f32";
  return arena_printf(c->m->arena, "to_%s_%s(random_%s(%lluull, 0, (uint64_t)v%d))", dtype_name(n->dtype), from,
                      normal ? "normal" : "uniform", seed, n->args[0]);
}

static const char *load_text(const Printer *c, const RowNode *n) {
  Arena *a = c->m->arena;
  DType stored = c->p->buffers.items[n->buffer].dtype;
  const char *at = affine_text(c, &n->at);
  if (n->nargs) at = arena_printf(a, "%s + v%d", at, n->args[0]);
  const char *load = arena_printf(a, "load_%s(p%d + (%s))", dtype_name(stored), n->buffer, at);
  return n->guard < 0 ? load : arena_printf(a, "v%d ? %s : 0", n->guard, load);
}

static const char *node_text(const Printer *c, int i) {
  const RowNode *n = &c->p->nodes.items[i];
  switch (n->kind) {
    case RN_CONST: return number_text(c, n);
    case RN_SCALAR: return scalar(c, n->expr);
    case RN_INDEX:
      return n->nargs ? arena_printf(c->m->arena, "%s + v%d", affine_text(c, &n->at), n->args[0]) : affine_text(c, &n->at);
    case RN_LOAD: return load_text(c, n);
    case RN_OP: return op_text(c, n);
    case RN_RANDOM: return random_text(c, n);
    case RN_ACC: return arena_printf(c->m->arena, c->schedule == COLUMNS ? "a%d[w]" : "a%d", n->acc);
  }
  die("print_c: node kind %d", (int)n->kind);
}

static void print_node(const Printer *c, int i) {
  line(c, "const %s v%d = %s;", value_type(c->p->nodes.items[i].dtype), i, node_text(c, i));
}

static void print_store(const Printer *c, const RowStore *s) {
  line(c, "store_%s(p%d + (%s), v%d);", dtype_name(c->p->buffers.items[s->buffer].dtype), s->buffer, affine_text(c, &s->at), s->node);
}

/* ---- what a scope needs */

static int arguments(const RowNode *n, int *args) {
  int count = n->nargs;
  memcpy(args, n->args, sizeof n->args);
  if (n->guard >= 0) args[count++] = n->guard;
  return count;
}

/* Marks the nodes behind `i`, not looking behind those in scope or kept by an earlier stage. */
static void need(const Printer *c, bool *needed, int i, int stage) {
  if (needed[i] || c->in_scope[i]) return;
  needed[i] = true;
  const RowNode *n = &c->p->nodes.items[i];
  if (c->kept[i] >= 0 && n->stage < stage) return;
  int args[4], count = arguments(n, args);
  for (int k = 0; k < count; k++) need(c, needed, args[k], stage);
}

static bool *no_nodes(const Printer *c) { return ARENA_ARRAY(c->m->arena, bool, c->p->nodes.n + 1); }

static void print_needed(const Printer *c, const bool *needed, int stage) {
  for (size_t i = 0; i < c->p->nodes.n; i++) {
    if (!needed[i]) continue;
    if (c->kept[i] >= 0 && c->p->nodes.items[i].stage < stage)
      line(c, "const %s v%zu = k%d[i%d];", value_type(c->p->nodes.items[i].dtype), i, c->kept[i], c->p->inner);
    else
      print_node(c, (int)i);
  }
}

/* ---- kept values */

static void keep(Printer *c, int i, int stage, int *n) {
  const RowNode *x = &c->p->nodes.items[i];
  if (!x->inner || c->kept[i] >= 0) return;
  if (x->stage < stage && x->cost >= KEEP_FROM && x->kind == RN_OP && *n < MAX_KEPT) {
    c->kept[i] = (*n)++;
    return;
  }
  int args[4], count = arguments(x, args);
  for (int k = 0; k < count; k++) keep(c, args[k], stage, n);
}

static void choose_kept(Printer *c) {
  int n = 0;
  for (size_t i = 0; i < c->p->accs.n; i++) keep(c, c->p->accs.items[i].node, c->p->accs.items[i].stage, &n);
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (c->p->stores.items[i].inner) keep(c, c->p->stores.items[i].node, c->p->stores.items[i].stage, &n);
}

/* ---- loops */

static void open(Printer *c, const char *text) {
  line(c, "%s {", text);
  c->indent++;
}

static void close(Printer *c) {
  c->indent--;
  line(c, "}");
}

static const char *extent(const Printer *c, int d) { return scalar(c, c->p->extent[d]); }

/* i0, i1 ... of the outer dimensions from the row number. */
static void print_outer_indices(const Printer *c, const char *row) {
  int last = -1;
  for (int d = 0; d < c->p->ndims && last < 0; d++)
    if (d != c->p->inner && d != c->across) last = d;
  if (last < 0) return;
  line(c, "int64_t rest = %s;", row);
  for (int d = c->p->ndims - 1; d >= 0; d--) {
    if (d == c->p->inner || d == c->across) continue;
    if (d == last) line(c, "const int64_t i%d = rest;", d);
    else line(c, "const int64_t i%d = rest %% %s; rest /= %s;", d, extent(c, d), extent(c, d));
  }
}

static const char *row_count(const Printer *c) {
  Text t = {.arena = c->m->arena};
  text_add(&t, "INT64_C(1)");
  for (int d = 0; d < c->p->ndims; d++)
    if (d != c->p->inner && d != c->across) text_printf(&t, " * %s", extent(c, d));
  return text_str(&t);
}

static void print_row_scope(Printer *c, int stage) {
  bool *needed = no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->wanted[i] && !c->p->nodes.items[i].inner && c->p->nodes.items[i].stage == stage) needed[i] = true;
  print_needed(c, needed, 0);
  for (size_t i = 0; i < c->p->nodes.n; i++) c->in_scope[i] = c->in_scope[i] || needed[i];
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (!c->p->stores.items[i].inner && c->p->stores.items[i].stage == stage) print_store(c, &c->p->stores.items[i]);
}

static bool is_float_sum(const RowAcc *a) { return a->op == RED_SUM && dtype_is_float(a->dtype); }

static const char *combine_name(Reduction r) {
  switch (r) {
    case RED_SUM: return "add";
    case RED_PRODUCT: return "mul";
    default: return reduction_name(r);
  }
}

static const char *identity_text(const RowAcc *a) {
  bool is_float = dtype_is_float(a->dtype), is_signed = dtype_class(a->dtype) == DTC_I;
  int bits = 8 * (int)dtype_bytes(a->dtype);
  static const char *const low[] = {"INT8_MIN", "INT16_MIN", "INT32_MIN", "INT64_MIN"};
  static const char *const high[] = {"INT8_MAX", "INT16_MAX", "INT32_MAX", "INT64_MAX", "UINT8_MAX", "UINT16_MAX", "UINT32_MAX", "UINT64_MAX"};
  int size = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
  switch (a->op) {
    case RED_PRODUCT:
    case RED_AND: return "1";
    case RED_MAX: return is_float ? "-__builtin_inff()" : is_signed ? low[size] : "0";
    case RED_MIN: return is_float ? "__builtin_inff()" : high[size + (is_signed ? 0 : 4)];
    default: return "0";
  }
}

/* The nodes, stores, kept values and reduced values of one element in a stage. */
static void print_element(Printer *c, int stage) {
  bool *needed = no_nodes(c);
  const RowProgram *p = c->p;
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage == stage) need(c, needed, p->accs.items[i].node, stage);
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage == stage) need(c, needed, p->stores.items[i].node, stage);
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0 && p->nodes.items[i].stage == stage) need(c, needed, (int)i, stage);
  print_needed(c, needed, stage);
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0 && p->nodes.items[i].stage == stage) line(c, "k%d[i%d] = v%zu;", c->kept[i], p->inner, i);
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage == stage) print_store(c, &p->stores.items[i]);
}

static bool stage_has_elements(const Printer *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) return true;
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (c->p->stores.items[i].inner && c->p->stores.items[i].stage == stage) return true;
  return false;
}

static bool stage_has_accs(const Printer *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) return true;
  return false;
}

/* for (i = from; i < to; i++) { one element } */
static void print_element_loop(Printer *c, int stage, const char *from, const char *to) {
  int d = c->p->inner;
  line(c, "_Pragma(\"GCC ivdep\")");
  open(c, arena_printf(c->m->arena, "for (int64_t i%d = %s; i%d < %s; i%d++)", d, from, d, to, d));
  print_element(c, stage);
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) line(c, "t%zu[i%d - %s] = v%d;", i, d, from, c->p->accs.items[i].node);
  close(c);
}

static void print_acc_start(const Printer *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++) {
    const RowAcc *a = &c->p->accs.items[i];
    if (a->stage != stage) continue;
    if (is_float_sum(a)) line(c, "Sum_%s s%zu; s%zu.count = 0;", suffix(a->dtype), i, i);
    else line(c, "%s a%zu = %s;", value_type(a->dtype), i, identity_text(a));
  }
}

/* One value per block of an accumulation, to where it goes. */
static void print_combine(const Printer *c, size_t i, const char *value) {
  const RowAcc *a = &c->p->accs.items[i];
  const char *s = suffix(a->dtype);
  if (is_float_sum(a)) line(c, "push_%s(&s%zu, %s);", s, i, value);
  else line(c, "a%zu = %s_%s(a%zu, %s);", i, combine_name(a->op), s, i, value);
}

static const char *block_value(const Printer *c, size_t i) {
  const RowAcc *a = &c->p->accs.items[i];
  return arena_printf(c->m->arena, "block_%s_%s(t%zu, m)", reduction_name(a->op), suffix(a->dtype), i);
}

/* A program of a single row is parallel over the blocks: their values are kept and combined in order afterwards. */
static bool blocks_are_parallel(const Printer *c) { return c->p->ndims == 1 && c->p->accs.n <= MAX_KEPT; }

static void print_blocks(Printer *c, int stage) {
  const RowProgram *p = c->p;
  bool parallel = blocks_are_parallel(c);
  print_acc_start(c, stage);
  for (size_t i = 0; i < p->accs.n && parallel; i++) {
    const char *type = value_type(p->accs.items[i].dtype);
    if (p->accs.items[i].stage == stage)
      line(c, "%s *const part%zu = scratch(%d, (n / %d + 1) * (int64_t)sizeof(%s));", type, i, MAX_KEPT + (int)i, BLOCK, type);
  }
  if (parallel) line(c, "_Pragma(\"omp parallel for schedule(static) if (n >= %d)\")", 4 * PARALLEL_FROM);
  open(c, arena_printf(c->m->arena, "for (int64_t block = 0; block < n; block += %d)", BLOCK));
  line(c, "const int64_t m = n - block < %d ? n - block : %d;", BLOCK, BLOCK);
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage == stage) line(c, "%s t%zu[%d];", value_type(p->accs.items[i].dtype), i, BLOCK);
  print_element_loop(c, stage, "block", "block + m");
  for (size_t i = 0; i < p->accs.n; i++) {
    if (p->accs.items[i].stage != stage) continue;
    if (parallel) line(c, "part%zu[block / %d] = %s;", i, BLOCK, block_value(c, i));
    else print_combine(c, i, block_value(c, i));
  }
  close(c);
  for (size_t i = 0; i < p->accs.n; i++) {
    if (p->accs.items[i].stage != stage) continue;
    if (parallel) {
      open(c, arena_printf(c->m->arena, "for (int64_t block = 0; block < (n + %d) / %d; block++)", BLOCK - 1, BLOCK));
      print_combine(c, i, arena_printf(c->m->arena, "part%zu[block]", i));
      close(c);
    }
    const RowAcc *a = &p->accs.items[i];
    if (is_float_sum(a)) line(c, "const %s a%zu = total_%s(&s%zu);", value_type(a->dtype), i, suffix(a->dtype), i);
  }
}

static void print_rows(Printer *c) {
  const RowProgram *p = c->p;
  line(c, "const int64_t n = %s, rows = %s;", extent(c, p->inner), row_count(c));
  if (!blocks_are_parallel(c)) line(c, "_Pragma(\"omp parallel for schedule(static) if (rows * (n + 8) >= %d)\")", PARALLEL_FROM);
  open(c, "for (int64_t row = 0; row < rows; row++)");
  print_outer_indices(c, "row");
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0)
      line(c, "%s *const k%d = scratch(%d, n * (int64_t)sizeof(%s));", value_type(p->nodes.items[i].dtype), c->kept[i], c->kept[i],
           value_type(p->nodes.items[i].dtype));
  for (int stage = 0; stage < p->nstages; stage++) {
    print_row_scope(c, stage);
    if (stage_has_accs(c, stage)) print_blocks(c, stage);
    else if (stage_has_elements(c, stage)) print_element_loop(c, stage, "0", "n");
  }
  close(c);
}

static void print_elements(Printer *c) {
  line(c, "const int64_t n = %s, rows = %s, pieces = (n + %d) / %d;", extent(c, c->p->inner), row_count(c), PIECE - 1, PIECE);
  line(c, "_Pragma(\"omp parallel for schedule(static) if (rows * n >= %d)\")", PARALLEL_FROM);
  open(c, "for (int64_t piece = 0; piece < rows * pieces; piece++)");
  line(c, "const int64_t row = piece / pieces, from = piece %% pieces * %d, to = n - from < %d ? n : from + %d;", PIECE, PIECE, PIECE);
  print_outer_indices(c, "row");
  print_row_scope(c, 0);
  print_element_loop(c, 0, "from", "to");
  close(c);
}

static void print_tiles(Printer *c) {
  int a = c->across;
  line(c, "const int64_t n = %s, all = %s, rows = %s, wide = (n + 31) / 32, high = (all + 31) / 32;", extent(c, c->p->inner), extent(c, a), row_count(c));
  line(c, "_Pragma(\"omp parallel for schedule(static) if (rows * all * n >= %d)\")", PARALLEL_FROM);
  open(c, "for (int64_t tile = 0; tile < rows * high * wide; tile++)");
  line(c, "const int64_t row = tile / (high * wide), top = tile / wide %% high * 32, from = tile %% wide * 32;");
  line(c, "const int64_t bottom = all - top < 32 ? all : top + 32, to = n - from < 32 ? n : from + 32;");
  print_outer_indices(c, "row");
  open(c, arena_printf(c->m->arena, "for (int64_t i%d = top; i%d < bottom; i%d++)", a, a, a));
  print_row_scope(c, 0);
  print_element_loop(c, 0, "from", "to");
  close(c), close(c);
}

static void print_columns_stage(Printer *c) {
  const RowProgram *p = c->p;
  int d = p->inner;
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    const char *type = value_type(a->dtype);
    if (is_float_sum(a)) line(c, "Sums_%s s%zu; s%zu.count = 0; %s a%zu[TILE], lanes%zu[32][TILE];", suffix(a->dtype), i, i, type, i, i);
    else line(c, "%s a%zu[TILE]; for (int w = 0; w < TILE; w++) a%zu[w] = %s;", type, i, i, identity_text(a));
  }
  open(c, arena_printf(c->m->arena, "for (int64_t block = 0; block < n; block += %d)", BLOCK));
  line(c, "const int64_t m = n - block < %d ? n - block : %d;", BLOCK, BLOCK);
  for (size_t i = 0; i < p->accs.n; i++)
    if (is_float_sum(&p->accs.items[i])) line(c, "zero_lanes_%s(lanes%zu, m);", suffix(p->accs.items[i].dtype), i);
  open(c, arena_printf(c->m->arena, "for (int64_t i%d = block; i%d < block + m; i%d++)", d, d, d));
  line(c, "_Pragma(\"GCC ivdep\")");
  open(c, "for (int64_t w = 0; w < width; w++)");
  line(c, "const int64_t i%d = column + w;", c->across);
  print_element(c, 0);
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    if (is_float_sum(a)) line(c, "lanes%zu[(i%d - block) & 31][w] += v%d;", i, d, a->node);
    else line(c, "a%zu[w] = %s_%s(a%zu[w], v%d);", i, combine_name(a->op), suffix(a->dtype), i, a->node);
  }
  close(c), close(c);
  for (size_t i = 0; i < p->accs.n; i++)
    if (is_float_sum(&p->accs.items[i])) line(c, "push_lanes_%s(&s%zu, lanes%zu, m);", suffix(p->accs.items[i].dtype), i, i);
  close(c);
  for (size_t i = 0; i < p->accs.n; i++)
    if (is_float_sum(&p->accs.items[i])) line(c, "totals_%s(&s%zu, a%zu);", suffix(p->accs.items[i].dtype), i, i);
}

static void print_columns(Printer *c) {
  const RowProgram *p = c->p;
  line(c, "const int64_t n = %s, all = %s, tiles = (all + TILE - 1) / TILE, rows = %s;", extent(c, p->inner), extent(c, c->across), row_count(c));
  line(c, "_Pragma(\"omp parallel for schedule(static) if (rows * all * (n + 8) >= %d)\")", PARALLEL_FROM);
  open(c, "for (int64_t tile = 0; tile < rows * tiles; tile++)");
  line(c, "const int64_t row = tile / tiles, column = tile %% tiles * TILE, width = all - column < TILE ? all - column : TILE;");
  print_outer_indices(c, "row");
  print_columns_stage(c);
  line(c, "_Pragma(\"GCC ivdep\")");
  open(c, "for (int64_t w = 0; w < width; w++)");
  line(c, "const int64_t i%d = column + w;", c->across);
  bool *needed = no_nodes(c);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) need(c, needed, p->stores.items[i].node, 0);
  print_needed(c, needed, 0);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) print_store(c, &p->stores.items[i]);
  close(c), close(c);
}

/* Columns need every per-element store and accumulation in the first stage. */
static bool columns_possible(const RowProgram *p) {
  if (!p->reduces || p->inner == p->ndims - 1) return false;
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage != 0) return false;
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage != 0) return false;
  return true;
}

static bool is_unit(const Expr *e) { return e && ex_is_const(e, 1); }

/* The dimension in which a load is contiguous that is not so in the inner one; -1 when there is none. */
static int tile_dim(const RowProgram *p) {
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *n = &p->nodes.items[i];
    if (n->kind != RN_LOAD || !n->at.coef[p->inner] || is_unit(n->at.coef[p->inner])) continue;
    for (int d = 0; d < p->ndims; d++)
      if (d != p->inner && is_unit(n->at.coef[d])) return d;
  }
  return -1;
}

static void choose_schedule(Printer *c) {
  c->across = -1;
  if (c->p->reduces) {
    c->schedule = columns_possible(c->p) ? COLUMNS : ROWS;
    if (c->schedule == COLUMNS) c->across = c->p->ndims - 1;
  } else {
    c->across = tile_dim(c->p);
    c->schedule = c->across >= 0 ? TILES : ELEMENTS;
  }
}

/* ---- kernel */

static void print_table(const Printer *c, const RowBuffer *b, size_t i) {
  const Attr *ints = op_attr(b->table, AT_ints), *floats = op_attr(b->table, AT_floats);
  int n = ints ? ints->n : floats->n;
  Text t = {.arena = c->m->arena};
  for (int k = 0; k < n; k++) {
    unsigned char bytes[8] = {0};
    unsigned long long bits = 0;
    if (ints) dtype_store_i(b->dtype, bytes, ints->u.ints[k]);
    else dtype_store_f(b->dtype, bytes, floats->u.floats[k]);
    memcpy(&bits, bytes, 8);
    text_printf(&t, "%s0x%llxull", k ? ", " : "", bits);
  }
  static const char *const unsigned_of[9] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
  line(c, "static const %s __attribute__((may_alias)) table%zu[%d] = {%s};", unsigned_of[dtype_bytes(b->dtype)], i, n ? n : 1, n ? text_str(&t) : "0");
  line(c, "const %s __attribute__((may_alias)) *const p%zu = (const void *)table%zu;", c_stored_type(b->dtype), i, i);
}

static void print_buffers(const Printer *c) {
  int next = 0;
  for (size_t i = 0; i < c->p->buffers.n; i++) {
    const RowBuffer *b = &c->p->buffers.items[i];
    if (b->table) print_table(c, b, i);
    else line(c, "%s%s *const p%zu = ptr[%d];", b->output ? "" : "const ", c_stored_type(b->dtype), i, next++);
  }
}

static void find_wanted(const Printer *c) {
  Printer all = *c;
  all.kept = ARENA_ARRAY(c->m->arena, int, c->p->nodes.n + 1);
  all.in_scope = no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++) all.kept[i] = -1;
  for (size_t i = 0; i < c->p->stores.n; i++) need(&all, c->wanted, c->p->stores.items[i].node, 0);
  for (size_t i = c->p->accs.n; i-- > 0;) need(&all, c->wanted, c->p->accs.items[i].node, 0);
}

void print_c_kernel(Module *m, Text *t, const RowProgram *p, const char *symbol, Scalars *scalars) {
  Printer c = {.m = m, .p = p, .scalars = scalars, .t = t};
  choose_schedule(&c);
  c.wanted = no_nodes(&c);
  c.in_scope = no_nodes(&c);
  c.kept = ARENA_ARRAY(m->arena, int, p->nodes.n + 1);
  for (size_t i = 0; i < p->nodes.n; i++) c.kept[i] = -1;
  find_wanted(&c);
  if (c.schedule == ROWS) choose_kept(&c);
  open(&c, arena_printf(m->arena, "void %s(void *const *ptr, const int64_t *x)", symbol));
  print_buffers(&c);
  switch (c.schedule) {
    case ELEMENTS: print_elements(&c); break;
    case TILES: print_tiles(&c); break;
    case ROWS: print_rows(&c); break;
    case COLUMNS: print_columns(&c); break;
  }
  close(&c);
}
