/* codegen/rows/print_row.c - see print_row.h. */
#include "codegen/rows/print_row.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

/* ---- scalars */

/* Returns x[i], also for a constant. */
static const char *argument_text(Module *m, Scalars *s, const Expr *e) {
  size_t i = 0;
  while (i < s->n && s->items[i] != e) i++;
  if (i == s->n) ARENA_PUSH(m->arena, s, e);
  return arena_printf(m->arena, "x[%zu]", i);
}

const char *rp_scalar_text(Module *m, Scalars *s, const Expr *e) {
  int64_t v;
  if (!ex_get_const(e, &v)) return argument_text(m, s, e);
  if (v == INT64_MIN) return "INT64_MIN";
  return arena_printf(m->arena, v < 0 ? "(INT64_C(%lld))" : "INT64_C(%lld)", (long long)v);
}

const char *rp_scalar(const RowPrinter *c, const Expr *e) {
  return c->arguments ? argument_text(c->m, c->scalars, e) : rp_scalar_text(c->m, c->scalars, e);
}

void rp_line(const RowPrinter *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (int i = 0; i < c->indent; i++) text_add(c->t, "  ");
  text_add(c->t, arena_vprintf(c->m->arena, format, args));
  text_add(c->t, "\n");
  va_end(args);
}

/* ---- types */

const char *rp_stored_type(DType t) {
  static const char *const names[DT_COUNT] = {
      [DT_f32] = "float",   [DT_f64] = "double",   [DT_f16] = "uint16_t", [DT_bf16] = "uint16_t",
      [DT_i8] = "int8_t",   [DT_i16] = "int16_t",  [DT_i32] = "int32_t",  [DT_i64] = "int64_t",
      [DT_u8] = "uint8_t",  [DT_u16] = "uint16_t", [DT_u32] = "uint32_t", [DT_u64] = "uint64_t",
      [DT_bool] = "uint8_t"};
  return names[t] ? names[t] : "uint8_t"; /* floats of 8 bits, and what is narrower */
}

const char *rp_value_type(DType t) { return t == DT_bool ? "_Bool" : rp_stored_type(dtype_held(t)); }
const char *rp_suffix(DType t) { return dtype_name(dtype_held(t)); }

/* ---- expressions */

/* Returns the text of an affine index.  Offsets other than 0 are arguments even if they are constants: the parts of a
 * fused weight then share one kernel. */
const char *rp_affine_text(const RowPrinter *c, const Affine *a) {
  Text t = {.arena = c->m->arena};
  bool any = false;
  for (int d = 0; d < c->p->ndims; d++) {
    if (!a->coef[d] || ex_is_const(a->coef[d], 0)) continue;
    text_printf(&t, any ? " + i%d" : "i%d", d);
    if (!ex_is_const(a->coef[d], 1)) text_printf(&t, " * %s", rp_scalar(c, a->coef[d]));
    any = true;
  }
  bool none = ex_is_const(a->offset, 0);
  if (!any || !none)
    text_printf(&t, any ? " + %s" : "%s", none ? "INT64_C(0)" : argument_text(c->m, c->scalars, a->offset));
  return text_str(&t);
}

static const char *number_text(const RowPrinter *c, const RowNode *n) {
  if (!dtype_is_float(n->dtype)) {
    if (n->dtype == DT_bool) return n->i ? "1" : "0";
    if (n->dtype == DT_u64 || n->dtype == DT_u32)
      return arena_printf(c->m->arena, "(%s)%lluull", rp_stored_type(n->dtype), (unsigned long long)n->i);
    if (n->i == INT64_MIN) return "INT64_MIN";
    return arena_printf(c->m->arena, "(%s)%lldll", rp_value_type(n->dtype), (long long)n->i);
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

/* Returns 0 or 1 if that is the node's value in this scope, -1 if unknown. */
static int known(const RowPrinter *c, int i) { return c->known ? c->known[i] : -1; }

int rp_selected(const RowPrinter *c, const RowNode *n) {
  bool asks = n->kind != RN_OP || n->op != OP_select || known(c, n->args[0]) < 0;
  return asks ? -1 : n->args[known(c, n->args[0]) ? 1 : 2];
}

static const char *op_text(const RowPrinter *c, const RowNode *n) {
  Arena *a = c->m->arena;
  const RowNode *x = &c->p->nodes.items[n->args[0]];
  if (rp_selected(c, n) >= 0) return arena_printf(a, "v%d", rp_selected(c, n));
  if (n->op == OP_select) return arena_printf(a, "v%d ? v%d : v%d", n->args[0], n->args[1], n->args[2]);
  if (n->op == OP_cast) return arena_printf(a, "to_%s_%s(v%d)", dtype_name(n->dtype), rp_suffix(x->dtype), n->args[0]);
  if (n->op == OP_bitcast)
    return arena_printf(a, "from_bits_%s(bits_%s(v%d))", dtype_name(n->dtype), dtype_name(x->dtype), n->args[0]);
  const char *name = op_name(n->op), *s = rp_suffix(x->dtype);
  if (n->nargs == 1) return arena_printf(a, "%s_%s(v%d)", name, s, n->args[0]);
  return arena_printf(a, "%s_%s(v%d, v%d)", name, s, n->args[0], n->args[1]);
}

static const char *random_text(const RowPrinter *c, const RowNode *n) {
  const char *kind = op_str(n->source, AT_kind), *from = strcmp(kind, "normal") == 0 ? "f64" : "f32";
  unsigned long long seed = (unsigned long long)op_int(n->source, AT_seed, 0),
                     stream = (unsigned long long)op_int(n->source, AT_stream, 0);
  Text t = {.arena = c->m->arena};
  text_printf(&t, "to_%s_%s(random_%s%s(%lluull, %lluull, ", dtype_name(n->dtype), from, n->nargs > 1 ? "keyed_" : "",
              kind, seed, stream);
  if (n->nargs > 1) text_printf(&t, "(uint64_t)v%d, ", n->args[1]);
  text_printf(&t, "(uint64_t)v%d))", n->args[0]);
  return text_str(&t);
}

static const char *load_text(const RowPrinter *c, const RowNode *n) {
  Arena *a = c->m->arena;
  DType stored = c->p->buffers.items[n->buffer].dtype;
  const char *at = rp_affine_text(c, &n->at);
  if (n->nargs) at = arena_printf(a, "%s + v%d", at, n->args[0]);
  const char *load = arena_printf(a, "load_%s(p%d + (%s))", dtype_name(stored), n->buffer, at);
  return n->guard < 0 || known(c, n->guard) == 1 ? load : arena_printf(a, "v%d ? %s : 0", n->guard, load);
}

static const char *node_text(const RowPrinter *c, int i) {
  const RowNode *n = &c->p->nodes.items[i];
  if (c->instead && c->instead[i]) return c->instead[i];
  if (known(c, i) >= 0) return known(c, i) ? "1" : "0";
  switch (n->kind) {
    case RN_CONST: return number_text(c, n);
    case RN_SCALAR: return rp_scalar(c, n->expr);
    case RN_INDEX:
      return n->nargs ? arena_printf(c->m->arena, "%s + v%d", rp_affine_text(c, &n->at), n->args[0])
                      : rp_affine_text(c, &n->at);
    case RN_LOAD: return load_text(c, n);
    case RN_OP: return op_text(c, n);
    case RN_RANDOM: return random_text(c, n);
    case RN_ACC: return arena_printf(c->m->arena, "a%d%s", n->acc, c->acc_index);
  }
  die("print_row: node kind %d", (int)n->kind);
}

static void print_node(const RowPrinter *c, int i) {
  rp_line(c, "const %s v%d = %s;", rp_value_type(c->p->nodes.items[i].dtype), i, node_text(c, i));
}

void rp_store(const RowPrinter *c, const RowStore *s) {
  rp_line(c, "store_%s(p%d + (%s), v%d);", dtype_name(c->p->buffers.items[s->buffer].dtype), s->buffer,
          rp_affine_text(c, &s->at), s->node);
}

/* ---- what a scope needs */

static int arguments(const RowPrinter *c, const RowNode *n, int *args) {
  int count = n->nargs;
  memcpy(args, n->args, sizeof n->args);
  if (rp_selected(c, n) >= 0) args[0] = rp_selected(c, n), count = 1;
  if (n->guard >= 0 && known(c, n->guard) != 1) args[count++] = n->guard;
  return count;
}

void rp_need(const RowPrinter *c, bool *needed, int i, int stage) {
  if (needed[i] || c->in_scope[i]) return;
  needed[i] = true;
  const RowNode *n = &c->p->nodes.items[i];
  if (c->kept[i] >= 0 && n->stage < stage) return;
  if ((c->instead && c->instead[i]) || known(c, i) >= 0) return;
  int args[4], count = arguments(c, n, args);
  for (int k = 0; k < count; k++) rp_need(c, needed, args[k], stage);
}

bool *rp_no_nodes(const RowPrinter *c) { return ARENA_ARRAY(c->m->arena, bool, c->p->nodes.n + 1); }

void rp_needed(const RowPrinter *c, const bool *needed, int stage) {
  for (size_t i = 0; i < c->p->nodes.n; i++) {
    if (!needed[i]) continue;
    if (c->kept[i] >= 0 && c->p->nodes.items[i].stage < stage)
      rp_line(c, "const %s v%zu = k%d[%s];", rp_value_type(c->p->nodes.items[i].dtype), i, c->kept[i], c->kept_index);
    else print_node(c, (int)i);
  }
}

bool *rp_element_needs(const RowPrinter *c, int stage) {
  bool *needed = rp_no_nodes(c);
  const RowProgram *p = c->p;
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage == stage) rp_need(c, needed, p->accs.items[i].node, stage);
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage == stage)
      rp_need(c, needed, p->stores.items[i].node, stage);
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0 && p->nodes.items[i].stage == stage) rp_need(c, needed, (int)i, stage);
  return needed;
}

void rp_element(const RowPrinter *c, int stage) { rp_needed(c, rp_element_needs(c, stage), stage); }

/* ---- what a stage needs */

static void find_wanted(const RowPrinter *c) {
  RowPrinter all = *c;
  all.kept = ARENA_ARRAY(c->m->arena, int, c->p->nodes.n + 1);
  all.in_scope = rp_no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++) all.kept[i] = -1;
  for (size_t i = 0; i < c->p->stores.n; i++) rp_need(&all, c->wanted, c->p->stores.items[i].node, 0);
  for (size_t i = c->p->accs.n; i-- > 0;) rp_need(&all, c->wanted, c->p->accs.items[i].node, 0);
}

static void keep(RowPrinter *c, int i, int stage, int from, int max, int *n) {
  const RowNode *x = &c->p->nodes.items[i];
  if (!x->inner || c->kept[i] >= 0) return;
  if (x->stage < stage && x->cost >= from && (x->kind == RN_OP || x->kind == RN_LOAD) && *n < max) {
    c->kept[i] = (*n)++;
    return;
  }
  int args[4], count = arguments(c, x, args);
  for (int k = 0; k < count; k++) keep(c, args[k], stage, from, max, n);
}

int rp_choose_kept(RowPrinter *c, int from, int max) {
  int n = 0;
  for (size_t i = 0; i < c->p->accs.n; i++) keep(c, c->p->accs.items[i].node, c->p->accs.items[i].stage, from, max, &n);
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (c->p->stores.items[i].inner) keep(c, c->p->stores.items[i].node, c->p->stores.items[i].stage, from, max, &n);
  return n;
}

bool rp_has_elements(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) return true;
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (c->p->stores.items[i].inner && c->p->stores.items[i].stage == stage) return true;
  return false;
}

bool rp_has_accs(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage) return true;
  return false;
}

/* ---- loops */

void rp_open(RowPrinter *c, const char *text) {
  rp_line(c, "%s {", text);
  c->indent++;
}

void rp_close(RowPrinter *c) {
  c->indent--;
  rp_line(c, "}");
}

const char *rp_extent(const RowPrinter *c, int d) { return rp_scalar(c, c->p->extent[d]); }

/* Prints i0, i1 ... of the outer dimensions from the row number. */
void rp_outer_indices(const RowPrinter *c, const char *row) {
  int last = -1;
  for (int d = 0; d < c->p->ndims && last < 0; d++)
    if (d != c->p->inner && d != c->across) last = d;
  if (last < 0) return;
  rp_line(c, "int64_t rest = %s;", row);
  for (int d = c->p->ndims - 1; d >= 0; d--) {
    if (d == c->p->inner || d == c->across) continue;
    if (d == last) rp_line(c, "const int64_t i%d = rest;", d);
    else rp_line(c, "const int64_t i%d = rest %% %s; rest /= %s;", d, rp_extent(c, d), rp_extent(c, d));
  }
}

const char *rp_row_count(const RowPrinter *c) {
  Text t = {.arena = c->m->arena};
  text_add(&t, "INT64_C(1)");
  for (int d = 0; d < c->p->ndims; d++)
    if (d != c->p->inner && d != c->across) text_printf(&t, " * %s", rp_extent(c, d));
  return text_str(&t);
}

/* ---- accumulations */

bool rp_is_float_sum(const RowAcc *a) { return a->op == RED_SUM && dtype_is_float(a->dtype); }

const char *rp_combine_name(Reduction r) {
  switch (r) {
    case RED_SUM: return "add";
    case RED_PRODUCT: return "mul";
    default: return reduction_name(r);
  }
}

const char *rp_identity(const RowAcc *a) {
  bool is_float = dtype_is_float(a->dtype), is_signed = dtype_class(a->dtype) == DTC_I;
  int bits = 8 * (int)dtype_bytes(a->dtype);
  static const char *const low[] = {"INT8_MIN", "INT16_MIN", "INT32_MIN", "INT64_MIN"};
  static const char *const high[] = {"INT8_MAX",  "INT16_MAX",  "INT32_MAX",  "INT64_MAX",
                                     "UINT8_MAX", "UINT16_MAX", "UINT32_MAX", "UINT64_MAX"};
  int size = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
  switch (a->op) {
    case RED_PRODUCT:
    case RED_AND: return "1";
    case RED_MAX: return is_float ? "-__builtin_inff()" : is_signed ? low[size] : "0";
    case RED_MIN: return is_float ? "__builtin_inff()" : high[size + (is_signed ? 0 : 4)];
    default: return "0";
  }
}

/* ---- loop schedules a program allows */

/* True if columns are possible: they need every per-element store and accumulation in the first stage. */
static bool columns_possible(const RowProgram *p) {
  if (!p->reduces || p->inner == p->ndims - 1) return false;
  for (size_t i = 0; i < p->accs.n; i++)
    if (p->accs.items[i].stage != 0) return false;
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage != 0) return false;
  return true;
}

static bool is_unit(const Expr *e) { return e && ex_is_const(e, 1); }

/* Returns the dimension in which a load is contiguous that is not contiguous in the inner one; -1 if none. */
static int tile_dim(const RowProgram *p) {
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *n = &p->nodes.items[i];
    if (n->kind != RN_LOAD || !n->at.coef[p->inner] || is_unit(n->at.coef[p->inner])) continue;
    for (int d = 0; d < p->ndims; d++)
      if (d != p->inner && is_unit(n->at.coef[d])) return d;
  }
  return -1;
}

static void choose_schedule(RowPrinter *c) {
  c->across = -1;
  if (c->p->reduces) {
    c->schedule = columns_possible(c->p) ? COLUMNS : ROWS;
    if (c->schedule == COLUMNS) c->across = c->p->ndims - 1;
  } else {
    c->across = tile_dim(c->p);
    c->schedule = c->across >= 0 ? TILES : ELEMENTS;
  }
}

void rp_start(RowPrinter *c) {
  choose_schedule(c);
  c->acc_index = c->schedule == COLUMNS && c->columns_in_arrays ? "[w]" : "";
  c->wanted = rp_no_nodes(c);
  c->in_scope = rp_no_nodes(c);
  c->kept = ARENA_ARRAY(c->m->arena, int, c->p->nodes.n + 1);
  for (size_t i = 0; i < c->p->nodes.n; i++) c->kept[i] = -1;
  find_wanted(c);
}
