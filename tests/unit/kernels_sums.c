/* Float sums are defined on global indices (D33): kernels over a part [first, first + n) of a dimension compared with a
 * plain evaluation of the whole tree with zeros elsewhere; equal bits, by rows, by columns, of one row, fused or
 * not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/c_compiler.h"
#include "codegen/rows/row_work.h"
#include "codegen/target.h"
#include "tests/temp.h"
#include "tests/test.h"

/* ---- the definition: 32 lanes by index mod 32 in blocks of 1024, lane butterfly, pairwise over blocks */

static float block_sum(const float *x, int64_t n, int64_t first, int64_t block) {
  float lane[32] = {0};
  for (int64_t i = 0; i < 1024; i++) {
    int64_t at = block * 1024 + i - first;
    if (at >= 0 && at < n) lane[i % 32] += x[at];
  }
  for (int w = 16; w; w /= 2)
    for (int l = 0; l < w; l++) lane[l] += lane[l + w];
  return lane[0];
}

static float tree(const float *x, int64_t n, int64_t first, int64_t block, int64_t blocks) {
  if ((block + blocks) * 1024 <= first || block * 1024 >= first + n) return 0;
  if (blocks == 1) return block_sum(x, n, first, block);
  float left = tree(x, n, first, block, blocks / 2), right = tree(x, n, first, block + blocks / 2, blocks / 2);
  return left + right;
}

static float whole(const float *x, int64_t n, int64_t first) { return tree(x, n, first, 0, 1 << 20); }

/* ---- kernels */

enum { LARGEST = 9000, ROWS = 67 };
static float x[LARGEST * ROWS], y[ROWS], column[LARGEST];

enum { N, G, B, SYMBOLS };
static const char *const head = "apc.ir 1\nsymbol n\nsymbol g\nsymbol b\nmesh [tp=1] stages 1\nfunc @r level 2 {\n";
static Arena *arena;
static Module *modules[16];
static int nmodules;
static KernelSet kernels;

/* The unit of the only kernel of a function. */
static const Unit *unit_of(const char *body) {
  Diags *d = diags_new(arena);
  Module *m = ir_parse("test", arena_printf(arena, "%s%s}\n", head, body), d);
  if (!m || !verify_module(m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  modules[nmodules++] = m;
  const Func *f = module_func(m, "r");
  UnitList *list = units_of(work_new(m, f, 0, target_device_traits(DEVICE_cpu), false));
  kernel_target(target_device_traits(DEVICE_cpu))->print(m, f, list, &kernels);
  CHECK(list->n == 2 && list->items[1].kind == UNIT_KERNEL);
  return &list->items[1];
}

static void run(void *library, const Unit *u, const float *in, float *out, int64_t n, int64_t g, int64_t b) {
  int64_t symbols[SYMBOLS] = {n, g, b}, scalars[64];
  static float other[ROWS];
  void *ptr[3] = {(void *)(uintptr_t)in, out, other};
  void (*kernel)(void *const *, const int64_t *) = NULL;
  *(void **)&kernel = dlsym(library, kernels.kernels.items[u->kernel].symbol);
  for (int i = 0; i < u->nscalars; i++) CHECK(ex_eval(u->scalars[i], symbols, &scalars[i]));
  kernel(ptr, scalars);
}

static void *compile(void) {
  char command[12000], library[4500];
  size_t n;
  const char *source = temp_path("sums.c"),
             **texts = kernel_target(target_device_traits(DEVICE_cpu))->texts(&kernels, &n);
  snprintf(library, sizeof library, "%s/sums.so", temp_root());
  snprintf(command, sizeof command, "cc -DPARALLEL_WORK=256 %s %s -o %s -lm", UNITS_CFLAGS, source, library);
  FILE *f = fopen(source, "w");
  CHECK(f && n == 1);
  if (!f) return NULL;
  fputs(texts[0], f);
  fclose(f);
  return system(command) == 0 ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* ---- checks */

static uint64_t state = 1;
static uint64_t draw(void) { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; }
static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Numbers of very different magnitude: another order gives other bits. */
static void fill(void) {
  for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
    x[i] = ((float)(int64_t)(draw() % 2001) - 1000) * (draw() % 3 ? 1.0f : 1e-3f);
}

static void check_case(void *library, const Unit *rows, const Unit *columns, const Unit *one, const Unit *squares,
                       int64_t n, int64_t g, int64_t b) {
  run(library, rows, x, y, n, g, b);
  for (int64_t r = 0; r < b; r++)
    CHECKF(same(y[r], whole(x + r * n, n, g)), "row %d of %d from %d", (int)r, (int)n, (int)g);
  run(library, squares, x, y, n, g, b);
  for (int64_t r = 0; r < b; r++) {
    for (int64_t i = 0; i < n; i++) column[i] = x[r * n + i] * x[r * n + i];
    CHECKF(same(y[r], whole(column, n, g)), "squares of row %d of %d from %d", (int)r, (int)n, (int)g);
  }
  run(library, columns, x, y, n, g, b);
  for (int64_t r = 0; r < b; r++) {
    for (int64_t i = 0; i < n; i++) column[i] = x[i * b + r];
    CHECKF(same(y[r], whole(column, n, g)), "column %d of %d from %d", (int)r, (int)n, (int)g);
  }
  run(library, one, x, y, n, g, b);
  CHECKF(same(y[0], whole(x, n, g)), "%d from %d", (int)n, (int)g);
}

#define ROWS_OF(starts) \
  "  %x = input {name=\"x\"} : f32[b,n] @{}\n  %r = reduce %x {axes=[1], op=sum" starts \
  "} : f32[b]\n  output \"r\" %r @{}\n"

static void parts(void) {
  const Unit *rows = unit_of(ROWS_OF(", starts=[g]"));
  const Unit *columns = unit_of(
      "  %x = input {name=\"x\"} : f32[n,b] @{}\n  %r = reduce %x {axes=[0], op=sum, starts=[g]} : f32[b]\n  output "
      "\"r\" %r @{}\n");
  const Unit *one = unit_of(
      "  %x = input {name=\"x\"} : f32[n] @{}\n  %r = reduce %x {axes=[0], op=sum, starts=[g]} : f32[]\n  output \"r\" "
      "%r @{}\n");
  /* with a maximum in the same loop, which has no order */
  const Unit *squares = unit_of(
      "  %x = input {name=\"x\"} : f32[b,n] @{}\n  %s = mul %x, %x : f32[b,n]\n  %r = reduce %s {axes=[1], op=sum, "
      "starts=[g]} : f32[b]\n"
      "  %m = reduce %s {axes=[1], op=max} : f32[b]\n  output \"r\" %r @{}\n  output \"m\" %m @{}\n");
  void *library = compile();
  CHECK(library != NULL);
  if (!library) return;
  static const int64_t places[] = {0, 1, 31, 32, 33, 1023, 1024, 1025, 3000, 5000};
  fill();
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
    check_case(library, rows, columns, one, squares, 1 + (int64_t)(draw() % 3000), places[i], 3);
  for (int i = 0; i < 40; i++)
    check_case(library, rows, columns, one, squares, (int64_t)(draw() % LARGEST), (int64_t)(draw() % 100000),
               1 + (int64_t)(draw() % ROWS));
  /* rows of a larger part equal those of a smaller one: cutting a parallel dimension changes no bit */
  float all[ROWS];
  run(library, rows, x, all, 700, 5, 40);
  run(library, rows, x + 13 * 700, y, 700, 5, 27);
  CHECK(memcmp(all + 13, y, 27 * sizeof *y) == 0);
}

/* With a start of 0 the kernel is that without the attribute. */
static void start_at_zero(void) {
  int before = unit_of(ROWS_OF(""))->kernel;
  CHECK(unit_of(ROWS_OF(", starts=[0]"))->kernel == before);
  CHECK(unit_of(ROWS_OF(", starts=[g]"))->kernel != before);
}

int main(void) {
  arena = kernels.arena = arena_new();
  setenv("OMP_WAIT_POLICY", "passive", 1); /* as ranks set it; read when the OpenMP library is loaded */
  RUN(parts);
  RUN(start_at_zero);
  while (nmodules > 0) module_free(modules[--nmodules]);
  arena_free(arena);
  return test_summary();
}
