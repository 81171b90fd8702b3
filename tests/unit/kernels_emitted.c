/* Generated kernels against the reference interpreter: every operation and random fused graphs (tests/kernel_cases.h).
 * The C kernels run as they are; the CUDA kernels run on this CPU as well (tests/dialect/prelude_host.h), threads in
 * ascending and in descending order.  Every case runs twice: with results in memory of their own, and sharing memory
 * with operands wherever units.h allows it.
 *
 * Every CUDA kernel must also give the bits of the CPU kernel: sums are defined on indices (D33), not on threads.
 * Attention adds in another order, convolutions of f32 on CPUs in tiles, and so does a product of floats down columns.
 */
#include "codegen/cuda/kernels.h"
#include "codegen/rows/row.h"
#include "tests/kernel_cases.h"

static KernelSet dialect; /* the CUDA kernels of all cases */

static void call_threads(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share);
static Runner cpu = {.call = call_threads}; /* the C kernels of all cases */

typedef struct Dialect {
  const CudaKernel *kernels; /* of the case, by unit */
  int descending;
} Dialect;

static int shapes[CUDA_COLUMNS + 1], kept, packets, templates;

/* ---- bits */

static bool exact(const Case *c, const Unit *u, const CudaKernel *k) {
  const Op *op = &c->f->ops.items[u->op];
  OpKind kind = op->kind;
  bool conv = kind == OP_conv || kind == OP_conv_transpose;
  if (!u->row) return kind != OP_attention && !(conv && type_of(c->f, op->out)->dtype == DT_f32);
  for (size_t i = 0; i < u->row->accs.n; i++)
    if (u->row->accs.items[i].op == RED_PRODUCT && k->launch.shape == CUDA_COLUMNS) return false;
  return true;
}

static bool same_bits(DType t, const unsigned char *a, const unsigned char *b, int64_t n) {
  size_t size = dtype_bytes(t);
  for (int64_t i = 0; i < n; i++, a += size, b += size) {
    if (memcmp(a, b, size) == 0) continue;
    if (!dtype_is_float(t) || !isnan(dtype_load_f(t, a)) || !isnan(dtype_load_f(t, b))) return false;
  }
  return true;
}

static void check_bits(const Case *c, const Unit *u, void *const *ptr, const char *where) {
  void *own[128];
  memcpy(own, ptr, sizeof *own * (size_t)(u->nin + u->nout));
  for (int i = u->nin; i < u->nin + u->nout; i++) {
    size_t bytes =
        (size_t)elements_of(c, u->out[i - u->nin]) * dtype_bytes(units_type(c->units, c->f, u->out[i - u->nin])->dtype);
    own[i] = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
  }
  call_c(&cpu, c, u, own, false);
  for (int i = u->nin; i < u->nin + u->nout; i++) {
    Val v = u->out[i - u->nin];
    CHECKF(same_bits(units_type(c->units, c->f, v)->dtype, ptr[i], own[i], elements_of(c, v)),
           "%s: %s: result %d has other bits %s", c->name, symbol_of(u), i - u->nin, where);
    free(own[i]);
  }
}

/* ---- running */

/* Attention shares rows or keys among threads, how many there are must not matter.  Not under sanitizers: libgomp ends
 * threads when there are to be fewer, and nobody gives the kernels' memory of these back. */
static void call_threads(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  call_c(r, c, u, ptr, share);
  if (share || SANITIZED || c->f->ops.items[u->op].kind != OP_attention || getenv("OMP_NUM_THREADS")) return;
  void (*set)(int) = NULL;
  int (*most)(void) = NULL;
  *(void **)&set = dlsym(r->library, "omp_set_num_threads");
  *(void **)&most = dlsym(r->library, "omp_get_max_threads");
  CHECK(set != NULL && most != NULL);
  if (!set || !most) return;
  int usual = most();
  for (int n = 1; n <= 3; n += 2) {
    set(n);
    check_bits(c, u, ptr, "with another number of threads");
  }
  set(usual);
}

static void call_dialect(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  const Dialect *d = r->more;
  const CudaKernel *k = &d->kernels[u - c->units->items];
  const char *symbol = dialect.kernels.items[k->kernel].symbol;
  int64_t words[512];
  void (*kernel)(const void *, int64_t, int) = NULL;
  *(void **)&kernel = dlsym(r->library, symbol);
  CHECKF(kernel != NULL, "%s", symbol);
  if (!kernel) return;
  memcpy(words, ptr, sizeof *words * (size_t)(u->nin + u->nout));
  for (int i = 0; i < k->nscalars; i++) words[u->nin + u->nout + i] = value_of(c, k->scalars[i]);
  kernel(words, value_of(c, k->launch.blocks), d->descending);
  if (!share && exact(c, u, k)) check_bits(c, u, ptr, "than on a CPU");
}

static void *compile_dialect(Arena *a) {
  const char *source = temp_path("dialect.c");
  char library[4500], command[12000];
  const char *sanitize = SANITIZED ? "-fsanitize=address" : "";
  snprintf(library, sizeof library, "%s/d.so", temp_root());
  snprintf(command, sizeof command,
           "cc -std=gnu11 -O1 -g0 -w -I. -fno-strict-aliasing -ffp-contract=off -shared -fPIC %s %s -o %s -lm",
           sanitize, source, library);
  FILE *f = fopen(source, "w");
  if (!f) return NULL;
  fputs(
      "#include \"tests/dialect/prelude_host.h\"\n#include \"base/random.h\"\n#include "
      "\"codegen/cpu/kernel_elements.h\"\n"
      "#include \"codegen/cuda/dialect.h\"\n#include \"codegen/cuda/dialect_templates.h\"\n"
      "#include \"codegen/cuda/dialect_indexing.h\"\n#include \"codegen/cuda/dialect_grouped.h\"\n",
      f);
  for (size_t i = 0; i < dialect.kernels.n; i++) fputs(cuda_text(a, &dialect.kernels.items[i]), f);
  fclose(f);
  return system(command) == 0 ? load_library(library) : NULL;
}

static void count(const Case *c, const CudaKernel *k) {
  for (size_t i = 0; i < c->units->n; i++) {
    const CudaSchedule *s = &k[i].launch;
    if (c->units->items[i].kind != UNIT_KERNEL) continue;
    if (!c->units->items[i].row) templates++;
    else shapes[s->shape]++;
    kept += s->kept > 0, packets += s->vector > 1;
    CHECKF(s->shared <= 48 << 10, "%s: %d bytes of shared memory", c->name, s->shared);
  }
}

/* ---- all cases */

static void cpu_cases(void) {
  cpu.library = compile_c();
  CHECK(cpu.library != NULL);
  for (const Case *c = cpu.library ? cases : NULL; c; c = c->next) {
    run_case(c, &cpu, false);
    run_case(c, &cpu, true);
  }
}

static void cuda_cases(void) {
  Arena *a = dialect.arena = arena_new();
  const CudaKernel **of = ARENA_ARRAY(a, const CudaKernel *, ncases);
  int n = 0;
  for (const Case *c = cases; c; c = c->next) count(c, of[n++] = cuda_kernels(c->p.m, c->f, c->units, &dialect));
  Dialect d = {.descending = 0};
  Runner r = {.call = call_dialect, .library = compile_dialect(a), .more = &d};
  CHECK(r.library != NULL);
  if (!cpu.library || !r.library) return;
  n = 0;
  for (const Case *c = cases; c; c = c->next) {
    d.kernels = of[n++];
    for (d.descending = 0; d.descending < 2; d.descending++) {
      run_case(c, &r, false);
      run_case(c, &r, true);
    }
  }
}

/* The same kernels for sizes of 0: no row, no element, nothing to reduce.  Last: it draws other inputs. */
static void empty_cases(void) {
  int n = 0;
  for (Case *c = cpu.library ? cases : NULL; c; c = c->next)
    for (int s = 0; s < 2; s++) n += run_case_empty(c, &cpu, s);
  CHECKF(n >= 300, "%d cases", n);
}

/* Every skeleton has run. */
static void all_shapes(void) {
  for (int i = 0; i <= CUDA_COLUMNS; i++) CHECKF(shapes[i] > 0, "no kernel of shape %d", i);
  CHECKF(kept > 0 && packets > 0 && templates > 0, "%d with kept values, %d with packets, %d templates", kept, packets,
         templates);
}

int main(void) {
  make_cases();
  RUN(cpu_cases);
  RUN(cuda_cases);
  RUN(all_shapes);
  RUN(empty_cases);
  printf(
      "%d cases, %zu C kernels: %d elements, %d tiles, %d warp per row, %d block per row, "
      "%d columns, %d templates; %d keep rows, %d in packets\n",
      ncases, kernels.kernels.n, shapes[0], shapes[1], shapes[2], shapes[3], shapes[4], templates, kept, packets);
  return test_summary();
}
