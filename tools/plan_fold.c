/* tools/plan_fold.c - see plan_fold.h. */
#include "tools/plan_fold.h"

#include <stdlib.h>
#include <string.h>

#include "passes/facts/blocks.h"
#include "passes/facts/names.h"

enum { NO_READER = UINT32_MAX, LEAST_SIZE = 10 };

/* The operations of an instance that are shown, each after the sources that it is the first to read. */
typedef struct Instance {
  uint32_t *items;
  size_t n, cap;
} Instance;

typedef struct Folding {
  Arena *arena;
  const Func *f;
  const Plan *p;
  const char *const *text;
  Blocks blocks;
  Fold *out;
  uint32_t *reader; /* by operation: of a source outside blocks its first reader in a block; else NO_READER */
  struct {
    uint32_t *items;
    size_t n, cap;
  } loose; /* the current run of operations outside blocks */
} Folding;

/* ---- titles */

/* Returns the number; -1 if the text is none. */
static long number_of(const char *text) {
  char *end;
  const long n = strtol(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end ? n : -1;
}

static int by_value(const void *x, const void *y) {
  const long a = *(const long *)x, b = *(const long *)y;
  return (a > b) - (a < b);
}

const char *tool_fold_ranges(Arena *a, int n, const char *const *labels) {
  enum { MOST_PIECES = 4 };
  Text out = {.arena = a};
  long *numbers = ARENA_ARRAY(a, long, n + 1);
  bool all = true;
  for (int i = 0; i < n; i++) all &= (numbers[i] = number_of(labels[i])) >= 0;
  if (!all) {
    for (int i = 0; i < n; i++) text_printf(&out, "%s%s", i ? ", " : "", labels[i]);
    return text_str(&out);
  }
  qsort(numbers, (size_t)n, sizeof *numbers, by_value);
  int pieces = 0, made = 0;
  for (int i = 0; i < n; i++) pieces += !i || numbers[i] > numbers[i - 1] + 1;
  for (int i = 0; i < n; i++) {
    const int first = i;
    while (i + 1 < n && numbers[i + 1] <= numbers[i] + 1) i++;
    made++;
    if (pieces > MOST_PIECES && made > 2 && made < pieces) {
      if (made == 3) text_add(&out, ", ...");
      continue;
    }
    text_printf(&out, "%s%ld", made > 1 ? ", " : "", numbers[first]);
    if (numbers[i] > numbers[first]) text_printf(&out, "-%ld", numbers[i]);
  }
  return text_str(&out);
}

/* The beginning of a block's names, and the label of each instance. */
typedef struct BlockName {
  const char *begin;
  const char *const *labels; /* NULL if the names have none in common */
} BlockName;

static BlockName name_of_operation(Arena *a, const Func *f, const Block *b, int k) {
  const char **names = ARENA_ARRAY(a, const char *, b->instances);
  for (int i = 0; i < b->instances; i++) names[i] = f->ops.items[b->ops[i * b->size + k]].name;
  const NamePattern x = names_pattern(a, b->instances, names);
  Text begin = {.arena = a};
  for (int i = 0; i < x.n; i++) {
    if (x.pieces[i].labels) return (BlockName){text_str(&begin), x.pieces[i].labels};
    text_add(&begin, x.pieces[i].same);
  }
  return (BlockName){text_str(&begin), NULL};
}

static bool same_name(const BlockName *x, const BlockName *y, int instances) {
  if (!x->labels || !y->labels || strcmp(x->begin, y->begin) != 0) return false;
  for (int i = 0; i < instances; i++)
    if (strcmp(x->labels[i], y->labels[i]) != 0) return false;
  return true;
}

/* True if the labels are numbers, each the one before plus or minus 1. */
static bool counts_by_one(const BlockName *x, int instances) {
  if (!x->labels) return false;
  const long step = number_of(x->labels[1]) - number_of(x->labels[0]);
  for (int i = 1; i < instances; i++)
    if (number_of(x->labels[i]) < 0 || number_of(x->labels[i]) - number_of(x->labels[i - 1]) != step) return false;
  return step == 1 || step == -1;
}

/* Returns the beginning and labels that most operations of the block have, if possible with labels that count. */
static BlockName name_of_block(Arena *a, const Func *f, const Block *b) {
  enum { LOOKED_AT = 64 };
  BlockName names[LOOKED_AT];
  int n = b->size < LOOKED_AT ? b->size : LOOKED_AT, best = 0, most = 0;
  for (int k = 0; k < n; k++) names[k] = name_of_operation(a, f, b, (int)((int64_t)k * b->size / n));
  for (int k = 0; k < n; k++) {
    int same = 0;
    for (int i = 0; i < n; i++) same += same_name(&names[k], &names[i], b->instances);
    if (counts_by_one(&names[k], b->instances)) same += LOOKED_AT;
    if (same > most) most = same, best = k;
  }
  return names[best];
}

/* Returns "layers.0-5": the title of some instances of a block. */
static const char *title_of(const Folding *x, const Block *b, const BlockName *name, int n, const int *instances) {
  if (!name->labels) return x->f->ops.items[b->ops[0]].name;
  const char **labels = ARENA_ARRAY(x->arena, const char *, n);
  for (int i = 0; i < n; i++) labels[i] = name->labels[instances[i]];
  return arena_printf(x->arena, "%s%s", name->begin, tool_fold_ranges(x->arena, n, labels));
}

/* ---- groups of a block */

static Instance instance_of(const Folding *x, const Block *b, int instance) {
  Instance out = {0};
  for (int k = 0; k < b->size; k++) {
    const uint32_t i = b->ops[instance * b->size + k];
    const Op *op = &x->f->ops.items[i];
    for (int operand = 0; operand < op->nin; operand++) {
      const uint32_t from = (uint32_t)func_op_index(x->f, op_of(x->f, op->in[operand]));
      if (x->reader[from] != i || x->out->group_of[from] >= 0) continue;
      x->out->group_of[from] = 0; /* taken; add_group gives it its group */
      ARENA_PUSH(x->arena, &out, from);
    }
    if (tool_fold_lists(op)) ARENA_PUSH(x->arena, &out, i);
  }
  return out;
}

static const char *signature(const Folding *x, const Instance *ops) {
  Text out = {.arena = x->arena};
  for (size_t k = 0; k < ops->n; k++) {
    const size_t op = ops->items[k];
    const int first = x->p->stages[ops->items[0]];
    const Strategy *s = &x->p->strategies[op];
    text_printf(&out, "%d:", x->f->ops.items[op].kind);
    for (int i = 0; i < s->n; i++) text_printf(&out, "%d.%d,", s->picks[i].axis, s->picks[i].factor);
    text_printf(&out, "%d%d/%d/%s;", s->again, s->gather_at_use, x->p->stages[op] - first, x->text ? x->text[op] : "");
  }
  return text_str(&out);
}

/* Adds the group of the instances in the list. */
static void add_group(Folding *x, const char *title, const Instance *instances, int n, const int *list) {
  FoldGroup g = {.title = title, .size = (int)instances[list[0]].n, .count = n};
  uint32_t *ops = ARENA_ARRAY(x->arena, uint32_t, (size_t)n * (size_t)g.size + 1);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < g.size; k++) {
      const uint32_t op = instances[list[i]].items[k];
      x->out->group_of[op] = (int)x->out->n, x->out->place_of[op] = k;
      x->out->instance_of[op] = i;
      ops[i * g.size + k] = op;
    }
  g.ops = ops;
  if (g.size) ARENA_PUSH(x->arena, x->out, g);
}

/* Makes the groups of a block, in the order of their first instances. */
static void group_block(Folding *x, const Block *b) {
  const BlockName name = name_of_block(x->arena, x->f, b);
  const char **signatures = ARENA_ARRAY(x->arena, const char *, b->instances);
  Instance *instances = ARENA_ARRAY(x->arena, Instance, b->instances);
  bool *done = ARENA_ARRAY(x->arena, bool, b->instances);
  int *same = ARENA_ARRAY(x->arena, int, b->instances);
  for (int i = 0; i < b->instances; i++) {
    instances[i] = instance_of(x, b, i);
    signatures[i] = signature(x, &instances[i]);
  }
  for (int i = 0; i < b->instances; i++) {
    int n = 0;
    for (int k = i; k < b->instances; k++)
      if (!done[k] && strcmp(signatures[k], signatures[i]) == 0) done[k] = true, same[n++] = k;
    if (n) add_group(x, title_of(x, b, &name, n, same), instances, n, same);
  }
}

/* ---- operations outside blocks */

static void end_run(Folding *x) {
  if (!x->loose.n) return;
  FoldGroup g = {.outside = true, .size = (int)x->loose.n, .count = 1, .ops = x->loose.items};
  g.title = x->f->ops.items[g.ops[0]].name;
  ARENA_PUSH(x->arena, x->out, g);
  memset(&x->loose, 0, sizeof x->loose);
}

/* Returns the block of an operation, unless it is too small to be a layer; -1 if none. */
static int layer_block(const Folding *x, size_t op) {
  const int block = x->blocks.places[op].block;
  return block >= 0 && x->blocks.items[block].size >= LEAST_SIZE ? block : -1;
}

bool tool_fold_lists(const Op *op) { return !op_is_source(op->kind) || op_is_declared(op->kind); }

/* Finds the first reader of each source outside blocks that a block reads. */
static void find_readers(Folding *x) {
  const size_t n = x->f->ops.n;
  x->reader = ARENA_ARRAY(x->arena, uint32_t, n + 1);
  memset(x->reader, 0xff, sizeof *x->reader * n);
  for (size_t i = n; i-- > 0;) {
    const Op *op = &x->f->ops.items[i];
    for (int k = 0; k < op->nin && layer_block(x, i) >= 0; k++) {
      const Op *from = op_of(x->f, op->in[k]);
      const size_t at = func_op_index(x->f, from);
      if (op_is_resident(from->kind) && tool_fold_lists(from) && layer_block(x, at) < 0) x->reader[at] = (uint32_t)i;
    }
  }
}

Fold tool_fold(Arena *a, const Func *f, const Plan *p, const char *const *text) {
  Fold out = {.group_of = ARENA_ARRAY(a, int, f->ops.n + 1),
              .place_of = ARENA_ARRAY(a, int, f->ops.n + 1),
              .instance_of = ARENA_ARRAY(a, int, f->ops.n + 1)};
  Folding x = {.arena = a, .f = f, .p = p, .text = text, .blocks = blocks_find(a, f), .out = &out};
  bool *made = ARENA_ARRAY(a, bool, x.blocks.n + 1);
  find_readers(&x);
  for (size_t i = 0; i < f->ops.n; i++) out.group_of[i] = -1;
  for (size_t i = 0; i < f->ops.n; i++) {
    const int block = layer_block(&x, i);
    if (block >= 0 && !made[block]) {
      end_run(&x);
      made[block] = true;
      group_block(&x, &x.blocks.items[block]);
    } else if (block < 0 && tool_fold_lists(&f->ops.items[i]) && x.reader[i] == NO_READER) {
      out.group_of[i] = (int)out.n, out.place_of[i] = (int)x.loose.n;
      ARENA_PUSH(a, &x.loose, (uint32_t)i);
    }
  }
  end_run(&x);
  return out;
}
