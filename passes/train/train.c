/* passes/train/train.c - pass `train`: turns the model's function into one step of its training (train.h).
 *
 * In: a flat module with one entry, whose only states are statistics of the data: they start as a weight that is not
 * trained, as in batch norms of the model language.  An additional entry `eval` is used for evaluation.  Out: the
 * function computes the loss and the gradients of all trainable weights that the loss depends on, and updates these
 * weights; its outputs are `loss`, `grad_norm` and `lr`.  Entry `eval` computes only the loss; `weights` and `states`
 * return the current values, and `restore` sets them.  Weights stay whole: this pass replaces `views`, so that a table
 * that is used twice, once transposed, is one state.  It runs after `recognise`, whose operations have shorter
 * derivatives, and before `widen` and `prepare`, because values that change in every step must not be prepared.
 */
#include "passes/train/train.h"

#include <string.h>

#include "passes/rewrite/rewrite.h"

/* The new value of a statistic of the data. */
typedef struct Written {
  const char *name;
  Val value;
} Written;

typedef struct WrittenList {
  Written *items;
  size_t n, cap;
} WrittenList;

/* Appends an attribute to those of an operation. */
static void add_attribute(Arena *a, OpSpec *spec, Attr more) {
  Attr *attrs = ARENA_ARRAY(a, Attr, spec->nattrs + 1);
  for (int i = 0; i < spec->nattrs; i++) attrs[i] = spec->attrs[i];
  attrs[spec->nattrs++] = more;
  spec->attrs = attrs;
}

/* Lets an attention also return the largest score and the sum of each query, which its gradients need; dce removes them
 * if no gradient uses them. */
static Val copy_attention(Rewrite *r, const Op *op) {
  OpSpec spec = op_spec_of(r->old, op);
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = r->map[op->in[i]];
  spec.in = in;
  add_attribute(r->m->arena, &spec, attr_i(AT_sums, 1));
  return rewrite_build(r, op, &spec);
}

/* Random numbers differ in every step (D40). */
static Val copy_random(Rewrite *r, const Op *op, Val steps) {
  OpSpec spec = op_spec_of(r->old, op);
  spec.kind = OP_random_keyed, spec.in = &steps, spec.nin = 1;
  add_attribute(r->m->arena, &spec, attr_i(AT_stream, 1));
  return rewrite_build(r, op, &spec);
}

/* A statistic of the data is written once, after all micro-batches. */
static Val copy_write(Rewrite *r, const Op *op, WrittenList *written) {
  Val v = r->map[op->in[0]];
  r->b.prefix = arena_printf(r->m->arena, "%s.", op_str(op, AT_name));
  v = build_op(&r->b, &(OpSpec){.kind = OP_accumulate, .nin = 1, .in = &v});
  r->b.prefix = NULL;
  ARENA_PUSH(r->m->arena, written, ((Written){op_str(op, AT_name), v}));
  return v;
}

/* A step that does not count (`finite`) leaves them, as its gradients may come from values that overflowed. */
static void write_statistics(Rewrite *r, const WrittenList *written, Val finite) {
  r->b.phase = PH_step;
  for (size_t i = 0; i < written->n; i++) {
    const Written *w = &written->items[i];
    Val v = finite ? train_if_counts(&r->b, finite, w->value, build_read(&r->b, w->name)) : w->value;
    build_write(&r->b, w->name, v);
  }
  r->b.phase = PH_fwd;
}

static Val copy_op(Rewrite *r, const Op *op, Val steps) {
  if (!steps) return rewrite_copy(r, op);
  if (op->kind == OP_attention && !op_attr(op, AT_sums)) return copy_attention(r, op);
  return op->kind == OP_random ? copy_random(r, op, steps) : rewrite_copy(r, op);
}

/* Copies an addition, whose residual branch is dropped at random. */
static Val copy_residual(Rewrite *r, const TrainWeights *w, const Op *op, double rate, int operand, Val steps) {
  Val in[] = {r->map[op->in[0]], r->map[op->in[1]]};
  OpSpec spec = op_spec_of(r->old, op);
  r->b.loc = op->loc;
  in[operand] = train_drop_branch(&r->b, op->name, w->o->rules->seed, rate, in[operand], steps);
  spec.in = in;
  return in[operand] ? rewrite_build(r, op, &spec) : 0;
}

/* True if the step changes the weight. */
static bool has_state(const TrainWeights *w, const char *weight) {
  const char *kept, *root = weight;
  while ((kept = train_kept(w, root))) root = kept;
  return module_state(w->m, train_stored(w, root)) != NULL;
}

/* Copies the forward pass, with states in place of weights.  `steps` 0: a plain copy, of which no gradients are
 * made. */
static bool copy_forward(Rewrite *r, const TrainWeights *w, Val steps, TrainedList *list, WrittenList *written) {
  double *rates = NULL;
  int *branches = NULL;
  if (steps && !train_find_drops(w, r->old, &rates, &branches)) return false;
  for (size_t i = 0; i < r->old->ops.n; i++) {
    const Op *op = &r->old->ops.items[i];
    const char *weight = op->kind == OP_param ? op_str(op, AT_name) : NULL;
    bool statistic = op_is_of_weight(r->m, op);
    if ((op_is_state(op->kind) && !statistic) || op_is_loop_part(op->kind))
      return diag_error(r->b.diags, DIAG_train, op->loc, "models with %s cannot be trained yet (operation '%s')",
                        op_is_state(op->kind) ? "states" : "loops", op->name);
    bool changed = weight && (train_kept(w, weight) || train_is_trained(w, module_param(r->m, weight))) &&
                   (steps || has_state(w, weight));
    Val v = changed                 ? train_value(w, &r->b, list, op, weight)
            : op->kind == OP_write  ? copy_write(r, op, written)
            : rates && rates[i] > 0 ? copy_residual(r, w, op, rates[i], branches[i], steps)
                                    : copy_op(r, op, steps);
    if (!v) return false;
    if (weight) r->map[op->out] = v;
  }
  return true;
}

/* Turns weights that the loss does not depend on back into plain weights. */
static void drop_idle(Rewrite *r, TrainedList *list) {
  size_t n = 0;
  for (size_t i = 0; i < list->n; i++) {
    const Trained *t = &list->items[i];
    if (t->gradient) {
      list->items[n++] = *t;
      continue;
    }
    r->b.f->ops.items[r->b.f->values.items[t->read].op].kind = OP_param;
    module_state_remove(r->m, t->name);
  }
  list->n = n;
}

static const char *const added[] = {"eval", "weights", "states", "restore", "averages", "adapter"};

/* Finds the entry to train; *eval becomes the model's own entry for evaluation, NULL if it has none. */
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
      diag_error(diags, DIAG_train, (Loc){0}, "the model has the entries @%s and @%s; training needs exactly one",
                 entry->name, f->name);
      return NULL;
    }
    entry = f;
  }
  if (!entry && *eval)
    diag_error(diags, DIAG_train, (Loc){0},
               "the model's only entry is called 'eval', but training adds an entry of that name");
  for (size_t i = 0; entry && i < sizeof added / sizeof *added; i++)
    if (strcmp(entry->name, added[i]) == 0) {
      diag_error(diags, DIAG_train, (Loc){0},
                 "the model's entry is called '%s', but training adds an entry of that name", added[i]);
      return NULL;
    }
  return entry;
}

/* ---- further entries */

Val train_current(Builder *b, const char *weight) {
  const State *s = module_state(b->m, weight);
  return s && s->param ? build_read(b, weight) : build_param(b, weight);
}

/* The average of the weight; the weight if it is not trained. */
static Val averaged(Builder *b, const char *weight) {
  const char *average = arena_printf(b->m->arena, "%s:ema", weight);
  return module_state(b->m, average) ? build_read(b, average) : train_current(b, weight);
}

/* Adds an entry that returns all weights of the model file, also those that are not trained, each with its `value`.  A
 * weight that is another one transposed is left out, and one that repeats a part is that part
 * (frontend/onnx/import_ties.c reads both).  Adapters are added to their weights. */
static void add_weights_entry(const TrainWeights *w, const char *entry, Val value(Builder *b, const char *weight)) {
  Module *m = w->m;
  Builder b = builder_new(m, module_func_add(m, entry, 1), w->diags);
  b.phase = PH_pre; /* independent of micro-batches */
  for (size_t i = 0; i < m->params.n; i++) {
    const char *name = m->params.items[i].name, *from = train_stored(w, name);
    if (!from || lora_is_part(w->o->lora, name)) continue;
    const LoraMade *adapter = lora_of(w->o->lora, name);
    Val v = value(&b, from);
    if (adapter) v = lora_merged(&b, adapter, v, value(&b, adapter->a), value(&b, adapter->b));
    build_output(&b, name, v, NULL);
  }
  builder_end(&b);
}

/* Adds entry `states`, which returns the trained weights and all moments. */
static void add_states_entry(Module *m, Diags *diags) {
  Builder b = builder_new(m, module_func_add(m, "states", 1), diags);
  b.phase = PH_pre;
  for (size_t i = 0; i < m->states.n; i++)
    build_output(&b, m->states.items[i].name, build_read(&b, m->states.items[i].name), NULL);
  builder_end(&b);
}

/* Adds entry `restore`, which sets all states; every entry needs an output, here the number of states. */
static void add_restore_entry(Module *m, Diags *diags) {
  Builder b = builder_new(m, module_func_add(m, "restore", 1), diags);
  b.phase = PH_step;
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    build_write(&b, s->name, build_input(&b, s->name, s->type));
  }
  build_output(&b, "states", build_splat(&b, type_get(m, DT_i64, 0, NULL), (double)m->states.n), NULL);
  builder_end(&b);
}

/* Returns the outputs of the old function as values of the new one. */
static const Output *mapped_outputs(const Rewrite *r) {
  const Func *f = r->old;
  Output *outputs = ARENA_ARRAY(r->m->arena, Output, f->outputs.n);
  for (size_t i = 0; i < f->outputs.n; i++) {
    outputs[i] = f->outputs.items[i];
    outputs[i].value = r->map[outputs[i].value];
  }
  return outputs;
}

static bool add_loss(Rewrite *r, const TrainOptions *o, bool evaluates, Loss *loss) {
  r->b.prefix = "loss.";
  bool ok = train_loss(&r->b, o->loss, r->old->outputs.n, mapped_outputs(r), evaluates, loss);
  r->b.prefix = NULL;
  return ok;
}

/* Adds entry `eval`, which computes the loss with the current weights, the number of rows or labels it is averaged
 * over, and for classes the share of labels that are right. */
static bool add_eval_entry(const TrainWeights *w, const Func *f) {
  Module *m = w->m;
  Diags *diags = w->diags;
  Rewrite r = rewrite_start(m, f, diags);
  TrainedList list = {0};
  Loss loss;
  WrittenList written = {0};
  if (!copy_forward(&r, w, 0, &list, &written) || !add_loss(&r, w->o, true, &loss)) return false;
  if (written.n)
    return diag_error(diags, DIAG_train, (Loc){0}, "entry 'eval' writes '%s'; evaluation must not change states",
                      written.items[0].name);
  build_output(&r.b, "loss", loss.value, NULL);
  build_output(&r.b, "count", loss.count, NULL);
  if (loss.accuracy) build_output(&r.b, "accuracy", loss.accuracy, NULL);
  if (loss.entropy) build_output(&r.b, "entropy", loss.entropy, NULL);
  builder_end(&r.b);
  r.b.f->name = added[0];
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == f) {
      m->funcs.items[i] = r.b.f;
      return true;
    }
  ARENA_PUSH(m->arena, &m->funcs, r.b.f);
  return true;
}

static bool add_entries(const TrainWeights *w, const Func *f) {
  if (!add_eval_entry(w, f)) return false;
  add_weights_entry(w, "weights", train_current);
  if (w->o->optimizer.ema > 0) add_weights_entry(w, "averages", averaged); /* trained weights by their averages */
  lora_entry(w->m, w->o->lora, w->diags);
  add_states_entry(w->m, w->diags);
  add_restore_entry(w->m, w->diags);
  return true;
}

bool train_step(Module *m, const TrainOptions *o, Diags *diags) {
  TrainedList list = {0};
  WrittenList written = {0};
  Loss loss;
  const Func *eval = NULL, *f = o ? find_entry(m, &eval, diags) : NULL;
  if (!f) return !o;
  if (!train_unroll(m, &f, diags) || (eval && !train_unroll(m, &eval, diags))) return false;
  const TrainWeights w = {m, o, diags};
  if (!train_check_rules(&w)) return false;
  Rewrite r = rewrite_start(m, f, diags);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input && strcmp(op_str(&f->ops.items[i], AT_name), "step") == 0)
      return diag_error(diags, DIAG_train, (Loc){0}, "the model has an input 'step', which training adds");
  Val steps = build_input(&r.b, "step", type_get(m, DT_i64, 0, NULL));
  Val scale = 0, finite = 0;
  if (!copy_forward(&r, &w, steps, &list, &written) || !add_loss(&r, o, false, &loss) ||
      (o->scaled && !train_scale(&r.b, &o->optimizer, &scale)) || !train_backward(&r.b, &w, loss.value, scale, &list))
    return false;
  drop_idle(&r, &list);
  if (!list.n) return diag_error(diags, DIAG_train, (Loc){0}, "the loss depends on no weight that is trained");
  build_output(&r.b, "loss", loss.value, NULL);
  if (!train_update(&r.b, &o->optimizer, steps, scale, &list, &finite)) return false;
  write_statistics(&r, &written, finite);
  builder_end(&r.b);
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == f) m->funcs.items[i] = r.b.f;
  train_report(&w);
  if (o->report) o->report->output = mapped_outputs(&r)[0].value;
  return add_entries(&w, eval ? eval : f);
}
