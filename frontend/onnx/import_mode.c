/* frontend/onnx/import_mode.c - nodes that compute otherwise in training than in evaluation.
 *
 * In: batch norms and dropouts, as their importers find them; the file's word on each; the user's globs (--train-mode).
 * Out: function "main" computes as in training, and, if anything differs, "eval" is the same graph imported once more,
 * in which batch norms use their running statistics and nothing is dropped (import.c).
 *
 * Running statistics are params that become states.  They are written once, when the graph ends.  A module that is
 * called twice updates its statistics twice: the second node starts from the value after the first.
 *
 * A mask that the file draws itself and divides by the probability to keep a value (PyTorch's Dropout2d and DropPath)
 * has the mean 1, so in evaluation it is 1.
 *
 * Not done: batch norms that the exporter folded into a convolution, and dropouts that it removed, which are no longer
 * in the file; masks of other forms, which evaluation draws too, and which are named.
 */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"

bool import_evaluates(const Import *im) { return im->modes.evaluates; }

/* ---- globs of --train-mode */

/* "layer.0.bn.BatchNormalization" for a node of PyTorch's older exporter, "/layer/0/bn/BatchNormalization". */
static const char *dotted(Arena *a, const char *name) {
  char *text = arena_strdup(a, *name == '/' ? name + 1 : name);
  for (char *p = text; *p; p++)
    if (*p == '/') *p = '.';
  return text;
}

/* The module of a batch norm: the name of its running mean without the last part; NULL if unknown. */
static const char *module_of(Arena *a, const Onnx__NodeProto *node) {
  bool norm = strcmp(onnx_text(node->op_type), "BatchNormalization") == 0 && node->n_input > 3;
  const char *mean = norm ? node->input[3] : NULL, *dot = mean ? strrchr(mean, '.') : NULL;
  return dot && dot > mean ? arena_strndup(a, mean, (size_t)(dot - mean)) : NULL;
}

static bool fits(Arena *a, const char *glob, const char *name, const char *module) {
  return fnmatch(glob, name, 0) == 0 || fnmatch(glob, dotted(a, name), 0) == 0 ||
         (module && fnmatch(glob, module, 0) == 0);
}

/* True if a glob fits; notes in `met` which ones do, unless it is NULL. */
static bool is_wished(const Import *im, const Onnx__NodeProto *node, const char *name, bool *met) {
  const TrainingRules *r = im->dims.options->rules;
  const char *module = module_of(im->m->arena, node);
  bool wished = false;
  for (size_t i = 0; r && i < r->modes.n; i++) {
    if (!fits(im->m->arena, r->modes.items[i], name, module)) continue;
    wished = true;
    if (met) met[i] = true;
  }
  return wished;
}

bool import_says_training(const Onnx__NodeProto *node, int64_t opset) {
  bool says = false;
  for (size_t i = 0; opset < 14 && i < node->n_output; i++) says = says || (i > 0 && *node->output[i]);
  for (size_t i = 0; opset >= 14 && i < node->n_attribute; i++)
    says = says || (strcmp(onnx_text(node->attribute[i]->name), "training_mode") == 0 && node->attribute[i]->i != 0);
  return says || import_kind_measures(node);
}

bool import_measures(const Import *im, const Onnx__NodeProto *node, const char *name) {
  return import_says_training(node, im->opset) || is_wished(im, node, name, NULL);
}

bool import_in_training(ImportNode *n, bool says) {
  ImportModes *modes = &n->im->modes;
  Arena *a = n->m->arena;
  if (modes->evaluates) return false;
  const TrainingRules *r = n->im->dims.options->rules;
  if (r && !modes->met) modes->met = ARENA_ARRAY(a, bool, r->modes.n + 1);
  bool is = is_wished(n->im, n->proto, n->name, modes->met) || says;
  bool norm = strcmp(n->op->type, "BatchNormalization") == 0;
  OnnxReads *list = norm ? (is ? &modes->measures : &modes->frozen) : is ? &modes->drops : &modes->idle;
  const char *module = module_of(a, n->proto);
  ARENA_PUSH(a, list, module ? module : n->name);
  return is;
}

void import_measures_itself(ImportNode *n) {
  ImportModes *modes = &n->im->modes;
  const TrainingRules *r = n->im->dims.options->rules;
  if (!r || modes->evaluates) return;
  if (!modes->met) modes->met = ARENA_ARRAY(n->m->arena, bool, r->modes.n + 1);
  is_wished(n->im, n->proto, n->name, modes->met);
}

void import_measures_untrained(ImportNode *n) { ARENA_PUSH(n->m->arena, &n->im->modes.measures, n->name); }

static void help_unmet(const Import *im) {
  const ImportModes *m = &im->modes;
  const size_t norms = m->measures.n + m->frozen.n, dropouts = m->drops.n + m->idle.n;
  if (norms)
    diag_help(im->d, "batch norms of the file: %s", import_names_text(im, m->frozen.n ? &m->frozen : &m->measures));
  if (dropouts) diag_help(im->d, "dropouts of the file: %s", import_names_text(im, m->idle.n ? &m->idle : &m->drops));
  diag_help(im->d,
            "a batch norm that the exporter folded into a convolution, and a dropout that it left out, are not in the "
            "file; export with optimize=False, or in training mode");
}

bool import_check_modes(const Import *im) {
  const OnnxImportOptions *o = im->dims.options;
  const TrainingRules *r = o ? o->rules : NULL;
  bool ok = true;
  for (size_t i = 0; r && !im->modes.evaluates && i < r->modes.n; i++) {
    if (im->modes.met && im->modes.met[i]) continue;
    ok = diag_error(im->d, DIAG_usage_value, im->loc,
                    "--train-mode %s: the file has no batch norm or dropout of that name", r->modes.items[i]);
    help_unmet(im);
  }
  return ok;
}

/* ---- running statistics */

bool import_is_unbiased(const Import *im) {
  return im->kinds || strcmp(onnx_text(onnx_file_model(im->file)->producer_name), "pytorch") == 0;
}

/* The param that the value is, in whatever type it is read; NULL if it is none. */
static const Param *param_of(const ImportNode *n, Val v) {
  const Op *op = v ? op_of(n->b->f, v) : NULL;
  while (op && (op->kind == OP_cast || op->kind == OP_copy)) op = op_of(n->b->f, op->in[0]);
  return op && op->kind == OP_param ? module_param(n->m, op_str(op, AT_name)) : NULL;
}

static ImportStatistic *statistic_of(const ImportNode *n, const Param *p) {
  ImportModes *modes = &n->im->modes;
  for (size_t i = 0; p && i < modes->statistics.n; i++)
    if (strcmp(modes->statistics.items[i].param, p->name) == 0) return &modes->statistics.items[i];
  return NULL;
}

Val import_statistic(ImportNode *n, Val v) {
  const ImportStatistic *s = statistic_of(n, param_of(n, v));
  return s ? build_cast(n->b, s->value, type_of(n->b->f, v)->dtype) : v;
}

bool import_set_statistic(ImportNode *n, Val v, Val next) {
  const Param *p = param_of(n, v);
  if (!p)
    return v &&
           node_error(n, "a running statistic is computed, not a tensor of the file, so training cannot update it");
  if (import_in_loop(n))
    return diag_error(
        n->b->diags, DIAG_train, n->b->loc,
        "%s: a batch norm in a loop or branch cannot be trained by the batch; without --train-mode and in "
        "inference mode it keeps its stored statistics",
        n->op->type);
  ImportStatistic *s = statistic_of(n, p);
  if (!(next = build_cast(n->b, next, p->type->dtype))) return false;
  if (s) s->value = next;
  else ARENA_PUSH(n->m->arena, &n->im->modes.statistics, ((ImportStatistic){p->name, next}));
  return true;
}

static void write_statistics(Import *im) {
  const ImportModes *modes = &im->modes;
  im->b.prefix = NULL;
  for (size_t i = 0; i < modes->statistics.n; i++) {
    const ImportStatistic *s = &modes->statistics.items[i];
    const Param *p = module_param(im->m, s->param);
    module_state_add(im->m, p->name, p->type, 0)->param = p->name;
    im->b.loc = p->loc;
    build_write(&im->b, p->name, s->value);
  }
}

void import_read_statistics(Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_param && module_state(m, op_str(op, AT_name))) op->kind = OP_read;
    }
}

/* ---- masks that the file draws */

void import_draws(ImportNode *n) {
  if (import_trains(n->im)) ARENA_PUSH(n->m->arena, &n->im->modes.draws, n->name);
}

/* The node that makes the operand, before casts; NULL if it is not a node of this graph. */
static const Onnx__NodeProto *maker(const Import *im, const char *value) {
  enum { MOST_CASTS = 4 };
  for (int i = 0; i <= MOST_CASTS; i++) {
    const ImportItem *item = import_find(im, value);
    if (!item || item->producer < 0 || im->g->outer) return NULL;
    const Onnx__NodeProto *node = im->g->nodes.items[item->producer];
    const char *type = onnx_text(node->op_type);
    if (strcmp(type, "Cast") != 0 && strcmp(type, "CastLike") != 0 && strcmp(type, "Identity") != 0) return node;
    value = node->input[0];
  }
  return NULL;
}

/* Returns an attribute of a random node. */
static double attribute_of(const Onnx__NodeProto *node, const char *name, double otherwise) {
  for (size_t i = 0; i < node->n_attribute; i++)
    if (strcmp(onnx_text(node->attribute[i]->name), name) == 0) return (double)node->attribute[i]->f;
  return otherwise;
}

/* The random node of a mask: 1 with the probability `share`, else 0; NULL if the value is none. */
static const Onnx__NodeProto *mask_source(ImportNode *n, const char *value, double share) {
  const Onnx__NodeProto *less = maker(n->im, value), *from;
  double limit;
  if (!less || strcmp(onnx_text(less->op_type), "Less") != 0 || less->n_input != 2) return NULL;
  from = maker(n->im, less->input[0]);
  if (!from || strncmp(onnx_text(from->op_type), "RandomUniform", 13) != 0) return NULL;
  if (attribute_of(from, "low", 0) != 0 || attribute_of(from, "high", 1) != 1) return NULL;
  ImportItem *item = import_find(n->im, less->input[1]);
  bool is = item && item->type && item_number(n, item, &limit) && fabs(limit - share) < 1e-6;
  return is ? from : NULL;
}

bool import_keeps_all(ImportNode *n) {
  ImportModes *modes = &n->im->modes;
  double share;
  if (!import_trains(n->im) || strcmp(n->op->type, "Div") != 0 || !n->in[0] || !input_number(n, 1, &share))
    return false;
  const Onnx__NodeProto *from = mask_source(n, n->proto->input[0], share);
  if (!from) return false;
  if (modes->evaluates) return import_set_output(n, 0, splat_like(n, input(n, 0), 1));
  ARENA_PUSH(n->m->arena, &modes->noise, onnx_text(from->output[0]));
  ARENA_PUSH(n->m->arena, &modes->drops, n->name);
  return false;
}

/* ---- reports */

/* The random nodes that evaluation runs too. */
static OnnxReads drawn_always(const Import *im) {
  const ImportModes *modes = &im->modes;
  OnnxReads left = {0};
  for (size_t i = 0; i < modes->draws.n; i++) {
    bool explained = false;
    for (size_t k = 0; k < modes->noise.n && !explained; k++) {
      const ImportItem *item = import_find(im, modes->noise.items[k]);
      explained = item && item->producer >= 0 && strcmp(im->g->names[item->producer], modes->draws.items[i]) == 0;
    }
    if (!explained) ARENA_PUSH(im->m->arena, &left, modes->draws.items[i]);
  }
  return left;
}

static void say(const Import *im, const OnnxReads *names, const char *what, const char *more) {
  if (names->n)
    ARENA_PUSH(im->m->arena, &im->facts->said,
               arena_printf(im->m->arena, "%s: %s%s", what, import_names_text(im, names), more));
}

void import_end_modes(Import *im) {
  const ImportModes *modes = &im->modes;
  if (!import_trains(im) && modes->measures.n)
    diag_warning(im->d, DIAG_onnx_mode, im->loc,
                 "batch norms in training mode take mean and variance from the batch, not from the file: %s",
                 import_names_text(im, &modes->measures));
  if (modes->evaluates || !import_trains(im)) return;
  write_statistics(im);
  const OnnxReads always = drawn_always(im);
  say(im, &modes->measures, "batch norms take mean and variance from the batch",
      import_is_unbiased(im) ? " (running variances are unbiased, as PyTorch's)" : "");
  say(im, &modes->frozen, "batch norms that keep their stored statistics", " (--train-mode NAME: those of the batch)");
  say(im, &modes->drops, "dropouts that drop values", "");
  say(im, &modes->idle, "dropouts that do nothing, as the file says", " (--train-mode NAME: drops values)");
  say(im, &always, "random numbers that evaluation draws too", "");
}

bool import_has_modes(const Import *im) { return import_trains(im) && (im->modes.measures.n || im->modes.drops.n); }
