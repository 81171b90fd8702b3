/* frontend/onnx/import_sequence.c - sequences of tensors, as exporters make them for `split` and `chunk`.
 *
 * A sequence exists only during the import: it is a list of items, and reading one returns that item.  So its length
 * and the index must be known.  Not supported: sequences that enter or leave a graph, including that of a loop, or
 * that other operators read.
 */
#include <inttypes.h>

#include "frontend/onnx/import_private.h"

typedef enum SequenceOp { SEQ_CONSTRUCT, SEQ_SPLIT, SEQ_AT, SEQ_LENGTH, SEQ_INSERT, SEQ_ERASE, SEQ_CONCAT } SequenceOp;

static void set_sequence(ImportNode *n, const ImportSequence *list) {
  if (!wants(n, 0)) return;
  n->out[0]->sequence = list;
  n->out[0]->type = list->n ? list->items[0]->type : type_get(n->m, DT_f32, 0, NULL); /* unused, but must not be NULL */
}

static ImportSequence *new_sequence(ImportNode *n, int count) {
  ImportSequence *list = ARENA_NEW(n->m->arena, ImportSequence);
  *list = (ImportSequence){count, ARENA_ARRAY(n->m->arena, ImportItem *, count + 1)};
  return list;
}

/* Reads a position; with `room` it may be one past the last item.  Default: the last position. */
static bool position(ImportNode *n, size_t input, int count, int room, int *out) {
  int64_t at = count + room - 1;
  int given = 1;
  if (has_input(n, input) && !input_ints(n, input, "the position", &at, &given)) return false;
  if (given != 1) return node_error(n, "the position has %d elements", given);
  if (at < -count || at >= count + room)
    return node_error(n, "position %" PRId64 " is outside a sequence of %d tensors", at, count);
  *out = (int)(at < 0 ? at + count : at);
  return true;
}

static bool construct(ImportNode *n) {
  ImportSequence *list = new_sequence(n, (int)n->proto->n_input);
  for (int i = 0; i < list->n; i++)
    if (!(list->items[i] = n->in[i])) return node_error(n, "input %d is missing", i);
  set_sequence(n, list);
  return true;
}

/* The sizes of the pieces: a list, or one size for all but the last, by default 1. */
static bool piece_sizes(ImportNode *n, const Expr *extent, ImportKnown *sizes, int *count) {
  int64_t whole, size = 1;
  *sizes = (ImportKnown){0};
  if (has_input(n, 1) && !input_exprs(n, 1, "the sizes", sizes)) return false;
  *count = sizes->n;
  if (sizes->items && sizes->type->rank == 1) return true;
  if (sizes->items && !ex_get_const(sizes->items[0], &size))
    return node_error(n, "the size of the pieces is not known");
  if (!ex_get_const(extent, &whole))
    return node_error(n, "a dimension of unknown extent cannot be split into pieces of one size");
  if (size < 1) return node_error(n, "the size of the pieces is %" PRId64, size);
  int64_t pieces = (whole + size - 1) / size;
  if (pieces > KNOWN_MAX) return node_error(n, "%" PRId64 " pieces; apc takes at most %d", pieces, KNOWN_MAX);
  const Expr **items = ARENA_ARRAY(n->m->arena, const Expr *, pieces + 1);
  for (int64_t i = 0; i < pieces; i++) items[i] = ex_const(n->m, i + 1 < pieces ? size : whole - i * size);
  sizes->items = items, *count = (int)pieces;
  return true;
}

static bool split(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown sizes;
  int axis = 0, count;
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &axis) || !piece_sizes(n, t->dims[axis], &sizes, &count))
    return false;
  bool drop = !has_input(n, 1) && node_int(n, "keepdims", 1) == 0;
  ImportSequence *list = new_sequence(n, count);
  const Expr *start = ex_const(n->m, 0);
  for (int i = 0; i < count; i++) {
    if (known_bounds(n->m, sizes.items[i]).high < 0) return node_error(n, "piece %d would have a negative size", i);
    Val v = build_slice(n->b, input(n, 0), axis, start, sizes.items[i], 1);
    if (v && drop) v = drop_dims(n, v, 1u << axis);
    if (!v) return false;
    list->items[i] = new_item(n, n->name, v);
    start = ex_add(n->m, start, sizes.items[i]);
  }
  if (start != t->dims[axis]) return node_error(n, "the sizes do not add up to the dimension");
  set_sequence(n, list);
  return true;
}

/* A copy with one item more, or one fewer, at `at`. */
static bool change(ImportNode *n, const ImportSequence *from, bool insert) {
  int at;
  if (!position(n, insert ? 2 : 1, from->n, insert, &at)) return false;
  ImportSequence *list = new_sequence(n, insert ? from->n + 1 : from->n - 1);
  for (int i = 0; i < list->n; i++) list->items[i] = from->items[i < at ? i : insert ? i - 1 : i + 1];
  if (insert) list->items[at] = n->in[1];
  set_sequence(n, list);
  return true;
}

static bool concat(ImportNode *n, const ImportSequence *from) {
  int axis = 0, rank = from->n ? from->items[0]->type->rank : 0;
  bool fresh = node_int(n, "new_axis", 0) != 0;
  if (!from->n) return node_error(n, "the sequence is empty");
  if (!has_attr(n, "axis")) return node_error(n, "attribute \"axis\" is missing");
  if (!node_axis(n, node_int(n, "axis", 0), rank + fresh, &axis)) return false;
  if (rank + fresh > MAX_RANK) return node_error(n, "a result of %d dimensions", rank + fresh);
  Val *parts = ARENA_ARRAY(n->m->arena, Val, from->n);
  for (int i = 0; i < from->n; i++) {
    parts[i] = item_value(n, from->items[i]);
    if (parts[i] && fresh) parts[i] = insert_dims(n, parts[i], 1u << axis, rank + 1);
    if (!parts[i]) return false;
    const Type *t = type_of(n->b->f, parts[i]), *first = type_of(n->b->f, parts[0]);
    bool fits = t->dtype == first->dtype && t->rank == first->rank;
    for (int d = 0; d < t->rank && fits; d++) fits = d == axis || equal_extents(n, t->dims[d], first->dims[d]);
    if (!fits)
      return node_error(n, "tensor %d of the sequence is %s, the first %s", i, import_type_string(n->m, t),
                        import_type_string(n->m, first));
  }
  return import_set_output(n, 0, from->n == 1 ? parts[0] : build_concat(n->b, from->n, parts, axis));
}

bool import_sequence_op(ImportNode *n) {
  SequenceOp op = (SequenceOp)n->op->arg;
  bool reads = op != SEQ_CONSTRUCT && op != SEQ_SPLIT;
  for (size_t i = 0; i < n->proto->n_input; i++)
    if (n->in[i] && (n->in[i]->sequence != NULL) != (reads && i == 0))
      return node_error(n, "input %zu is %s", i, n->in[i]->sequence ? "a sequence" : "not a sequence");
  const ImportSequence *list = reads ? n->in[0]->sequence : NULL;
  int at;
  switch (op) {
    case SEQ_CONSTRUCT: return construct(n);
    case SEQ_SPLIT: return split(n);
    case SEQ_AT:
      if (!position(n, 1, list->n, 0, &at)) return false;
      import_set_alias(n, 0, list->items[at]);
      return true;
    case SEQ_LENGTH: return import_set_known(n, 0, known_ints(n->m, DT_i64, 0, NULL, (int64_t[]){list->n}));
    case SEQ_INSERT: return change(n, list, true);
    case SEQ_ERASE: return list->n ? change(n, list, false) : node_error(n, "the sequence is empty");
    case SEQ_CONCAT: return concat(n, list);
  }
  return false;
}
