/* frontend/onnx/import_control.c - If, Loop and Scan (docs/ir.md, "Loops").
 *
 * An If whose condition is known becomes its branch.  Any other If becomes two loops of at most one round: the first
 * computes the `then` branch if the condition holds; the second carries its results and computes the `else` branch
 * if it does not.  Branches in which data decide sizes are in import_merge.c.
 *
 * Loop and Scan become loops.  Their carried values are carries.  A scanned input is gathered at the number of the
 * round.  A value that is collected per round is a carry that starts as zeros and is written in place.  A value that
 * a Loop only passes on is no carry: the body reads it from outside, so sizes may depend on it.  Scan of operator
 * set 8 is a loop over the batch around a loop over time.
 *
 * Sizes must not depend on data, so these are refused: collecting in a Loop that may end early or whose number of
 * rounds is computed from data; carries and branches whose shapes differ.  Optionals are not supported, and of
 * sequences only those of import_sequence.c.
 */
#include <inttypes.h>
#include <string.h>

#include "frontend/loop_build.h"
#include "frontend/onnx/counted.h"
#include "frontend/onnx/names.h"

static const char *text(const char *s) { return s ? s : ""; }

static bool shape_error(ImportNode *n, const char *what) {
  return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: %s", n->op->type, what);
}

/* Reshapes a value of one element to a scalar. */
static Val scalar(ImportNode *n, Val v, DType dtype, const char *what) {
  int64_t elements;
  if (!v) return 0;
  const Type *t = type_of(n->b->f, v);
  if (t->dtype == dtype && ex_get_const(type_elements(n->m, t), &elements) && elements == 1)
    return build_reshape(n->b, v, 0, NULL);
  node_error(n, "%s is %s", what, import_type_string(n->m, t));
  return 0;
}

static bool *wanted_outputs(const ImportNode *n, size_t count) {
  bool *wanted = ARENA_ARRAY(n->m->arena, bool, count);
  for (size_t i = 0; i < count; i++) wanted[i] = wants(n, i);
  return wanted;
}

static const Type *with_dim(ImportNode *n, const Type *t, int axis, const Expr *extent) {
  const Expr *dims[MAX_RANK];
  if (t->rank == MAX_RANK) {
    node_error(n, "a collected value has more than %d dimensions", MAX_RANK);
    return NULL;
  }
  for (int d = 0, from = 0; d <= t->rank; d++) dims[d] = d == axis ? extent : t->dims[from++];
  return type_get(n->m, t->dtype, t->rank + 1, dims);
}

/* Sets `v` as the carry's next value; it must have the carry's type. */
static bool set_next(ImportNode *n, LoopCarry *c, Val v, const char *name) {
  if (!v) return false;
  const Type *before = type_of(n->b->f, c->value), *after = type_of(n->b->f, v);
  c->next = v;
  return before == after ||
         shape_error(n, arena_printf(n->m->arena, "\"%s\" is %s before a round and %s after it; sizes may not change",
                                     name, import_type_string(n->m, before), import_type_string(n->m, after)));
}

/* ---- If */

static bool take_branch(ImportNode *n, const Onnx__GraphProto *branch, const bool *wanted) {
  ImportItem **out = ARENA_ARRAY(n->m->arena, ImportItem *, branch->n_output);
  if (!import_subgraph(n, branch, NULL, wanted, out)) return false;
  for (size_t i = 0; i < branch->n_output; i++)
    if (wanted[i]) import_set_alias(n, i, out[i]);
  return true;
}

/* Runs one branch as a loop of at most one round. results[i] is 0 or the result of the other branch before;
 * afterwards it is the result of both. */
static bool run_branch(ImportNode *n, const Onnx__GraphProto *branch, Val holds, const bool *wanted, Val *results,
                       bool first) {
  ImportItem **out = ARENA_ARRAY(n->m->arena, ImportItem *, branch->n_output);
  LoopBuild l = frontend_loop_open(n->b, build_cast(n->b, holds, DT_i64), ex_const(n->m, 1));
  size_t k = 0;
  if (!l.round) return false;
  for (size_t i = 0; i < branch->n_output; i++)
    if (wanted[i] && !first && !frontend_loop_carry(&l, results[i])) return false;
  if (!import_subgraph(n, branch, NULL, wanted, out)) return false;
  for (size_t i = 0; i < branch->n_output; i++) {
    if (!wanted[i]) continue;
    Val v = item_value(n, out[i]);
    if (!v || (first && !frontend_loop_collect(&l, type_of(n->b->f, v)))) return false;
    LoopCarry *c = &l.carries.items[k++];
    const Type *one = type_of(n->b->f, c->value), *other = type_of(n->b->f, v);
    c->next = v;
    if (one != other)
      return shape_error(
          n, arena_printf(n->m->arena,
                          "output %zu is %s in one branch and %s in the other, and which is taken depends on data", i,
                          import_type_string(n->m, one), import_type_string(n->m, other)));
  }
  if (!frontend_loop_close(&l, 0)) return false;
  k = 0;
  for (size_t i = 0; i < branch->n_output; i++)
    if (wanted[i]) results[i] = l.carries.items[k++].last;
  return true;
}

bool import_if(ImportNode *n) {
  const Onnx__GraphProto *yes = node_graph(n, "then_branch"), *no = node_graph(n, "else_branch");
  double known;
  if (!yes || !no) return false;
  size_t count = n->proto->n_output;
  if (yes->n_input || no->n_input)
    return node_error(n, "its %s has inputs; a branch cannot have any, and reads outer values by name",
                      yes->n_input ? "then_branch" : "else_branch");
  if (yes->n_output != count || no->n_output != count)
    return node_error(n, "its branches have %zu and %zu outputs, not %zu", yes->n_output, no->n_output, count);
  bool *wanted = wanted_outputs(n, count);
  if (input_number(n, 0, &known)) return take_branch(n, known != 0 ? yes : no, wanted);
  Val holds = scalar(n, input(n, 0), DT_bool, "the condition"), *results = ARENA_ARRAY(n->m->arena, Val, count);
  if (!holds || !import_captured(n, yes) || !import_captured(n, no)) return false;
  if (!import_in_loop(n) && (import_merges(yes) || import_merges(no))) return import_merged(n, yes, no, holds, wanted);
  Val fails = build_unary(n->b, OP_not, holds);
  if (!run_branch(n, yes, holds, wanted, results, true) || !run_branch(n, no, fails, wanted, results, false))
    return false;
  for (size_t i = 0; i < count; i++)
    if (wanted[i] && !import_set_output(n, i, results[i])) return false;
  return true;
}

/* ---- Loop */

typedef struct OnnxLoop {
  const Onnx__GraphProto *body;
  size_t ncarried, ncollected;
  const Expr *length; /* the number of rounds, if it does not depend on data; else NULL */
  const Expr *most;   /* an upper bound of it; NULL if none */
  Val rounds;
  bool *passed_on; /* by carried value: the body only passes it on */
} OnnxLoop;

/* Reads the number of rounds: 0 if the condition does not hold at the start. */
static bool read_rounds(ImportNode *n, OnnxLoop *l) {
  ImportKnown count = input_known(n, 0);
  double holds = 1, number;
  int64_t c;
  if (!count.items && input_number(n, 0, &number))
    count = known_ints(n->m, DT_i64, 0, NULL,
                       (int64_t[]){number < 0              ? 0
                                   : number < LOOP_ENDLESS ? (int64_t)number
                                                           : INT64_MAX});
  if (!has_input(n, 0)) count = known_ints(n->m, DT_i64, 0, NULL, (int64_t[]){INT64_MAX});
  if (count.items && count.n == 1) {
    l->length = count.items[0];
    l->rounds = scalar(n, import_known_value(n, &count), DT_i64, "the number of rounds");
    if (known_bounds(n->m, l->length).low < 0) l->length = ex_max(n->m, l->length, ex_const(n->m, 0));
    if (ex_get_const(l->length, &c) && c >= LOOP_ENDLESS) l->length = NULL;
  } else {
    l->rounds = scalar(n, input(n, 0), DT_i64, "the number of rounds");
  }
  l->most = l->length;
  if (!l->rounds || !has_input(n, 1) || (l->length && known_bounds(n->m, l->length).high <= 0)) return l->rounds != 0;
  if (!input_number(n, 1, &holds)) {
    Val condition = scalar(n, input(n, 1), DT_bool, "the condition"), zero = import_scalar_i64(n, ex_const(n->m, 0));
    l->length = NULL;
    return (l->rounds = select3(n, condition, l->rounds, zero)) != 0;
  }
  if (holds == 0) l->length = l->most = ex_const(n->m, 0), l->rounds = import_scalar_i64(n, l->length);
  return true;
}

/* Maps outputs of the graph's Identity nodes to their inputs. */
static NameMap identities(Arena *a, const Onnx__GraphProto *g) {
  NameMap map = {0};
  for (size_t i = 0; i < g->n_node; i++) {
    const Onnx__NodeProto *node = g->node[i];
    bool is_one = strcmp(text(node->op_type), "Identity") == 0 && !*text(node->domain) && node->n_input == 1 &&
                  node->n_output == 1;
    if (is_one) name_put(a, &map, node->output[0], node->input[0]);
  }
  return map;
}

/* Follows Identity nodes to the original name.  Afterwards all names on the way map to it directly, so many outputs
 * at the end of one chain cost no more than the chain. */
static const char *through_identities(Arena *a, NameMap *map, const char *name) {
  char *end = name_find(map, name), *next = end;
  if (!end) return name;
  for (size_t steps = 0; next && steps <= map->n; steps++) end = next, next = name_find(map, end);
  if (next) end = (char *)(uintptr_t) ""; /* a cycle, which is refused later */
  while ((next = name_find(map, name)) && next != end) {
    name_put(a, map, name, end);
    name = next;
  }
  return end;
}

static bool read_loop(ImportNode *n, OnnxLoop *l) {
  if (!(l->body = node_graph(n, "body"))) return false;
  l->ncarried = n->proto->n_input > 2 ? n->proto->n_input - 2 : 0;
  if (l->body->n_input != l->ncarried + 2 || l->body->n_output < l->ncarried + 1)
    return node_error(n, "its body has %zu inputs and %zu outputs; %zu values are carried", l->body->n_input,
                      l->body->n_output, l->ncarried);
  l->ncollected = l->body->n_output - 1 - l->ncarried;
  if (n->proto->n_output > l->ncarried + l->ncollected)
    return node_error(n, "its body lacks %zu outputs", n->proto->n_output - l->ncarried - l->ncollected);
  l->passed_on = ARENA_ARRAY(n->m->arena, bool, l->ncarried + 1);
  NameMap map = identities(n->m->arena, l->body);
  for (size_t i = 0; i < l->ncarried; i++) {
    if (!has_input(n, i + 2)) return node_error(n, "input %zu is missing", i + 2);
    l->passed_on[i] = strcmp(through_identities(n->m->arena, &map, text(l->body->output[i + 1]->name)),
                             text(l->body->input[i + 2]->name)) == 0;
    if (!input(n, i + 2)) return false;
  }
  return read_rounds(n, l) && import_captured(n, l->body);
}

static bool collects(const ImportNode *n, const OnnxLoop *l) {
  for (size_t i = 0; i < l->ncollected; i++)
    if (wants(n, l->ncarried + i)) return true;
  return false;
}

/* Returns the condition for a further round; 0 if there is always one while rounds are left.  False after an error. */
static bool again(ImportNode *n, ImportItem *condition, Val *out) {
  double number;
  *out = 0;
  if (!condition || (item_number(n, condition, &number) && number != 0)) return true;
  *out = scalar(n, item_value(n, condition), DT_bool, "the condition of the body");
  return *out != 0;
}

static bool collect(ImportNode *n, const OnnxLoop *l, LoopBuild *build, size_t i, ImportItem *row) {
  Val v = item_value(n, row);
  const Type *t = v ? with_dim(n, type_of(n->b->f, v), 0, l->length) : NULL;
  Val all = t ? frontend_loop_collect(build, t) : 0;
  if (!all) return false;
  LoopCarry *c = &build->carries.items[build->carries.n - 1];
  return set_next(n, c, frontend_loop_write_row(n->b, all, v, build->round, 0),
                  text(l->body->output[1 + l->ncarried + i]->name));
}

/* Builds the body and the next values of the carries. */
static bool loop_body(ImportNode *n, const OnnxLoop *l, LoopBuild *build, ImportItem *const *in, Val *more) {
  bool *wanted = ARENA_ARRAY(n->m->arena, bool, l->body->n_output);
  ImportItem **out = ARENA_ARRAY(n->m->arena, ImportItem *, l->body->n_output);
  wanted[0] = has_input(n, 1); /* otherwise the condition is ignored, by the specification */
  for (size_t i = 0; i < l->ncarried; i++) wanted[1 + i] = !l->passed_on[i];
  for (size_t i = 0; i < l->ncollected; i++) wanted[1 + l->ncarried + i] = wants(n, l->ncarried + i);
  if (!import_subgraph(n, l->body, in, wanted, out) || !again(n, out[0], more)) return false;
  bool once = l->length && known_bounds(n->m, l->length).high <= 1; /* no further round is possible */
  if (collects(n, l) && (!l->length || (*more && !once)))
    return shape_error(n, "it collects a value per round, and their number depends on data");
  size_t k = 0;
  for (size_t i = 0; i < l->ncarried; i++)
    if (!l->passed_on[i] &&
        !set_next(n, &build->carries.items[k++], item_value(n, out[1 + i]), text(l->body->output[1 + i]->name)))
      return false;
  for (size_t i = 0; i < l->ncollected; i++)
    if (wanted[1 + l->ncarried + i] && !collect(n, l, build, i, out[1 + l->ncarried + i])) return false;
  return true;
}

bool import_loop(ImportNode *n) {
  OnnxLoop l = {0};
  Val more;
  if (!read_loop(n, &l)) return false;
  size_t carried = 0, k = 0;
  for (size_t i = 0; i < l.ncarried; i++) carried += !l.passed_on[i];
  bool runs = carried > 0 || collects(n, &l);
  LoopBuild build = {.b = n->b};
  if (runs) {
    ImportItem **in = ARENA_ARRAY(n->m->arena, ImportItem *, l.body->n_input);
    build = frontend_loop_open(n->b, l.rounds, l.most);
    in[0] = new_item(n, text(l.body->input[0]->name), build.round);
    in[1] = new_item(n, text(l.body->input[1]->name), 0);
    in[1]->known = known_ints(n->m, DT_bool, 0, NULL, (int64_t[]){1}); /* otherwise the round would not run */
    in[1]->type = in[1]->known.type;
    for (size_t i = 0; i < l.ncarried; i++) {
      Val v = l.passed_on[i] ? 0 : frontend_loop_carry(&build, input(n, i + 2));
      if (!build.round || (!v && !l.passed_on[i])) return false;
      in[2 + i] = v ? new_item(n, text(l.body->input[2 + i]->name), v) : n->in[2 + i];
    }
    if (!loop_body(n, &l, &build, in, &more) || !frontend_loop_close(&build, more)) return false;
  }
  for (size_t i = 0; i < l.ncarried; i++) {
    if (l.passed_on[i]) import_set_alias(n, i, n->in[2 + i]);
    else if (!import_set_output(n, i, build.carries.items[k++].last)) return false;
  }
  for (size_t i = 0; i < l.ncollected; i++)
    if (wants(n, l.ncarried + i) && !import_set_output(n, l.ncarried + i, build.carries.items[k++].last)) return false;
  return true;
}

/* ---- Scan */

typedef struct Scan {
  const Onnx__GraphProto *body;
  size_t nstates, ninputs, nouts;
  int *in_axes, *in_reverse, *out_axes, *out_reverse; /* out_axes as given: negative ones count from the end */
  bool *wanted;                                       /* by output of the body */
  const Expr *length;
} Scan;

/* Reads a list attribute of `count` numbers; zeros if absent. */
static bool scan_list(ImportNode *n, const char *name, size_t count, int **out) {
  int given;
  const int64_t *list = node_ints(n, name, &given);
  *out = ARENA_ARRAY(n->m->arena, int, count + 1);
  if (given >= 0 && (size_t)given != count) return node_error(n, "%d %s, not %zu", given, name, count);
  for (int i = 0; i < given; i++) {
    if (list[i] < -MAX_RANK || list[i] >= MAX_RANK) return node_error(n, "%s has %" PRId64, name, list[i]);
    (*out)[i] = (int)list[i];
  }
  return true;
}

/* `first`: index of the first state among the inputs. */
static bool read_scan(ImportNode *n, Scan *s, size_t first) {
  int64_t inputs = node_int(n, "num_scan_inputs", 0);
  if (!(s->body = node_graph(n, "body"))) return false;
  if (inputs < 1 || (uint64_t)inputs + first > n->proto->n_input)
    return node_error(n, "num_scan_inputs is %" PRId64, inputs);
  s->ninputs = (size_t)inputs, s->nstates = n->proto->n_input - first - s->ninputs;
  if (s->body->n_input != s->nstates + s->ninputs || s->body->n_output < s->nstates ||
      n->proto->n_output > s->body->n_output)
    return node_error(n, "its body has %zu inputs and %zu outputs", s->body->n_input, s->body->n_output);
  s->nouts = s->body->n_output - s->nstates;
  s->wanted = wanted_outputs(n, s->body->n_output);
  for (size_t i = 0; i < s->nstates; i++) s->wanted[i] = true;
  for (size_t i = first; i < n->proto->n_input; i++)
    if (!has_input(n, i) || !input(n, i)) return has_input(n, i) ? false : node_error(n, "input %zu is missing", i);
  return import_captured(n, s->body);
}

/* The index of the element that a round reads. */
static Val place(ImportNode *n, const Scan *s, Val round, bool reverse) {
  return reverse ? build_binary(n->b, OP_sub, import_scalar_i64(n, ex_addi(n->m, s->length, -1)), round) : round;
}

static bool scan_collect(ImportNode *n, const Scan *s, LoopBuild *l, size_t i, ImportItem *row) {
  int axis;
  Val v = item_value(n, row);
  if (!v || !node_axis(n, s->out_axes[i], type_of(n->b->f, v)->rank + 1, &axis)) return false;
  const Type *t = with_dim(n, type_of(n->b->f, v), axis, s->length);
  Val all = t ? frontend_loop_collect(l, t) : 0;
  if (!all) return false;
  size_t k = l->carries.n - 1;
  return (l->carries.items[k].next =
              frontend_loop_write_row(n->b, all, v, place(n, s, l->round, s->out_reverse[i] != 0), axis)) != 0;
}

/* Runs all rounds. states: the first ones, then the last; collected: by output of the scan, 0 if not wanted. */
static bool scan_rounds(ImportNode *n, const Scan *s, Val rounds, Val *states, const Val *inputs, Val *collected) {
  ImportItem **in = ARENA_ARRAY(n->m->arena, ImportItem *, s->body->n_input + 1),
             **out = ARENA_ARRAY(n->m->arena, ImportItem *, s->body->n_output + 1);
  LoopBuild l = frontend_loop_open(n->b, rounds, s->length);
  if (!l.round) return false;
  for (size_t i = 0; i < s->nstates; i++) {
    Val v = frontend_loop_carry(&l, states[i]);
    if (!v) return false;
    in[i] = new_item(n, text(s->body->input[i]->name), v);
  }
  for (size_t i = 0; i < s->ninputs; i++) {
    size_t k = s->nstates + i;
    Val v = build_gather(n->b, inputs[i], place(n, s, l.round, s->in_reverse[i] != 0), s->in_axes[i]);
    if (!v) return false;
    in[k] = new_item(n, text(s->body->input[k]->name), v);
  }
  if (!import_subgraph(n, s->body, in, s->wanted, out)) return false;
  for (size_t i = 0; i < s->nstates; i++)
    if (!set_next(n, &l.carries.items[i], item_value(n, out[i]), text(s->body->output[i]->name))) return false;
  for (size_t i = 0; i < s->nouts; i++)
    if (s->wanted[s->nstates + i] && !scan_collect(n, s, &l, i, out[s->nstates + i])) return false;
  if (!frontend_loop_close(&l, 0)) return false;
  size_t k = s->nstates;
  for (size_t i = 0; i < s->nstates; i++) states[i] = l.carries.items[i].last;
  for (size_t i = 0; i < s->nouts; i++) collected[i] = s->wanted[s->nstates + i] ? l.carries.items[k++].last : 0;
  return true;
}

/* Checks that all scanned inputs have the same length. */
static bool scan_length(ImportNode *n, Scan *s, size_t first, int before) {
  for (size_t i = 0; i < s->ninputs; i++) {
    const Type *t = input_type(n, first + s->nstates + i);
    int axis;
    if (!node_axis(n, before ? before : s->in_axes[i], t->rank, &axis)) return false;
    s->in_axes[i] = axis - before;
    if (i == 0) s->length = t->dims[axis];
    else if (t->dims[axis] != s->length)
      return node_error(n, "inputs %s and %s are not scanned together: their lengths differ",
                        import_type_string(n->m, input_type(n, first + s->nstates)), import_type_string(n->m, t));
  }
  return true;
}

bool import_scan(ImportNode *n) {
  Scan s = {0};
  if (!read_scan(n, &s, 0)) return false;
  if (!scan_list(n, "scan_input_axes", s.ninputs, &s.in_axes) ||
      !scan_list(n, "scan_input_directions", s.ninputs, &s.in_reverse) ||
      !scan_list(n, "scan_output_axes", s.nouts, &s.out_axes) ||
      !scan_list(n, "scan_output_directions", s.nouts, &s.out_reverse))
    return false;
  if (!scan_length(n, &s, 0, 0)) return false;
  Val *states = ARENA_ARRAY(n->m->arena, Val, s.nstates + 1), *inputs = ARENA_ARRAY(n->m->arena, Val, s.ninputs);
  Val *collected = ARENA_ARRAY(n->m->arena, Val, s.nouts + 1);
  for (size_t i = 0; i < s.nstates; i++) states[i] = input(n, i);
  for (size_t i = 0; i < s.ninputs; i++) inputs[i] = input(n, s.nstates + i);
  if (!scan_rounds(n, &s, import_scalar_i64(n, s.length), states, inputs, collected)) return false;
  for (size_t i = 0; i < n->proto->n_output; i++)
    if (wants(n, i) && !import_set_output(n, i, i < s.nstates ? states[i] : collected[i - s.nstates])) return false;
  return true;
}

/* ---- Scan of operator set 8: every sequence of a batch separately, with its own length */

/* The number of rounds of sequence `which`. */
static Val batch_rounds(ImportNode *n, const Scan *s, Val which) {
  Val lengths = has_input(n, 0) ? build_cast(n->b, input(n, 0), DT_i64) : 0;
  return has_input(n, 0) ? (lengths ? build_gather(n->b, lengths, which, 0) : 0) : import_scalar_i64(n, s->length);
}

bool import_scan_batch(ImportNode *n) {
  Scan s = {0};
  if (!read_scan(n, &s, 1)) return false;
  if (!scan_list(n, "directions", s.ninputs, &s.in_reverse)) return false;
  s.in_axes = ARENA_ARRAY(n->m->arena, int, s.ninputs);
  s.out_axes = ARENA_ARRAY(n->m->arena, int, s.nouts + 1), s.out_reverse = s.out_axes;
  for (size_t i = 0; i < s.ninputs; i++)
    if (s.in_reverse[i] && has_input(n, 0))
      return node_error(n, "sequence_lens with a reverse direction is not supported");
  if (!scan_length(n, &s, 1, 1)) return false;
  size_t nout = s.nstates + s.nouts, total = s.nstates + s.ninputs;
  const Expr *batch = input_type(n, 1 + s.nstates)->dims[0];
  Val *of_one = ARENA_ARRAY(n->m->arena, Val, total), *results = ARENA_ARRAY(n->m->arena, Val, nout);
  for (size_t i = 0; i < total; i++)
    if (input_type(n, 1 + i)->rank < 1 || input_type(n, 1 + i)->dims[0] != batch)
      return node_error(n, "input %zu has another batch size", 1 + i);
  LoopBuild l = frontend_loop_open(n->b, import_scalar_i64(n, batch), batch);
  for (size_t i = 0; i < total; i++)
    if (!l.round || !(of_one[i] = build_gather(n->b, input(n, 1 + i), l.round, 0))) return false;
  if (!scan_rounds(n, &s, batch_rounds(n, &s, l.round), of_one, of_one + s.nstates, results + s.nstates)) return false;
  for (size_t i = 0; i < s.nstates; i++) results[i] = of_one[i];
  for (size_t i = 0; i < n->proto->n_output; i++) {
    const Type *t = wants(n, i) ? with_dim(n, type_of(n->b->f, results[i]), 0, batch) : NULL;
    Val all = t ? frontend_loop_collect(&l, t) : 0;
    if (!wants(n, i)) continue;
    if (!all || !(l.carries.items[l.carries.n - 1].next = frontend_loop_write_row(n->b, all, results[i], l.round, 0)))
      return false;
  }
  if (!frontend_loop_close(&l, 0)) return false;
  for (size_t i = 0, k = 0; i < n->proto->n_output; i++)
    if (wants(n, i) && !import_set_output(n, i, l.carries.items[k++].last)) return false;
  return true;
}
