/* codegen/cpu/print_c.c - prints row programs as C with OpenMP.
 *
 * Four loop schedules:
 *   elements - no reduction: rows cut into pieces of at most 16384 elements, one piece per iteration of the parallel
 *              loop;
 *   tiles    - no reduction, but some operand is contiguous in another dimension (a transpose): tiles of 32 x 32, so
 *              that the lines of both sides stay in the cache (2048 x 1024 floats: 23 ms by rows, 5 ms by tiles);
 *   rows     - one row per iteration; every stage is a loop over blocks of 1024 elements that stores the elements to be
 *              reduced in a small array, which a prelude function reduces in the canonical order;
 *   columns  - the reduced dimension is not the last one: 64 columns per iteration, 32 lanes of them.
 * A special function whose value a later stage needs is kept in row storage; cheaper values are computed again.  A
 * kernel that reads a concatenation gets a loop for each operand (DenseNet-121: 39 ms with loops that test every
 * element, 19 ms with loops per operand).
 */
#include "codegen/cpu/print_c.h"

#include <string.h>

#include "codegen/rows/print_row.h"

enum { PIECE = 16384, BLOCK = 1024, KEEP_FROM = 10, MAX_KEPT = 8, MOST_LOOPS = 64 };

/* Returns the cost of one element in all stages, in vectorised additions; shared nodes count in each stage. */
static int element_work(const RowProgram *p) {
  int work = 0;
  for (size_t i = 0; i < p->accs.n; i++) work += p->nodes.items[p->accs.items[i].node].cost + 1;
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner) work += p->nodes.items[p->stores.items[i].node].cost + 1;
  return work > 0 ? work : 1;
}

/* Lets threads share the next loop if it has enough work. */
static void print_parallel(const RowPrinter *c, const char *elements) {
  rp_line(c, "_Pragma(\"omp parallel for schedule(static) if (%s >= PARALLEL_WORK / %d)\")", elements,
          element_work(c->p));
}

static void print_row_scope(RowPrinter *c, int stage) {
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < c->p->nodes.n; i++)
    if (c->wanted[i] && !c->p->nodes.items[i].inner && c->p->nodes.items[i].stage == stage) needed[i] = true;
  rp_needed(c, needed, 0);
  for (size_t i = 0; i < c->p->nodes.n; i++) c->in_scope[i] = c->in_scope[i] || needed[i];
  for (size_t i = 0; i < c->p->stores.n; i++)
    if (!c->p->stores.items[i].inner && c->p->stores.items[i].stage == stage) rp_store(c, &c->p->stores.items[i]);
}

/* Prints the nodes, stores, kept values and reduced values of one element in a stage. */
static void print_element(RowPrinter *c, int stage) {
  const RowProgram *p = c->p;
  rp_element(c, stage);
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0 && p->nodes.items[i].stage == stage) rp_line(c, "k%d[i%d] = v%zu;", c->kept[i], p->inner, i);
  for (size_t i = 0; i < p->stores.n; i++)
    if (p->stores.items[i].inner && p->stores.items[i].stage == stage) rp_store(c, &p->stores.items[i]);
}

/* True for a part of sums that begins elsewhere than at global index 0. */
static bool has_start(const RowPrinter *c) { return !ex_is_const(c->p->start, 0); }

/* Prints for (i = from; i < to; i++) { one element }. */
static void print_element_loop(RowPrinter *c, int stage, const char *from, const char *to) {
  int d = c->p->inner;
  rp_line(c, "_Pragma(\"GCC ivdep\")");
  rp_open(c, arena_printf(c->m->arena, "for (int64_t i%d = %s; i%d < %s; i%d++)", d, from, d, to, d));
  print_element(c, stage);
  for (size_t i = 0; i < c->p->accs.n; i++)
    if (c->p->accs.items[i].stage == stage)
      rp_line(c, "t%zu[i%d - %s%s] = v%d;", i, d, from, has_start(c) ? " + skip" : "", c->p->accs.items[i].node);
  rp_close(c);
}

static void print_acc_start(const RowPrinter *c, int stage) {
  for (size_t i = 0; i < c->p->accs.n; i++) {
    const RowAcc *a = &c->p->accs.items[i];
    if (a->stage != stage) continue;
    const char *s = rp_suffix(a->dtype);
    if (!rp_is_float_sum(a)) rp_line(c, "%s a%zu = %s;", rp_value_type(a->dtype), i, rp_identity(a));
    else if (has_start(c)) rp_line(c, "Sum_%s s%zu; begin_%s(&s%zu, first);", s, i, s, i);
    else rp_line(c, "Sum_%s s%zu; s%zu.count = 0;", s, i, i);
  }
}

/* Adds one value per block to an accumulation. */
static void print_combine(const RowPrinter *c, size_t i, const char *value) {
  const RowAcc *a = &c->p->accs.items[i];
  const char *s = rp_suffix(a->dtype);
  if (rp_is_float_sum(a)) rp_line(c, "push_%s(&s%zu, %s);", s, i, value);
  else rp_line(c, "a%zu = %s_%s(a%zu, %s);", i, rp_combine_name(a->op), s, i, value);
}

static const char *block_value(const RowPrinter *c, size_t i) {
  const RowAcc *a = &c->p->accs.items[i];
  return arena_printf(c->m->arena, "block_%s_%s(t%zu, %s)", reduction_name(a->op), rp_suffix(a->dtype), i,
                      has_start(c) ? "skip + m" : "m");
}

/* True for a program of a single row, which is parallel over the blocks: their values are kept and combined in order
 * afterwards. */
static bool blocks_are_parallel(const RowPrinter *c) { return c->p->ndims == 1 && c->p->accs.n <= MAX_KEPT; }

/* Opens the loop over blocks: elements [block, block + m).  Blocks begin at global indices divisible by 1024, so the
 * first one may be short; its first element goes to lane `skip`. */
static void open_block_loop(RowPrinter *c) {
  if (!has_start(c)) {
    rp_open(c, arena_printf(c->m->arena, "for (int64_t block = 0; block < n; block += %d)", BLOCK));
    rp_line(c, "const int64_t m = n - block < %d ? n - block : %d;", BLOCK, BLOCK);
    return;
  }
  rp_open(c, arena_printf(c->m->arena, "for (int64_t q = 0; q < (n + lead + %d) / %d; q++)", BLOCK - 1, BLOCK));
  rp_line(c, "const int64_t block = q ? q * %d - lead : 0, skip = q ? 0 : lead & 31, past = (q + 1) * %d - lead;",
          BLOCK, BLOCK);
  rp_line(c, "const int64_t m = (past < n ? past : n) - block;");
}

/* Prints the position of the sums in the whole dimension. */
static void print_start(const RowPrinter *c) {
  if (has_start(c)) rp_line(c, "const int64_t first = %s, lead = first & %d;", rp_scalar(c, c->p->start), BLOCK - 1);
}

static void print_blocks(RowPrinter *c, int stage) {
  const RowProgram *p = c->p;
  bool parallel = blocks_are_parallel(c);
  print_acc_start(c, stage);
  for (size_t i = 0; i < p->accs.n && parallel; i++) {
    const char *type = rp_value_type(p->accs.items[i].dtype);
    if (p->accs.items[i].stage == stage)
      rp_line(c, "%s *const part%zu = scratch(%d, (n / %d + 2) * (int64_t)sizeof(%s));", type, i, MAX_KEPT + (int)i,
              BLOCK, type);
  }
  if (parallel) print_parallel(c, "n");
  open_block_loop(c);
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    if (a->stage != stage) continue;
    rp_line(c, "%s t%zu[%d];", rp_value_type(a->dtype), i, BLOCK);
    if (has_start(c)) rp_line(c, "for (int64_t l = 0; l < skip; l++) t%zu[l] = %s;", i, rp_identity(a));
  }
  print_element_loop(c, stage, "block", "block + m");
  for (size_t i = 0; i < p->accs.n; i++) {
    if (p->accs.items[i].stage != stage) continue;
    if (parallel) rp_line(c, "part%zu[%s] = %s;", i, has_start(c) ? "q" : "block / 1024", block_value(c, i));
    else print_combine(c, i, block_value(c, i));
  }
  rp_close(c);
  for (size_t i = 0; i < p->accs.n; i++) {
    if (p->accs.items[i].stage != stage) continue;
    if (parallel) {
      rp_open(c, arena_printf(c->m->arena, "for (int64_t q = 0; q < (n + %s%d) / %d; q++)",
                              has_start(c) ? "lead + " : "", BLOCK - 1, BLOCK));
      print_combine(c, i, arena_printf(c->m->arena, "part%zu[q]", i));
      rp_close(c);
    }
    const RowAcc *a = &p->accs.items[i];
    if (rp_is_float_sum(a))
      rp_line(c, "const %s a%zu = total_%s(&s%zu);", rp_value_type(a->dtype), i, rp_suffix(a->dtype), i);
  }
}

static void print_rows(RowPrinter *c) {
  const RowProgram *p = c->p;
  rp_line(c, "const int64_t n = %s, rows = %s;", rp_extent(c, p->inner), rp_row_count(c));
  print_start(c);
  if (!blocks_are_parallel(c)) print_parallel(c, "rows * (n + 8)");
  rp_open(c, "for (int64_t row = 0; row < rows; row++)");
  rp_outer_indices(c, "row");
  for (size_t i = 0; i < p->nodes.n; i++)
    if (c->kept[i] >= 0)
      rp_line(c, "%s *const k%d = scratch(%d, n * (int64_t)sizeof(%s));", rp_value_type(p->nodes.items[i].dtype),
              c->kept[i], c->kept[i], rp_value_type(p->nodes.items[i].dtype));
  for (int stage = 0; stage < p->nstages; stage++) {
    print_row_scope(c, stage);
    if (rp_has_accs(c, stage)) print_blocks(c, stage);
    else if (rp_has_elements(c, stage)) print_element_loop(c, stage, "0", "n");
  }
  rp_close(c);
}

/* ---- loops in which conditions are known, such as one for each operand of a concatenation */

/* Conditions of an element that are constant in a whole loop, so that its elements need not test them. */
typedef struct Knowledge {
  RowPrinter *c;
  signed char *known; /* RowPrinter.known */
  const bool *needed; /* by node: an element still needs it */
  bool may_copy;      /* if it only copies, whole rows may bypass the caches */
} Knowledge;

static const RowNode *node_at(const RowPrinter *c, int i) { return &c->p->nodes.items[i]; }
static bool is_op(const RowNode *x, OpKind kind) { return x->kind == RN_OP && x->op == kind; }

/* Records a condition and its consequences: of `lt` and `ge` of the same numbers one holds; if an `and` holds, both
 * sides do. */
static void learn(const Knowledge *k, int i, bool value) {
  const RowNode *x = node_at(k->c, i);
  if (k->known[i] >= 0) return;
  k->known[i] = value;
  for (int a = 0; a < 2 && is_op(x, OP_and) && value; a++) learn(k, x->args[a], true);
  for (int other = 0; other < (int)k->c->p->nodes.n; other++) {
    const RowNode *y = node_at(k->c, other);
    bool same = y->kind == RN_OP && y->nargs == 2 && memcmp(x->args, y->args, sizeof x->args) == 0;
    if (same && ((is_op(x, OP_lt) && y->op == OP_ge) || (is_op(x, OP_ge) && y->op == OP_lt))) learn(k, other, !value);
    if (!is_op(y, OP_and)) continue;
    int a = k->known[y->args[0]], b = k->known[y->args[1]];
    if (a == 0 || b == 0) learn(k, other, false);
    else if (a == 1 && b == 1) learn(k, other, true);
    else if (k->known[other] == 0 && (a == 1 || b == 1)) learn(k, y->args[a == 1], false);
  }
}

static Knowledge knowing_more(const Knowledge *k, int node, bool value) {
  Knowledge more = *k;
  more.known = ARENA_ARRAY(k->c->m->arena, signed char, k->c->p->nodes.n + 1);
  memcpy(more.known, k->known, k->c->p->nodes.n);
  if (node >= 0) learn(&more, node, value);
  k->c->known = more.known;
  more.needed = rp_element_needs(k->c, 0);
  return more;
}

/* Returns a condition, constant in a whole row, on which loads depend; -1 if none is left. */
static int row_guard(const Knowledge *k) {
  for (size_t i = 0; i < k->c->p->nodes.n; i++) {
    const RowNode *x = node_at(k->c, (int)i);
    if (k->needed[i] && x->kind == RN_LOAD && x->inner && x->guard >= 0 && k->known[x->guard] < 0 &&
        !node_at(k->c, x->guard)->inner)
      return x->guard;
  }
  return -1;
}

/* True if the condition compares the element's position in its row, plus a number, with a bound. */
static bool is_cut(const RowPrinter *c, const RowNode *condition) {
  if (!is_op(condition, OP_lt) || node_at(c, condition->args[1])->inner) return false;
  const RowNode *place = node_at(c, condition->args[0]);
  for (int d = 0; d < c->p->ndims && place->kind == RN_INDEX; d++)
    if (place->at.coef[d] && !ex_is_const(place->at.coef[d], d == c->p->inner)) return false;
  return place->kind == RN_INDEX && place->inner && !place->nargs;
}

/* Returns the last condition of this kind that selects between elements, since other selects depend on it; -1 if none
 * is left. */
static int row_cut(const Knowledge *k) {
  for (int i = (int)k->c->p->nodes.n - 1; i >= 0; i--) {
    const RowNode *x = node_at(k->c, i);
    if (k->needed[i] && is_op(x, OP_select) && k->known[x->args[0]] < 0 && is_cut(k->c, node_at(k->c, x->args[0])))
      return x->args[0];
  }
  return -1;
}

static bool is_contiguous(const RowPrinter *c, const Affine *at) {
  const Expr *step = at->coef[c->p->inner];
  return step && ex_is_const(step, 1);
}

/* Returns the load if all stores only copy it, element by element; NULL if they do more.  16-bit floats and bools do
 * not pass through loads and stores bit for bit. */
static const RowNode *copied(const Knowledge *k) {
  const RowProgram *p = k->c->p;
  const RowStore *s = &p->stores.items[0];
  const RowNode *x = node_at(k->c, s->node);
  while (rp_selected(k->c, x) >= 0) x = node_at(k->c, rp_selected(k->c, x));
  DType t = p->buffers.items[s->buffer].dtype;
  bool there = x->kind == RN_LOAD && !x->nargs && (x->guard < 0 || k->known[x->guard] == 1);
  bool same = there && p->buffers.items[x->buffer].dtype == t && t != DT_f16 && t != DT_bf16 && t != DT_bool;
  return same && is_contiguous(k->c, &x->at) && is_contiguous(k->c, &s->at) ? x : NULL;
}

static void print_copy(RowPrinter *c, const RowNode *load) {
  const RowStore *s = &c->p->stores.items[0];
  rp_open(c, "if (far)");
  rp_line(c, "const int64_t i%d = from;", c->p->inner);
  rp_line(c, "copy_far(p%d + (%s), p%d + (%s), (to - from) * (int64_t)sizeof *p%d);", s->buffer,
          rp_affine_text(c, &s->at), load->buffer, rp_affine_text(c, &load->at), s->buffer);
  rp_line(c, "continue;");
  rp_close(c);
}

/* Prints loops over the elements of a row from `from` to `to`; `*n` more than one are already printed. */
static void print_loops(const Knowledge *k, const char *from, const char *to, int *n) {
  RowPrinter *c = k->c;
  int guard = row_guard(k), cut = guard < 0 ? row_cut(k) : -1, condition = guard < 0 ? cut : guard;
  if (condition < 0 || *n == MOST_LOOPS - 1) {
    if (k->may_copy && copied(k)) print_copy(c, copied(k));
    print_element_loop(c, 0, from, to);
    return;
  }
  const char *border = arena_printf(c->m->arena, "end%d", (*n)++);
  if (cut >= 0) {
    const RowNode *lt = node_at(c, cut);
    const Expr *offset = node_at(c, lt->args[0])->at.offset;
    const char *less = ex_is_const(offset, 0) ? "" : arena_printf(c->m->arena, " - %s", rp_scalar(c, offset));
    rp_line(c, "const int64_t %s = place(v%d%s, %s, %s);", border, lt->args[1], less, from, to);
  }
  for (int holds = 1; holds >= 0; holds--) {
    Knowledge more = knowing_more(k, condition, holds);
    more.may_copy = k->may_copy && cut < 0;
    if (guard >= 0) rp_open(c, holds ? arena_printf(c->m->arena, "if (v%d)", guard) : "else");
    print_loops(&more, cut >= 0 && !holds ? border : from, cut >= 0 && holds ? border : to, n);
    if (guard >= 0) rp_close(c);
  }
  c->known = k->known;
}

static Knowledge knowing_nothing(RowPrinter *c) {
  Knowledge k = {.c = c, .known = ARENA_ARRAY(c->m->arena, signed char, c->p->nodes.n + 1)};
  memset(k.known, -1, c->p->nodes.n);
  k = knowing_more(&k, -1, false);
  k.may_copy = row_guard(&k) >= 0 && c->p->stores.n == 1;
  return k;
}

static void print_elements(RowPrinter *c) {
  rp_line(c, "const int64_t n = %s, rows = %s, pieces = n ? (n + %d) / %d : 1;", rp_extent(c, c->p->inner),
          rp_row_count(c), PIECE - 1, PIECE);
  Knowledge none = knowing_nothing(c);
  if (none.may_copy)
    rp_line(c, "const _Bool far = rows * n * (int64_t)sizeof *p%d >= FAR;", c->p->stores.items[0].buffer);
  print_parallel(c, "rows * n");
  rp_open(c, "for (int64_t piece = 0; piece < rows * pieces; piece++)");
  rp_line(c, "const int64_t row = piece / pieces, from = piece %% pieces * %d, to = n - from < %d ? n : from + %d;",
          PIECE, PIECE, PIECE);
  rp_outer_indices(c, "row");
  print_row_scope(c, 0);
  int n = 0;
  print_loops(&none, "from", "to", &n);
  c->known = NULL;
  rp_close(c);
  if (none.may_copy) rp_line(c, "if (far) far_end();");
}

static void print_tiles(RowPrinter *c) {
  int a = c->across;
  rp_line(c, "const int64_t n = %s, all = %s, rows = %s, wide = (n + 31) / 32, high = (all + 31) / 32;",
          rp_extent(c, c->p->inner), rp_extent(c, a), rp_row_count(c));
  print_parallel(c, "rows * all * n");
  rp_open(c, "for (int64_t tile = 0; tile < rows * high * wide; tile++)");
  rp_line(c, "const int64_t row = tile / (high * wide), top = tile / wide %% high * 32, from = tile %% wide * 32;");
  rp_line(c, "const int64_t bottom = all - top < 32 ? all : top + 32, to = n - from < 32 ? n : from + 32;");
  rp_outer_indices(c, "row");
  rp_open(c, arena_printf(c->m->arena, "for (int64_t i%d = top; i%d < bottom; i%d++)", a, a, a));
  print_row_scope(c, 0);
  print_element_loop(c, 0, "from", "to");
  rp_close(c), rp_close(c);
}

static void print_columns_stage(RowPrinter *c) {
  const RowProgram *p = c->p;
  int d = p->inner;
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    const char *type = rp_value_type(a->dtype);
    const char *begin = has_start(c)
                            ? arena_printf(c->m->arena, "begin_columns_%s(&s%zu, first)", rp_suffix(a->dtype), i)
                            : arena_printf(c->m->arena, "s%zu.count = 0", i);
    if (rp_is_float_sum(a))
      rp_line(c, "Sums_%s s%zu; %s; %s a%zu[TILE], lanes%zu[32][TILE];", rp_suffix(a->dtype), i, begin, type, i, i);
    else rp_line(c, "%s a%zu[TILE]; for (int w = 0; w < TILE; w++) a%zu[w] = %s;", type, i, i, rp_identity(a));
  }
  const char *lanes = has_start(c) ? "32" : "m";
  open_block_loop(c);
  for (size_t i = 0; i < p->accs.n; i++)
    if (rp_is_float_sum(&p->accs.items[i]))
      rp_line(c, "zero_lanes_%s(lanes%zu, %s);", rp_suffix(p->accs.items[i].dtype), i, lanes);
  rp_open(c, arena_printf(c->m->arena, "for (int64_t i%d = block; i%d < block + m; i%d++)", d, d, d));
  rp_line(c, "_Pragma(\"GCC ivdep\")");
  rp_open(c, "for (int64_t w = 0; w < width; w++)");
  rp_line(c, "const int64_t i%d = column + w;", c->across);
  print_element(c, 0);
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    if (rp_is_float_sum(a))
      rp_line(c, "lanes%zu[(i%d %s) & 31][w] += v%d;", i, d, has_start(c) ? "+ lead" : "- block", a->node);
    else rp_line(c, "a%zu[w] = %s_%s(a%zu[w], v%d);", i, rp_combine_name(a->op), rp_suffix(a->dtype), i, a->node);
  }
  rp_close(c), rp_close(c);
  for (size_t i = 0; i < p->accs.n; i++)
    if (rp_is_float_sum(&p->accs.items[i]))
      rp_line(c, "push_lanes_%s(&s%zu, lanes%zu, %s);", rp_suffix(p->accs.items[i].dtype), i, i, lanes);
  rp_close(c);
  for (size_t i = 0; i < p->accs.n; i++)
    if (rp_is_float_sum(&p->accs.items[i]))
      rp_line(c, "totals_%s(&s%zu, a%zu);", rp_suffix(p->accs.items[i].dtype), i, i);
}

static void print_columns(RowPrinter *c) {
  const RowProgram *p = c->p;
  rp_line(c, "const int64_t n = %s, all = %s, tiles = (all + TILE - 1) / TILE, rows = %s;", rp_extent(c, p->inner),
          rp_extent(c, c->across), rp_row_count(c));
  print_start(c);
  print_parallel(c, "rows * all * (n + 8)");
  rp_open(c, "for (int64_t tile = 0; tile < rows * tiles; tile++)");
  rp_line(c,
          "const int64_t row = tile / tiles, column = tile %% tiles * TILE, width = all - column < TILE ? all - column "
          ": TILE;");
  rp_outer_indices(c, "row");
  print_columns_stage(c);
  rp_line(c, "_Pragma(\"GCC ivdep\")");
  rp_open(c, "for (int64_t w = 0; w < width; w++)");
  rp_line(c, "const int64_t i%d = column + w;", c->across);
  bool *needed = rp_no_nodes(c);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) rp_need(c, needed, p->stores.items[i].node, 0);
  rp_needed(c, needed, 0);
  for (size_t i = 0; i < p->stores.n; i++)
    if (!p->stores.items[i].inner) rp_store(c, &p->stores.items[i]);
  rp_close(c), rp_close(c);
}

/* ---- kernel */

static void print_table(const RowPrinter *c, const RowBuffer *b, size_t i) {
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
  rp_line(c, "static const %s __attribute__((may_alias)) table%zu[%d] = {%s};", unsigned_of[dtype_bytes(b->dtype)], i,
          n ? n : 1, n ? text_str(&t) : "0");
  rp_line(c, "const %s __attribute__((may_alias)) *const p%zu = (const void *)table%zu;", rp_stored_type(b->dtype), i,
          i);
}

static void print_buffers(const RowPrinter *c) {
  int next = 0;
  for (size_t i = 0; i < c->p->buffers.n; i++) {
    const RowBuffer *b = &c->p->buffers.items[i];
    if (b->table) print_table(c, b, i);
    else rp_line(c, "%s%s *const p%zu = ptr[%d];", b->output ? "" : "const ", rp_stored_type(b->dtype), i, next++);
  }
}

const char *print_c_kernel(Module *m, const RowProgram *p, Scalars *scalars) {
  Text t = {.arena = m->arena};
  RowPrinter c = {.m = m,
                  .p = p,
                  .scalars = scalars,
                  .t = &t,
                  .columns_in_arrays = true,
                  .kept_index = arena_printf(m->arena, "i%d", p->inner)};
  rp_start(&c);
  if (c.schedule == ROWS) rp_choose_kept(&c, KEEP_FROM, MAX_KEPT);
  rp_open(&c, "(void *const *ptr, const int64_t *x)");
  print_buffers(&c);
  switch (c.schedule) {
    case ELEMENTS: print_elements(&c); break;
    case TILES: print_tiles(&c); break;
    case ROWS: print_rows(&c); break;
    case COLUMNS: print_columns(&c); break;
  }
  rp_close(&c);
  return text_str(&t);
}
