/* program/device_classes.c - see device_classes.h. */
#include "program/device_classes.h"

#include <string.h>

#include "base/hash.h"

/* The most expressions of one instruction, with those of its tensors, guard and grid. */
enum { EXPRS_MOST = PROGRAM_MAX_WORDS * (PROGRAM_MAX_RANK + 2) + 2 };

/* The expressions of an instruction and of its tensors that differ between ranks. */
typedef struct OwnExprs {
  uint32_t n, items[EXPRS_MOST];
} OwnExprs;

static void add(const Program *p, OwnExprs *l, uint32_t e) {
  if (p->expr_uses[e] & PROGRAM_USES_PLACE) l->items[l->n++] = e;
}

static void find_own(const Program *p, const ProgramInstr *x, bool ports, OwnExprs *l) {
  bool port = x->kind == PI_feed || x->kind == PI_fetch;
  l->n = 0;
  for (uint32_t i = 0; i < x->exprs.n && (ports || !port); i++) add(p, l, program_list(p, x->exprs)[i]);
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    const ProgramTensor *t = &p->tensors[program_list(p, x->tensors)[i]];
    add(p, l, t->offset);
    for (uint32_t d = 0; d < t->extents.n; d++) add(p, l, program_list(p, t->extents)[d]);
  }
  if (x->guard != PROGRAM_NONE) add(p, l, x->guard);
  if (program_instr_has_grid(x)) add(p, l, x->blocks);
}

static void mix(uint64_t *key, int64_t value) {
  uint64_t both[2] = {*key, (uint64_t)value};
  *key = hash64(both, sizeof both, 0);
}

/* Mixes the parts of a group's members into the hash.  Equal parts make no difference between ranks; otherwise the
 * rank's place counts as well. */
static void mix_parts(const ProgramValues *v, const ProgramMembers *m, const OwnExprs *l, uint32_t first,
                      uint64_t *keys) {
  uint64_t parts = 0;
  bool differ = false;
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t j = 0; j < l->n; j++) {
      int64_t part = program_value_of(v, program_member(m, i), l->items[j]);
      differ |= part != program_value_of(v, m->first, l->items[j]);
      mix(&parts, part);
    }
  for (uint32_t i = 0; i < m->n && differ; i++) {
    uint64_t *key = &keys[program_member(m, i) - first];
    mix(key, (int64_t)parts);
    mix(key, i);
  }
}

void device_class_keys(const ProgramValues *v, uint32_t body, bool ports, uint64_t *keys) {
  const Program *p = v->p;
  const ProgramBody *b = &p->bodies[body];
  uint32_t first = b->stage * p->ranks_per_stage;
  OwnExprs l;
  memset(keys, 0, sizeof *keys * p->ranks_per_stage);
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++) {
    const ProgramInstr *x = &p->instrs[i];
    find_own(p, x, ports, &l);
    bool parts =
        program_instr_is_comm(x->kind) && x->kind != PI_all_reduce && p->groups[x->object].from == PROGRAM_NONE;
    for (uint32_t r = 0; l.n && r < p->ranks_per_stage; r++) {
      for (uint32_t j = 0; j < l.n; j++) mix(&keys[r], program_value_of(v, first + r, l.items[j]));
      ProgramMembers m = {0};
      if (parts) m = program_group_of(p, x->object, first + r);
      if (parts && m.place == 0) mix_parts(v, &m, &l, first, keys);
    }
  }
}
