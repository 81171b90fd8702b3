/* codegen/legal.c - see legal.h. */
#include "codegen/legal.h"

#include "codegen/rows/row_work.h"

static void add_bodies(Legal *l, const ProgramEntrySpec *entry, bool prepare) {
  Module *m = l->source.m;
  const WorkFunction *all = work_function(m->arena, m, entry->l2, l->source.device, !prepare);
  for (int s = 0; s < m->mesh.stages; s++)
    l->bodies[l->n++] = (LegalBody){entry, s, prepare, work_of_stage(all, s), NULL};
}

Legal *legalise(const ProgramSource *source) {
  Arena *a = source->m->arena;
  Legal *l = ARENA_NEW(a, Legal);
  *l = (Legal){.source = *source,
               .prepare = {"prepare", source->prepare_l1, source->prepare_l2},
               .bodies = ARENA_ARRAY(a, LegalBody, (source->nentries + 1) * source->m->mesh.stages),
               .kernels = {.arena = a, .arch = source->arch}};
  for (int i = 0; i < source->nentries; i++) add_bodies(l, &source->entries[i], false);
  if (source->prepare_l2) add_bodies(l, &l->prepare, true);
  l->panels = panels_choose(l);
  return l;
}

void kernels_print(Legal *l) {
  const KernelTarget *target = kernel_target(l->source.device);
  for (int i = 0; i < l->n; i++) {
    LegalBody *b = &l->bodies[i];
    b->units = units_of(b->work);
    target->print(l->source.m, b->entry->l2, b->units, &l->kernels);
  }
}
