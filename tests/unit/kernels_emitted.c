/* Generated kernels against the reference interpreter: every operation and random fused graphs (tests/kernel_cases.h).
 * The C kernels run directly; the CUDA kernels run on this CPU as well (tests/dialect/prelude_host.h), threads in
 * ascending and in descending order.  Every case runs twice: with separate memory for results, and sharing memory with
 * operands wherever units.h allows it.
 *
 * Attentions that join their caches themselves exist on CPUs only: those kernels must give the bits of a join followed
 * by an attention.
 *
 * Every CUDA kernel must also give the bits of the CPU kernel: sums are defined on indices (D33), not on threads.
 * So kernels compiled for machines without AVX-512 give them, too.  Exceptions: attention and its gradients add in
 * another order, convolutions except of f64 add in tiles, and so does a product of floats down columns.  Both note the
 * same indices outside their table. */
#include "codegen/cuda/kernels.h"
#include "codegen/rows/row.h"
#include "program/index_fault.h"
#include "tests/kernel_cases.h"
#include "tests/kernel_decoding.h"

static KernelSet dialect; /* the CUDA kernels of the cases that run */

static void call_threads(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share);
/* The C kernels of all cases, as compiled for this machine, and as for machines without AVX-512. */
static Runner cpus[] = {{.call = call_threads}, {.call = call_threads}};
static int ncpus;

typedef struct Dialect {
  const CudaKernel *kernels; /* of the case, by unit */
  int descending;
} Dialect;

static int shapes[CUDA_COLUMNS + 1], kept, packets, templates;

/* ---- bits */

static bool exact(const Case *c, const Unit *u, const CudaKernel *k) {
  if (c->units->work->device->kind != DEVICE_cpu) return false; /* there is no CPU kernel */
  const Op *op = &c->f->ops.items[u->op];
  OpKind kind = op->kind;
  bool conv = kind == OP_conv || kind == OP_conv_transpose;
  if (!u->row)
    return kind != OP_attention && kind != OP_attention_grad && !(conv && type_of(c->f, op->out)->dtype != DT_f64);
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

static void check_bits(const Runner *r, const Case *c, const Unit *u, void *const *ptr, const char *where) {
  void *own[128];
  memcpy(own, ptr, sizeof *own * (size_t)(u->nin + u->nout));
  for (int i = u->nin; i < u->nin + u->nout; i++) {
    size_t bytes =
        (size_t)elements_of(c, u->out[i - u->nin]) * dtype_bytes(units_type(c->units, c->f, u->out[i - u->nin])->dtype);
    own[i] = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
  }
  call_c(r, c, u, own, false);
  for (int i = u->nin; i < u->nin + u->nout; i++) {
    Val v = u->out[i - u->nin];
    CHECKF(same_bits(units_type(c->units, c->f, v)->dtype, ptr[i], own[i], elements_of(c, v)),
           "%s: %s: result %d has other bits %s", c->name, symbol_of(u), i - u->nin, where);
    free(own[i]);
  }
}

/* ---- running */

/* Attention shares rows or keys among threads; their number must not matter.  Not under sanitizers: libgomp ends
 * threads when their number falls, and the kernels' memory of those threads is never freed. */
static void call_threads(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  call_c(r, c, u, ptr, share);
  OpKind kind = c->f->ops.items[u->op].kind;
  if (share || SANITIZED || (kind != OP_attention && kind != OP_attention_grad) || getenv("OMP_NUM_THREADS")) return;
  void (*set)(int) = NULL;
  int (*most)(void) = NULL;
  *(void **)&set = dlsym(r->library, "omp_set_num_threads");
  *(void **)&most = dlsym(r->library, "omp_get_max_threads");
  CHECK(set != NULL && most != NULL);
  if (!set || !most) return;
  int usual = most();
  for (int n = 1; n <= 3; n += 2) {
    set(n);
    check_bits(r, c, u, ptr, "with another number of threads");
  }
  set(usual);
}

/* ---- indices outside */

typedef void DialectKernel(const void *words, int64_t blocks, int descending);

static int noted;

/* One element and every so many after it become too large. */
static void spoil(unsigned char *to, const void *from, int64_t n, size_t size, int64_t first) {
  memcpy(to, from, (size_t)n * size);
  for (int64_t i = first; i < n; i += 1 + n / 7) memset(to + (size_t)i * size, 0x7f, size);
}

/* words: of the kernel, the last two for its note. */
static void check_notes(const Runner *r, const Dialect *d, const Case *c, const Unit *u, DialectKernel *kernel,
                        int64_t *words, size_t nwords) {
  int64_t n = elements_of(c, u->in[0]), blocks = value_of(c, d->kernels[u - c->units->items].launch.blocks);
  size_t size = dtype_bytes(units_type(c->units, c->f, u->in[0])->dtype);
  IndexFault *fault = dlsym(r->library, INDEX_FAULT_SYMBOL);
  IndexNote note = {.fault.found = 0};
  void *own[2] = {malloc((size_t)n * size), malloc((size_t)n * size)};
  int64_t own_words[2] = {(int64_t)(uintptr_t)own[0], (int64_t)(uintptr_t)own[1]}, usual[2] = {words[0], words[1]};
  const void *operand = (const void *)(uintptr_t)usual[0];
  CHECK(fault != NULL && own[0] && own[1] && u->nin == 1 && u->nout == 1);
  words[nwords - 2] = (int64_t)(uintptr_t)&note, words[nwords - 1] = 0;
  kernel(words, blocks, d->descending);
  CHECKF(!note.fault.found, "%s: notes %lld", c->name, (long long)note.fault.value);
  memcpy(words, own_words, sizeof own_words);
  for (int64_t first = 0; fault && first < n; first += 1 + n / 3) {
    note = (IndexNote){.fault.found = 0}, *fault = note.fault;
    spoil(own[0], operand, n, size, first);
    call_c(r, c, u, own, false);
    for (int again = 0; again < 2; again++) { /* a later launch changes nothing */
      words[nwords - 1] = 7 + again;
      kernel(words, blocks, d->descending);
      spoil(own[0], operand, n, size, 0);
    }
    CHECKF(note.instr == 7 && fault->found && memcmp(fault, &note.fault, sizeof *fault) == 0,
           "%s: notes %lld at .. %lld, the CPU's %lld at .. %lld", c->name, (long long)note.fault.value,
           (long long)note.fault.place[0], (long long)fault->value, (long long)fault->place[0]);
    noted++;
  }
  memcpy(words, usual, sizeof usual);
  free(own[0]), free(own[1]);
}

static void call_dialect(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  const Dialect *d = r->more;
  const CudaKernel *k = &d->kernels[u - c->units->items];
  const char *symbol = dialect.kernels.items[k->kernel].symbol;
  int64_t words[512];
  size_t n = (size_t)(u->nin + u->nout + k->nscalars);
  DialectKernel *kernel = NULL;
  *(void **)&kernel = dlsym(r->library, symbol);
  CHECKF(kernel != NULL, "%s", symbol);
  if (!kernel) return;
  memcpy(words, ptr, sizeof *words * (size_t)(u->nin + u->nout));
  for (int i = 0; i < k->nscalars; i++) words[u->nin + u->nout + i] = value_of(c, k->scalars[i]);
  IndexNote unread = {.fault.found = 0};
  words[n] = (int64_t)(uintptr_t)&unread, words[n + 1] = 0; /* a kernel without a note takes fewer */
  kernel(words, value_of(c, k->launch.blocks), d->descending);
  for (int i = 0; i < ncpus && !share; i++) {
    if (k->looks) check_notes(&cpus[i], d, c, u, kernel, words, n + 2);
    if (exact(c, u, k)) check_bits(&cpus[i], c, u, ptr, i ? "than on a CPU without AVX-512" : "than on a CPU");
  }
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
      "\"codegen/cpu/kernel_elements.h\"\n#include \"codegen/cpu/kernel_small.h\"\n"
      "#include \"codegen/cuda/dialect.h\"\n#include \"codegen/cuda/dialect_templates.h\"\n#include "
      "\"codegen/cuda/dialect_attention.h\"\n#include \"codegen/cuda/dialect_attention_grad.h\"\n#include "
      "\"codegen/cuda/dialect_conv.h\"\n#include \"codegen/cuda/dialect_few.h\"\n"
      "#include \"codegen/cuda/dialect_indexing.h\"\n#include \"codegen/cuda/dialect_grouped.h\"\n"
      "#include \"codegen/cuda/dialect_packed.h\"\n",
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

/* ---- caches that grow */

typedef struct Growing {
  const char *q, *groups, *s, *past, *more, *k, *e, *length; /* q: the dimensions before k */
} Growing;

/* Keys (1), values (2) or both are in two parts.  `more`: attributes, after those of the value added to all rows, and a
 * second result. */
static void growing_case(const char *t, const Growing *g, int which, bool causal, bool more) {
  Arena *a = arena_new();
  Text x = {.arena = a};
  text_printf(&x, "  %%q = input {name=\"q\"} : %s[%s,%s] @{}\n", t, g->q, g->k);
  for (int i = 0; i < 2; i++) {
    const char *wide = i ? g->e : g->k, *name = i ? "v" : "k";
    if (which >> i & 1)
      text_printf(&x,
                  "  %%%s0 = input {name=\"%s0\"} : %s[%s,%s,%s] @{}\n  %%%s1 = input {name=\"%s1\"} : "
                  "%s[%s,%s,%s] @{}\n  %%%s = concat %%%s0, %%%s1 {axis=2} : %s[%s,%s + %s,%s]\n",
                  name, name, t, g->groups, g->past, wide, name, name, t, g->groups, g->more, wide, name, name, name, t,
                  g->groups, g->past, g->more, wide);
    else
      text_printf(&x, "  %%%s = input {name=\"%s\"} : %s[%s,%s + %s,%s] @{}\n", name, name, t, g->groups, g->past,
                  g->more, wide);
  }
  text_printf(&x, "  %%i = iota {axis=0, start=%s - 1} : i64[%s]\n  %%j = iota {axis=0, start=0} : i64[%s + %s]\n",
              g->length, g->s, g->past, g->more);
  text_printf(&x, "  %%n = const {value=%s} : i64[]\n", g->length);
  if (more) text_printf(&x, "  %%b = input {name=\"b\"} : %s[%s + %s] @{}\n", t, g->past, g->more);
  text_printf(&x, "  %%y%s = attention %%q, %%k, %%v, %%i, %%j, %%n%s {scale=0.5, causal=%d%s} : %s[%s,%s]",
              more ? ", %w, %z" : "", more ? ", %b" : "", causal, more ? ", bias=\"t\", sums=1" : "", t, g->q, g->e);
  for (int i = 0; i < 2 && more; i++) text_printf(&x, ", %s[%s]", strcmp(t, "f64") == 0 ? "f64" : "f32", g->q);
  text_printf(&x, "\n" OUTF("y") "%s" OUTF("k") OUTF("v"),
              more ? "  output \"w\" %w @{}\n  output \"z\" %z @{}\n" : "");
  text_case(arena_printf(a, "growing %s %s, %s and %s keys of %s, %d%s%s", t, g->q, g->past, g->more, g->k, which,
                         causal ? ", causal" : "", more ? ", more" : ""),
            text_str(&x));
  arena_free(a);
}

static void growing_cases(void) {
  static const char *const types[] = {"f32", "f16", "bf16", "f64"};
  static const Growing list[] = {
      {"b,2,4,1", "b,2", "1", "s", "1", "20", "40", "60"},       /* heads share keys; no query sees the last blocks */
      {"1,2,1,3", "1,2", "3", "1085", "15", "64", "64", "1090"}, /* whole vectors; one block has both parts */
      {"1,b,1,s", "1,b", "s", "150", "s", "20", "32", "200"},    /* many rows */
      {"2,b,1,b", "2,b", "b", "s - 70", "b", "16", "48", "2"},   /* nothing yet */
      {"1,2,2,b", "1,2", "b", "128", "64", "48", "16", "180"},   /* parts of whole blocks */
      {"1,2,1,1", "1,2", "1", "8300", "1", "64", "64", "8301"}}; /* past the caches */
  joining = true;
  for (int i = 0; i < 4; i++) /* the whole list for f32 */
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
      for (int which = 1; which <= 3; which++)
        for (int causal = 0; causal < 2; causal++)
          if ((which == 3 && !causal) || (k < 5 && i == 0)) growing_case(types[i], &list[k], which, causal, which != 2);
  joining = false;
}

static bool has_join(const UnitList *units) {
  for (size_t i = 0; i < units->n; i++)
    if (units->items[i].computes == OP_concat) return true;
  return false;
}

static void growing_as_apart(const Case *c, const Runner *r) {
  Case apart = *c;
  apart.units = c->apart;
  Memory x = run_units(c, r, false), y = run_units(&apart, r, false);
  for (size_t i = 0; i < c->f->outputs.n; i++) {
    Val v = c->f->outputs.items[i].value;
    bool same = x.data[v] && y.data[v] && memcmp(x.data[v], y.data[v], x.bytes[v]) == 0;
    CHECKF(same, "%s: output %s has other bits than apart", c->name, c->f->outputs.items[i].name);
  }
  free_memory(&x), free_memory(&y);
}

static void growing_is_part_of_attention(void) {
  int n = 0;
  for (const Case *c = cases; c; c = c->next) {
    if (!c->apart || !c->here) continue;
    CHECKF(!has_join(c->units) && has_join(c->apart), "%s: the join is a kernel of its own", c->name);
    for (int k = 0; k < ncpus; k++) growing_as_apart(c, &cpus[k]);
    n++;
  }
  CHECK(n > quarter_of(40));
}

/* ---- all cases */

/* Compiles for each of the machines.  Not under sanitizers, which do not reach into kernels. */
static void compile_for_cpus(void) {
#ifdef __x86_64__
  static const char *const words[] = {"", "-mno-avx512f"};
#else
  static const char *const words[] = {""};
#endif
  int n = SANITIZED ? 1 : (int)(sizeof words / sizeof *words);
  for (ncpus = 0; ncpus < n; ncpus++)
    if (!(cpus[ncpus].library = compile_c(ncpus, words[ncpus]))) break;
  CHECK(ncpus == n);
}

static void cpu_cases(void) {
  for (const Case *c = cases; c; c = c->next)
    for (int i = 0; i < ncpus && c->here; i++) {
      run_case(c, &cpus[i], false);
      run_case(c, &cpus[i], true);
    }
}

static int count_splits(const Case *c) {
  int n = 0;
  for (size_t i = 0; i < c->units->n; i++) n += c->units->items[i].split != NULL;
  return n;
}

/* Kernels of a case of placed_attentions that only move elements. */
static int count_moves(const Case *c) {
  int n = 0;
  for (size_t i = 0; i < c->units->n && strncmp(c->name, "placed", 6) == 0; i++) {
    const Unit *u = &c->units->items[i];
    n += u->kind == UNIT_KERNEL && !u->place && u->legal->kind != OP_iota && u->legal->kind != OP_const;
  }
  return n;
}

static int count_joined(const Case *c) {
  int n = 0;
  for (size_t i = 0; i < c->units->n; i++) {
    const Unit *u = &c->units->items[i];
    n += u->conv && epilogue_any(u->conv->epilogue);
  }
  return n;
}

/* Kernels of cases of kernel_decoding.h: products and caches.  Nothing else is computed there but attentions and
 * positions. */
static int count_decoding(const Case *c) {
  int n = 0;
  bool here = strncmp(c->name, "few rows", 8) == 0 || strncmp(c->name, "caches", 6) == 0;
  for (size_t i = 0; i < c->units->n && here; i++) {
    const Unit *u = &c->units->items[i];
    bool position = u->row && !dtype_is_float(units_type(c->units, c->f, u->out[0])->dtype);
    bool expected = u->kind != UNIT_KERNEL || u->few || u->cache || position || u->legal->kind == OP_attention;
    CHECKF(expected && u->kind != UNIT_GEMM, "%s: unit %zu is apart", c->name, i);
    n += u->few || u->cache;
  }
  return n;
}

static void cuda_cases(void) {
  Arena *a = dialect.arena = arena_new();
  int splits = 0, joined = 0, decoding = 0;
  split_attentions();
  placed_attentions();
  joined_convolutions();
  few_products();
  cached_attentions();
  const CudaKernel **of = ARENA_ARRAY(a, const CudaKernel *, ncases);
  int n = 0;
  for (const Case *c = cases; c; c = c->next) {
    if (c->apart) continue;
    count(c, of[n++] = cuda_kernels(c->p.m, c->f, c->units, c->here ? &dialect : &others));
    splits += count_splits(c), joined += count_joined(c);
    decoding += count_decoding(c);
    CHECKF(count_moves(c) == 0, "%s: %d kernels move", c->name, count_moves(c));
  }
  CHECKF(splits == 11, "%d attentions in pieces", splits);
  CHECKF(joined == 5, "%d joined convolutions", joined);
  CHECKF(decoding == 15, "%d kernels of decoding", decoding);
  Dialect d = {.descending = 0};
  Runner r = {.call = call_dialect, .library = compile_dialect(a), .more = &d};
  CHECK(r.library != NULL);
  if (!ncpus || !r.library) return;
  n = 0;
  for (const Case *c = cases; c; c = c->next) {
    if (c->apart) continue;
    d.kernels = of[n++];
    if (!c->here) continue;
    for (d.descending = 0; d.descending < 2; d.descending++) {
      run_case(c, &r, false);
      run_case(c, &r, true);
    }
  }
  CHECKF(noted > 0 || getenv("APC_QUARTER"), "%d notes", noted);
}

/* The same kernels for sizes of 0: no row, no element, nothing to reduce.  They run last, as they draw other inputs. */
static void empty_cases(void) {
  int n = 0;
  for (Case *c = cases; c && c->units->work->device->kind == DEVICE_cpu; c = c->next)
    for (int s = 0; c->here && s < 2 * ncpus; s++) n += run_case_empty(c, &cpus[s / 2], s % 2);
  CHECKF(n >= ncpus * quarter_of(300), "%d cases", n);
}

/* Every skeleton has run. */
static void all_shapes(void) {
  for (int i = 0; i <= CUDA_COLUMNS; i++) CHECKF(shapes[i] > 0, "no kernel of shape %d", i);
  CHECKF(kept > 0 && packets > 0 && templates > 0, "%d with kept values, %d with packets, %d templates", kept, packets,
         templates);
}

int main(void) {
  make_cases();
  RUN(growing_cases);
  RUN(compile_for_cpus);
  RUN(cpu_cases);
  RUN(growing_is_part_of_attention);
  RUN(cuda_cases);
  RUN(all_shapes);
  RUN(empty_cases);
  printf(
      "%d cases, %zu C kernels: %d elements, %d tiles, %d warp per row, %d block per row, "
      "%d columns, %d templates; %d keep rows, %d in packets\n",
      ncases, kernels.kernels.n, shapes[0], shapes[1], shapes[2], shapes[3], shapes[4], templates, kept, packets);
  return test_summary();
}
