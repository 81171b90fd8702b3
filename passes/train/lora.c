/* passes/train/lora.c - see lora.h. */
#include "passes/train/lora.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "passes/rewrite/rewrite.h"
#include "passes/train/train.h"

typedef struct Lora {
  Module *m;
  LoraRules *l;
  Diags *diags;
  bool *met; /* by rule */
} Lora;

const LoraMade *lora_of(const LoraRules *l, const char *weight) {
  for (size_t i = 0; l && i < l->made.n; i++)
    if (strcmp(l->made.items[i].weight, weight) == 0) return &l->made.items[i];
  return NULL;
}

bool lora_is_part(const LoraRules *l, const char *weight) {
  for (size_t i = 0; l && i < l->made.n; i++)
    if (strcmp(l->made.items[i].a, weight) == 0 || strcmp(l->made.items[i].b, weight) == 0) return true;
  return false;
}

/* The last rule that matches; NULL if none. */
static const LoraRule *rule_of(const Lora *w, const char *weight) {
  const LoraRule *last = NULL;
  for (size_t i = 0; i < w->l->rules.n; i++) {
    const LoraRule *r = &w->l->rules.items[i];
    if (r->path ? strcmp(r->glob, weight) != 0 : fnmatch(r->glob, weight, 0) != 0) continue;
    w->met[i] = true, last = r;
  }
  return last;
}

/* A product of a weight: the operand that is it, and the letters of the weight's dimensions, in its own order. */
typedef struct Product {
  const char *weight;
  int operand;
  char letters[MAX_RANK + 1], data[MAX_RANK + 1], result[MAX_RANK + 1];
} Product;

/* Splits "ab,bc->ac". */
static void split_spec(const Op *op, Product *p) {
  const char *spec = op_str(op, AT_spec), *comma = strchr(spec, ','), *arrow = strchr(spec, '>') + 1;
  char side[2][MAX_RANK + 1];
  snprintf(side[0], sizeof side[0], "%.*s", (int)(comma - spec), spec);
  snprintf(side[1], sizeof side[1], "%.*s", (int)(arrow - 2 - comma - 1), comma + 1);
  memcpy(p->letters, side[p->operand], sizeof p->letters);
  memcpy(p->data, side[1 - p->operand], sizeof p->data);
  snprintf(p->result, sizeof p->result, "%s", arrow);
}

/* Finds the weight of a product, possibly through a transpose. */
static bool product_of(const Func *f, const Op *op, Product *p) {
  for (int k = 0; op->kind == OP_dot && k < 2; k++) {
    const Op *made = op_of(f, op->in[k]), *turned = NULL;
    if (made->kind == OP_transpose) turned = made, made = op_of(f, made->in[0]);
    if (made->kind != OP_param || op_attr(made, AT_experts)) continue;
    p->weight = op_str(made, AT_name), p->operand = k;
    split_spec(op, p);
    if (!turned) return true;
    const int64_t *perm = op_attr(turned, AT_perm)->u.ints;
    char own[MAX_RANK + 1] = "";
    for (int d = 0; d < (int)strlen(p->letters); d++) own[perm[d]] = p->letters[d];
    memcpy(p->letters, own, sizeof own);
    return true;
  }
  return false;
}

/* Appends the letters of `from` that are, or are not, in `in`. */
static void keep(char *to, const char *from, const char *in, bool are) {
  size_t n = strlen(to);
  for (; *from; from++)
    if ((strchr(in, *from) != NULL) == are) to[n++] = *from;
  to[n] = 0;
}

static char free_letter(const Product *p) {
  char c = 'a';
  while (strchr(p->letters, c) || strchr(p->data, c) || strchr(p->result, c)) c++;
  return c;
}

static const char *part_name(Arena *a, const char *weight, const char *part) {
  static const char end[] = ".weight";
  size_t n = strlen(weight), e = sizeof end - 1;
  bool module = n > e && strcmp(weight + n - e, end) == 0;
  return module ? arena_printf(a, "%.*s.%s.weight", (int)(n - e), weight, part)
                : arena_printf(a, "%s.%s", weight, part);
}

/* True if the file's tensor has the shape. */
static bool fits(const Type *t, const LoraRule *r, bool is_b) {
  int64_t size;
  bool same = t->rank == r->ranks[is_b];
  for (int d = 0; same && d < t->rank; d++) same = ex_get_const(t->dims[d], &size) && size == r->dims[is_b][d];
  return same;
}

/* Adds A or B, of the weight's dimensions with these letters and the rank. */
static const char *add_part(const Lora *w, const LoraRule *r, const Product *p, const char *letters, bool is_b) {
  const Param whole = *module_param(w->m, p->weight);
  const Expr *dims[MAX_RANK];
  int n = (int)strlen(letters), at = is_b ? 0 : 1;
  int64_t inputs = 1, size;
  for (int d = 0; d < n; d++) {
    dims[at + d] = whole.type->dims[strchr(p->letters, letters[d]) - p->letters];
    if (ex_get_const(dims[at + d], &size)) inputs *= size;
  }
  dims[is_b ? n : 0] = ex_const(w->m, r->rank);
  const char *name = module_string(w->m, part_name(w->m->arena, p->weight, is_b ? "lora_B" : "lora_A"));
  if (module_param(w->m, name)) {
    diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--lora: the model has a weight '%s' already", name);
    return NULL;
  }
  Param *q = module_param_add(w->m, name, type_get(w->m, whole.type->dtype, n + 1, dims));
  q->init = r->path ? INIT_BLOB : is_b ? INIT_ZEROS : INIT_UNIFORM;
  q->value = 1 / sqrt((double)inputs), q->seed = (int64_t)(hash64(name, strlen(name), 0) >> 1);
  if (!r->path) return name;
  if (!fits(q->type, r, is_b)) {
    diag_error(w->diags, DIAG_weights, (Loc){.file = r->path}, "the adapter of '%s' does not fit the weight",
               p->weight);
    return NULL;
  }
  q->blob = module_blob(w->m, r->path, r->bytes), q->offset = r->offset[is_b];
  int64_t stride = 1;
  for (int d = n; d >= 0; d--) {
    q->strides[d] = stride;
    if (ex_get_const(q->type->dims[d], &size)) stride *= size;
  }
  return name;
}

static bool refuse(const Lora *w, const Op *op, const char *weight, const char *why) {
  return diag_error(w->diags, DIAG_usage_value, op->loc, "--lora: weight '%s' cannot have an adapter: %s", weight, why);
}

/* The dimensions of the weight, a bit set, that the product sums over. */
static uint32_t summed(const Product *p) {
  uint32_t dims = 0;
  for (int d = 0; p->letters[d]; d++)
    if (!strchr(p->result, p->letters[d])) dims |= 1u << d;
  return dims;
}

/* Adds the adapter of the weight of a product, unless it has one. */
static bool add_adapter(const Lora *w, const Op *op, const Product *p, const LoraRule *r) {
  char in[MAX_RANK + 1] = "", out[MAX_RANK + 1] = "", both[MAX_RANK + 1] = "";
  const Type *t = module_param(w->m, p->weight)->type;
  keep(in, p->letters, p->result, false), keep(out, p->letters, p->result, true), keep(both, out, p->data, true);
  if (*both || !*in || !*out) return refuse(w, op, p->weight, "its product is no product of a matrix");
  if (t->dtype != DT_f32) return refuse(w, op, p->weight, "it is not f32");
  const LoraMade *have = lora_of(w->l, p->weight);
  if (have && have->summed != summed(p))
    return refuse(w, op, p->weight, "two products sum over other dimensions of it");
  if (have) return true;
  char c = free_letter(p);
  LoraMade made = {.weight = p->weight, .scale = r->scale, .rank = r->rank, .summed = summed(p)};
  made.a = add_part(w, r, p, in, false);
  made.b = made.a ? add_part(w, r, p, out, true) : NULL;
  made.merge = arena_printf(w->m->arena, "%s%c,%c%s->%s", out, c, c, in, p->letters);
  if (made.b) ARENA_PUSH(w->m->arena, &w->l->made, made);
  return made.b != NULL;
}

static Val dot(Builder *b, const char *spec, Val x, Val y) {
  Attr a = attr_s(b->m, AT_spec, spec);
  return build_op(b, &(OpSpec){.kind = OP_dot, .nin = 2, .in = (Val[]){x, y}, .nattrs = 1, .attrs = &a});
}

static Val scaled(Builder *b, Val x, double by) {
  return x ? build_binary(b, OP_mul, x, build_splat(b, type_of(b->f, x), by)) : 0;
}

Val lora_merged(Builder *b, const LoraMade *made, Val v, Val a, Val w) {
  return build_binary(b, OP_add, v, scaled(b, dot(b, made->merge, w, a), made->scale));
}

/* The product y, plus scale (x A) B. */
static Val with_adapter(Rewrite *r, const Op *op, const Product *p, const LoraMade *made, Val a, Val w, Val y) {
  char in[MAX_RANK + 1] = "", out[MAX_RANK + 1] = "", middle[MAX_RANK + 2] = "";
  Arena *arena = r->m->arena;
  const char c[] = {free_letter(p), 0};
  keep(in, p->letters, p->result, false), keep(out, p->letters, p->result, true), keep(middle, p->data, in, false);
  r->b.prefix = arena_printf(arena, "%s.lora.", op->name);
  Val x =
      dot(&r->b, arena_printf(arena, "%s,%s%s->%s%s", p->data, c, in, middle, c), r->map[op->in[1 - p->operand]], a);
  x = scaled(&r->b, x, made->scale);
  x = x ? dot(&r->b, arena_printf(arena, "%s%s,%s%s->%s", middle, c, out, c, p->result), x, w) : 0;
  Val sum = x ? build_binary(&r->b, OP_add, y, x) : 0;
  r->b.prefix = NULL;
  return sum;
}

/* Adds the adapters of the weights of a function. */
static bool find_adapters(const Lora *w, const Func *f) {
  bool ok = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    Product p = {0};
    if (!product_of(f, &f->ops.items[i], &p)) continue;
    const LoraRule *rule = rule_of(w, p.weight);
    if (rule) ok = add_adapter(w, &f->ops.items[i], &p, rule) && ok;
  }
  return ok;
}

/* The weight with an adapter that a value is, or is transposed; NULL if none. */
static const char *adapted(const Lora *w, const Func *f, Val v) {
  const Op *made = op_of(f, v);
  if (made->kind == OP_transpose) made = op_of(f, made->in[0]);
  if (made->kind != OP_param || op_attr(made, AT_experts)) return NULL;
  const char *name = op_str(made, AT_name);
  return lora_of(w->l, name) ? name : NULL;
}

/* Checks that weights with adapters are used by products alone: `--save` adds an adapter to its whole weight, which
 * every other use would see. */
static bool check_uses(const Lora *w, const Func *f) {
  static const char *const why = "it is also used other than by a product";
  bool ok = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Product p = {0};
    const bool product = product_of(f, op, &p), turns = op->kind == OP_transpose;
    for (int k = 0; k < op->nin; k++) {
      const char *weight = adapted(w, f, op->in[k]);
      if (!weight || (product && p.operand == k)) continue;
      if (turns && op_of(f, op->in[0])->kind == OP_param) continue; /* its users are looked at */
      ok = refuse(w, op, weight, why);
    }
  }
  for (size_t i = 0; i < f->outputs.n; i++) {
    const char *weight = adapted(w, f, f->outputs.items[i].value);
    if (weight) ok = refuse(w, op_of(f, f->outputs.items[i].value), weight, why);
  }
  return ok;
}

static bool rewrite(const Lora *w, const Func *f) {
  const LoraRules *l = w->l;
  Rewrite r = rewrite_start(w->m, f, w->diags);
  Val *parts = ARENA_ARRAY(w->m->arena, Val, 2 * l->made.n + 1);
  for (size_t i = 0; i < l->made.n; i++)
    parts[2 * i] = build_param(&r.b, l->made.items[i].a), parts[2 * i + 1] = build_param(&r.b, l->made.items[i].b);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Product p = {0};
    Val y = rewrite_copy(&r, op);
    if (!y && op->nout) return false;
    const LoraMade *made = product_of(f, op, &p) ? lora_of(l, p.weight) : NULL;
    if (!made) continue;
    size_t at = (size_t)(made - l->made.items);
    y = with_adapter(&r, op, &p, made, parts[2 * at], parts[2 * at + 1], y);
    if (!y) return false;
    r.map[op->out] = y;
  }
  rewrite_finish(&r);
  return true;
}

/* Names the weights of some products. */
static void help_weights(const Lora *w) {
  enum { SHOWN = 6 };
  const char *names[SHOWN];
  int n = 0;
  for (size_t k = 0; k < w->m->funcs.n; k++)
    for (size_t i = 0; i < w->m->funcs.items[k]->ops.n && n < SHOWN; i++) {
      Product p = {0};
      if (!product_of(w->m->funcs.items[k], &w->m->funcs.items[k]->ops.items[i], &p)) continue;
      bool known = false;
      for (int j = 0; j < n; j++) known |= strcmp(names[j], p.weight) == 0;
      if (!known) names[n++] = p.weight;
    }
  Text t = {.arena = w->m->arena};
  for (int j = 0; j < n; j++) text_printf(&t, "%s\"%s\"", j ? ", " : "", names[j]);
  if (n) diag_help(w->diags, "weights of products: %s%s", text_str(&t), n == SHOWN ? " .." : "");
}

static bool all_met(const Lora *w) {
  bool ok = true;
  for (size_t i = 0; i < w->l->rules.n; i++)
    if (!w->met[i])
      ok = diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--lora %s: no product has a weight of that name",
                      w->l->rules.items[i].glob);
  if (!ok) help_weights(w);
  return ok;
}

bool lora_apply(Module *m, LoraRules *l, Diags *diags) {
  if (!l) return true;
  const Lora w = {m, l, diags, ARENA_ARRAY(m->arena, bool, l->rules.n + 1)};
  memset(&l->made, 0, sizeof l->made); /* an earlier module may be gone */
  bool ok = true;
  const size_t n = m->funcs.n;
  for (size_t i = 0; i < n; i++) ok = find_adapters(&w, m->funcs.items[i]) && ok;
  for (size_t i = 0; i < n; i++) ok = check_uses(&w, m->funcs.items[i]) && ok;
  if (!ok || !all_met(&w)) return false;
  for (size_t i = 0; i < n; i++)
    if (!rewrite(&w, m->funcs.items[i])) return false;
  return true;
}

void lora_entry(Module *m, const LoraRules *l, Diags *diags) {
  if (!l) return;
  Builder b = builder_new(m, module_func_add(m, "adapter", 1), diags);
  b.phase = PH_pre;
  for (size_t i = 0; i < l->made.n; i++) {
    const LoraMade *x = &l->made.items[i];
    const char *parts[] = {x->a, x->b};
    for (int k = 0; k < 2; k++) build_output(&b, parts[k], train_current(&b, parts[k]), NULL);
    build_output(&b, part_name(m->arena, x->weight, "lora_scale"),
                 build_splat(&b, type_get(m, DT_f32, 0, NULL), x->scale), NULL);
  }
  builder_end(&b);
}
