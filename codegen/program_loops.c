/* codegen/program_loops.c - lifetimes of the values of a body, and its loops.
 *
 * A carry and its leave share memory.  The initial value is copied there, unless it dies with the loop and gives its
 * memory away; the next value is computed there if the carry has no later readers, else copied at the end of the body.
 * So a carry that collects rows one by one is updated in place.
 *
 * A value made outside a loop and read in it lives to the loop's end; so does its buffer.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/program_body.h"

_Static_assert((int)MAX_LOOPS == (int)PROGRAM_MAX_LOOPS,
               "the verifier and the Program allow equally many nested loops");

/* ---- where loops are */

static void find_loops(EmitBody *b) {
  Arena *a = b->scratch;
  struct {
    BodyLoop *items;
    size_t n, cap;
  } loops = {0};
  int open = -1, n = (int)b->units->n;
  b->loop = ARENA_ARRAY(a, int, n + 1);
  for (int i = 0; i < n; i++) {
    b->loop[i] = open;
    if (b->units->items[i].kind == UNIT_LOOP) {
      ARENA_PUSH(a, &loops, ((BodyLoop){.begin = i, .parent = open}));
      open = (int)loops.n - 1;
    } else if (b->units->items[i].kind == UNIT_REPEAT) {
      loops.items[open].end = i;
      open = loops.items[open].parent;
    }
  }
  b->loops = loops.items;
}

/* Returns the loop that a unit begins or ends. */
static BodyLoop *loop_at(const EmitBody *b, int unit) {
  if (b->units->items[unit].kind == UNIT_REPEAT) return &b->loops[b->loop[unit]];
  for (BodyLoop *l = b->loops;; l++)
    if (l->begin == unit) return l;
}

/* Returns the loop in whose rounds the results of a unit are made: those of a UNIT_LOOP inside, those of a UNIT_REPEAT
 * outside. */
static int makes_in(const EmitBody *b, int unit) {
  if (b->units->items[unit].kind == UNIT_LOOP) return (int)(loop_at(b, unit) - b->loops);
  if (b->units->items[unit].kind == UNIT_REPEAT) return b->loops[b->loop[unit]].parent;
  return b->loop[unit];
}

/* ---- uses */

/* Returns the unit after which no round reads a value made by unit `def` and read by unit `use`: the end of the
 * outermost loop that contains `use` but not `def`. */
static int use_ends(const EmitBody *b, int def, int use) {
  int made = def < 0 ? -1 : makes_in(b, def), end = use;
  for (int l = b->loop[use]; l != made && l >= 0; l = b->loops[l].parent) end = b->loops[l].end;
  return end;
}

static bool as_large(const EmitBody *b, Val x, Val y) {
  const Type *s = emit_body_type(b, x), *t = emit_body_type(b, y);
  return s->dtype == t->dtype && type_elements(b->e->m, s) == type_elements(b->e->m, t);
}

/* Finds the values that become carries: values that the body makes, not carries themselves. */
static void find_next_values(EmitBody *b, const int *def, int end) {
  const BodyLoop *l = &b->loops[b->loop[end]];
  const Unit *u = &b->units->items[end], *loop = &b->units->items[l->begin];
  for (int k = 0; k < u->nout; k++) {
    Val next = b->root[u->in[k]];
    if (def[next] > l->begin && as_large(b, next, loop->out[k + 1]) && !b->becomes[next])
      b->becomes[next] = loop->out[k + 1];
  }
}

void emit_find_uses(EmitBody *b) {
  const UnitList *u = b->units;
  Arena *a = b->scratch;
  size_t n = b->spec->l2->values.n + u->ntemps;
  int *def = ARENA_ARRAY(a, int, n);
  b->last_use = ARENA_ARRAY(a, int, n);
  b->root = ARENA_ARRAY(a, Val, n);
  b->becomes = ARENA_ARRAY(a, Val, n);
  for (size_t v = 0; v < n; v++) {
    b->last_use[v] = def[v] = -1;
    b->root[v] = (Val)v;
  }
  find_loops(b);
  for (int i = 0; i < (int)u->n; i++) {
    const Unit *k = &u->items[i];
    if (k->kind == UNIT_VIEW || k->kind == UNIT_BIND) b->root[k->out[0]] = b->root[k->in[0]];
    for (int j = 0; j < k->nout; j++) def[k->out[j]] = i;
    for (int j = 0; j < k->nin; j++) {
      Val root = b->root[k->in[j]];
      int end = use_ends(b, def[root], i);
      if (end > b->last_use[root]) b->last_use[root] = end;
    }
    if (k->kind == UNIT_REPEAT) find_next_values(b, def, i);
  }
  for (size_t i = 0; i < b->spec->l2->outputs.n; i++)
    b->last_use[b->root[b->spec->l2->outputs.items[i].value]] = (int)u->n;
}

bool emit_in_carry(const EmitBody *b, Val v) { return b->becomes[v] && b->last_use[b->becomes[v]] < b->at; }

/* ---- the beginning of a loop */

/* True if carry `k` of a loop that ends as `leave` should use the memory of a carry of the enclosing loop, whose next
 * value it makes.  That carry dies here, at the latest as the initial value. */
static bool lies_in_outer_carry(const EmitBody *b, const Unit *u, int k, Val leave) {
  Val outer = b->becomes[leave];
  if (!outer || b->last_use[outer] > b->at) return false;
  return b->last_use[outer] < b->at || b->root[u->in[k]] == outer;
}

/* True if the initial value dies here and gives its memory to the carry, and so to its leave (a state only if it is
 * written to that state).  Of several carries with this initial value, the last one takes it. */
static bool takes_over(const EmitBody *b, const Unit *u, int k, Val leave) {
  Val root = b->root[u->in[k]];
  if (!emit_may_share(b, u->in[k], leave)) return false;
  for (int i = k + 1; i < u->nin; i++)
    if (b->root[u->in[i]] == root) return false;
  return true;
}

static bool same_place(const EmitBody *b, uint32_t x, uint32_t y) {
  const ProgramTensor *s = program_at_tensors(b->e->b, x), *t = program_at_tensors(b->e->b, y);
  return s->buffer == t->buffer && s->offset == t->offset;
}

static void begin_carry(EmitBody *b, const Unit *u, int k, Val leave, const char *where) {
  Val carry = u->out[k];
  uint32_t init = emit_body_tensor(b, u->in[k]);
  if (lies_in_outer_carry(b, u, k, leave)) emit_share_tensor(b, carry, b->tensor[b->becomes[leave]]);
  else if (takes_over(b, u, k, leave)) emit_share_tensor(b, carry, init);
  else emit_fresh_tensor(b, carry, PC_activation);
  if (!same_place(b, init, b->tensor[carry])) emit_copy(b, init, b->tensor[carry], emit_body_type(b, carry), where);
}

void emit_loop(EmitBody *b, const Unit *u, const char *where) {
  BodyLoop *l = loop_at(b, b->at);
  const Unit *repeat = &b->units->items[l->end];
  const Expr *trips = op_expr(&b->spec->l2->ops.items[u->op], AT_trips);
  for (int k = 1; k < u->nin; k++) begin_carry(b, u, k, repeat->out[k - 1], where);
  emit_fresh_tensor(b, u->out[0], PC_activation);
  uint32_t tensors[2] = {b->tensor[u->out[0]], emit_body_tensor(b, u->in[0])};
  l->instr = emit_instr(b, PI_loop, where, PROGRAM_NONE, 2, tensors, emit_exprs(b->e, trips != NULL, &trips));
}

/* ---- the end of a loop: all carries take their next values at once */

typedef struct Move {
  uint32_t from, to; /* tensors */
  const Type *type;
} Move;

static uint32_t buffer_of(const EmitBody *b, uint32_t tensor) { return program_at_tensors(b->e->b, tensor)->buffer; }

static void to_scratch(EmitBody *b, uint32_t *tensor, const Type *t, const char *where) {
  uint32_t scratch = emit_scratch(b, t);
  emit_copy(b, *tensor, scratch, t, where);
  *tensor = scratch;
}

/* True if another move still reads the tensor that move `i` would overwrite. */
static bool overwrites(const EmitBody *b, const Move *moves, int n, int i) {
  for (int k = 0; k < n; k++)
    if (k != i && buffer_of(b, moves[k].from) == buffer_of(b, moves[i].to)) return true;
  return false;
}

/* Makes the moves one after another, first those whose target has no readers left; a temporary breaks a cycle. */
static void move_all(EmitBody *b, Move *moves, int n, const char *where) {
  while (n > 0) {
    int i = 0;
    while (i < n && overwrites(b, moves, n, i)) i++;
    if (i == n) {
      to_scratch(b, &moves[0].from, moves[0].type, where);
      continue;
    }
    emit_copy(b, moves[i].from, moves[i].to, moves[i].type, where);
    moves[i] = moves[--n];
  }
}

/* Extends buffers from before the loop that its rounds touch to its end. */
static void keep_to_end(EmitBody *b, uint32_t begin, uint32_t end) {
  ProgramBuilder *pb = b->e->b;
  for (uint32_t i = b->buffers; i < program_count_buffers(pb); i++) {
    ProgramBuffer *buffer = program_at_buffers(pb, i);
    if (buffer->body == b->body && buffer->first < begin && buffer->last > begin && buffer->last < end)
      buffer->last = end;
  }
}

void emit_repeat(EmitBody *b, const Unit *u, const char *where) {
  const BodyLoop *l = loop_at(b, b->at);
  const Unit *loop = &b->units->items[l->begin];
  ProgramBuilder *pb = b->e->b;
  Move *moves = ARENA_ARRAY(b->e->m->arena, Move, u->nout);
  uint32_t tensors[2] = {b->tensor[loop->out[0]],
                         u->nin > u->nout ? emit_body_tensor(b, u->in[u->nout]) : PROGRAM_NONE};
  int n = 0;
  for (int k = 0; k < u->nout; k++) {
    Move move = {emit_body_tensor(b, u->in[k]), b->tensor[loop->out[k + 1]], emit_body_type(b, u->out[k])};
    b->tensor[u->out[k]] = move.to;
    if (!same_place(b, move.from, move.to)) moves[n++] = move;
  }
  for (int k = 0; k < n && tensors[1] != PROGRAM_NONE; k++) /* it is read after the moves */
    if (buffer_of(b, moves[k].to) == buffer_of(b, tensors[1]))
      to_scratch(b, &tensors[1], emit_body_type(b, u->in[u->nout]), where);
  move_all(b, moves, n, where);
  uint32_t at =
      emit_instr(b, PI_repeat, where, PROGRAM_NONE, u->nin > u->nout ? 2 : 1, tensors, program_list_of(pb, 0, NULL));
  program_at_instrs(pb, at)->dim = program_at_instrs(pb, l->instr)->dim = at - l->instr;
  keep_to_end(b, l->instr - b->start, at - b->start);
}
