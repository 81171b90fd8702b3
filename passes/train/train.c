/* passes/train/train.c - pass `train`: the model's function becomes one step of its training (train.h).
 *
 * In: a module with one entry, flat, whose states are statistics of the data alone: they start as a weight that is not
 * trained, as batch norms of the model language have them.  An entry `eval` beside it is what is evaluated.  Out: its
 * function computes the loss and the gradients of all trainable weights it depends on, and updates these; its outputs
 * are `loss`, `grad_norm` and `lr`. Entry `eval` computes the loss alone; `weights` and `states` give what there is by
 * then, `restore` takes it back. Weights are whole here: this pass stands in the place of `views`, so that a table that
 * is used twice, once transposed, is one state.  Behind `recognise`, whose operations have shorter derivatives, and
 * before `widen` and `prepare`: what changes in every step must not be prepared.
 */
#include "passes/train/train.h"

#include <fnmatch.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite/rewrite.h"

/* What becomes of a statistic of the data. */
typedef struct Written {
  const char *name;
  Val value;
} Written;

typedef struct WrittenList {
  Written *items;
  size_t n, cap;
} WrittenList;

static bool is_trained(const Param *p, const Optimizer *o) {
  return p->trainable && dtype_is_float(p->type->dtype) && (!o->train || fnmatch(o->train, p->name, 0) == 0) &&
         (!o->freeze || fnmatch(o->freeze, p->name, 0) != 0);
}

/* The weights' bytes overlap in the file. */
static bool share_bytes(const Param *x, const Param *y) {
  if (x->init != INIT_BLOB || y->init != INIT_BLOB || x->blob != y->blob) return false;
  uint64_t end[2] = {x->offset, y->offset};
  for (int i = 0; i < 2; i++) {
    const Param *p = i ? y : x;
    int64_t dims[MAX_RANK], last = 0;
    if (!type_constant_dims(p->type, dims)) return true;
    for (int d = 0; d < p->type->rank; d++) last += dims[d] ? (dims[d] - 1) * p->strides[d] : 0;
    end[i] += (uint64_t)(last + 1) * (uint64_t)dtype_bytes(p->type->dtype);
  }
  return x->offset < end[1] && y->offset < end[0];
}

/* The state of a weight that `op` read; of experts, when the weight is. */
static Val read_state(Rewrite *r, const Op *op, const Param *p) {
  Attr attrs[] = {attr_s(r->m, AT_name, p->name), attr_i(AT_experts, op_int(op, AT_experts, -1))};
  OpSpec spec = {.kind = OP_read, .name = p->name, .type = p->type, .nattrs = 2, .attrs = attrs};
  r->b.loc = p->loc;
  Val v = op_attr(op, AT_experts) ? build_op(&r->b, &spec) : build_read(&r->b, p->name);
  r->b.loc = (Loc){0};
  return v;
}

/* The value of a trained weight: its state, read. */
static Val read_weight(Rewrite *r, TrainedList *list, const Op *op, const Param *p) {
  Module *m = r->m;
  for (size_t i = 0; i < list->n; i++) {
    const Param *have = module_param(m, list->items[i].name);
    if (have == p) return list->items[i].read;
    if (!share_bytes(have, p)) continue;
    diag_error(r->b.diags, DIAG_train, p->loc,
               "weights '%s' and '%s' share memory in the model's file, and would be "
               "trained apart",
               have->name, p->name);
    return 0;
  }
  if (p->type->dtype != DT_f32 && p->type->dtype != DT_f64) {
    diag_error(r->b.diags, DIAG_train, p->loc, "weight '%s' is %s; f32 weights are trained", p->name,
               dtype_name(p->type->dtype));
    return 0;
  }
  const State *have_state = module_state(m, p->name);
  if (have_state && !have_state->param) {
    diag_error(r->b.diags, DIAG_train, p->loc, "the model has a state '%s', as a weight is called", p->name);
    return 0;
  }
  if (!have_state) module_state_add(m, p->name, p->type, 0)->param = p->name;
  Val v = read_state(r, op, p);
  ARENA_PUSH(m->arena, list, ((Trained){p->name, v, 0}));
  return v;
}

/* The attributes of an operation, and one more. */
static void add_attribute(Arena *a, OpSpec *spec, Attr more) {
  Attr *attrs = ARENA_ARRAY(a, Attr, spec->nattrs + 1);
  for (int i = 0; i < spec->nattrs; i++) attrs[i] = spec->attrs[i];
  attrs[spec->nattrs++] = more;
  spec->attrs = attrs;
}

/* An attention gives the log-sum-exp of its scores as well, of which gradients are made; dce takes it back where nobody
 * makes any. */
static Val copy_attention(Rewrite *r, const Op *op) {
  OpSpec spec = op_spec_of(r->old, op);
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = r->map[op->in[i]];
  spec.in = in;
  add_attribute(r->m->arena, &spec, attr_i(AT_lse, 1));
  return rewrite_build(r, op, &spec);
}

/* Random numbers are others in every step (D40). */
static Val copy_random(Rewrite *r, const Op *op, Val steps) {
  OpSpec spec = op_spec_of(r->old, op);
  spec.kind = OP_random_keyed, spec.in = &steps, spec.nin = 1;
  add_attribute(r->m->arena, &spec, attr_i(AT_stream, 1));
  return rewrite_build(r, op, &spec);
}

/* A statistic of the data: what is written to it is there when all micro-batches are, and written then. */
static Val copy_write(Rewrite *r, const Op *op, WrittenList *written) {
  Val v = r->map[op->in[0]];
  r->b.prefix = arena_printf(r->m->arena, "%s.", op_str(op, AT_name));
  v = build_op(&r->b, &(OpSpec){.kind = OP_accumulate, .nin = 1, .in = &v});
  r->b.prefix = NULL;
  ARENA_PUSH(r->m->arena, written, ((Written){op_str(op, AT_name), v}));
  return v;
}

static void write_statistics(Rewrite *r, const WrittenList *written) {
  r->b.phase = PH_step;
  for (size_t i = 0; i < written->n; i++) build_write(&r->b, written->items[i].name, written->items[i].value);
  r->b.phase = PH_fwd;
}

static Val copy_op(Rewrite *r, const Op *op, Val steps) {
  if (!steps) return rewrite_copy(r, op);
  if (op->kind == OP_attention && !op_attr(op, AT_lse)) return copy_attention(r, op);
  return op->kind == OP_random ? copy_random(r, op, steps) : rewrite_copy(r, op);
}

/* The forward pass, with states for weights.  `steps` 0: as it is, for nobody makes gradients of it. */
static bool copy_forward(Rewrite *r, const Optimizer *o, Val steps, TrainedList *list, WrittenList *written) {
  for (size_t i = 0; i < r->old->ops.n; i++) {
    const Op *op = &r->old->ops.items[i];
    const Param *p = op->kind == OP_param ? module_param(r->m, op_str(op, AT_name)) : NULL;
    bool statistic = op_is_of_weight(r->m, op);
    if ((op_is_state(op->kind) && !statistic) || op_is_loop_part(op->kind))
      return diag_error(r->b.diags, DIAG_train, op->loc, "models with %s cannot be trained yet (operation '%s')",
                        op_is_state(op->kind) ? "states" : "loops", op->name);
    Val v = p && is_trained(p, o)  ? read_weight(r, list, op, p)
            : op->kind == OP_write ? copy_write(r, op, written)
                                   : copy_op(r, op, steps);
    if (!v) return false;
    if (p) r->map[op->out] = v;
  }
  return true;
}

/* Weights that the loss does not depend on stay what they are. */
static void drop_idle(TrainedList *list) {
  size_t n = 0;
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].gradient) list->items[n++] = list->items[i];
  list->n = n;
}

static const char *const added[] = {"eval", "weights", "states", "restore"};

/* The entry that is trained; `eval` becomes the one that the model has for its evaluation, or stays NULL. */
static Func *find_entry(Module *m, const Func **eval, Diags *diags) {
  Func *entry = NULL;
  for (size_t i = 0; i < m->funcs.n; i++) {
    Func *f = m->funcs.items[i];
    if (!f->outputs.n || strcmp(f->name, "prepare") == 0) continue;
    if (strcmp(f->name, added[0]) == 0) {
      *eval = f;
      continue;
    }
    if (entry) {
      diag_error(diags, DIAG_train, (Loc){0}, "the model has the entries @%s and @%s; one can be trained", entry->name,
                 f->name);
      return NULL;
    }
    entry = f;
  }
  if (!entry && *eval)
    diag_error(diags, DIAG_train, (Loc){0}, "the model's only entry is called 'eval', as one that training adds");
  for (size_t i = 0; entry && i < sizeof added / sizeof *added; i++)
    if (strcmp(entry->name, added[i]) == 0) {
      diag_error(diags, DIAG_train, (Loc){0}, "the model's entry is called '%s', as one that training adds", added[i]);
      return NULL;
    }
  return entry;
}

/* ---- entries beside the step */

/* `weights` gives all weights, those that are not trained as well: what a model of the same file needs. */
static void add_weights_entry(Module *m, Diags *diags) {
  Builder b = builder_new(m, module_func_add(m, "weights", 1), diags);
  b.phase = PH_pre; /* whatever the micro-batches */
  for (size_t i = 0; i < m->params.n; i++) {
    const char *name = m->params.items[i].name;
    const State *s = module_state(m, name);
    build_output(&b, name, s && s->param ? build_read(&b, name) : build_param(&b, name), NULL);
  }
}

/* `states` gives the trained weights and all moments. */
static void add_states_entry(Module *m, Diags *diags) {
  Builder b = builder_new(m, module_func_add(m, "states", 1), diags);
  b.phase = PH_pre;
  for (size_t i = 0; i < m->states.n; i++)
    build_output(&b, m->states.items[i].name, build_read(&b, m->states.items[i].name), NULL);
}

/* `restore` takes all states back; it has an output since every entry has: their number. */
static void add_restore_entry(Module *m, Diags *diags) {
  Builder b = builder_new(m, module_func_add(m, "restore", 1), diags);
  b.phase = PH_step;
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    build_write(&b, s->name, build_input(&b, s->name, s->type));
  }
  build_output(&b, "states", build_splat(&b, type_get(m, DT_i64, 0, NULL), (double)m->states.n), NULL);
}

/* The outputs of the old function as values of the new one. */
static const Output *mapped_outputs(const Rewrite *r) {
  const Func *f = r->old;
  Output *outputs = ARENA_ARRAY(r->m->arena, Output, f->outputs.n);
  for (size_t i = 0; i < f->outputs.n; i++) {
    outputs[i] = f->outputs.items[i];
    outputs[i].value = r->map[outputs[i].value];
  }
  return outputs;
}

static bool add_loss(Rewrite *r, const TrainOptions *o, Loss *loss) {
  r->b.prefix = "loss.";
  bool ok = train_loss(&r->b, o->loss, r->old->outputs.n, mapped_outputs(r), loss);
  r->b.prefix = NULL;
  return ok;
}

/* `eval` computes the loss, with the weights as they are by then, and how many rows or labels it is a mean of. */
static bool add_eval_entry(Module *m, const Func *f, const TrainOptions *o, Diags *diags) {
  Rewrite r = rewrite_start(m, f, diags);
  TrainedList list = {0};
  Loss loss;
  WrittenList written = {0};
  if (!copy_forward(&r, &o->optimizer, 0, &list, &written) || !add_loss(&r, o, &loss)) return false;
  if (written.n)
    return diag_error(diags, DIAG_train, (Loc){0}, "entry 'eval' writes '%s'; what is evaluated changes nothing",
                      written.items[0].name);
  build_output(&r.b, "loss", loss.value, NULL);
  build_output(&r.b, "count", loss.count, NULL);
  r.b.f->name = added[0];
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == f) {
      m->funcs.items[i] = r.b.f;
      return true;
    }
  ARENA_PUSH(m->arena, &m->funcs, r.b.f);
  return true;
}

static bool add_entries(Module *m, const Func *f, const TrainOptions *o, Diags *diags) {
  if (!add_eval_entry(m, f, o, diags)) return false;
  add_weights_entry(m, diags);
  add_states_entry(m, diags);
  add_restore_entry(m, diags);
  return true;
}

bool pass_train(Module *m, const TrainOptions *o, Diags *diags) {
  TrainedList list = {0};
  WrittenList written = {0};
  Loss loss;
  const Func *eval = NULL, *f = o ? find_entry(m, &eval, diags) : NULL;
  if (!f) return !o;
  Rewrite r = rewrite_start(m, f, diags);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input && strcmp(op_str(&f->ops.items[i], AT_name), "step") == 0)
      return diag_error(diags, DIAG_train, (Loc){0}, "the model has an input 'step', which training adds");
  Val steps = build_input(&r.b, "step", type_get(m, DT_i64, 0, NULL));
  if (!copy_forward(&r, &o->optimizer, steps, &list, &written) || !add_loss(&r, o, &loss) ||
      !train_backward(&r.b, loss.value, &list))
    return false;
  drop_idle(&list);
  if (!list.n) return diag_error(diags, DIAG_train, (Loc){0}, "the loss depends on no weight that is trained");
  build_output(&r.b, "loss", loss.value, NULL);
  if (!train_update(&r.b, &o->optimizer, steps, &list)) return false;
  write_statistics(&r, &written);
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == f) m->funcs.items[i] = r.b.f;
  return add_entries(m, eval ? eval : f, o, diags);
}
