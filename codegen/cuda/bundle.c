/* codegen/cuda/bundle.c - kernels of several tensors in one launch, and the sum of totals.
 *
 * The grid of a bundle is the concatenation of its members' grids.  A block finds its member by bisection, and calls
 * the function of that form with the member's addresses and scalars.  Equal kernels are one form: a training step has
 * only few, however many weights it has.  Addresses and scalars are the argument; tables of the text assign them to
 * members.
 *
 *   in[], out[]   the unit's operands and results
 *   x[]           by member the end of its blocks; then the scalars of each
 */
#include <string.h>

#include "base/die.h"
#include "codegen/cuda/template.h"
#include "codegen/rows/row.h"

typedef struct Bundle {
  Module *m;
  const Unit *u;
  CudaKernel *k;
  struct {
    const char **items;
    size_t n, cap;
  } forms;
  struct {
    const Expr **items;
    size_t n, cap;
  } scalars;
  int *form, *first_in, *first_out, *first_x; /* by member */
} Bundle;

static int form_of(Bundle *b, const char *text) {
  for (size_t i = 0; i < b->forms.n; i++)
    if (strcmp(b->forms.items[i], text) == 0) return (int)i;
  ARENA_PUSH(b->m->arena, &b->forms, text);
  return (int)b->forms.n - 1;
}

static void add_member(Bundle *b, int i, const Expr **end) {
  const Unit *u = &b->u->members[i];
  Scalars scalars = {0};
  CudaSchedule s;
  const char *text = cuda_print_part(b->m, u->row, &scalars, &s);
  size_t known = b->forms.n;
  b->form[i] = form_of(b, text);
  if (i > 0 && s.threads != b->k->launch.threads)
    die("a bundle of kernels of %d and %d threads", s.threads, b->k->launch.threads);
  b->k->launch.threads = s.threads;
  if (b->forms.n > known) b->k->launch.shared += s.shared;
  *end = ex_add(b->m, *end, s.blocks);
  b->scalars.items[i] = *end;
  b->first_x[i] = (int)b->scalars.n;
  for (size_t k = 0; k < scalars.n; k++) ARENA_PUSH(b->m->arena, &b->scalars, scalars.items[k]);
}

static void print_list(Text *t, const char *name, const int *items, int n) {
  text_printf(t, "TABLE(uint16_t, " CUDA_NAME "_%s, %d) = {", name, n ? n : 1);
  for (int i = 0; i < n; i++) text_printf(t, "%s%d", i ? ", " : "", items[i]);
  text_add(t, n ? "};\n" : "0};\n");
}

static void print_lists(const Bundle *b, Text *t) {
  const Unit *u = b->u;
  int *in, n = 0, outs = 0;
  for (int i = 0; i < u->nmembers; i++) n += u->members[i].nin;
  in = ARENA_ARRAY(b->m->arena, int, n + 1), n = 0;
  for (int i = 0; i < u->nmembers; i++) {
    const Unit *member = &u->members[i];
    b->first_in[i] = n, b->first_out[i] = outs;
    outs += member->nout;
    for (int k = 0; k < member->nin; k++, n++)
      while (u->in[in[n]] != member->in[k]) in[n]++;
  }
  print_list(t, "form", b->form, u->nmembers);
  print_list(t, "in", in, n);
  print_list(t, "first_in", b->first_in, u->nmembers);
  print_list(t, "first_out", b->first_out, u->nmembers);
  print_list(t, "first_x", b->first_x, u->nmembers);
}

static const char *print_bundle(Bundle *b) {
  const Unit *u = b->u;
  Text t = {.arena = b->m->arena};
  for (size_t i = 0; i < b->forms.n; i++)
    text_printf(&t, "CALLED void " CUDA_NAME "_form%zu(" CUDA_PART_TAKES ") {\n%s}\n", i, b->forms.items[i]);
  print_lists(b, &t);
  text_add(&t, "typedef struct " CUDA_NAME "_args {\n");
  if (u->nin) text_printf(&t, "  const void *in[%d];\n", u->nin);
  text_printf(&t, "  void *out[%d];\n  int64_t x[%zu];\n} " CUDA_NAME "_args;\n", u->nout, b->scalars.n);
  text_printf(&t, "KERNEL(" CUDA_NAME ", IN_PLACE " CUDA_NAME "_args, %d) {\n", b->k->launch.threads);
  text_printf(&t,
              "  int member = 0;\n"
              "  for (int last = %d; member < last;) {\n"
              "    const int middle = (member + last) / 2;\n"
              "    if (block_index() < a.x[middle]) last = middle;\n"
              "    else member = middle + 1;\n"
              "  }\n"
              "  const int64_t block = block_index() - (member ? a.x[member - 1] : 0);\n"
              "  const uint16_t *const in = " CUDA_NAME "_in + " CUDA_NAME
              "_first_in[member];\n"
              "  const int out = " CUDA_NAME "_first_out[member], scalar = " CUDA_NAME
              "_first_x[member];\n"
              "  switch (" CUDA_NAME "_form[member]) {\n",
              u->nmembers - 1);
  for (size_t i = 0; i < b->forms.n; i++)
    text_printf(&t, "    case %zu: " CUDA_NAME "_form%zu(%s, in, a.out + out, a.x + scalar, block); break;\n", i, i,
                u->nin ? "a.in" : "0");
  text_add(&t, "  }\n}\n\n");
  return text_str(&t);
}

const char *cuda_bundle(Module *m, const Unit *u, CudaKernel *k) {
  int n = u->nmembers;
  Bundle b = {.m = m, .u = u, .k = k};
  const Expr *end = ex_const(m, 0);
  *k = (CudaKernel){0};
  b.form = ARENA_ARRAY(m->arena, int, n), b.first_in = ARENA_ARRAY(m->arena, int, n);
  b.first_out = ARENA_ARRAY(m->arena, int, n), b.first_x = ARENA_ARRAY(m->arena, int, n);
  for (int i = 0; i < n; i++) ARENA_PUSH(m->arena, &b.scalars, end);
  for (int i = 0; i < n; i++) add_member(&b, i, &end);
  k->launch.blocks = end;
  k->nscalars = (int)b.scalars.n, k->scalars = b.scalars.items;
  k->how = arena_printf(m->arena, "%d kernels of %zu form%s, %d threads", n, b.forms.n, b.forms.n > 1 ? "s" : "",
                        k->launch.threads);
  return print_bundle(&b);
}

/* Prints the sum: a warp adds the operands whose numbers equal its own mod 32; warps are added in order. */
const char *cuda_sum_all(Module *m, const Func *l2, const UnitList *units, const Unit *u, CudaKernel *k) {
  enum { THREADS = 1024 };
  const Expr **lengths = ARENA_ARRAY(m->arena, const Expr *, u->nin);
  for (int i = 0; i < u->nin; i++) lengths[i] = type_elements(m, units_type(units, l2, u->in[i]));
  *k = (CudaKernel){.nscalars = u->nin,
                    .scalars = lengths,
                    .how = arena_printf(m->arena, "sum of %d tensors, %d threads", u->nin, THREADS),
                    .launch = {.threads = THREADS, .blocks = ex_const(m, 1), .shared = 4 * (THREADS / 32)}};
  return arena_printf(m->arena,
                      "typedef struct " CUDA_NAME
                      "_args {\n"
                      "  const float *in[%d];\n"
                      "  float *out;\n"
                      "  int64_t x[%d];\n"
                      "} " CUDA_NAME
                      "_args;\n"
                      "KERNEL(" CUDA_NAME ", " CUDA_NAME
                      "_args, %d) {\n"
                      "  SHARED(float, part, %d);\n"
                      "  float sum = 0;\n"
                      "  for (int k = warp_index(); k < %d; k += %d) {\n"
                      "    const float *const p = a.in[k];\n"
                      "    const int64_t n = a.x[k];\n"
                      "    UNROLL_4 for (int64_t i = lane_index(); i < n; i += 32) sum = add_f32(sum, p[i]);\n"
                      "  }\n"
                      "  sum = warp_sum_f32(sum);\n"
                      "  if (lane_index() == 0) part[warp_index()] = sum;\n"
                      "  barrier();\n"
                      "  if (thread_index() == 0) {\n"
                      "    for (int w = 1; w < %d; w++) sum = add_f32(sum, part[w]);\n"
                      "    *a.out = sum;\n"
                      "  }\n"
                      "}\n\n",
                      u->nin, u->nin, THREADS, THREADS / 32, u->nin, THREADS / 32, THREADS / 32);
}
