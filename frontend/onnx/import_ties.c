/* frontend/onnx/import_ties.c - weights that a file stores once but are several, and weights that it stores twice
 * but are one.
 *
 * Exporters write equal tensors once.  So in a fresh model biases of zeros and gains of ones are one tensor that
 * many nodes read.  They are trained separately, by use.  PyTorch's older exporter writes an Identity for each, with
 * its name, whatever the elements are; the newer one notes in nodes which parameters they read (import_kind.c); in
 * other files every node has its own.  Except with the older exporter, a tensor that several nodes read and whose
 * elements differ is one weight, such as a table of tokens that is also the last layer.
 *
 * Of such a table exporters also write the transpose, for the product.  The two are tied if rows are taken of one of
 * them, or if the file notes that one was computed from the other.  Equal tensors that the file notes as computed
 * from one parameter are tied too.  A tensor that the exporter computed by repeating a part of parameters (a token
 * for every row of the batch) is that part.  A bias of zeros that it removed from a product or convolution is
 * restored.  Other tensors computed from parameters are trained as they are, with a note; parameters that were left
 * out are noted too.
 *
 * The user may override this: --untie here, --tie in passes/train.  If values come from a file of weights, its names
 * decide.
 */
#include <fnmatch.h>
#include <string.h>

#include "base/safetensors.h"
#include "frontend/onnx/import_graph.h"

typedef struct ImportApart {
  const ImportGraph *graph;
  ImportUse use;
  ImportItem *item;
  struct ImportApart *next;
} ImportApart;

ImportItem *import_item_at(const Import *im, ImportItem *item, size_t node, size_t operand) {
  for (const ImportApart *p = item ? item->apart : NULL; p; p = p->next)
    if (p->graph == im->g && p->use.node == node && p->use.operand == operand) return p->item;
  return item;
}

typedef struct Ties {
  Import *im;
  NameMap known;  /* p_NAME, the name in the program, of parameters that the file has */
  NameMap apart;  /* the same of untied ones -> their ImportItem */
  NameMap single; /* name of an initializer -> the only name that it was computed from */
  NameMap scopes; /* the older exporter's: tensor and module that reads it -> its ImportItem */
  NameMap biases; /* p_NAME of those that were left out -> the weight's name */
  OnnxReads untied, repeated, changed, lost, added;
  OnnxReads wished; /* tensors that --untie has affected */
} Ties;

static void say(const Ties *t, const char *text) { ARENA_PUSH(t->im->m->arena, &t->im->facts->said, text); }

static bool is_weight(const ImportItem *item) {
  const DType t = item->data.dtype;
  return item->is_weight && item->type && dtype_is_float(t) && dtype_computes(t) && !item->is_fixed &&
         (item->is_trained || item->data.elements > 1);
}

static bool all_equal(const Import *im, const OnnxData *d) {
  const uint8_t *bytes = onnx_file_bytes(im->file, d);
  size_t each = dtype_bytes(d->dtype);
  bool equal = bytes && d->elements > 0;
  for (uint64_t i = 1; equal && i < d->elements; i++) equal = memcmp(bytes, bytes + i * each, each) == 0;
  return equal;
}

static const Onnx__NodeProto *node_of(const Ties *t, ImportUse use) { return t->im->g->nodes.items[use.node]; }

static bool is_op(const Onnx__NodeProto *n, const char *type) { return strcmp(onnx_text(n->op_type), type) == 0; }

/* True if the operand is measured and never learned; also if the node passes it to nodes that measure it. */
static bool is_statistic(const Ties *t, ImportUse use, int steps) {
  enum { MOST_STEPS = 4 };
  const Onnx__NodeProto *n = node_of(t, use);
  if (is_op(n, "BatchNormalization")) return use.operand >= 3;
  if (steps == MOST_STEPS || !n->n_output || !(is_op(n, "Identity") || is_op(n, "Cast"))) return false;
  ImportUses uses = import_uses_of(t->im, n->output[0]);
  bool all = uses.n > 0;
  for (size_t i = 0; i < uses.n && all; i++) all = is_statistic(t, uses.items[i], steps + 1);
  return all;
}

static ImportUses weight_uses(const Ties *t, const ImportItem *item) {
  ImportUses all = import_uses_of(t->im, item->name), list = {0};
  for (size_t i = 0; i < all.n; i++)
    if (!is_statistic(t, all.items[i], 0)) ARENA_PUSH(t->im->m->arena, &list, all.items[i]);
  return list;
}

/* True if the user wants the tensor untied. */
static bool unties(Ties *t, const char *name) {
  bool wish = training_unties(t->im->dims.options->rules, name);
  if (wish) ARENA_PUSH(t->im->m->arena, &t->wished, name);
  return wish;
}

/* ---- one tensor, several weights */

static const char *free_name(const Ties *t, const char *name) {
  const char *free = name;
  for (int i = 1; name_find(&t->im->g->items, free); i++) free = arena_printf(t->im->m->arena, "%s.%d", name, i);
  return free;
}

static ImportItem *copy_of(Ties *t, const ImportItem *item, const char *name) {
  ImportItem *copy = ARENA_NEW(t->im->m->arena, ImportItem);
  *copy = *item;
  copy->name = module_string(t->im->m, name);
  copy->is_trained = true;
  copy->apart = NULL;
  return copy;
}

/* Makes the weight of that name for a use of the item; NULL if there is a file of weights without that name. */
static ImportItem *new_weight(Ties *t, const ImportItem *item, const char *name) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  if (weights && !import_stored(t->im, name)) return NULL;
  ImportItem *copy = copy_of(t, item, name);
  ARENA_PUSH(t->im->m->arena, &t->untied, copy->name);
  ARENA_PUSH(t->im->m->arena, &t->im->facts->apart, copy->name);
  return copy;
}

static void read_apart(Ties *t, ImportItem *item, ImportUse use, ImportItem *weight) {
  if (!weight || weight == item) return;
  ImportApart *p = ARENA_NEW(t->im->m->arena, ImportApart);
  *p = (ImportApart){t->im->g, use, weight, item->apart};
  item->apart = p;
  ARENA_PUSH(t->im->m->arena, &t->im->facts->reads, ((TrainingRead){weight->name, use.node, use.operand}));
}

/* True if several nodes read the weight and all its elements are equal, so that each may have its own. */
static bool is_shared(const Ties *t, const ImportItem *item) {
  return is_weight(item) && weight_uses(t, item).n > 1 && all_equal(t->im, &item->data);
}

/* The index of this operand among the shared tensors that the node reads; *n is their number. */
static size_t place_among(const Ties *t, ImportUse use, size_t *n) {
  const Onnx__NodeProto *node = node_of(t, use);
  size_t place = *n = 0;
  for (size_t k = 0; k < node->n_input; k++) {
    const ImportItem *item = import_find(t->im, node->input[k]);
    if (!item || is_statistic(t, (ImportUse){use.node, k}, 0) || !is_shared(t, item)) continue;
    if (k == use.operand) place = *n;
    ++*n;
  }
  return place;
}

/* The parameter that the operand is, among those that the node quotes and that no other tensor is; false if unknown. */
static bool quoted_at(const Ties *t, ImportUse use, OnnxQuotedName *out) {
  Arena *a = t->im->m->arena;
  OnnxQuoted quoted = import_kind_quoted(a, node_of(t, use)), left = {0};
  for (size_t i = 0; i < quoted.n; i++)
    if (!name_find(&t->known, quoted.items[i].called)) ARENA_PUSH(a, &left, quoted.items[i]);
  size_t n, place = place_among(t, use, &n);
  if (left.n != n) return false;
  return *out = left.items[place], true;
}

static void untie_quoted(Ties *t, ImportItem *item, const ImportUses *uses) {
  const char *own = import_kind_called(t->im->m->arena, t->im->kinds, item->name);
  for (size_t i = 0; i < uses->n; i++) {
    OnnxQuotedName q;
    ImportItem *weight = NULL;
    if (!quoted_at(t, uses->items[i], &q)) {
      if (i == 0 || !import_use_trains(t->im, uses->items[i], item->data.elements == 1)) continue;
      weight = new_weight(t, item, free_name(t, arena_printf(t->im->m->arena, "%s.%zu", item->name, i)));
    } else if (strcmp(q.called, own) != 0 && !(weight = name_find(&t->apart, q.called))) {
      weight = new_weight(t, item, free_name(t, q.name));
      name_put(t->im->m->arena, &t->apart, q.called, weight);
    }
    read_apart(t, item, uses->items[i], weight);
  }
  name_put(t->im->m->arena, &t->apart, own, item);
}

/* The module whose node reads the value first, by the older exporter's names: "/layer.0/query" of
 * "/layer.0/query_1/MatMul", which is its second call; NULL if none. */
static const char *module_of(const Ties *t, const char *value) {
  ImportUses uses = import_uses_of(t->im, value);
  for (size_t i = 0; i < uses.n; i++) {
    const Onnx__NodeProto *node = node_of(t, uses.items[i]);
    const char *name = onnx_text(node->name), *end = strrchr(name, '/');
    if (is_op(node, "Identity") || !end) continue;
    const char *last = end;
    while (last > name && last[-1] >= '0' && last[-1] <= '9') last--;
    if (last > name && last < end && last[-1] == '_') end = last - 1;
    return arena_strndup(t->im->m->arena, name, (size_t)(end - name));
  }
  return NULL;
}

/* The item that the module reads for the tensor, made on its first use. */
static ImportItem *of_module(Ties *t, const char *tensor, const char *value, ImportItem *otherwise) {
  const char *module = module_of(t, value);
  if (!module) return otherwise;
  const char *key = arena_printf(t->im->m->arena, "%s %s", tensor, module);
  ImportItem *have = name_find(&t->scopes, key);
  if (!have && otherwise) name_put(t->im->m->arena, &t->scopes, key, otherwise);
  return have ? have : otherwise;
}

/* Handles an Identity of the older exporter: a weight of that name.  Tensors that the exporter named itself are one
 * if one module reads them in several calls.
 */
static void untie_identity(Ties *t, ImportItem *item, ImportUse use) {
  const char *name = node_of(t, use)->output[0];
  ImportItem *weight = NULL;
  bool unnamed = strncmp(name, "onnx::", 6) == 0;
  if (unnamed) of_module(t, item->name, item->name, item);
  if (unnamed) weight = of_module(t, item->name, name, NULL);
  if (!weight) weight = new_weight(t, item, name);
  if (unnamed && weight) of_module(t, item->name, name, weight);
  read_apart(t, item, use, weight);
}

static bool is_identity(const Ties *t, ImportUse use) {
  const Onnx__NodeProto *node = node_of(t, use);
  return is_op(node, "Identity") && node->n_output;
}

/* The name of use `i` if every use is a separate weight; NULL if it is the item itself, as the first use is. */
static const char *name_of_use(const Ties *t, const ImportItem *item, const ImportUses *uses, size_t i, size_t *first) {
  if (is_identity(t, uses->items[i])) return node_of(t, uses->items[i])->output[0];
  if (item->data.elements == 1 && !import_use_trains(t->im, uses->items[i], true)) return NULL;
  if (*first == uses->n) *first = i;
  return *first == i ? NULL : free_name(t, arena_printf(t->im->m->arena, "%s.%zu", item->name, i));
}

static void untie_uses(Ties *t, ImportItem *item, const ImportUses *uses) {
  for (size_t i = 0, first = uses->n; i < uses->n; i++) {
    const char *name = name_of_use(t, item, uses, i, &first);
    if (name) read_apart(t, item, uses->items[i], new_weight(t, item, name));
  }
}

static void untie_traced(Ties *t, ImportItem *item, const ImportUses *uses) {
  for (size_t i = 0; i < uses->n; i++)
    if (is_identity(t, uses->items[i])) untie_identity(t, item, uses->items[i]);
}

/* True if the file of weights has it untied, as --untie makes it. */
static bool was_untied(const Ties *t, const ImportItem *item, const ImportUses *uses) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  bool any = false, all = weights != NULL;
  for (size_t i = 0, first = uses->n; i < uses->n && all; i++) {
    const char *name = name_of_use(t, item, uses, i, &first);
    any |= name != NULL;
    all = !name || import_stored(t->im, name);
  }
  return any && all;
}

/* Separates statistics of norms, which are not weights and are never trained.  If a file of weights lacks them,
 * another program wrote it and the tensor itself is meant; a checkpoint never has statistics.  A statistic that
 * an Identity passes on has the Identity's name.
 */
static void untie_statistics(Ties *t, ImportItem *item, const ImportUses *uses, bool also_weight) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  const char *together = free_name(t, arena_printf(t->im->m->arena, "%s.statistics", item->name));
  ImportItem *shared = NULL;
  for (size_t i = 0; i < uses->n; i++) {
    const char *name = is_identity(t, uses->items[i]) ? node_of(t, uses->items[i])->output[0] : NULL;
    if (!is_statistic(t, uses->items[i], 0) || (!name && !also_weight)) continue;
    if (weights && !import_stored(t->im, name ? name : together) && !safetensors_meta(weights, "steps")) continue;
    if (!name && !shared) shared = copy_of(t, item, together);
    read_apart(t, item, uses->items[i], name ? copy_of(t, item, name) : shared);
  }
}

/* The name of the statistic that use `i` reads, where batch norms that measure the batch read equal tensors that the
 * file stores once; NULL for the tensor itself.  PyTorch's newer exporter notes it; otherwise each node has its own. */
static const char *statistic_of_use(const Ties *t, const ImportItem *item, const ImportUses *uses, size_t i) {
  Arena *a = t->im->m->arena;
  OnnxQuotedName q;
  if (t->im->kinds) {
    bool known = import_kind_buffer(a, node_of(t, uses->items[i]), (int)uses->items[i].operand - 3, &q);
    return known && strcmp(q.called, import_kind_called(a, t->im->kinds, item->name)) != 0 ? q.name : NULL;
  }
  const char *apart = weight_uses(t, item).n ? ".statistics" : ""; /* as untie_statistics names it */
  return i > 0 && all_equal(t->im, &item->data) ? arena_printf(a, "%s%s.%zu", item->name, apart, i) : NULL;
}

/* Separates the statistics of batch norms that measure the batch, as weights are.  (An Identity of the older exporter
 * has separated them already.) */
static void untie_measured(Ties *t, ImportItem *item) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  ImportUses all = import_uses_of(t->im, item->name), uses = {0};
  NameMap made = {0};
  for (size_t i = 0; i < all.n && !import_is_traced(t->im); i++)
    if (is_op(node_of(t, all.items[i]), "BatchNormalization") && all.items[i].operand >= 3)
      ARENA_PUSH(t->im->m->arena, &uses, all.items[i]);
  for (size_t i = 0; i < uses.n && uses.n > 1; i++) {
    const char *name = statistic_of_use(t, item, &uses, i), *node = t->im->g->names[uses.items[i].node];
    if (!name ||
        !(weights ? import_stored(t->im, name) != NULL : import_measures(t->im, node_of(t, uses.items[i]), node)))
      continue;
    ImportItem *copy = name_find(&made, name);
    if (!copy) name_put(t->im->m->arena, &made, name, copy = copy_of(t, item, free_name(t, name)));
    read_apart(t, item, uses.items[i], copy);
  }
}

static void untie(Ties *t, ImportItem *item) {
  ImportUses all = import_uses_of(t->im, item->name), uses = weight_uses(t, item);
  if (uses.n < all.n && all.n > 1) untie_statistics(t, item, &all, uses.n > 0);
  if (uses.n < 2) return;
  if (unties(t, item->name) || was_untied(t, item, &uses)) return untie_uses(t, item, &uses);
  if (import_is_traced(t->im)) return untie_traced(t, item, &uses);
  if (!all_equal(t->im, &item->data)) return;
  if (t->im->kinds) untie_quoted(t, item, &uses);
  else untie_uses(t, item, &uses);
}

/* ---- two tensors, one weight */

static const uint8_t *matrix_bytes(const Ties *t, const ImportItem *item) {
  return item->data.rank == 2 ? onnx_file_bytes(t->im->file, &item->data) : NULL;
}

static bool is_transposed(const Ties *t, const ImportItem *x, const ImportItem *y) {
  const OnnxData *d = &x->data, *e = &y->data;
  const uint8_t *p = matrix_bytes(t, x), *q = matrix_bytes(t, y);
  if (!p || !q || d->dtype != e->dtype || d->dims[0] != e->dims[1] || d->dims[1] != e->dims[0]) return false;
  size_t each = dtype_bytes(d->dtype), rows = (size_t)d->dims[0], columns = (size_t)d->dims[1];
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < columns; k++)
      if (memcmp(p + (i * columns + k) * each, q + (k * rows + i) * each, each) != 0) return false;
  return true;
}

static bool is_table(const Ties *t, const ImportItem *item) {
  ImportUses uses = import_uses_of(t->im, item->name);
  for (size_t i = 0; i < uses.n; i++)
    if (uses.items[i].operand == 0 && is_op(node_of(t, uses.items[i]), "Gather")) return true;
  return false;
}

static ImportItem *initializer(const Ties *t, size_t i) {
  return name_find(&t->im->g->items, onnx_text(t->im->g->proto->initializer[i]->name));
}

/* True if one was computed from the other alone. */
static bool is_from(const Ties *t, const ImportItem *made, const ImportItem *from) {
  const char *source = name_find(&t->single, made->name);
  return source && strcmp(source, from->name) == 0;
}

/* Replaces a tied item by the item it is tied to; flips *transposed if it is that one's transpose. */
static void find_root(const Ties *t, ImportItem **item, bool *transposed) {
  const TrainingFacts *f = t->im->facts;
  for (size_t i = f->ties.n; i-- > 0;) {
    if (strcmp(f->ties.items[i].tied, (*item)->name) != 0) continue;
    *item = name_find(&t->im->g->items, f->ties.items[i].kept);
    *transposed ^= f->ties.items[i].transposed;
    i = f->ties.n;
  }
}

/* True if `tied` is not tied yet and the tie would not form a cycle. */
static bool can_tie(const Ties *t, ImportItem **kept, const ImportItem *tied, bool *transposed) {
  ImportItem *root = name_find(&t->im->g->items, tied->name);
  bool turned = false;
  find_root(t, &root, &turned);
  find_root(t, kept, transposed);
  return root == tied && *kept != tied;
}

static void tie(Ties *t, ImportItem *kept, ImportItem *tied, bool transposed) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  Arena *a = t->im->m->arena;
  if (!can_tie(t, &kept, tied, &transposed)) return;
  if (weights ? import_stored(t->im, tied->name) || !import_stored(t->im, kept->name)
              : unties(t, tied->name) || unties(t, kept->name))
    return;
  ARENA_PUSH(a, &t->im->facts->ties, ((TrainingTie){kept->name, tied->name, transposed}));
  if (weights) tied->tied = kept, tied->tied_transposed = transposed;
  else
    say(t, arena_printf(a, "tied: \"%s\" is \"%s\" %s, and both are trained as one weight (--untie %s separates them)",
                        tied->name, kept->name, transposed ? "transposed" : "stored again", tied->name));
}

static bool is_equal(const Ties *t, const ImportItem *x, const ImportItem *y) {
  const uint8_t *p = onnx_file_bytes(t->im->file, &x->data), *q = onnx_file_bytes(t->im->file, &y->data);
  return x->type == y->type && p && q && memcmp(p, q, x->data.elements * dtype_bytes(x->data.dtype)) == 0;
}

/* Ties two items that were computed from one parameter in the same way.  If all elements are equal, they may be
 * different parts of it, and are not tied. */
static void tie_alike(Ties *t, NameMap *first, ImportItem *item) {
  const char *source = name_find(&t->single, item->name);
  if (!source || !is_weight(item)) return;
  ImportItem *kept = name_find(first, source);
  if (!kept) name_put(t->im->m->arena, first, source, item);
  else if (is_equal(t, kept, item) && !all_equal(t->im, &item->data)) tie(t, kept, item, false);
}

/* Ties transposed weights if one is a table or was computed from the other; with a file of weights, in any case. */
static void tie_transposed(Ties *t, ImportItem *kept) {
  if (!is_weight(kept) || kept->data.rank != 2 || all_equal(t->im, &kept->data)) return;
  bool any = is_table(t, kept) || t->im->dims.options->weights;
  for (size_t i = 0; i < t->im->g->proto->n_initializer; i++) {
    ImportItem *tied = initializer(t, i);
    if (tied == kept || !is_weight(tied) || !(any || is_from(t, tied, kept)) || !is_transposed(t, kept, tied)) continue;
    tie(t, kept, tied, true);
  }
}

/* For square weights that the user ties, their elements decide whether one is the transpose of the other. */
static void find_asked(const Ties *t) {
  const TrainingRules *r = t->im->dims.options->rules;
  Arena *a = t->im->m->arena;
  for (size_t i = r ? r->ties.n : 0; i-- > 0;) { /* the last one counts */
    const TrainingTie *asked = &r->ties.items[i];
    ImportItem *kept = name_find(&t->im->g->items, asked->kept), *tied = name_find(&t->im->g->items, asked->tied);
    bool turned = true, square = kept && tied && is_weight(kept) && is_weight(tied) && kept->data.rank == 2 &&
                                 kept->type == tied->type && kept->data.dims[0] == kept->data.dims[1];
    if (!square || is_equal(t, kept, tied) || !is_transposed(t, kept, tied) || !can_tie(t, &kept, tied, &turned))
      continue;
    ARENA_PUSH(a, &t->im->facts->ties, ((TrainingTie){asked->kept, asked->tied, true}));
    say(t, arena_printf(a, "tied: \"%s\" is \"%s\" transposed, as their elements show", asked->tied, asked->kept));
  }
}

/* ---- parts that were repeated */

/* The dimensions along which all slices are equal. */
static unsigned repeated_dims(const Ties *t, const OnnxData *d) {
  const uint8_t *bytes = onnx_file_bytes(t->im->file, d);
  size_t each = dtype_bytes(d->dtype), inside = each;
  unsigned dims = 0;
  for (size_t k = d->rank; bytes && k-- > 0;) {
    size_t n = (size_t)d->dims[k], all = (size_t)d->elements * each;
    bool equal = n > 1;
    for (size_t at = 0; equal && at < all; at += inside)
      if (at / inside % n) equal = memcmp(bytes + at, bytes + at - inside, inside) == 0;
    if (equal) dims |= 1u << k;
    inside *= n;
  }
  return dims;
}

/* True if the file of weights has one of these slices. */
static bool has_part(const SafetensorsEntry *e, const OnnxData *d, unsigned dims) {
  bool is = e && (size_t)e->rank == d->rank;
  for (size_t k = 0; is && k < d->rank; k++) is = e->dims[k] == (dims >> k & 1u ? 1 : d->dims[k]);
  return is;
}

static void find_repeated(Ties *t, ImportItem *item) {
  const struct Safetensors *weights = t->im->dims.options->weights;
  OnnxReads from = import_kind_sources(t->im->m->arena, t->im->kinds, item->name);
  if (!from.n || !is_weight(item) || !item->is_trained) return;
  unsigned dims = all_equal(t->im, &item->data) ? 0 : repeated_dims(t, &item->data);
  bool copied =
      strncmp(item->name, "embedding", 9) == 0 || strncmp(item->name, "expand", 6) == 0; /* rows are unchanged */
  if (weights) {
    if (dims && !t->im->dims.options->training)
      ARENA_PUSH(t->im->m->arena, &t->im->facts->repeats, ((TrainingRepeat){item->name, dims}));
    item->repeats = dims && has_part(import_stored(t->im, item->name), &item->data, dims) ? dims : 0;
    return;
  }
  if (dims && !unties(t, item->name)) {
    ARENA_PUSH(t->im->m->arena, &t->im->facts->repeats, ((TrainingRepeat){item->name, dims}));
    ARENA_PUSH(t->im->m->arena, &t->repeated, item->name);
  }
  if (!copied && strncmp(item->name, "val_", 4) != 0) ARENA_PUSH(t->im->m->arena, &t->changed, item->name);
}

/* ---- biases that were left out */

static bool has_initializer_called(const Ties *t, const char *called) {
  return name_find(&t->known, called) || name_find(&t->apart, called);
}

/* Finds a parameter that a node quotes but does not read, where the exporter noted that it removed a bias. */
static void find_bias(Ties *t, size_t node) {
  const Onnx__NodeProto *proto = t->im->g->nodes.items[node];
  const struct Safetensors *weights = t->im->dims.options->weights;
  if (proto->n_input != 2 || !(is_op(proto, "Gemm") || is_op(proto, "Conv"))) return;
  OnnxQuoted quoted = import_kind_quoted(t->im->m->arena, proto);
  const OnnxQuotedName *left = NULL;
  size_t n = 0;
  for (size_t i = 0; i < quoted.n; i++)
    if (name_find(&t->biases, quoted.items[i].called) || !has_initializer_called(t, quoted.items[i].called))
      left = &quoted.items[i], n++;
  if (!quoted.lacks_bias || n != 1 || (weights && !import_stored(t->im, left->name))) return;
  const char *name = name_find(&t->biases, left->called); /* a layer that is called again has it already */
  if (!name) {
    name = module_string(t->im->m, free_name(t, left->name));
    name_put(t->im->m->arena, &t->apart, left->called, t);
    name_put(t->im->m->arena, &t->biases, left->called, (void *)(uintptr_t)name);
    ARENA_PUSH(t->im->m->arena, &t->added, name);
  }
  t->im->biases[node] = name;
  ARENA_PUSH(t->im->m->arena, &t->im->facts->reads, ((TrainingRead){name, node, 2}));
}

/* ---- what the exporter changed */

/* True for weights that PyTorch's older exporter computed, where it merged convolutions with norms. */
static bool is_joined(const Ties *t, const ImportItem *item) {
  return import_is_traced(t->im) && item->data.rank > 2 && strncmp(item->name, "onnx::Conv", 10) == 0;
}

static void find_lost(Ties *t) {
  const OnnxReads *all = import_kind_parameters(t->im->kinds);
  for (size_t i = 0; i < all->n; i++)
    if (!has_initializer_called(t, all->items[i])) ARENA_PUSH(t->im->m->arena, &t->lost, all->items[i]);
}

static void warn(const Ties *t, const OnnxReads *names, const char *format) {
  if (!names->n) return;
  diag_warning(t->im->d, DIAG_onnx_trained, t->im->loc, "%s: %s", format, import_names_text(t->im, names));
  diag_help(t->im->d, import_is_traced(t->im) ? "export the model with training=torch.onnx.TrainingMode.PRESERVE and "
                                                "do_constant_folding=False to train its own parameters"
                                              : "export the model with optimize=False to train its own parameters");
}

static void say_all(const Ties *t) {
  Arena *a = t->im->m->arena;
  if (t->untied.n)
    say(t, arena_printf(a,
                        "trained separately, although the file stores them once: %s "
                        "(--tie A=B trains B as A)",
                        import_names_text(t->im, &t->untied)));
  if (t->added.n)
    say(t, arena_printf(a, "biases of zeros that the exporter left out are trained: %s",
                        import_names_text(t->im, &t->added)));
  if (t->repeated.n)
    say(t, arena_printf(a,
                        "trained as the part that they repeat: %s (--untie "
                        "NAME trains all parts separately)",
                        import_names_text(t->im, &t->repeated)));
  warn(t, &t->changed,
       "the exporter computed these from parameters; they are trained in place of "
       "those parameters");
  warn(t, &t->lost,
       "the exporter left out parameters or merged them with others, so they "
       "are not trained");
}

/* Records the parameters that the file has: by their own names, or in tensors computed from them. */
static void name_known(Ties *t) {
  Arena *a = t->im->m->arena;
  for (size_t i = 0; i < t->im->g->proto->n_initializer; i++) {
    const ImportItem *item = initializer(t, i);
    if (!is_shared(t, item)) name_put(a, &t->known, import_kind_called(a, t->im->kinds, item->name), t);
    OnnxReads from = import_kind_sources(a, t->im->kinds, item->name);
    if (from.n == 1) name_put(a, &t->single, item->name, (void *)(uintptr_t)from.items[0]);
    for (size_t k = 0; k < from.n; k++) name_put(a, &t->known, import_kind_called(a, t->im->kinds, from.items[k]), t);
  }
}

static bool check_wishes(const Ties *t) {
  const TrainingRules *r = t->im->dims.options->rules;
  bool ok = true;
  for (size_t i = 0; r && i < r->untied.n; i++) {
    bool fits = false;
    for (size_t k = 0; k < t->wished.n; k++) fits |= fnmatch(r->untied.items[i], t->wished.items[k], 0) == 0;
    if (!fits)
      ok = diag_error(t->im->d, DIAG_usage_value, t->im->loc,
                      "--untie %s: no tensor of that name is read by several "
                      "nodes, tied, or repeated",
                      r->untied.items[i]);
  }
  return ok;
}

bool import_ties(Import *im) {
  const OnnxImportOptions *o = im->dims.options;
  if (!o || (!o->training && !o->weights)) return true;
  Ties t = {.im = im};
  NameMap first = {0}; /* parameter -> the first weight that was computed from it */
  size_t n = im->g->proto->n_initializer;
  if (im->kinds) name_known(&t);
  find_asked(&t);
  for (size_t i = 0; i < n; i++)
    if (is_weight(initializer(&t, i))) untie(&t, initializer(&t, i));
  for (size_t i = 0; i < n; i++) untie_measured(&t, initializer(&t, i));
  for (size_t i = 0; i < n; i++) {
    ImportItem *item = initializer(&t, i);
    tie_transposed(&t, item);
    tie_alike(&t, &first, item);
    if (im->kinds) find_repeated(&t, item);
    if (is_weight(item) && is_joined(&t, item)) ARENA_PUSH(im->m->arena, &t.changed, item->name);
  }
  if (im->kinds) im->biases = ARENA_ARRAY(im->m->arena, const char *, im->g->nodes.n);
  for (size_t i = 0; i < im->g->nodes.n && im->kinds; i++) find_bias(&t, i);
  if (im->kinds && o->training) find_lost(&t);
  if (o->training) say_all(&t);
  return check_wishes(&t);
}
