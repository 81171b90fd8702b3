/* passes/rewrite/prepare.c - moves work on weights that is equal in every request to loading (D27).
 *
 * In: level-1 functions.  Out: the same, in which results that weights and constants alone determine are weights
 * themselves, and a level-1 function @prepare that computes them: casts and dequantisations, products with scales,
 * sums, concatenations, norms of weights ...  Each rank runs its part of @prepare after loading (lower_prepare);
 * weights that only @prepare reads are not kept.
 *
 * Of the values that other operations need, going up from the outputs, the pass moves the first that
 *   - depends on weights and constants only (no size of a request, no random number, nothing that changes from round to
 *     round of a loop),
 *   - takes work: a weight that is only reshaped, repeated or copied is read in place, and computed values are repeated
 *     where they are used, and
 *   - has at most as many elements as the weights it is computed from: prepared weights use memory of every rank
 *     permanently, so a bias repeated over rows, a mask or a one-hot table stays where it is used, and its operands
 *     move instead.
 * Elements count, not bytes: a cast from 1 or 2 bytes to 4 is the purpose of preparing.  Values that depend on
 * constants alone stay too: they have no weight to be compared with, and every stage makes them where it needs them
 * (passes/facts/derived.h).
 *
 * Loops over weights alone stay where they are.  Equal work of several functions is done once.  If the model has a
 * function @prepare, it is extended.
 */
#include <string.h>

#include "ir/loops.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

/* An operation of @prepare. */
typedef struct Made {
  const char *key; /* its operation and operands; interned */
  Val v;
  const char *param; /* the weight it becomes; NULL: used only inside @prepare */
} Made;

typedef struct Prepare {
  Module *m;
  Func *f; /* @prepare; NULL until something moves */
  Builder b;
  struct {
    Made *items;
    size_t n, cap;
  } made; /* by value, less 1 */
} Prepare;

/* A function that is searched for such work. */
typedef struct Scan {
  Prepare *p;
  const Func *f;
  const Fixed *fixed;
  bool *needed; /* by value: stays in the function, or is read there as a weight */
  bool *moved;  /* by value */
  Val *at;      /* by value: its value in @prepare; 0 if none */
} Scan;

/* ---- which values move */

static double elements(const Type *t) {
  int64_t dims[MAX_RANK];
  double n = 1;
  if (!type_constant_dims(t, dims)) return 0;
  for (int d = 0; d < t->rank; d++) n *= (double)dims[d];
  return n;
}

typedef struct Names {
  const char **items;
  size_t n, cap;
} Names;

static bool add_once(Arena *a, Names *names, const char *name) {
  for (size_t i = 0; i < names->n; i++)
    if (strcmp(names->items[i], name) == 0) return false;
  ARENA_PUSH(a, names, name);
  return true;
}

/* Counts the elements of the weights that a value is computed from, each weight once. */
static double weight_elements(const Scan *s, Val v) {
  Arena *scratch = arena_new();
  bool *in_cone = ARENA_ARRAY(scratch, bool, s->f->values.n);
  Names names = {0};
  double sum = 0;
  in_cone[v] = true;
  for (int i = s->f->values.items[v].op; i >= 0; i--) {
    const Op *op = &s->f->ops.items[i];
    bool inside = false;
    for (Val r = op->out; r < op_end(op); r++) inside |= in_cone[r];
    if (!inside) continue;
    for (int k = 0; k < op->nin; k++) in_cone[op->in[k]] = true;
    if (op->kind == OP_param && add_once(scratch, &names, op_str(op, AT_name))) sum += elements(type_of(s->f, op->out));
  }
  arena_free(scratch);
  return sum;
}

static bool value_moves(const Scan *s, Val v) {
  return s->fixed[v] == FIXED_WORK && op_of(s->f, v)->kind != OP_broadcast &&
         elements(type_of(s->f, v)) <= weight_elements(s, v);
}

/* True if all results of the operation move. */
static bool moves(const Scan *s, const Op *op) {
  for (Val v = op->out; v < op_end(op); v++)
    if (!value_moves(s, v)) return false;
  return op->nout > 0;
}

/* Loops stay whole, and computed sizes, whose names types contain; dce drops their unused parts. */
static bool stays(const Scan *s, const Op *op) {
  bool needed = !op->out || op->kind == OP_input || op_is_loop_part(op->kind) || op->kind == OP_bind;
  for (Val v = op->out; v < op_end(op); v++) needed |= s->needed[v];
  return needed;
}

static bool choose(const Scan *s) {
  bool any = false;
  for (size_t i = 0; i < s->f->outputs.n; i++) s->needed[s->f->outputs.items[i].value] = true;
  for (size_t i = s->f->ops.n; i-- > 0;) {
    const Op *op = &s->f->ops.items[i];
    if (!stays(s, op)) continue;
    if (moves(s, op)) {
      any = s->moved[op->out] = true;
      continue;
    }
    for (int k = 0; k < op->nin; k++) s->needed[op->in[k]] = true;
  }
  return any;
}

/* ---- @prepare */

/* The key of the first result. */
static const char *key_of(const Prepare *p, const Op *op, const Type *type, const Val *in) {
  Text t = {.arena = p->m->arena};
  text_printf(&t, "%s", op_name(op->kind));
  for (int i = 0; i < op->nin; i++) text_printf(&t, " %u", in[i]);
  for (int i = 0; i < op->nattrs; i++) {
    text_add(&t, " ");
    attr_print(p->m, &t, &op->attrs[i]);
  }
  text_add(&t, " ");
  type_print(p->m, &t, type);
  return module_string(p->m, text_str(&t));
}

/* Records the results of an operation of @prepare; only the first has the key. */
static void remember(Prepare *p, const char *key, const Op *op) {
  for (Val v = op->out; v < op_end(op); v++)
    ARENA_PUSH(p->m->arena, &p->made, ((Made){v == op->out ? key : NULL, v, NULL}));
}

static Made *made_of(const Prepare *p, Val v) {
  for (size_t i = 0; i < p->made.n; i++)
    if (p->made.items[i].v == v) return &p->made.items[i];
  return NULL;
}

/* Continues a function @prepare of the model. */
static void extend(Prepare *p, Diags *diags) {
  p->f = module_func(p->m, "prepare");
  if (!p->f) return;
  p->b = builder_new(p->m, p->f, diags);
  for (size_t i = 0; i < p->f->ops.n; i++) {
    const Op *op = &p->f->ops.items[i];
    if (op->out) remember(p, key_of(p, op, type_of(p->f, op->out), op->in), op);
  }
  for (size_t i = 0; i < p->f->outputs.n; i++)
    made_of(p, p->f->outputs.items[i].value)->param = p->f->outputs.items[i].name;
}

static Val prepared_value(const Prepare *p, const char *name) {
  for (size_t i = 0; p->f && i < p->f->outputs.n; i++)
    if (strcmp(p->f->outputs.items[i].name, name) == 0) return p->f->outputs.items[i].value;
  return 0;
}

/* Builds the value in @prepare, with all values it is computed from. */
static Val bring(Scan *s, Val v, Diags *diags) {
  Prepare *p = s->p;
  const Op *op = op_of(s->f, v);
  Val which = (Val)value_index(s->f, v), first;
  if (s->at[v]) return s->at[v];
  if (op->kind == OP_param && (s->at[v] = prepared_value(p, op_str(op, AT_name)))) return s->at[v];
  if (!p->f) {
    p->f = module_func_add(p->m, "prepare", 1);
    p->b = builder_new(p->m, p->f, diags);
  }
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = bring(s, op->in[i], diags);
  const char *key = key_of(p, op, type_of(s->f, op->out), in);
  for (size_t i = 0; i < p->made.n; i++)
    if (p->made.items[i].key == key) return s->at[v] = p->made.items[i].v + which;
  OpSpec spec = op_spec_of(s->f, op);
  spec.in = in;
  if (!(first = build_op(&p->b, &spec))) return 0;
  remember(p, key, op_of(p->f, first));
  return s->at[v] = first + which;
}

static const char *fresh_param(Module *m, const char *wanted) {
  const char *name = wanted;
  for (int i = 1; module_param(m, name); i++) name = arena_printf(m->arena, "%s.%d", wanted, i);
  return module_string(m, name);
}

/* Returns the weight that holds this value of @prepare. */
static const char *param_of(Prepare *p, Val v) {
  Made *made = made_of(p, v);
  if (made->param) return made->param;
  const Op *op = op_of(p->f, v);
  made->param = fresh_param(p->m, name_of(p->f, v));
  Param *param = module_param_add(p->m, made->param, type_of(p->f, v));
  param->init = INIT_PREPARED;
  param->trainable = false; /* the model's parameters are the weights that it is computed from */
  param->loc = op->loc;
  build_output(&p->b, made->param, v, NULL);
  return made->param;
}

/* ---- the function without the moved work */

/* Returns the dimension of experts, if the value is computed element by element from a weight that has one; -1 if
 * none. */
static int64_t experts_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  int64_t found = op->kind == OP_param ? op_int(op, AT_experts, -1) : -1;
  for (int k = 0; k < op->nin && found < 0 && op_is_elementwise(op->kind); k++) found = experts_of(f, op->in[k]);
  return found;
}

static Val read_prepared(Scan *s, Builder *b, Val v, Diags *diags) {
  const Op *op = op_of(s->f, v);
  int64_t experts = experts_of(s->f, v);
  Attr attrs[] = {attr_s(b->m, AT_name, param_of(s->p, bring(s, v, diags))), attr_i(AT_experts, experts)};
  return build_op(b, &(OpSpec){.kind = OP_param,
                               .name = name_of(s->f, v),
                               .loc = op->loc,
                               .nattrs = experts < 0 ? 1 : 2,
                               .attrs = attrs,
                               .type = type_of(s->f, v)});
}

static bool rewrite(Scan *s, Diags *diags) {
  Module *m = s->p->m;
  Rewrite r = rewrite_start(m, s->f, diags);
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    if (!stays(s, op)) continue;
    if (op->out && s->moved[op->out]) {
      for (Val v = op->out; v < op_end(op); v++)
        if (s->needed[v]) r.map[v] = read_prepared(s, &r.b, v, diags);
    } else if (!rewrite_copy(&r, op)) {
      return false;
    }
  }
  rewrite_finish(&r);
  return diags->errors == 0;
}

static bool prepare(Prepare *p, const Func *f, Diags *diags) {
  Arena *a = p->m->arena;
  Scan s = {p,
            f,
            fixed_values(a, f),
            ARENA_ARRAY(a, bool, f->values.n),
            ARENA_ARRAY(a, bool, f->values.n),
            ARENA_ARRAY(a, Val, f->values.n)};
  return !choose(&s) || rewrite(&s, diags);
}

bool pass_prepare(Module *m, Diags *diags) {
  Prepare p = {.m = m};
  extend(&p, diags);
  size_t n = m->funcs.n;
  for (size_t k = 0; k < n; k++) {
    const Func *f = m->funcs.items[k];
    if (f->level == 1 && f != p.f && !prepare(&p, f, diags)) return false;
  }
  return true;
}
