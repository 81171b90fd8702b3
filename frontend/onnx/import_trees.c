/* frontend/onnx/import_trees.c - TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml: sums of
 * decision trees.
 *
 * All trees walk down together, one level at a time: a table per fact of a node (feature, split, the two next nodes) is
 * indexed by the number of the node where each tree is, [rows, trees].  Leaves lead to themselves, so that as many
 * steps as the deepest tree has end all of them.  A node that asks for membership is a chain of nodes that ask for
 * equality. The weights of the leaves, a table of [nodes, targets], are then aggregated over the trees.
 *
 * A target for which no reached leaf has a weight gets its base value, with every aggregate function, or 0.
 */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_private.h"
#include "frontend/onnx/tree_ids.h"
#include "frontend/onnx/tree_post.h"

typedef enum Mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF } Mode;
typedef enum Aggregate { AVERAGE, SUM, MIN, MAX } Aggregate;

enum { MAX_NODES = 1 << 16, MAX_DEPTH = 256, MAX_WEIGHTS = 1 << 18 };

typedef struct Node {
  int64_t feature, yes, no; /* the next nodes; of a leaf itself */
  double split;
  Mode mode;
  bool tracks; /* a missing value goes on to `yes` */
} Node;

typedef struct Forest {
  struct {
    Node *items;
    size_t n, cap;
  } nodes;
  struct {
    int64_t *items;
    size_t n, cap;
  } roots;
  int64_t targets, features; /* features: one more than the largest */
  double *weights;           /* [nodes][targets] */
  bool *weighted;            /* the leaf has a weight for the target */
  Aggregate aggregate;
  TreePost post;
  const double *base; /* [targets]; NULL if none */
  int depth;
} Forest;

/* ---- attributes */

/* Numbers of an attribute: a list of floats, or a tensor.  *n is -1 if it is absent.  False after an error. */
static bool read_numbers(ImportNode *n, const char *list, const char *tensor, int64_t *count, const double **out) {
  size_t floats = 0;
  const float *f = list ? node_floats(n, list, &floats) : NULL;
  double *v;
  if (tensor && has_attr(n, tensor)) {
    const Onnx__TensorProto *t = node_tensor(n, tensor);
    OnnxData d;
    if (!t || !onnx_file_data(import_file(n->im), n->b->diags, t, &d)) return false;
    const uint8_t *bytes = d.packed || !dtype_is_float(d.dtype) ? NULL : onnx_file_bytes(import_file(n->im), &d);
    if (!bytes && (d.elements || !dtype_is_float(d.dtype))) return node_error(n, "%s is no tensor of floats", tensor);
    if (d.elements > MAX_WEIGHTS) return node_error(n, "%s has more than %d elements", tensor, MAX_WEIGHTS);
    v = ARENA_ARRAY(n->m->arena, double, d.elements + 1);
    for (uint64_t i = 0; i < d.elements; i++) {
      uint8_t element[8];
      memcpy(element, bytes + i * dtype_bytes(d.dtype), dtype_bytes(d.dtype));
      v[i] = dtype_load_f(d.dtype, element);
    }
    *count = (int64_t)d.elements;
  } else {
    v = ARENA_ARRAY(n->m->arena, double, floats + 1);
    for (size_t i = 0; i < floats; i++) v[i] = (double)f[i];
    *count = list && has_attr(n, list) ? (int64_t)floats : -1;
  }
  *out = v;
  return true;
}

/* A list of integers of that length (-1: any); *out is NULL if it is absent and may be. */
static bool read_ints(ImportNode *n, const char *name, int64_t expected, bool required, const int64_t **out,
                      int *count) {
  *out = node_ints(n, name, count);
  if (*count < 0 && !required) return *out = NULL, *count = 0, true;
  if (*count < 0) return node_error(n, "attribute \"%s\" is missing", name);
  return expected < 0 || *count == expected ||
         node_error(n, "%s has %d elements, %lld are needed", name, *count, (long long)expected);
}

static bool find_word(ImportNode *n, const char *what, const char *word, const char *const *words, int count,
                      int *out) {
  for (*out = 0; *out < count; ++*out)
    if (strcmp(word, words[*out]) == 0) return true;
  return node_error(n, "%s \"%s\" is not known", what, word);
}

/* ---- building the trees */

static int64_t add_node(ImportNode *n, Forest *f, Node node) {
  ARENA_PUSH(n->m->arena, &f->nodes, node);
  return (int64_t)f->nodes.n - 1;
}

/* Adds nodes that ask for equality with each of the members; returns the first.  Without members the answer is no. */
static void add_members(ImportNode *n, Forest *f, int64_t at, const double *members, int64_t count) {
  Node asked = f->nodes.items[at];
  asked.mode = EQ;
  if (count == 0) asked.yes = asked.no, asked.split = 0, asked.tracks = false;
  for (int64_t i = count - 1; i >= 0; i--) {
    asked.split = members[i];
    if (i == 0) break;
    asked.no = add_node(n, f, asked);
  }
  f->nodes.items[at] = asked;
}

/* Sets the depth, by the longest ways from the roots; false after an error, which may be a node that no root leads to.
 * Members of a set lead to one node, so a node may be reached more than once. */
static bool measure(ImportNode *n, Forest *f, bool all_reached) {
  int *level = ARENA_ARRAY(n->m->arena, int, f->nodes.n + 1);
  size_t all = f->nodes.n, left = all;
  for (size_t i = 0; i < f->roots.n; i++) level[f->roots.items[i]] = 1;
  for (f->depth = 0; left; f->depth++) {
    left = 0;
    for (size_t i = 0; i < all; i++) {
      const Node *x = &f->nodes.items[i];
      if (level[i] != f->depth + 1 || x->mode == LEAF) continue;
      level[x->yes] = level[x->no] = f->depth + 2;
      left++;
    }
    if (f->depth > MAX_DEPTH)
      return node_error(n, "a tree has more than %d levels, or a node follows itself", MAX_DEPTH);
  }
  f->depth--;
  for (size_t i = 0; i < all && all_reached; i++)
    if (!level[i]) return node_error(n, "node %zu is in no tree", i);
  return true;
}

static bool check_nodes(ImportNode *n, int64_t nodes) {
  return nodes <= MAX_NODES || node_error(n, "more than %d nodes of trees", MAX_NODES);
}

/* A node asks for that feature. */
static bool add_feature(ImportNode *n, Forest *f, int64_t feature) {
  if (feature < 0) return node_error(n, "feature %lld is negative", (long long)feature);
  if (feature >= INT32_MAX) return node_error(n, "feature %lld is not below %d", (long long)feature, INT32_MAX);
  if (feature >= f->features) f->features = feature + 1;
  return true;
}

static bool check_size(ImportNode *n, const Forest *f) {
  if (!check_nodes(n, (int64_t)f->nodes.n)) return false;
  if (f->targets < 1 || f->targets > MAX_WEIGHTS / (int64_t)(f->nodes.n + 1))
    return node_error(n, "%lld targets for %zu nodes", (long long)f->targets, f->nodes.n);
  return true;
}

static void make_weights(ImportNode *n, Forest *f) {
  f->weights = ARENA_ARRAY(n->m->arena, double, (int64_t)f->nodes.n * f->targets + 1);
  f->weighted = ARENA_ARRAY(n->m->arena, bool, (int64_t)f->nodes.n * f->targets + 1);
}

static bool add_weight(ImportNode *n, Forest *f, int64_t node, int64_t target, double weight) {
  if (target < 0 || target >= f->targets)
    return node_error(n, "target %lld is not one of %lld", (long long)target, (long long)f->targets);
  f->weights[node * f->targets + target] += weight;
  f->weighted[node * f->targets + target] = true;
  return true;
}

/* ---- TreeEnsembleRegressor: nodes by the numbers of their tree and in it */

typedef struct Listed {
  const int64_t *trees, *ids, *features, *yes, *no, *tracks;
  const double *values;
  const char *const *modes;
  const TreeId *sorted;
  int n;
} Listed;

static bool read_listed(ImportNode *n, Listed *l) {
  static const char *const names[] = {"nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"};
  const int64_t **to[] = {&l->ids, &l->features, &l->yes, &l->no};
  int64_t values;
  size_t modes;
  int count;
  if (!read_ints(n, "nodes_treeids", -1, true, &l->trees, &l->n) || !check_nodes(n, l->n)) return false;
  for (int i = 0; i < 4; i++)
    if (!read_ints(n, names[i], l->n, true, to[i], &count)) return false;
  if (!read_ints(n, "nodes_missing_value_tracks_true", -1, false, &l->tracks, &count) ||
      !read_numbers(n, "nodes_values", "nodes_values_as_tensor", &values, &l->values))
    return false;
  l->modes = node_strings(n, "nodes_modes", &modes);
  if (modes != (size_t)l->n || values != l->n || (count && count != l->n))
    return node_error(n, "the lists of nodes have different lengths");
  l->sorted = tree_ids_sort(n->m->arena, l->trees, l->ids, l->n);
  const TreeId *twice = tree_ids_twice(l->sorted, l->n);
  if (twice) return node_error(n, "tree %lld has two nodes %lld", (long long)twice->tree, (long long)twice->id);
  return l->n > 0 || node_error(n, "there are no nodes");
}

static bool add_listed(ImportNode *n, Forest *f, const Listed *l, int i) {
  static const char *const words[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                      "BRANCH_EQ",  "BRANCH_NEQ", "MEMBER",     "LEAF"};
  int mode;
  if (!find_word(n, "nodes_modes", l->modes[i], words, 8, &mode)) return false;
  if (mode == MEMBER) return node_error(n, "nodes_modes \"MEMBER\" is for TreeEnsemble");
  Node x = {.feature = l->features[i], .split = l->values[i], .mode = (Mode)mode, .yes = i, .no = i};
  x.tracks = l->tracks && l->tracks[i];
  if (mode != LEAF) {
    x.yes = tree_ids_find(l->sorted, l->n, l->trees[i], l->yes[i]);
    x.no = tree_ids_find(l->sorted, l->n, l->trees[i], l->no[i]);
    if (x.yes < 0 || x.no < 0) return node_error(n, "node %d of tree %lld leads to no node", i, (long long)l->trees[i]);
    if (!add_feature(n, f, x.feature)) return false;
  }
  add_node(n, f, x);
  return true;
}

/* The nodes to which no other leads: one of each tree.  False after an error. */
static bool find_roots(ImportNode *n, Forest *f, const Listed *l) {
  bool *led = ARENA_ARRAY(n->m->arena, bool, f->nodes.n + 1);
  for (size_t i = 0; i < f->nodes.n; i++) {
    const Node *x = &f->nodes.items[i];
    if (x->mode != LEAF) led[x->yes] = led[x->no] = true;
  }
  for (size_t i = 0; i < f->nodes.n; i++)
    if (!led[i]) ARENA_PUSH(n->m->arena, &f->roots, (int64_t)i);
  for (int i = 0, next; i < l->n; i = next) { /* tree by tree */
    int first = 0;
    for (next = i; next < l->n && l->sorted[next].tree == l->sorted[i].tree; next++) first += !led[l->sorted[next].at];
    if (first != 1) return node_error(n, "tree %lld has no first node, or more than one", (long long)l->sorted[i].tree);
  }
  return true;
}

/* Weights of leaves: of targets or of classes, as `what` says. */
typedef struct Scores {
  const int64_t *trees, *nodes, *ids;
  const double *weights;
  int n;
} Scores;

static bool read_scores(ImportNode *n, const char *what, Scores *s) {
  Arena *a = n->m->arena;
  int64_t count;
  int all;
  if (!read_ints(n, arena_printf(a, "%s_ids", what), -1, true, &s->ids, &s->n) ||
      !read_ints(n, arena_printf(a, "%s_treeids", what), s->n, true, &s->trees, &all) ||
      !read_ints(n, arena_printf(a, "%s_nodeids", what), s->n, true, &s->nodes, &all) ||
      !read_numbers(n, arena_printf(a, "%s_weights", what), arena_printf(a, "%s_weights_as_tensor", what), &count,
                    &s->weights))
    return false;
  return count == s->n || node_error(n, "%lld weights for %d leaves", (long long)count, s->n);
}

/* Reads the trees of a regressor or classifier, whose number of targets is set. */
static bool read_trees(ImportNode *n, Forest *f, const char *what, Scores *s) {
  static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  Listed l = {0};
  int64_t base;
  int post;
  if (!find_word(n, "post_transform", node_string(n, "post_transform", "NONE"), posts, 5, &post) ||
      !read_listed(n, &l) || !read_scores(n, what, s) ||
      !read_numbers(n, "base_values", "base_values_as_tensor", &base, &f->base))
    return false;
  f->post = (TreePost)post;
  for (int i = 0; i < l.n; i++)
    if (!add_listed(n, f, &l, i)) return false;
  if (!find_roots(n, f, &l) || !check_size(n, f) || !measure(n, f, true)) return false;
  make_weights(n, f);
  for (int i = 0; i < s->n; i++) {
    int64_t at = tree_ids_find(l.sorted, l.n, s->trees[i], s->nodes[i]);
    if (at < 0) return node_error(n, "%s %d is of no node", what, i);
    if (!add_weight(n, f, at, s->ids[i], s->weights[i])) return false;
  }
  if (base > 0 && base != f->targets) return node_error(n, "%lld base values", (long long)base);
  if (base <= 0) f->base = NULL;
  return true;
}

static bool read_regressor(ImportNode *n, Forest *f) {
  static const char *const aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  Scores s;
  int aggregate;
  f->targets = node_int(n, "n_targets", 1);
  if (!find_word(n, "aggregate_function", node_string(n, "aggregate_function", "SUM"), aggregates, 4, &aggregate) ||
      !read_trees(n, f, "target", &s))
    return false;
  f->aggregate = (Aggregate)aggregate;
  return true;
}

/* Reads a classifier with `labels` labels.  Of two classes, weights may be of the first alone (which then score the
 * second), as converters write them; a forest with one target is read.  False after an error. */
static bool read_classifier(ImportNode *n, Forest *f, int64_t labels, bool *binary, bool *positive) {
  Scores s;
  int count;
  const int64_t *ids = node_ints(n, "class_ids", &count);
  *binary = labels == 2, *positive = true;
  for (int i = 0; i < count; i++)
    if (*binary && ids[i])
      return node_error(n, "weights of the second of two classes are not supported: ONNX does not say what they mean");
  f->targets = *binary ? 1 : labels;
  f->aggregate = SUM;
  if (labels < 2) return node_error(n, "%lld labels", (long long)labels);
  if (!read_trees(n, f, "class", &s)) return false;
  for (int i = 0; i < s.n; i++) *positive &= !(s.weights[i] < 0);
  return !*binary || f->post != POST_PROBIT || node_error(n, "PROBIT of two classes is not supported");
}

/* ---- TreeEnsemble: nodes and leaves in lists of their own */

typedef struct Split {
  const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *tracks, *targets;
  const double *splits, *weights, *members, *modes;
  int64_t members_n;
  int n, leaves;
} Split;

/* Modes are a tensor of bytes. */
static bool read_modes(ImportNode *n, Split *s) {
  const Onnx__TensorProto *t = node_tensor(n, "nodes_modes");
  OnnxData d;
  if (!t || !onnx_file_data(import_file(n->im), n->b->diags, t, &d)) return node_error(n, "nodes_modes is missing");
  const uint8_t *bytes = onnx_file_bytes(import_file(n->im), &d);
  if (d.dtype != DT_u8 || d.elements != (uint64_t)s->n || !bytes)
    return node_error(n, "nodes_modes do not fit the nodes");
  double *modes = ARENA_ARRAY(n->m->arena, double, s->n + 1);
  for (int i = 0; i < s->n; i++) {
    if (bytes[i] > MEMBER) return node_error(n, "mode %d of node %d is not known", bytes[i], i);
    modes[i] = bytes[i];
  }
  s->modes = modes;
  return true;
}

static bool read_split(ImportNode *n, Split *s) {
  int count, tracks;
  int64_t splits, weights;
  if (!read_ints(n, "nodes_featureids", -1, true, &s->features, &s->n) ||
      !read_ints(n, "nodes_truenodeids", s->n, true, &s->yes, &count) ||
      !read_ints(n, "nodes_falsenodeids", s->n, true, &s->no, &count) ||
      !read_ints(n, "nodes_trueleafs", s->n, true, &s->yes_leaf, &count) ||
      !read_ints(n, "nodes_falseleafs", s->n, true, &s->no_leaf, &count) ||
      !read_ints(n, "leaf_targetids", -1, true, &s->targets, &s->leaves) ||
      !read_ints(n, "nodes_missing_value_tracks_true", -1, false, &s->tracks, &tracks) ||
      !read_numbers(n, NULL, "nodes_splits", &splits, &s->splits) ||
      !read_numbers(n, NULL, "leaf_weights", &weights, &s->weights) ||
      !read_numbers(n, NULL, "membership_values", &s->members_n, &s->members) || !read_modes(n, s))
    return false;
  return (splits == s->n && weights == s->leaves && (!tracks || tracks == s->n)) ||
         node_error(n, "the lists of nodes or of leaves have different lengths");
}

/* The number of the next node: nodes come first, then the leaves. */
static bool next_of(ImportNode *n, const Split *s, int64_t id, int64_t leaf, int64_t *out) {
  *out = leaf ? s->n + id : id;
  return (id >= 0 && id < (leaf ? s->leaves : s->n)) || node_error(n, "a node leads to no node");
}

/* Sets of members end with NaN; those of the nodes that ask for membership follow each other. */
static bool add_all_members(ImportNode *n, Forest *f, const Split *s) {
  int64_t at = 0;
  for (int i = 0; i < s->n; i++) {
    if (f->nodes.items[i].mode != MEMBER) continue;
    int64_t end = at;
    while (end < s->members_n && !isnan(s->members[end])) end++;
    if (end > s->members_n || at >= s->members_n) return node_error(n, "membership_values has too few sets");
    add_members(n, f, i, s->members + at, end - at);
    at = end + 1;
  }
  return true;
}

static bool read_ensemble(ImportNode *n, Forest *f) {
  Split s = {0};
  const int64_t *roots;
  int count;
  int64_t aggregate = node_int(n, "aggregate_function", SUM), post = node_int(n, "post_transform", 0);
  f->targets = node_int(n, "n_targets", 1);
  if (!read_ints(n, "tree_roots", -1, true, &roots, &count) || !check_nodes(n, count) || !read_split(n, &s) ||
      !check_nodes(n, (int64_t)s.n + s.leaves))
    return false;
  if (aggregate < AVERAGE || aggregate > MAX || post < POST_NONE || post > POST_PROBIT)
    return node_error(n, "aggregate_function or post_transform is not known");
  f->aggregate = (Aggregate)aggregate, f->post = (TreePost)post;
  for (int i = 0; i < s.n; i++) {
    Node x = {.feature = s.features[i], .split = s.splits[i], .mode = (Mode)(int)s.modes[i]};
    x.tracks = s.tracks && s.tracks[i];
    if (!next_of(n, &s, s.yes[i], s.yes_leaf[i], &x.yes) || !next_of(n, &s, s.no[i], s.no_leaf[i], &x.no)) return false;
    if (!add_feature(n, f, x.feature)) return false;
    add_node(n, f, x);
  }
  for (int i = 0; i < s.leaves; i++) add_node(n, f, (Node){.mode = LEAF, .yes = s.n + i, .no = s.n + i});
  for (int i = 0; i < count; i++) {
    if (roots[i] < 0 || roots[i] >= s.n) return node_error(n, "root %lld is no node", (long long)roots[i]);
    ARENA_PUSH(n->m->arena, &f->roots, roots[i]);
  }
  if (!add_all_members(n, f, &s) || !check_size(n, f) || !measure(n, f, false)) return false;
  make_weights(n, f);
  for (int i = 0; i < s.leaves; i++)
    if (!add_weight(n, f, s.n + i, s.targets[i], s.weights[i])) return false;
  return true;
}

/* ---- operations */

static Val floats(ImportNode *n, DType t, int rank, const int64_t *dims, const double *items) {
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= dims[d];
  Attr a = {.key = AT_floats, .n = (int)count, .u.floats = items};
  return build_op(n->b,
                  &(OpSpec){.kind = OP_const, .type = type_of_ints(n->m, t, rank, dims), .nattrs = 1, .attrs = &a});
}

static Val ints(ImportNode *n, int64_t count, const int64_t *items) {
  Attr a = attr_ints(n->m, AT_ints, (int)count, items);
  return build_op(n->b,
                  &(OpSpec){.kind = OP_const, .type = type_of_ints(n->m, DT_i64, 1, &count), .nattrs = 1, .attrs = &a});
}

typedef struct Tables {
  Val feature, split, yes, no, mode, tracks; /* mode, tracks: 0 if not needed */
  uint32_t modes;                            /* bit m: some node has mode m */
} Tables;

static Tables make_tables(ImportNode *n, const Forest *f, DType t) {
  int64_t count = (int64_t)f->nodes.n, *list[5];
  double *splits = ARENA_ARRAY(n->m->arena, double, count);
  Tables k = {0};
  bool tracks = false;
  for (int i = 0; i < 5; i++) list[i] = ARENA_ARRAY(n->m->arena, int64_t, count);
  for (int64_t i = 0; i < count; i++) {
    const Node *x = &f->nodes.items[i];
    list[0][i] = x->mode == LEAF ? 0 : x->feature, list[1][i] = x->yes, list[2][i] = x->no;
    list[3][i] = x->mode, list[4][i] = x->tracks;
    splits[i] = x->split;
    tracks |= x->tracks && x->mode != LEAF;
    if (x->mode != LEAF) k.modes |= 1u << x->mode;
  }
  k.feature = ints(n, count, list[0]), k.yes = ints(n, count, list[1]), k.no = ints(n, count, list[2]);
  k.split = floats(n, t, 1, &count, splits);
  if (k.modes & (k.modes - 1)) k.mode = ints(n, count, list[3]);
  if (tracks) k.tracks = ints(n, count, list[4]);
  return k;
}

/* Whether each tree goes on to `yes`. */
static Val answer(ImportNode *n, const Tables *k, Val x, Val at) {
  static const OpKind compare[] = {OP_le, OP_lt, OP_ge, OP_gt, OP_eq, OP_ne};
  Val value = take(n, x, build_gather(n->b, k->feature, at, 0), 1), split = build_gather(n->b, k->split, at, 0);
  Val mode = k->mode ? build_gather(n->b, k->mode, at, 0) : 0, yes = 0;
  for (int m = LEQ; m <= NEQ; m++) {
    if (!(k->modes >> m & 1u)) continue;
    Val is = binary(n, compare[m], value, split);
    if (mode) is = binary(n, OP_and, is, binary_number(n, OP_eq, mode, m));
    yes = yes ? binary(n, OP_or, yes, is) : is;
  }
  if (!k->tracks) return yes;
  Val missing = build_unary(n->b, OP_isnan, value);
  Val tracks = binary_number(n, OP_ne, build_gather(n->b, k->tracks, at, 0), 0);
  return binary(n, OP_or, yes, binary(n, OP_and, missing, tracks));
}

/* The leaf of each row and tree: [rows, trees]. */
static Val walk_down(ImportNode *n, const Forest *f, Val x) {
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[] = {t->dims[0], ex_const(n->m, (int64_t)f->roots.n)};
  Tables k = make_tables(n, f, t->dtype);
  Val at = broadcast(n, ints(n, (int64_t)f->roots.n, f->roots.items), 2, dims);
  for (int level = 0; level < f->depth && at; level++) {
    Val yes = answer(n, &k, x, at);
    at = select3(n, yes, build_gather(n->b, k.yes, at, 0), build_gather(n->b, k.no, at, 0));
  }
  return at;
}

/* Whether some tree has a weight for the target: [rows, targets]. */
static Val any_weight(ImportNode *n, const Forest *f, Val leaf) {
  int64_t dims[] = {(int64_t)f->nodes.n, f->targets};
  double *has = ARENA_ARRAY(n->m->arena, double, dims[0] * dims[1]);
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) has[i] = f->weighted[i];
  Val each = build_gather(n->b, floats(n, DT_f32, 2, dims, has), leaf, 0);
  return binary_number(n, OP_gt, import_reduce_axes(n, RED_MAX, each, 1u << 1, false), 0);
}

/* The weights of the leaves, aggregated over the trees: [rows, targets].  A tree without a weight for a target does not
 * count for its least and largest. */
static Val aggregated(ImportNode *n, const Forest *f, Val leaf, DType t) {
  int64_t dims[] = {(int64_t)f->nodes.n, f->targets}, all = dims[0] * dims[1];
  bool extreme = f->aggregate == MIN || f->aggregate == MAX;
  bool gaps = false; /* some leaf has no weight for some target */
  for (int64_t i = 0; i < all && extreme; i++) {
    if (f->weighted[i]) continue;
    f->weights[i] = f->aggregate == MIN ? INFINITY : -INFINITY;
    gaps |= f->nodes.items[i / f->targets].mode == LEAF;
  }
  Val each = build_gather(n->b, floats(n, t, 2, dims, f->weights), leaf, 0);
  Reduction r = f->aggregate == MIN ? RED_MIN : f->aggregate == MAX ? RED_MAX : RED_SUM;
  Val y = import_reduce_axes(n, r, each, 1u << 1, false);
  if (f->aggregate == AVERAGE) y = binary_number(n, OP_div, y, (double)f->roots.n);
  if (gaps) y = select3(n, any_weight(n, f, leaf), y, splat_like(n, y, 0));
  return f->base ? binary(n, OP_add, y, floats(n, t, 1, &f->targets, f->base)) : y;
}

/* The input as rows of floats in which splits are compared; 0 after an error. */
static Val rows_of(ImportNode *n, const Forest *f) {
  const Type *t = input_type(n, 0);
  int64_t width;
  Val x = input(n, 0);
  if (t->rank < 1 || t->rank > 2) return node_error(n, "rows are expected, not %s", import_type_string(n->m, t));
  const Expr *dims[] = {t->rank == 2 ? t->dims[0] : ex_const(n->m, 1), t->dims[t->rank - 1]};
  if (!ex_get_const(dims[1], &width) || width < f->features || width < 1)
    return node_error(n, "the trees ask for %lld features of %s", (long long)f->features, import_type_string(n->m, t));
  if (!x || t->dtype == DT_bool || !dtype_computes(t->dtype))
    return node_error(n, "%s is not supported", dtype_name(t->dtype));
  if (!dtype_is_float(t->dtype)) x = build_cast(n->b, x, DT_f32);
  return t->rank == 2 ? x : build_reshape(n->b, x, 2, dims);
}

static bool import_forest(ImportNode *n, Forest *f, bool floats_out) {
  Val x = rows_of(n, f);
  if (!x) return false;
  DType t = type_of(n->b->f, x)->dtype;
  Val y = tree_post(n, f->post, aggregated(n, f, walk_down(n, f, x), t));
  return import_set_output(n, 0, y && floats_out && t != DT_f32 ? build_cast(n->b, y, DT_f32) : y);
}

bool import_tree_regressor(ImportNode *n) {
  Forest f = {0};
  return read_regressor(n, &f) && import_forest(n, &f, true);
}

/* The two scores of two classes, and whether the second wins; numbers are those of ONNX Runtime.  Weights that are all
 * positive are probabilities. */
static Val two_scores(ImportNode *n, const Forest *f, Val x, bool positive, Val *second) {
  *second = drop_dims(n, binary_number(n, OP_gt, x, positive ? 0.5 : 0), 1u << 1);
  Val other = positive ? binary(n, OP_sub, splat_like(n, x, 1), x) : build_unary(n->b, OP_neg, x);
  if (f->post == POST_LOGISTIC) {
    other = build_unary(n->b, OP_sigmoid, build_unary(n->b, OP_neg, x));
    x = build_unary(n->b, OP_sigmoid, x);
  }
  return build_concat(n->b, 2, (Val[]){other, x}, 1);
}

/* The class with the largest score, the first of equals, among those for which some tree has a weight: [rows]. */
static Val best_class(ImportNode *n, const Forest *f, Val leaf, Val scores) {
  if (!f->base) scores = select3(n, any_weight(n, f, leaf), scores, splat_like(n, scores, -INFINITY));
  Attr a[] = {attr_i(AT_axis, 1), attr_i(AT_descending, 1), attr_e(AT_k, ex_const(n->m, 1))};
  Val top = build_op(n->b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &scores, .nattrs = 3, .attrs = a});
  return top ? drop_dims(n, top + 1, 1u << 1) : 0;
}

bool import_tree_classifier(ImportNode *n) {
  Forest f = {0};
  int count;
  size_t strings;
  bool binary_case, positive;
  const int64_t *labels = node_ints(n, "classlabels_int64s", &count);
  node_strings(n, "classlabels_strings", &strings);
  if (wants(n, 0) && count < 1) return node_error(n, "only labels that are integers are supported");
  if (!read_classifier(n, &f, count < 1 ? (int64_t)strings : count, &binary_case, &positive)) return false;
  Val x = rows_of(n, &f), leaf = x ? walk_down(n, &f, x) : 0, index = 0, scores = 0;
  if (!leaf) return false;
  scores = aggregated(n, &f, leaf, type_of(n->b->f, x)->dtype);
  if (wants(n, 0) && !binary_case) index = best_class(n, &f, leaf, scores);
  scores = binary_case ? two_scores(n, &f, scores, positive, &index) : tree_post(n, f.post, scores);
  if (wants(n, 0) && binary_case) index = build_cast(n->b, index, DT_i64);
  if (wants(n, 0) && !import_set_output(n, 0, build_gather(n->b, ints(n, count, labels), index, 0))) return false;
  return !wants(n, 1) || import_set_output(n, 1, build_cast(n->b, scores, DT_f32));
}

bool import_tree_ensemble(ImportNode *n) {
  Forest f = {0};
  return read_ensemble(n, &f) && import_forest(n, &f, false);
}
