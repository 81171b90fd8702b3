/* passes/rewrite/packed.c - see packed.h.
 *
 * In: flat level-1 functions after the pass views.  Out: the same, in which dots of a weight are packed_dots of two new
 * weights: numbers of few bits and scales.
 *
 * The rule: a weight is stored in fewer bits if
 *   - every operation that reads it is a dot, or a gather of its rows (which goes on reading the weight itself);
 *   - each of these dots reads it as one f32 matrix: perhaps cast, sliced, transposed and reshaped, but with no
 *     dimension that the other operand and the result have, too, as weights of experts do;
 *   - the summed index is a whole number of groups, there are at least 16 columns and LEAST elements.
 * So tables that are only looked up, biases, norms and convolutions keep their types.
 *
 * Rows of x are brought to the form [rows.., groups, blocks, terms of a block]; the result [rows.., panels, 16] is
 * reshaped to what the dot gave.  The last panel is filled up with zeros, and the result is cut.
 */
#include "passes/rewrite/packed.h"

#include <string.h>

#include "passes/rewrite/rewrite.h"

enum { LEAST = 4096 };

/* A value that is a view of a weight: its dimensions as strides in the weight. */
typedef struct View {
  const char *param;
  int rank;
  int64_t dims[MAX_RANK], steps[MAX_RANK], first;
} View;

typedef struct Packing {
  Module *m;
  PackedForm form;
  PackedMatrices *out;
  const char **keys; /* by matrix: what it is, interned */
  bool *others;      /* by weight: an operation reads it that needs it whole */
  bool *products;    /* by weight: a dot reads it */
  size_t nparams;    /* of the model */
  Diags *diags;
} Packing;

/* ---- views of weights */

static bool view_slice(const Op *op, View *v) {
  const Attr *starts = op_attr(op, AT_starts), *strides = op_attr(op, AT_strides);
  for (int d = 0; d < v->rank; d++) {
    int64_t start;
    if (!ex_get_const(starts->u.exprs[d], &start)) return false;
    v->first += start * v->steps[d];
    v->steps[d] *= strides->u.ints[d];
  }
  return true;
}

static void view_transpose(const Op *op, View *v) {
  const View from = *v;
  const int64_t *perm = op_attr(op, AT_perm)->u.ints;
  for (int d = 0; d < v->rank; d++) v->dims[d] = from.dims[perm[d]], v->steps[d] = from.steps[perm[d]];
}

/* Joins neighbouring dimensions that one stride walks, and drops those of extent 1. */
static void view_join(View *v) {
  int n = 0;
  for (int d = 0; d < v->rank; d++) {
    if (v->dims[d] == 1) continue;
    if (n && v->steps[n - 1] == v->dims[d] * v->steps[d]) v->dims[n - 1] *= v->dims[d], v->steps[n - 1] = v->steps[d];
    else v->dims[n] = v->dims[d], v->steps[n] = v->steps[d], n++;
  }
  v->rank = n;
}

/* Splits the joined dimensions of the view into `rank` extents; false if an extent spans two of them. */
static bool view_reshape(View *v, int rank, const int64_t *dims) {
  View from = *v;
  view_join(&from);
  int at = from.rank - 1;
  int64_t left = at >= 0 ? from.dims[at] : 1, step = at >= 0 ? from.steps[at] : 1;
  for (int d = rank - 1; d >= 0; d--) {
    if (left == 1 && dims[d] != 1 && at > 0) at--, left = from.dims[at], step = from.steps[at];
    if (dims[d] < 1 || left % dims[d] != 0) return false;
    v->dims[d] = dims[d], v->steps[d] = step;
    left /= dims[d], step *= dims[d];
  }
  v->rank = rank;
  return true;
}

/* Only an operation that leaves the weight's values as they are. */
static bool passes_weight(const Op *op, const Func *f) {
  if (op->kind == OP_cast) {
    const DType from = type_of(f, op->in[0])->dtype, to = type_of(f, op->out)->dtype;
    return from == to || (dtype_is_float(to) && dtype_computes(from) && dtype_bytes(to) > dtype_bytes(from));
  }
  return op->kind == OP_reshape || op->kind == OP_transpose || op->kind == OP_slice || op->kind == OP_copy;
}

/* Returns the weight that the value is made of by such operations; NULL if there is none. */
static const Op *weight_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  while (op->kind != OP_param && passes_weight(op, f)) op = op_of(f, op->in[0]);
  return op->kind == OP_param ? op : NULL;
}

static bool view_of(const Func *f, Val value, View *v) {
  const Op *op = op_of(f, value);
  int64_t dims[MAX_RANK];
  const Type *t = type_of(f, value);
  if (!type_constant_dims(t, dims)) return false;
  if (op->kind == OP_param) {
    int64_t step = 1;
    *v = (View){.param = op_str(op, AT_name), .rank = t->rank};
    for (int d = t->rank - 1; d >= 0; d--) v->dims[d] = dims[d], v->steps[d] = step, step *= dims[d];
    return true;
  }
  if (!passes_weight(op, f) || !view_of(f, op->in[0], v)) return false;
  if (op->kind == OP_slice && !view_slice(op, v)) return false;
  if (op->kind == OP_transpose) view_transpose(op, v);
  if (op->kind == OP_reshape) return view_reshape(v, t->rank, dims);
  memcpy(v->dims, dims, sizeof dims);
  return true;
}

/* ---- dots as products of a matrix */

/* A dot with letters of rows, of terms (in the order of x) and of columns (in the order of the result). */
typedef struct Product {
  int weight; /* the operand */
  View view;
  const char *x, *w, *y; /* letters, not terminated */
  int nx, nw, ny;
  char rows[MAX_RANK + 1], terms[MAX_RANK + 1], columns[MAX_RANK + 1];
} Product;

static bool has(const char *s, int n, char l) { return memchr(s, l, (size_t)n) != NULL; }

static void put(char *letters, char l) {
  size_t n = strlen(letters);
  letters[n] = l, letters[n + 1] = 0;
}

/* Sorts the letters; false if one is of no kind. */
static bool sort_letters(Product *p) {
  for (int i = 0; i < p->nx; i++) {
    bool result = has(p->y, p->ny, p->x[i]), weight = has(p->w, p->nw, p->x[i]);
    if (result == weight) return false;
    if (weight) put(p->terms, p->x[i]);
  }
  for (int i = 0; i < p->ny; i++) put(has(p->w, p->nw, p->y[i]) ? p->columns : p->rows, p->y[i]);
  for (int i = 0; i < p->nw; i++)
    if (!strchr(p->terms, p->w[i]) && !strchr(p->columns, p->w[i])) return false;
  return true;
}

static PackedSide side_of(const Product *p, const char *letters) {
  View v = {.rank = (int)strlen(letters)};
  for (int d = 0; d < v.rank; d++) {
    int at = (int)((const char *)memchr(p->w, letters[d], (size_t)p->nw) - p->w);
    v.dims[d] = p->view.dims[at], v.steps[d] = p->view.steps[at];
  }
  view_join(&v);
  PackedSide s = {.n = v.rank, .extent = 1};
  for (int d = 0; d < v.rank; d++) s.dims[d] = v.dims[d], s.steps[d] = v.steps[d], s.extent *= v.dims[d];
  return s;
}

static bool product_of(const Func *f, const Op *op, int weight, Product *p) {
  const char *spec = op_str(op, AT_spec), *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  *p = (Product){.weight = weight, .y = arrow + 2, .ny = (int)strlen(arrow + 2)};
  const char *letters[2] = {spec, comma + 1};
  const int n[2] = {(int)(comma - spec), (int)(arrow - comma - 1)};
  p->x = letters[1 - weight], p->nx = n[1 - weight], p->w = letters[weight], p->nw = n[weight];
  return type_of(f, op->out)->dtype == DT_f32 && !weight_of(f, op->in[1 - weight]) && weight_of(f, op->in[weight]) &&
         view_of(f, op->in[weight], &p->view) && sort_letters(p);
}

/* True if a dot of this form can be a packed_dot. */
static bool fits(const Packing *k, const Product *p) {
  enum { TAIL = 3 };
  PackedSide terms = side_of(p, p->terms), columns = side_of(p, p->columns);
  return terms.extent >= k->form.group && terms.extent % k->form.group == 0 && columns.extent >= PACKED_COLUMNS &&
         (double)terms.extent * (double)columns.extent >= LEAST && strlen(p->rows) + TAIL <= MAX_RANK;
}

static bool dot_fits(const Packing *k, const Func *f, const Op *op, Product *p) {
  for (int i = 1; i >= 0; i--)
    if (product_of(f, op, i, p)) return fits(k, p);
  return false;
}

/* ---- which weights */

static size_t number_of(const Packing *k, const char *param) {
  return (size_t)(module_param(k->m, param) - k->m->params.items);
}

static void note_reader(Packing *k, const Func *f, const Op *op) {
  Product p;
  const bool dot = op->kind == OP_dot, fit = dot && dot_fits(k, f, op, &p);
  for (int i = 0; i < op->nin; i++) {
    const Op *weight = weight_of(f, op->in[i]);
    if (!weight || passes_weight(op, f)) continue;
    size_t number = number_of(k, op_str(weight, AT_name));
    k->products[number] |= dot;
    k->others[number] |= !(fit && i == p.weight) && !(op->kind == OP_gather && i == 0);
  }
}

static void note_readers(Packing *k, const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++) note_reader(k, f, &f->ops.items[i]);
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Op *weight = weight_of(f, f->outputs.items[i].value);
    if (weight) k->others[number_of(k, op_str(weight, AT_name))] = true;
  }
}

/* ---- the new weights */

static const char *key_of(const Packing *k, const Product *p, const PackedSide *terms, const PackedSide *columns) {
  Text t = {.arena = k->m->arena};
  text_printf(&t, "%s %lld", p->view.param, (long long)p->view.first);
  for (int s = 0; s < 2; s++) {
    const PackedSide *side = s ? columns : terms;
    for (int d = 0; d < side->n; d++)
      text_printf(&t, " %lld*%lld", (long long)side->dims[d], (long long)side->steps[d]);
    text_add(&t, ";");
  }
  return module_string(k->m, text_str(&t));
}

static const char *add_weight(Packing *k, const char *name, const char *suffix, const Type *type) {
  const char *wanted = arena_printf(k->m->arena, "%s.%s", name, suffix), *free = wanted;
  for (int i = 1; module_param(k->m, free); i++) free = arena_printf(k->m->arena, "%s.%d", wanted, i);
  Param *p = module_param_add(k->m, free, type);
  p->trainable = false; /* the model's weight counts as its parameters */
  p->loc = module_param(k->m, name)->loc;
  return p->name;
}

static const PackedMatrix *matrix_of(Packing *k, const Product *p) {
  PackedMatrix x = {.param = p->view.param, .first = p->view.first};
  x.terms = side_of(p, p->terms), x.columns = side_of(p, p->columns);
  const char *key = key_of(k, p, &x.terms, &x.columns);
  for (size_t i = 0; i < k->out->n; i++)
    if (k->keys[i] == key) return &k->out->items[i];
  int64_t groups = x.terms.extent / k->form.group, panels = (x.columns.extent + PACKED_COLUMNS - 1) / PACKED_COLUMNS;
  int64_t blocks = k->form.group * k->form.bits / 32;
  x.numbers = add_weight(k, x.param, "numbers",
                         type_of_ints(k->m, DT_u8, 5, (int64_t[]){panels, groups, blocks, PACKED_COLUMNS, 4}));
  x.scales =
      add_weight(k, x.param, "scales", type_of_ints(k->m, DT_bf16, 3, (int64_t[]){panels, groups, PACKED_COLUMNS}));
  const char **keys = ARENA_ARRAY(k->m->arena, const char *, k->out->n + 1);
  if (k->out->n) memcpy(keys, k->keys, k->out->n * sizeof *keys);
  keys[k->out->n] = key, k->keys = keys;
  ARENA_PUSH(k->m->arena, k->out, x);
  k->out->bytes_before += 4 * (double)x.terms.extent * (double)x.columns.extent;
  k->out->bytes_after += (double)panels * PACKED_COLUMNS * (double)groups * (4 * (double)blocks + 2);
  return &k->out->items[k->out->n - 1];
}

/* ---- the new operations */

typedef struct Building {
  Rewrite *r;
  const Op *op;
  const Product *p;
} Building;

static Val add(const Building *b, const char *part, OpSpec spec) {
  const Op *op = b->op;
  spec.name = part ? arena_printf(b->r->m->arena, "%s.%s", op->name, part) : op->name;
  spec.group = part ? NULL : op->group;
  spec.loc = op->loc;
  return build_op(&b->r->b, &spec);
}

static Val transposed(const Building *b, const char *part, Val v, int rank, const int64_t *perm) {
  Attr a = attr_ints(b->r->m, AT_perm, rank, perm);
  return add(b, part, (OpSpec){.kind = OP_transpose, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a});
}

static Val reshaped(const Building *b, const char *part, Val v, int rank, const Expr *const *dims) {
  const Type *type = type_get(b->r->m, DT_f32, rank, dims);
  return add(b, part, (OpSpec){.kind = OP_reshape, .nin = 1, .in = &v, .type = type});
}

static Val read_weight(const Building *b, const char *name) {
  Attr a = attr_s(b->r->m, AT_name, name);
  return build_op(&b->r->b, &(OpSpec){.kind = OP_param,
                                      .name = name,
                                      .loc = b->op->loc,
                                      .nattrs = 1,
                                      .attrs = &a,
                                      .type = module_param(b->r->m, name)->type});
}

/* Brings x to [rows.., groups, blocks, terms of a block]. */
static Val rows_of_x(const Building *b, const Packing *k, const PackedMatrix *x) {
  const Product *p = b->p;
  Module *m = b->r->m;
  Val v = b->r->map[b->op->in[1 - p->weight]];
  char want[2 * MAX_RANK + 1];
  int64_t perm[MAX_RANK];
  bool turn = false;
  const Expr *dims[MAX_RANK];
  const int rows = (int)strlen(p->rows);
  strcpy(want, p->rows);
  strcat(want, p->terms);
  const Type *t = type_of(b->r->b.f, v);
  for (int d = 0; d < p->nx; d++) {
    perm[d] = (const char *)memchr(p->x, want[d], (size_t)p->nx) - p->x;
    turn |= perm[d] != d;
    if (d < rows) dims[d] = t->dims[perm[d]];
  }
  if (turn) v = transposed(b, "rows", v, p->nx, perm);
  const int64_t terms = 32 / k->form.bits;
  dims[rows] = ex_const(m, x->terms.extent / k->form.group);
  dims[rows + 1] = ex_const(m, k->form.group / terms);
  dims[rows + 2] = ex_const(m, terms);
  return v ? reshaped(b, "groups", v, rows + 3, dims) : 0;
}

/* Gives the result [rows.., panels, 16] the dimensions of the dot. */
static Val result_of(const Building *b, const PackedMatrix *x, Val v) {
  const Product *p = b->p;
  Module *m = b->r->m;
  const int rows = (int)strlen(p->rows);
  const Type *made = type_of(b->r->b.f, v), *want = type_of(b->r->old, b->op->out);
  const Expr *dims[MAX_RANK];
  int64_t perm[MAX_RANK];
  bool turn = false;
  for (int d = 0; d < rows; d++) dims[d] = made->dims[d];
  if (x->columns.extent % PACKED_COLUMNS) {
    const Expr *starts[MAX_RANK];
    int64_t strides[MAX_RANK];
    dims[rows] = ex_muli(m, made->dims[rows], PACKED_COLUMNS);
    v = reshaped(b, "panels", v, rows + 1, dims);
    for (int d = 0; d <= rows; d++) starts[d] = ex_const(m, 0), strides[d] = 1;
    dims[rows] = ex_const(m, x->columns.extent);
    Attr a[] = {attr_exprs(m, AT_starts, rows + 1, starts), attr_ints(m, AT_strides, rows + 1, strides)};
    v = v ? add(b, "columns",
                (OpSpec){.kind = OP_slice,
                         .nin = 1,
                         .in = &v,
                         .nattrs = 2,
                         .attrs = a,
                         .type = type_get(m, DT_f32, rows + 1, dims)})
          : 0;
  }
  for (int d = 0, row = 0, column = rows; d < p->ny; d++) {
    bool of_weight = strchr(p->columns, p->y[d]) != NULL;
    perm[d] = of_weight ? column : row;
    dims[of_weight ? column++ : row++] = want->dims[d];
    turn |= perm[d] != d;
  }
  v = v ? reshaped(b, turn ? "order" : NULL, v, p->ny, dims) : 0;
  return turn && v ? transposed(b, NULL, v, p->ny, perm) : v;
}

static bool replace(Packing *k, Rewrite *r, const Op *op, const Product *p) {
  Building b = {r, op, p};
  const PackedMatrix *x = matrix_of(k, p);
  Val in[3] = {rows_of_x(&b, k, x), read_weight(&b, x->numbers), read_weight(&b, x->scales)};
  Attr bits = attr_i(AT_bits, k->form.bits);
  Val v = in[0] && in[1] && in[2]
              ? add(&b, "packed", (OpSpec){.kind = OP_packed_dot, .nin = 3, .in = in, .nattrs = 1, .attrs = &bits})
              : 0;
  v = v ? result_of(&b, x, v) : 0;
  rewrite_map(r, op, v);
  return v != 0;
}

static bool rewrite(Packing *k, const Func *f) {
  Rewrite r = rewrite_start(k->m, f, k->diags);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Product p;
    bool pack = op->kind == OP_dot && dot_fits(k, f, op, &p) && !k->others[number_of(k, p.view.param)];
    if (pack ? !replace(k, &r, op, &p) : !rewrite_copy(&r, op) && op->out) return false;
  }
  rewrite_finish(&r);
  return k->diags->errors == 0;
}

/* ---- all functions */

static bool is_level1(const Func *f) { return f->level == 1; }

/* Weights that no operation reads after dce are zeros, which no program stores. */
static void drop_values(Module *m) {
  bool *read = ARENA_ARRAY(m->arena, bool, m->params.n + 1);
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_param) read[module_param(m, op_str(op, AT_name)) - m->params.items] = true;
    }
  for (size_t i = 0; i < m->params.n; i++)
    if (!read[i] && m->params.items[i].init != INIT_PREPARED) m->params.items[i].init = INIT_ZEROS;
}

bool rewrite_packed(Module *m, PackedForm form, PackedMatrices *out, Diags *diags) {
  *out = (PackedMatrices){0};
  Packing k = {.m = m, .form = form, .out = out, .nparams = m->params.n, .diags = diags};
  k.others = ARENA_ARRAY(m->arena, bool, m->params.n + 1);
  k.products = ARENA_ARRAY(m->arena, bool, m->params.n + 1);
  for (size_t i = 0; i < m->funcs.n; i++)
    if (is_level1(m->funcs.items[i])) note_readers(&k, m->funcs.items[i]);
  for (size_t i = 0; i < k.nparams; i++) out->left += k.products[i] && k.others[i];
  for (size_t i = 0; i < m->funcs.n; i++)
    if (is_level1(m->funcs.items[i]) && !rewrite(&k, m->funcs.items[i])) return false;
  return true;
}

void rewrite_packed_drop(Module *m) { drop_values(m); }
