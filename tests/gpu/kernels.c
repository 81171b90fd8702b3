/* tests/gpu/kernels.c - compares every kernel of tests/kernel_cases.h on a GPU with the reference interpreter.
 *
 *   gpu_kernels compile FOLDER ARCH [EVERY [TEXTS]]   machine code for "sm_90" into FOLDER; needs NVRTC, no GPU
 *   gpu_kernels run FOLDER [EVERY [here]]             runs and compares it; needs a GPU, no NVRTC
 *
 * EVERY: only one in so many cases.  TEXTS: keeps the text of each cubin there, by its hash, for the doubles.
 *
 * Both make the same cases, so that kernels have the same numbers; the folder holds cubins of TOGETHER kernels each,
 * and the list of their cases.  A case runs as in tests/unit/kernels_emitted.c, twice: with separate memory for
 * results, and sharing memory with operands wherever units.h allows it.  Kernels that use indices run once more with
 * the last index too large, and must note it.
 *
 * After an error of the device a process cannot use it any more, and a kernel may never end.  So cases run in a child
 * that reports the begin and end of each; if it dies or is late, its case has failed, and another child continues after
 * it.  With `here` there is no child, for tools that watch a process. */
#include "tests/gpu/raw.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <zlib.h>

#include "codegen/cuda/kernels.h"
#include "codegen/cuda/nvrtc.h"
#include "program/image.h"
#include "tests/kernel_cases.h"

enum { TOGETHER = 48, MOST_OPERANDS = 128, WORDS = 511, LATE_MS = 60000, MOST_CUBIN = 64 << 20 };

static KernelSet set; /* of the selected cases */
static Arena *arena;

/* The kernels of one in so many cases, by case. */
static const CudaKernel **kernels_of(int every) {
  const CudaKernel **of = ARENA_ARRAY(arena, const CudaKernel *, ncases);
  int n = 0;
  for (const Case *c = cases; c; c = c->next, n++)
    if (n % every == 0) of[n] = cuda_kernels(c->p.m, c->f, c->units, &set);
  return of;
}

/* ---- compiling */

static bool write_image(Diags *d, const char *folder, const char *texts, size_t number, const char *text,
                        const char *arch) {
  CudaImage image;
  if (!nvrtc_compile(arena, d, text, arch, &image)) return false;
  unsigned long long hash = program_blob_hash(image.cubin, image.cubin_bytes);
  const char *cubin = arena_printf(arena, "%s/%zu.cubin", folder, number);
  if (!file_write(d, cubin, 0666, image.cubin, image.cubin_bytes)) return false;
  return !texts || file_write(d, arena_printf(arena, "%s/%016llx.cu", texts, hash), 0666, text, strlen(text));
}

static bool compile_all(Diags *d, const char *folder, const char *arch, int every, const char *texts) {
  kernels_of(every);
  for (size_t i = 0; i < set.kernels.n; i += TOGETHER) {
    Text t = {.arena = arena};
    text_add(&t, dialect_prelude);
    for (size_t k = i; k < i + TOGETHER && k < set.kernels.n; k++)
      text_add(&t, cuda_text(arena, &set.kernels.items[k]));
    if (!write_image(d, folder, texts, i / TOGETHER, text_str(&t), arch)) return false;
  }
  const char *list = arena_printf(arena, "%d\n", every);
  int major = 0, minor = 0;
  nvrtc_found(&major, &minor);
  printf("%zu, of every %d of %d cases, by NVRTC %d.%d\n", set.kernels.n, every, ncases, major, minor);
  return file_write(d, arena_printf(arena, "%s/every", folder), 0666, list, strlen(list));
}

/* ---- the GPU, in a child */

/* A child's view of the kernels. */
typedef struct Loaded {
  Gpu gpu;
  const char *folder;
  CUmodule *modules;         /* by number of the cubin, loaded on demand */
  const CudaKernel *kernels; /* of the case, by unit */
  IndexNote *note;           /* pinned */
} Loaded;

/* From FILE or FILE.gz; free it. */
static void *read_cubin(const char *file) {
  bool packed = access(file, R_OK) != 0;
  gzFile from = gzopen(packed ? arena_printf(arena, "%s.gz", file) : file, "rb");
  char *bytes = malloc(MOST_CUBIN);
  int n = from && bytes ? gzread(from, bytes, MOST_CUBIN) : -1;
  if (n <= 0 || n == MOST_CUBIN || gzclose(from) != Z_OK) {
    fprintf(stderr, "%s cannot be read\n", file);
    _exit(1);
  }
  return bytes;
}

static CUfunction function_of(Loaded *l, int kernel) {
  const char *symbol = set.kernels.items[kernel].symbol;
  CUmodule *module = &l->modules[kernel / TOGETHER];
  CUfunction function = NULL;
  if (!*module) {
    const char *file = arena_printf(arena, "%s/%d.cubin", l->folder, kernel / TOGETHER);
    void *cubin = read_cubin(file);
    MUST(&l->gpu, module_load, file, module, cubin);
    free(cubin);
  }
  MUST(&l->gpu, module_function, symbol, &function, *module, symbol);
  return function;
}

/* An operand or a result on the device, with the guard after it. */
typedef struct Copy {
  void *host;
  CUdeviceptr at;
  size_t bytes;
} Copy;

/* Addresses that are equal on the host are equal on the device, with the size of the first of them. */
static void copy_to_gpu(const Gpu *g, Copy *copies, int n, int i) {
  Copy *c = &copies[i];
  for (int k = 0; k < n && !c->at; k++)
    if (copies[k].at && copies[k].host == c->host) *c = copies[k];
  if (c->at) return;
  MUST(g, memory_alloc, "an operand", &c->at, c->bytes);
  MUST(g, copy_to, "an operand", c->at, c->host, c->bytes, g->queue);
}

static void copy_back(const Gpu *g, const Copy *copies, int n) {
  for (int i = 0; i < n; i++) MUST(g, copy_from, "a result", copies[i].host, copies[i].at, copies[i].bytes, g->queue);
  MUST(g, queue_finish, "results", g->queue);
  for (int i = 0; i < n; i++) {
    bool given = false;
    for (int k = 0; k < i; k++) given |= copies[k].at == copies[i].at;
    if (!given) MUST(g, memory_free, "an operand", copies[i].at);
  }
}

static void launch(Loaded *l, const CudaKernel *k, int64_t blocks, uint64_t *words, size_t n) {
  const Gpu *g = &l->gpu;
  const char *symbol = set.kernels.items[k->kernel].symbol;
  size_t bytes = (n + (k->looks ? 2 : 0)) * sizeof *words;
  void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, words, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
                   &bytes, NULL};
  words[n] = gpu_address(l->note), words[n + 1] = 7;
  l->note->fault.found = 0;
  if (blocks > 0)
    MUST(g, launch, symbol, function_of(l, k->kernel), (unsigned)blocks, 1, 1, (unsigned)k->launch.threads, 1, 1, 0,
         g->queue, NULL, bytes ? extra : NULL);
  MUST(g, queue_finish, symbol, g->queue);
}

/* Checks the note when the last element of a copy of the operand is too large. */
static void check_note(Loaded *l, const Case *c, const Unit *u, const CudaKernel *k, uint64_t *words, size_t n) {
  const Op *op = &c->f->ops.items[u->op];
  const Type *t = units_type(c->units, c->f, u->in[0]);
  size_t size = dtype_bytes(t->dtype), last = (size_t)elements_of(c, u->in[0]) - 1;
  const IndexFault *f = &l->note->fault;
  unsigned char value[8];
  CUdeviceptr own;
  CHECKF(!f->found, "%s: notes %lld", c->name, (long long)f->value);
  memset(value, 0x7f, sizeof value);
  MUST(&l->gpu, memory_alloc, "indices", &own, (last + 1) * size);
  MUST(&l->gpu, copy_on, "indices", own, words[0], (last + 1) * size, l->gpu.queue);
  MUST(&l->gpu, set_8, "an index", own + last * size, 0x7f, size, l->gpu.queue);
  words[0] = words[1] = own;
  launch(l, k, value_of(c, k->launch.blocks), words, n);
  MUST(&l->gpu, memory_free, "indices", own);
  CHECKF(f->found && l->note->instr == 7 && f->value == dtype_load_i(t->dtype, value) && f->rank == t->rank &&
             f->below == value_of(c, op_expr(op, AT_below)),
         "%s: notes %lld", c->name, (long long)f->value);
  for (int d = 0; d < t->rank; d++)
    CHECKF(f->place[d] == value_of(c, op_attr(op, AT_starts)->u.exprs[d]) + value_of(c, t->dims[d]) - 1,
           "%s: notes an index at .. %lld ..", c->name, (long long)f->place[d]);
}

static void call_gpu(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  Loaded *l = r->more;
  const Gpu *g = &l->gpu;
  const CudaKernel *k = &l->kernels[u - c->units->items];
  Copy copies[MOST_OPERANDS] = {0};
  uint64_t words[WORDS];
  int n = u->nin + u->nout;
  for (int turn = 0; turn < n; turn++) {
    int i = (u->nin + turn) % n; /* results first: operands that share their memory are no larger */
    Val v = i < u->nin ? u->in[i] : u->out[i - u->nin];
    copies[i].host = ptr[i];
    copies[i].bytes = (size_t)elements_of(c, v) * dtype_bytes(units_type(c->units, c->f, v)->dtype) + GUARD;
    copy_to_gpu(g, copies, n, i);
    words[i] = copies[i].at;
  }
  for (int i = 0; i < k->nscalars; i++) words[n + i] = (uint64_t)value_of(c, k->scalars[i]);
  MUST(g, queue_finish, "operands", g->queue);
  launch(l, k, value_of(c, k->launch.blocks), words, (size_t)(n + k->nscalars));
  if (k->looks && !share) check_note(l, c, u, k, words, (size_t)(n + k->nscalars));
  copy_back(g, copies, n);
}

/* ---- children */

typedef struct Said {
  int number;
  enum { BEGINS, EQUAL, DIFFERS } what;
} Said;

static const char *case_name(int number) {
  const Case *c = cases;
  while (number-- > 0) c = c->next;
  return c->name;
}

static int equal, failed;

static void fails(int number, const char *how) {
  failed++;
  printf("FAILED %s: %s\n", case_name(number), how);
}

static void count(const Said *s) {
  if (s->what == EQUAL) equal++;
  if (s->what == DIFFERS) fails(s->number, "differs from the interpreter");
}

/* `to`: -1 if there is no listener. */
static void say(int to, int number, int what) {
  Said s = {number, (unsigned)what};
  fflush(NULL);
  if (to < 0) count(&s);
  else if (write(to, &s, sizeof s) != sizeof s) _exit(1);
}

/* Runs the cases from number `first` on. */
static void run_cases(const char *folder, const CudaKernel *const *of, int first, int every, int to) {
  size_t cubins = set.kernels.n / TOGETHER + 1;
  Loaded l = {.folder = folder, .modules = ARENA_ARRAY(arena, CUmodule, cubins)};
  Runner r = {.call = call_gpu, .more = &l};
  int n = 0;
  raw_open(&l.gpu);
  MUST(&l.gpu, pinned_alloc, "notes of kernels", (void **)&l.note, sizeof *l.note, 0);
  for (const Case *c = cases; c; c = c->next, n++) {
    if (n < first || n % every) continue;
    int before = test_failed_here;
    l.kernels = of[n];
    say(to, n, BEGINS);
    run_case(c, &r, false);
    run_case(c, &r, true);
    say(to, n, test_failed_here > before ? DIFFERS : EQUAL);
  }
  for (size_t i = 0; i < cubins; i++)
    if (l.modules[i]) MUST(&l.gpu, module_unload, "the kernels", l.modules[i]);
  MUST(&l.gpu, pinned_free, "notes of kernels", l.note);
  raw_close(&l.gpu);
}

/* Reads from a child until it ends; returns the number of its unfinished case, or -1.  *last: the last finished one. */
static int listen_to(int from, pid_t pid, int *last) {
  struct pollfd p = {.fd = from, .events = POLLIN};
  int at = -1;
  for (Said s;;) {
    int ready = poll(&p, 1, LATE_MS);
    if (ready <= 0) {
      kill(pid, SIGKILL);
      return at;
    }
    if (read(from, &s, sizeof s) != sizeof s) return at;
    at = s.what == BEGINS ? s.number : -1;
    if (s.what != BEGINS) *last = s.number;
    count(&s);
  }
}

/* Returns the case after which to continue; -1 if all are done. */
static int run_from(const char *folder, const CudaKernel *const *of, int first, int every) {
  int ends[2], status, last = first - 1;
  fflush(NULL);
  if (pipe(ends)) return perror("pipe"), failed++, -1;
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    run_cases(folder, of, first, every, ends[1]);
    exit(0); /* doubles check for leaks */
  }
  close(ends[1]);
  if (pid < 0) return perror("fork"), failed++, -1;
  int at = listen_to(ends[0], pid, &last);
  close(ends[0]);
  waitpid(pid, &status, 0);
  if (at >= 0) {
    fails(at, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the device or the driver failed");
    return at + 1;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return -1;
  failed++;
  printf("FAILED %s\n", last < first ? "to open the GPU" : "after the last case");
  return -1;
}

static int run_all(const char *folder, int every, bool here) {
  int first = 0;
  Diags *d = diags_new(arena);
  const char *text = file_read_text(d, arena, arena_printf(arena, "%s/every", folder), NULL);
  if (!text) return diags_print(d, stderr, false), 1;
  int compiled = atoi(text);
  if (compiled < 1) return fprintf(stderr, "%s/every is damaged\n", folder), 1;
  const CudaKernel *const *of = (const CudaKernel *const *)kernels_of(compiled);
  every *= compiled;
  if (here) run_cases(folder, of, 0, every, -1);
  while (!here && first >= 0 && first < ncases) first = run_from(folder, of, first, every);
  int asked = (ncases + every - 1) / every;
  printf("%d of %d cases equal, %d failed; %zu kernels\n", equal, asked, failed, set.kernels.n);
  return failed || equal != asked;
}

int main(int argc, char **argv) {
  bool compiles = argc >= 4 && argc <= 6 && strcmp(argv[1], "compile") == 0,
       runs = argc >= 3 && argc <= 5 && strcmp(argv[1], "run") == 0, here = argc == 5 && strcmp(argv[4], "here") == 0;
  const char *number = compiles && argc > 4 ? argv[4] : runs && argc > 3 ? argv[3] : "1";
  int every = atoi(number);
  if ((!compiles && !runs) || every < 1 || (runs && argc == 5 && !here)) {
    fprintf(stderr, "usage: gpu_kernels compile FOLDER ARCH [EVERY [TEXTS]] | run FOLDER [EVERY [here]]\n");
    return 2;
  }
  set.arena = arena = arena_new();
  make_cases();
  split_attentions();
  placed_attentions();
  if (test_failed) return 1;
  if (runs) return run_all(argv[2], every, here);
  Diags *d = diags_new(arena);
  bool ok = compile_all(d, argv[2], argv[3], every, argc > 5 ? argv[5] : NULL);
  diags_print(d, stderr, false);
  return ok ? 0 : 1;
}
