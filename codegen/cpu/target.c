/* codegen/cpu/target.c - kernels for CPUs: C texts, compiled by the system's compiler into one shared object.
 *
 * A kernel is void symbol(void *const *ptr, const int64_t *x): the operands and results of its unit in order, and its
 * scalars. */
#include "codegen/target.h"

#include <string.h>

#include "codegen/artifact.h"
#include "codegen/cpu/c_compiler.h"
#include "codegen/cpu/kernel_object.h"
#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/row_work.h"
#include "program/cpu.h"

/* A translation unit ends after this much text of kernels: about ten kernels, 0.3 s of gcc -O3, of which the prelude is
 * 0.05 s. */
#define UNIT_BYTES ((size_t)12000)

static void print(Module *m, const Func *l2, UnitList *units, KernelSet *set) {
  for (size_t i = 0; i < units->n; i++) {
    Unit *u = &units->items[i];
    Scalars scalars = {0};
    (void)l2;
    if (u->kind != UNIT_KERNEL) continue;
    const char *text = u->row ? print_c_kernel(m, u->row, &scalars) : template_print(units->work, u->legal, &scalars);
    u->kernel = kernel_set_add(set, op_name(u->row ? u->computes : u->legal->kind), text);
    u->nscalars = (int)scalars.n, u->scalars = scalars.items;
  }
}

/* True for an attention: its text is one line, but the functions of the prelude that it calls take half of the
 * compiler's time, so it has its own translation unit. */
static bool is_long(const Kernel *k) { return strstr(k->text, "  attention_") != NULL; }

/* Guards let several kernels of a text bring the same declarations. */
static const char *definition(Arena *a, const Kernel *k) {
  return arena_printf(a, "%svoid %s%s", template_is_operator(k->text) ? kernel_operators : "", k->symbol, k->text);
}

/* Splits the kernels into texts.  The split depends only on them, never on the machine: an artifact's bytes must not
 * depend on how many compilers ran at once. */
static const char **texts(const KernelSet *s, size_t *n) {
  const char **list = ARENA_ARRAY(s->arena, const char *, s->kernels.n + 1);
  *n = 0;
  for (size_t i = 0; i < s->kernels.n;) {
    Text t = {.arena = s->arena};
    text_add(&t, kernel_prelude);
    for (size_t bytes = 0; i < s->kernels.n && bytes < UNIT_BYTES; i++) {
      const Kernel *k = &s->kernels.items[i];
      if (is_long(k) && bytes) break;
      text_add(&t, definition(s->arena, k));
      bytes += is_long(k) ? UNIT_BYTES : strlen(k->text);
    }
    list[(*n)++] = text_str(&t);
  }
  return list;
}

static CCompiler compiler_of(const KernelCompile *how) {
  return (CCompiler){how->arena, how->diags, how->command, how->dir, how->folder, false};
}

/* Compiles for the instruction sets of this machine, with -march=native. */
static bool compile(const KernelCompile *how, const char *const *list, size_t n, KernelImages *out) {
  CCompiler c = compiler_of(how);
  FileMap map;
  *out = (KernelImages){0};
  if (!c_compile(&c, list, n, &map)) return false;
  out->items[out->n++] = (KernelImage){PIMAGE_object, program_cpu_features(), map.data, map.size, map};
  return true;
}

static bool check(const KernelCompile *how, const KernelImages *images, const Program *p, const FileMap *stub) {
  CCompiler c = compiler_of(how);
  return kernel_object_check(how->diags, &(KernelObject){&images->items[0].map, p, stub, c_compiler_name(&c)});
}

static bool identify(const KernelCompile *how, CacheKey *k) {
  CCompiler c = compiler_of(how);
  return c_compiler_key(&c, k);
}

static bool ready(Arena *a, Diags *d, const Cache *cache) { return c_compiler_check(a, d, NULL, cache); }

static void schedule(Arena *a, const ArtifactProgram *program, Text *t) {
  (void)a;
  program_print(&program->p, t);
}

static const char *const prelude = kernel_prelude;
extern const KernelTarget kernel_target_cpu;
const KernelTarget kernel_target_cpu = {.language = "C",
                                        .prelude = &prelude,
                                        .has_template = template_exists,
                                        .print = print,
                                        .definition = definition,
                                        .texts = texts,
                                        .compile = compile,
                                        .identify = identify,
                                        .check = check,
                                        .ready = ready,
                                        .schedule = schedule};
