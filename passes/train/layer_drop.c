/* passes/train/layer_drop.c - --layer-drop GLOB:RATE: drops residual branches at random (stochastic depth, Huang et
 * al., 2016), as DropPath of timm and StochasticDepth of torchvision in mode "row" do.
 *
 * A residual branch is the operand f(x) of an addition x + f(x), if it depends on x through a product or convolution
 * with a weight.  The glob must fit each of these, by the name of its weight or of the operation.  In the step a row of
 * the batch drops the branch with the probability RATE; other rows divide it by 1 - RATE.  Entry `eval` drops nothing.
 *
 * The random numbers follow from the seed, the name of the addition, the step and the row: every plan draws the same.
 * Not done: parallel branches that are added one after the other, as x + f(x) is then no operand of g(x).
 */
#include <fnmatch.h>
#include <string.h>

#include "base/hash.h"
#include "passes/train/train.h"

typedef struct Branch {
  size_t add;       /* index of the addition */
  int operand;      /* of the addition: f(x) */
  const char *name; /* of the weight of its last product, or that product */
} Branch;

typedef struct Finding {
  Arena *a;
  const Func *f;
  bool *depends; /* by operation: on x, and f(x) depends on it */
  struct {
    Branch *items;
    size_t n, cap;
  } branches;
} Finding;

static bool is_product(OpKind k) {
  return k == OP_dot || k == OP_conv || k == OP_conv_transpose || k == OP_grouped_dot || k == OP_grouped_mlp;
}

/* The weight that a value is, in another order or type; NULL if it is none. */
static const char *weight_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  while (op->kind == OP_reshape || op->kind == OP_transpose || op->kind == OP_cast || op->kind == OP_copy ||
         op->kind == OP_slice)
    op = op_of(f, op->in[0]);
  return op->kind == OP_param ? op_str(op, AT_name) : NULL;
}

/* The weight of a product; NULL if it has none. */
static const char *weight_in(const Func *f, const Op *op) {
  const char *weight = NULL;
  for (int i = op->nin; i-- > 0 && !weight;) weight = weight_of(f, op->in[i]);
  return weight;
}

static size_t made_at(const Func *f, Val v) { return (size_t)f->values.items[v].op; }

/* Marks the operations between x and y that depend on x and on which y depends; false if y does not depend on x. */
static bool mark(Finding *k, Val x, Val y) {
  const Func *f = k->f;
  const size_t first = made_at(f, x) + 1, last = made_at(f, y);
  if (first > last) return false;
  for (size_t i = first; i <= last; i++) {
    const Op *op = &f->ops.items[i];
    k->depends[i] = false;
    for (int n = 0; n < op->nin; n++) {
      const size_t from = made_at(f, op->in[n]);
      k->depends[i] |= op->in[n] == x || (from >= first && k->depends[from]);
    }
  }
  if (!k->depends[last]) return false;
  bool *needed = ARENA_ARRAY(k->a, bool, last - first + 1);
  needed[last - first] = true;
  for (size_t i = last + 1; i-- > first;) {
    k->depends[i] = k->depends[i] && needed[i - first];
    for (int n = 0; n < f->ops.items[i].nin && k->depends[i]; n++) {
      const size_t from = made_at(f, f->ops.items[i].in[n]);
      if (from >= first) needed[from - first] = true;
    }
  }
  return true;
}

/* The first of the marked products with a weight, from operation `at` down to x; 0 if there is none. */
static size_t product_before(const Finding *k, Val x, size_t at) {
  for (size_t i = at; i-- > made_at(k->f, x) + 1;)
    if (k->depends[i] && is_product(k->f->ops.items[i].kind) && weight_in(k->f, &k->f->ops.items[i])) return i;
  return 0;
}

/* Finds the residual branch of an addition: operand `operand`. */
static bool is_branch(Finding *k, const Op *add, int operand, Branch *out) {
  const Val x = add->in[1 - operand], y = add->in[operand];
  if (!mark(k, x, y)) return false;
  const size_t product = product_before(k, x, made_at(k->f, y) + 1);
  if (!product) return false;
  *out = (Branch){made_at(k->f, add->out), operand, weight_in(k->f, &k->f->ops.items[product])};
  return true;
}

/* True if the glob fits every product of the branch. */
static bool fits(Finding *k, const Branch *b, const char *glob) {
  const Op *add = &k->f->ops.items[b->add];
  const Val x = add->in[1 - b->operand], y = add->in[b->operand];
  mark(k, x, y);
  for (size_t at = made_at(k->f, y) + 1; (at = product_before(k, x, at));) {
    const Op *op = &k->f->ops.items[at];
    if (fnmatch(glob, weight_in(k->f, op), 0) != 0 && fnmatch(glob, op->name, 0) != 0) return false;
  }
  return true;
}

static void find(Finding *k) {
  for (size_t i = 0; i < k->f->ops.n; i++) {
    const Op *op = &k->f->ops.items[i];
    Branch b;
    if (op->kind == OP_add && (is_branch(k, op, 0, &b) || is_branch(k, op, 1, &b))) ARENA_PUSH(k->a, &k->branches, b);
  }
}

static const char *names_of(const Finding *k, const bool *which, size_t *n) {
  enum { SHOWN = 4 };
  Text t = {.arena = k->a};
  *n = 0;
  for (size_t i = 0; i < k->branches.n; i++)
    if ((!which || which[i]) && ++*n <= SHOWN)
      text_printf(&t, "%s\"%s\"", *n > 1 ? ", " : "", k->branches.items[i].name);
  if (*n > SHOWN) text_printf(&t, " and %zu more", *n - SHOWN);
  return text_str(&t);
}

static bool unmet(const Finding *k, const TrainWeights *w, const char *glob) {
  size_t n;
  diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--layer-drop %s: fits all products of no residual branch", glob);
  const char *names = names_of(k, NULL, &n);
  if (n) diag_help(w->diags, "residual branches end with the products of: %s", names);
  else diag_help(w->diags, "the model has no addition x + f(x) with a product or convolution in f");
  return false;
}

/* Rows of the branch must be rows of the batch. */
static bool has_rows(const TrainWeights *w, const Func *f, const Branch *b) {
  const Type *type = type_of(f, f->ops.items[b->add].out), *input = NULL;
  for (size_t i = 0; i < f->ops.n && !(input && input->rank); i++)
    if (f->ops.items[i].kind == OP_input) input = type_of(f, f->ops.items[i].out);
  return (type->rank && input && input->rank && type->dims[0] == input->dims[0]) ||
         diag_error(w->diags, DIAG_usage_value, f->ops.items[b->add].loc,
                    "--layer-drop: the first dimension of the residual branch of \"%s\" is not that of the batch",
                    b->name);
}

static void report(const TrainWeights *w, const Finding *k, const bool *met, const TrainingDrop *drop) {
  size_t n;
  const char *names = names_of(k, met, &n);
  if (w->o->report)
    ARENA_PUSH(k->a, &w->o->report->dropped,
               arena_printf(k->a, "each row drops, with probability %g, residual branch%s of %s", drop->rate,
                            n > 1 ? "es" : "", names));
}

bool train_find_drops(const TrainWeights *w, const Func *f, double **rates, int **operands) {
  const TrainingRules *r = w->o->rules;
  Arena *a = w->m->arena;
  if (!r || !r->drops.n) return true;
  Finding k = {.a = a, .f = f, .depends = ARENA_ARRAY(a, bool, f->ops.n + 1)};
  bool ok = true;
  find(&k);
  *rates = ARENA_ARRAY(a, double, f->ops.n + 1), *operands = ARENA_ARRAY(a, int, f->ops.n + 1);
  for (size_t i = 0; i < r->drops.n && ok; i++) {
    bool any = false, *met = ARENA_ARRAY(a, bool, k.branches.n + 1);
    for (size_t n = 0; n < k.branches.n && ok; n++) {
      const Branch *b = &k.branches.items[n];
      if (!fits(&k, b, r->drops.items[i].glob)) continue;
      ok = has_rows(w, f, b);
      any = met[n] = true;
      (*rates)[b->add] = r->drops.items[i].rate, (*operands)[b->add] = b->operand;
    }
    if (!any) ok = unmet(&k, w, r->drops.items[i].glob);
    else report(w, &k, met, &r->drops.items[i]);
  }
  return ok;
}

/* Draws a flag for each row: 1 keeps the branch. */
static Val draw(Builder *b, const char *name, int64_t seed, double rate, const Expr *rows, Val steps) {
  Module *m = b->m;
  const Expr *zero = ex_const(m, 0);
  const int64_t own = (int64_t)(hash64(name, strlen(name), (uint64_t)seed) >> 1);
  Attr attrs[] = {attr_s(m, AT_kind, "uniform"), attr_i(AT_seed, own), attr_exprs(m, AT_starts, 1, &zero),
                  attr_exprs(m, AT_extents, 1, &rows), attr_i(AT_stream, 1)};
  const Type *type = type_get(m, DT_f32, 1, &rows);
  Val x = build_op(
      b, &(OpSpec){.kind = OP_random_keyed, .nin = 1, .in = &steps, .type = type, .nattrs = 5, .attrs = attrs});
  return x ? build_binary(b, OP_ge, x, build_splat(b, type, rate)) : 0;
}

Val train_drop_branch(Builder *b, const char *name, int64_t seed, double rate, Val branch, Val steps) {
  const Type *type = type_of(b->f, branch);
  const char *prefix = b->prefix;
  b->prefix = arena_printf(b->m->arena, "%s.drop.", name);
  Val kept = draw(b, name, seed, rate, type->dims[0], steps);
  const int64_t first = 0;
  Attr dims = attr_ints(b->m, AT_dims, 1, &first);
  const Type *flags = type_get(b->m, DT_bool, type->rank, type->dims);
  if (kept)
    kept =
        build_op(b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &kept, .type = flags, .nattrs = 1, .attrs = &dims});
  Val scaled = build_binary(b, OP_mul, branch, build_splat(b, type, 1 / (1 - rate)));
  Val in[] = {kept, scaled, build_splat(b, type, 0)};
  Val y = kept && scaled && in[2] ? build_op(b, &(OpSpec){.kind = OP_select, .nin = 3, .in = in}) : 0;
  b->prefix = prefix;
  return y;
}
