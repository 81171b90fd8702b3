/* codegen/cuda/kernels.c - see kernels.h. */
#include "codegen/cuda/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/rows/row.h"

/* ---- row programs as keys: those of equal layers are equal */

static void add(Text *key, const void *field, size_t bytes) { text_addn(key, field, bytes); }
#define ADD(key, field) add((key), &(field), sizeof(field))

static void add_affine(Text *key, const Affine *a) { ADD(key, a->offset), ADD(key, a->coef); }

static void add_node(Text *key, const RowNode *n) {
  ADD(key, n->kind), ADD(key, n->dtype), ADD(key, n->op), ADD(key, n->nargs), ADD(key, n->args);
  ADD(key, n->f), ADD(key, n->i), add_affine(key, &n->at), ADD(key, n->expr);
  ADD(key, n->buffer), ADD(key, n->guard), ADD(key, n->acc), ADD(key, n->source);
  ADD(key, n->stage), ADD(key, n->inner), ADD(key, n->cost);
}

static void add_store(Text *key, const RowStore *s) {
  ADD(key, s->node), ADD(key, s->buffer), add_affine(key, &s->at), ADD(key, s->stage), ADD(key, s->inner),
      ADD(key, s->total);
}

/* Adds everything except the values of its buffers, which no text names.  The module stores equal expressions once. */
static void add_program(Text *key, const RowProgram *p) {
  ADD(key, p->ndims), ADD(key, p->extent), ADD(key, p->inner), ADD(key, p->reduces), ADD(key, p->start);
  ADD(key, p->nstages), ADD(key, p->blocks), ADD(key, p->nodes.n), ADD(key, p->accs.n), ADD(key, p->stores.n),
      ADD(key, p->buffers.n);
  for (size_t i = 0; i < p->nodes.n; i++) add_node(key, &p->nodes.items[i]);
  for (size_t i = 0; i < p->accs.n; i++) {
    const RowAcc *a = &p->accs.items[i];
    ADD(key, a->op), ADD(key, a->dtype), ADD(key, a->node), ADD(key, a->stage);
  }
  for (size_t i = 0; i < p->stores.n; i++) add_store(key, &p->stores.items[i]);
  for (size_t i = 0; i < p->buffers.n; i++) {
    const RowBuffer *b = &p->buffers.items[i];
    ADD(key, b->table), ADD(key, b->dtype), ADD(key, b->output);
  }
}

/* ---- kernels */

static const char *row_kernel(Module *m, const Unit *u, CudaKernel *k) {
  Scalars scalars = {0};
  const char *text = cuda_print_kernel(m, u->row, &scalars, &k->launch);
  k->nscalars = (int)scalars.n, k->scalars = scalars.items;
  k->how = cuda_schedule_text(m->arena, &k->launch);
  return text;
}

const CudaKernel *cuda_kernels(Module *m, const Func *l2, const UnitList *units, KernelSet *set) {
  CudaKernel *all = ARENA_ARRAY(m->arena, CudaKernel, units->n + 1);
  Text key = {.arena = m->arena};
  for (size_t i = 0; i < units->n; i++) {
    const Unit *u = &units->items[i];
    if (u->kind != UNIT_KERNEL) continue;
    key.n = 0;
    if (u->row) add_program(&key, u->row);
    const CudaKernel *known = u->row ? kernel_set_known(set, key.data, key.n) : NULL;
    if (known) {
      all[i] = *known;
      continue;
    }
    const Op *named = u->conv ? u->conv->op : &l2->ops.items[u->tells];
    bool sums = !u->row && !u->nmembers && u->legal->kind == OP_reduce;
    const char *text = u->row        ? row_kernel(m, u, &all[i])
                       : u->nmembers ? cuda_bundle(m, u, &all[i])
                       : sums        ? cuda_sum_all(m, l2, units, u, &all[i])
                                     : cuda_template(m, l2, units, u, set->arch, &all[i]);
    const char *name = u->nmembers ? "bundle"
                       : sums      ? "sum"
                       : u->few    ? "product"
                       : u->cache  ? "caches"
                                   : op_name(named->kind);
    all[i].kernel = kernel_set_add(set, name, text);
    if (u->row) kernel_set_keep(set, key.data, key.n, &all[i]);
  }
  return all;
}

int cuda_arch(const char *arch) { return arch && strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) : 0; }

const char *cuda_text(Arena *a, const Kernel *k) {
  Text t = {.arena = a};
  for (const char *p = k->text, *end; *p; p = end) {
    end = p + strcspn(p, CUDA_NAME);
    text_addn(&t, p, (size_t)(end - p));
    if (*end) text_add(&t, k->symbol), end += strlen(CUDA_NAME);
  }
  return text_str(&t);
}
