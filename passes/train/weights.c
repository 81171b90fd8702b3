/* passes/train/weights.c - how the weights of a model are trained (train.h).
 *
 * A weight is a state of its own (D39); or it is tied to another weight and shares its state, possibly transposed; or
 * it repeats a part: the part is added as a weight here, and the weight is the part's state, broadcast.  The user's
 * rules (TrainingRules) take precedence over facts found by the front end (TrainingFacts).
 */
#include <fnmatch.h>
#include <string.h>

#include "base/nearest.h"
#include "passes/train/train.h"

/* ---- rules of the user */

static bool no_weight(const TrainWeights *w, const char *option, const char *name) {
  diag_error(w->diags, DIAG_usage_value, (Loc){0}, "%s %s: the model has no such weight", option, name);
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < w->m->params.n; i++) nearest_try(&near, w->m->params.items[i].name);
  if (near.best) diag_help(w->diags, "the nearest name is '%s'", near.best);
  return false;
}

static bool fits_some(const Module *m, const char *glob) {
  for (size_t i = 0; i < m->params.n; i++)
    if (fnmatch(glob, m->params.items[i].name, 0) == 0) return true;
  return false;
}

static bool same_dims(const Type *x, const Type *y, bool transposed) {
  if (x->dtype != y->dtype || x->rank != y->rank || (transposed && x->rank != 2)) return false;
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] != y->dims[transposed ? 1 - d : d]) return false;
  return true;
}

static bool check_tie(const TrainWeights *w, const TrainingTie *tie) {
  const Param *kept = module_param(w->m, tie->kept), *tied = module_param(w->m, tie->tied);
  if (!kept || !tied) return no_weight(w, "--tie", kept ? tie->tied : tie->kept);
  if (kept == tied || train_kept(w, tie->kept))
    return diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--tie %s=%s: '%s' is itself a tied weight", tie->kept,
                      tie->tied, tie->kept);
  if (same_dims(kept->type, tied->type, false) || same_dims(kept->type, tied->type, true)) return true;
  return diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--tie %s=%s: the types differ, also transposed", tie->kept,
                    tie->tied);
}

static bool check_pad(const TrainWeights *w, const TrainingPad *pad) {
  const Param *p = module_param(w->m, pad->table);
  int64_t dims[MAX_RANK], at;
  if (!p) return no_weight(w, "--pad", pad->table);
  if (!p->type->rank || !type_constant_dims(p->type, dims))
    return diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--pad %s: the weight is not a table", pad->table);
  at = pad->row < 0 ? pad->row + dims[0] : pad->row;
  if (at >= 0 && at < dims[0]) return true;
  return diag_error(w->diags, DIAG_usage_value, (Loc){0}, "--pad %s=%lld: the table has %lld rows", pad->table,
                    (long long)pad->row, (long long)dims[0]);
}

/* Checks that each glob, with | between them, of a setting of --optimizer fits some weight. */
static bool check_globs(const TrainWeights *w, const char *setting, const char *globs) {
  bool ok = true;
  for (const char *at = globs; at && *at;) {
    const size_t n = strcspn(at, "|");
    const char *glob = arena_strndup(w->m->arena, at, n);
    if (!fits_some(w->m, glob)) ok = no_weight(w, setting, glob);
    at += n + (at[n] == '|');
  }
  return ok;
}

static bool check_optimizer(const TrainWeights *w) {
  const Optimizer *o = &w->o->optimizer;
  bool ok = check_globs(w, "--optimizer: train", o->train);
  ok = check_globs(w, "--optimizer: freeze", o->freeze) && ok;
  ok = check_globs(w, "--optimizer: decay", o->decay) && ok;
  ok = check_globs(w, "--optimizer: no_decay", o->no_decay) && ok;
  return check_globs(w, "--optimizer: adamw", o->adamw) && ok;
}

/* Checks that no weight with an adapter is tied to another: the adapter of one would be missing in the other. */
static bool check_adapters(const TrainWeights *w) {
  bool ok = true, turned = false;
  for (size_t i = 0; w->o->lora && i < w->o->lora->made.n; i++) {
    const char *weight = w->o->lora->made.items[i].weight, *root = train_root(w, weight, &turned);
    for (size_t k = 0; k < w->m->params.n; k++) {
      const char *other = w->m->params.items[k].name;
      if (strcmp(other, weight) == 0 || strcmp(train_root(w, other, &turned), root) != 0) continue;
      ok = diag_error(w->diags, DIAG_usage_value, (Loc){0},
                      "--lora: weight '%s' cannot have an adapter: it is tied to '%s'", weight, other);
    }
  }
  return ok;
}

bool train_check_rules(const TrainWeights *w) {
  const TrainingRules *r = w->o->rules;
  bool ok = check_optimizer(w);
  for (size_t i = 0; r && i < r->globs.n; i++)
    if (!fits_some(w->m, r->globs.items[i].glob))
      ok = no_weight(w, r->globs.items[i].trained ? "--trainable" : "--freeze", r->globs.items[i].glob);
  for (size_t i = 0; r && i < r->ties.n; i++) ok = check_tie(w, &r->ties.items[i]) && ok;
  for (size_t i = 0; r && i < r->pads.n; i++) ok = check_pad(w, &r->pads.items[i]) && ok;
  return ok && check_adapters(w);
}

bool train_is_trained(const TrainWeights *w, const Param *p) {
  const Optimizer *o = &w->o->optimizer;
  if (!p->trainable || !dtype_is_float(p->type->dtype)) return false;
  TrainingWish wish = training_wish(w->o->rules, p->name);
  if (wish != TRAINING_UNSAID) return wish == TRAINING_TRAINED;
  if (w->o->lora && !lora_is_part(w->o->lora, p->name)) return false;
  return (!o->train || training_glob(o->train, p->name)) && !(o->freeze && training_glob(o->freeze, p->name));
}

/* ---- ties and parts */

static const TrainingTie *tie_in(const TrainingTie *items, size_t n, const char *name) {
  for (size_t i = n; i-- > 0;)
    if (strcmp(items[i].tied, name) == 0) return &items[i];
  return NULL;
}

static const TrainingTie *tie_of(const TrainWeights *w, const char *name) {
  const TrainingRules *r = w->o->rules;
  const TrainingFacts *f = w->o->facts;
  const TrainingTie *asked = r ? tie_in(r->ties.items, r->ties.n, name) : NULL;
  return asked || !f ? asked : tie_in(f->ties.items, f->ties.n, name);
}

const char *train_kept(const TrainWeights *w, const char *name) {
  const TrainingTie *tie = tie_of(w, name);
  return tie ? tie->kept : NULL;
}

/* True if the tied weight is the transposed one: for ties of the user by their types, for others as found. */
static bool is_transposed(const TrainWeights *w, const TrainingTie *tie) {
  const TrainingFacts *f = w->o->facts;
  for (size_t i = 0; f && i < f->ties.n; i++)
    if (strcmp(f->ties.items[i].tied, tie->tied) == 0 && strcmp(f->ties.items[i].kept, tie->kept) == 0)
      return f->ties.items[i].transposed;
  return !same_dims(module_param(w->m, tie->kept)->type, module_param(w->m, tie->tied)->type, false);
}

const char *train_root(const TrainWeights *w, const char *name, bool *transposed) {
  for (const TrainingTie *tie; (tie = tie_of(w, name)); name = tie->kept) *transposed ^= is_transposed(w, tie);
  return name;
}

static const TrainingRepeat *repeat_of(const TrainWeights *w, const char *name) {
  const TrainingFacts *f = w->o->facts;
  for (size_t i = 0; f && i < f->repeats.n; i++)
    if (strcmp(f->repeats.items[i].name, name) == 0) return &f->repeats.items[i];
  return NULL;
}

static const char *part_name(const TrainWeights *w, const char *whole) {
  return arena_printf(w->m->arena, "%s:part", whole);
}

static bool is_part(const TrainWeights *w, const char *name) {
  const TrainingFacts *f = w->o->facts;
  for (size_t i = 0; f && i < f->repeats.n; i++)
    if (strcmp(part_name(w, f->repeats.items[i].name), name) == 0) return true;
  return false;
}

/* Returns the part that the weight repeats, as a view of its bytes; NULL if it is not stored in a file. */
static const Param *add_part(const TrainWeights *w, const TrainingRepeat *repeat) {
  Module *m = w->m;
  const Param *whole = module_param(m, repeat->name), *have = module_param(m, part_name(w, repeat->name));
  if (have || whole->init != INIT_BLOB || whole->origin.name) return have;
  const Param from = *whole; /* a copy, because the list grows */
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < from.type->rank; d++) dims[d] = repeat->dims >> d & 1u ? ex_const(m, 1) : from.type->dims[d];
  Param *p = module_param_add(m, module_string(m, part_name(w, repeat->name)),
                              type_get(m, from.type->dtype, from.type->rank, dims));
  const char *name = p->name;
  const Type *type = p->type;
  *p = from;
  p->name = name, p->type = type;
  p->origin = (ParamOrigin){from.name, from.type, 0};
  return p;
}

const char *train_stored(const TrainWeights *w, const char *name) {
  if (is_part(w, name)) return NULL;
  const TrainingTie *tie = tie_of(w, name);
  if (tie) return is_transposed(w, tie) ? NULL : train_stored(w, tie->kept);
  const char *part = part_name(w, name);
  return repeat_of(w, name) && module_param(w->m, part) ? part : name;
}

/* ---- states */

static bool is_apart(const TrainWeights *w, const char *name) {
  const TrainingFacts *f = w->o->facts;
  for (size_t i = 0; f && i < f->apart.n; i++)
    if (strcmp(f->apart.items[i], name) == 0) return true;
  return false;
}

/* True if the weights' bytes overlap in the file. */
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

/* Reads the state of a weight that `op` read; it belongs to experts if the weight does. */
static Val read_state(Builder *b, const Op *op, const Param *p) {
  const Loc saved = b->loc;
  b->loc = p->loc;
  Attr attrs[] = {attr_s(b->m, AT_name, p->name), attr_i(AT_experts, op ? op_int(op, AT_experts, -1) : -1)};
  OpSpec spec = {.kind = OP_read, .name = p->name, .type = p->type, .nattrs = 2, .attrs = attrs};
  Val v = op && op_attr(op, AT_experts) ? build_op(b, &spec) : build_read(b, p->name);
  b->loc = saved;
  return v;
}

/* Returns the value of a trained weight: its state, read. */
static Val read_weight(const TrainWeights *w, Builder *b, TrainedList *list, const Op *op, const Param *p) {
  Module *m = w->m;
  for (size_t i = 0; i < list->n; i++) {
    const Param *have = &m->params.items[list->items[i].param];
    if (have == p) return list->items[i].read;
    if (p->init != INIT_BLOB || !share_bytes(have, p) || is_apart(w, p->name) || is_apart(w, have->name)) continue;
    diag_error(w->diags, DIAG_train, p->loc,
               "weights '%s' and '%s' share bytes in the model's file, but would be trained separately", have->name,
               p->name);
    return 0;
  }
  if (p->type->dtype != DT_f32 && p->type->dtype != DT_f64) {
    diag_error(w->diags, DIAG_train, p->loc, "weight '%s' is %s; only f32 and f64 weights can be trained", p->name,
               dtype_name(p->type->dtype));
    return 0;
  }
  const State *have_state = module_state(m, p->name);
  if (have_state && !have_state->param) {
    diag_error(w->diags, DIAG_train, p->loc, "'%s' is the name of a state and of a weight", p->name);
    return 0;
  }
  if (!have_state) module_state_add(m, p->name, p->type, 0)->param = p->name;
  Val v = read_state(b, op, p);
  ARENA_PUSH(m->arena, list, ((Trained){p->name, (size_t)(p - m->params.items), v, 0}));
  return v;
}

Val train_value(const TrainWeights *w, Builder *b, TrainedList *list, const Op *op, const char *name) {
  const TrainingTie *tie = tie_of(w, name);
  const Param *p = module_param(w->m, name);
  if (tie) {
    const int perm[] = {1, 0};
    bool transposed = is_transposed(w, tie);
    Val v = train_value(w, b, list, op, tie->kept);
    return v && transposed ? build_transpose(b, v, perm) : v;
  }
  if (!train_is_trained(w, p)) return build_param(b, name);
  const TrainingRepeat *repeat = repeat_of(w, name);
  const Type *type = p->type;
  const Param *part = repeat ? add_part(w, repeat) : NULL;
  if (!part) return read_weight(w, b, list, op, module_param(w->m, name));
  Val v = read_weight(w, b, list, op, part);
  return v ? build_bcast_to(b, v, type->rank, type->dims) : 0;
}

const bool *train_marks(Module *m, const TrainOptions *o, Diags *diags) {
  const TrainWeights w = {m, o, diags};
  bool *marks = ARENA_ARRAY(m->arena, bool, m->params.n + 1);
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    marks[i] = train_kept(&w, p->name) || train_is_trained(&w, p);
  }
  return marks;
}

/* ---- report */

static int64_t elements_of(const Param *p) {
  int64_t dims[MAX_RANK], n = 1;
  if (!type_constant_dims(p->type, dims)) return 0;
  for (int d = 0; d < p->type->rank; d++) n *= dims[d];
  return n;
}

static const char *why_not(const TrainWeights *w, const Param *p) {
  if (train_is_trained(w, p)) return "the loss does not depend on it";
  if (w->o->lora && training_wish(w->o->rules, p->name) == TRAINING_UNSAID && !lora_is_part(w->o->lora, p->name))
    return "only the adapters of --lora are (--trainable NAME trains one)";
  return training_wish(w->o->rules, p->name) == TRAINING_FROZEN ? "excluded by --freeze"
                                                                : "excluded by train= or freeze= of --optimizer";
}

void train_report(const TrainWeights *w) {
  Module *m = w->m;
  TrainReport *r = w->o->report;
  if (!r) return;
  r->weights = r->all = r->elements = r->all_elements = 0, r->left.n = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    if (!p->trainable || !dtype_is_float(p->type->dtype) || train_kept(w, p->name) || is_part(w, p->name)) continue;
    const Param *part = repeat_of(w, p->name) ? module_param(m, part_name(w, p->name)) : NULL;
    const Param *counted = part ? part : p;
    const State *s = module_state(m, counted->name);
    r->all++, r->all_elements += elements_of(counted);
    if (s && s->param) r->weights++, r->elements += elements_of(counted);
    else ARENA_PUSH(m->arena, &r->left, ((TrainingReason){p->name, why_not(w, p)}));
  }
}
