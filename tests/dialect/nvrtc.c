/* Emitted CUDA text through NVRTC, without a GPU: every kernel of tests/kernel_cases.h and of models that apc writes is
 * compiled to machine code, spills nothing, keeps nothing in local memory, and fits the registers and shared memory of
 * a block.
 *
 *   dialect_nvrtc BUILD_DIRECTORY        exit 77: there is no NVRTC
 */
#include "base/file.h"
#include "codegen/cuda/kernels.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/target.h"
#include "program/build.h"
#include "program/image.h"
#include "tests/kernel_cases.h"

/* Registers per thread: the blocks of a multiprocessor share 64 K, and enough of them must fit to hide the latency of
 * memory. */
static int most_registers(int threads) { return threads <= 128 ? 128 : threads <= 256 ? 96 : 64; }

enum { MOST_SHARED = 48 << 10, TOGETHER = 48, MOST_KERNELS = 4096 };

static Arena *arena;
static int compiled, heaviest, with_shared, with_less;

/* Threads of a kernel, from its definition. */
static int threads_of(const char *text, const char *symbol) {
  const char *at = strstr(text, arena_printf(arena, "KERNEL(%s, ", symbol));
  int threads = 0;
  if (at) sscanf(at, "KERNEL(%*[^,], %*[^,], %d)", &threads);
  return threads;
}

/* What the printer says that a block takes, by kernel of the set. */
typedef struct Stated {
  const KernelSet *set;
  int *shared;
} Stated;

static void check_stated(const Stated *s, const CudaUsage *u) {
  for (size_t i = 0; s && i < s->set->kernels.n; i++)
    if (strcmp(s->set->kernels.items[i].symbol, u->symbol) == 0) {
      CHECKF(u->shared <= s->shared[i], "%s takes %d bytes of shared memory, stated are %d", u->symbol, u->shared,
             s->shared[i]);
      with_shared += s->shared[i] > 0, with_less += u->shared < s->shared[i];
    }
}

static void check_text(const Stated *stated, const char *name, const char *text, const char *arch,
                       size_t kernels_in_it) {
  Diags *d = diags_new(arena);
  CudaImage image;
  bool ok = nvrtc_compile(arena, d, text, arch, &image);
  if (!ok) diags_print(d, stderr, false);
  CHECKF(ok, "%s for %s", name, arch);
  if (!ok) return;
  CHECKF(image.usage.n == kernels_in_it, "%s for %s: %zu kernels of %zu", name, arch, image.usage.n, kernels_in_it);
  CHECKF(image.cubin_bytes > 4 && memcmp(image.cubin, "\177ELF", 4) == 0, "%s for %s: no machine code", name, arch);
  for (size_t i = 0; i < image.usage.n; i++) {
    const CudaUsage *u = &image.usage.items[i];
    int threads = threads_of(text, u->symbol);
    compiled++;
    check_stated(stated, u);
    if (u->registers > heaviest) heaviest = u->registers;
    CHECKF(strstr(image.ptx, u->symbol) != NULL, "%s: PTX lacks %s", name, u->symbol);
    CHECKF(u->spill_stores == 0 && u->spill_loads == 0 && u->stack == 0,
           "%s for %s: %s spills %d and %d bytes, keeps %d in local memory", name, arch, u->symbol, u->spill_stores,
           u->spill_loads, u->stack);
    CHECKF(threads >= 32 && u->registers > 0 && u->registers <= most_registers(threads),
           "%s for %s: %s takes %d registers, %d threads", name, arch, u->symbol, u->registers, threads);
    CHECKF(u->shared <= MOST_SHARED, "%s for %s: %s takes %d bytes of shared memory", name, arch, u->symbol, u->shared);
  }
}

/* The kernels of all cases: functions of the C library, which elementwise operations of f64 use, keep tables in local
 * memory. */
static bool calls_library(const char *text) {
  static const char *const names[] = {"tan_", "sin_f64", "cos_f64", "pow_f64", "rope_f64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(text, names[i])) return true;
  return false;
}

/* What is stated is what is declared; a compiler leaves out what it can do without. */
static void cases_compile(void) {
  KernelSet set = {.arena = arena};
  Stated stated = {&set, ARENA_ARRAY(arena, int, MOST_KERNELS)};
  for (const Case *c = cases; c; c = c->next) {
    const CudaKernel *k = cuda_kernels(c->p.m, c->f, c->units, &set);
    CHECK(set.kernels.n <= MOST_KERNELS);
    for (size_t i = 0; i < c->units->n; i++)
      if (c->units->items[i].kind == UNIT_KERNEL) stated.shared[k[i].kernel] = k[i].launch.shared;
  }
  for (size_t i = 0; i < set.kernels.n;) {
    Text t = {.arena = arena};
    size_t n = 0;
    text_add(&t, dialect_prelude);
    for (; i < set.kernels.n && n < TOGETHER; i++) {
      if (calls_library(set.kernels.items[i].text)) continue;
      text_add(&t, cuda_text(arena, &set.kernels.items[i]));
      n++;
    }
    check_text(&stated, arena_printf(arena, "cases to %zu", i), text_str(&t), "sm_80", n);
    check_text(&stated, arena_printf(arena, "cases to %zu", i), text_str(&t), "sm_90a", n);
  }
  CHECKF(with_shared > 20 && with_less * 4 < with_shared, "%d of %d kernels take less shared memory than stated",
         with_less, with_shared);
}

/* ---- models, as apc writes them */

static const char *build;

static size_t count_kernels(const char *text) {
  size_t n = 0;
  for (const char *p = text; (p = strstr(p, "\nKERNEL(")); p++) n++;
  return n;
}

static void model(const char *name, const char *options) {
  const char *file = temp_path("model.cu");
  const char *command =
      arena_printf(arena, "%s/apc examples/%s -q --target dgx-a100x4 %s --emit=cuda=%s", build, name, options, file);
  Diags *d = diags_new(arena);
  CHECKF(system(command) == 0, "%s", command);
  const char *text = file_read_text(d, arena, file, NULL);
  CHECK(text != NULL);
  if (!text) return;
  size_t n = count_kernels(text);
  CHECKF(n > 0, "%s has no kernel", name);
  check_text(NULL, name, text, "sm_80", n);
  check_text(NULL, name, text, "sm_90a", n);
}

static void models(void) {
  model("gpt-tiny.onnx", "--tp 2 --pp 2");
  model("gpt.apc", "-D layers=2 -D d=256 -D heads=4 -D vocab=1000");
  model("gpt.apc", "-D layers=2 -D d=2048 -D heads=16 -D vocab=50257 --tp 4");
  model("llama.apc", "-D layers=2 -D d=1024 -D heads=8 -D kv_heads=4 -D ffn=2816 -D vocab=32000 --tp 4");
  model("llama.apc", "-D layers=1 -D d=8192 -D heads=64 -D kv_heads=8 -D ffn=28672 -D vocab=32000 --tp 4");
  model("resnet.apc", "-D depth=50 -D width=64 -D classes=1000 -D image=224");
  model("unet.apc", "-D channels=4 -D levels=2 -D image=16 --dim batch=2");
  model("vit.apc", "-D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10");
  model("bert.apc", "-D layers=2 -D d=768 -D heads=12 -D vocab=30522 -D ctx=512");
  model("t5.apc", "-D layers=2 -D d=32 -D d_kv=8 -D heads=4 -D ffn=64 -D vocab=50");
  model("moe.apc", "-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50");
  model("moe.apc", "-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=dropless");
  model("lstm.apc", "-D layers=2 -D d=32 -D vocab=50");
}

/* ---- a Program with what is made for two architectures */

static uint32_t embed(ProgramBuilder *b, const KernelImages *images) {
  for (size_t i = 0; i < images->n; i++) {
    const KernelImage *k = &images->items[i];
    program_embed_image(b, k->kind, k->arch, k->bytes, program_blob_hash(k->data, k->bytes));
  }
  return (uint32_t)images->n;
}

static void add_kernels(ProgramBuilder *b, const Case *c, const KernelSet *set, const CudaKernel *k) {
  for (size_t i = 0; i < c->units->n; i++)
    if (c->units->items[i].kind == UNIT_KERNEL && k[i].kernel == (int)program_count_kernels(b))
      program_add_kernels(b, &(ProgramKernel){.name = program_string(b, set->kernels.items[k[i].kernel].symbol),
                                              .threads = (uint32_t)k[i].launch.threads,
                                              .shared = (uint32_t)k[i].launch.shared});
}

static void check_choice(const Program *p, const KernelImages *of, const char *device, ProgramImageKind kind) {
  uint32_t image;
  RtError error = {0};
  CHECKF(program_image_choose(p, "GPU", device, &image, &error) == RT_OK, "%s", error.text);
  if (error.status) return;
  const ProgramBlob *blob = &p->blobs[p->images[image].blob];
  const KernelImage *want = kernel_image_of(of, kind);
  CHECKF(want && strcmp(program_text(p, p->images[image].arch), want->arch) == 0, "%s takes %s", device,
         program_text(p, p->images[image].arch));
  CHECK(want && blob->bytes == want->bytes && blob->hash == program_blob_hash(want->data, want->bytes));
}

static void images_of_two_architectures(void) {
  static const char *const archs[] = {"sm_80", "sm_90"};
  const KernelTarget *target = kernel_target(target_device_traits_find("gpu"));
  KernelSet set = {.arena = arena};
  KernelImages images[2];
  ProgramBuilder *b = program_builder_new();
  ProgramFacts facts = {"two", "gpus", "test", 1, 0};
  const Case *c = cases;
  add_kernels(b, c, &set, cuda_kernels(c->p.m, c->f, c->units, &set));
  CHECK(set.kernels.n > 0 && program_count_kernels(b) == set.kernels.n);
  for (int i = 0; i < 2; i++) {
    size_t n;
    const char **texts = target->texts(&set, &n);
    KernelCompile how = {.arena = arena, .diags = diags_new(arena), .arch = archs[i]};
    CHECK(target->ready(arena, how.diags) && target->compile(&how, texts, n, &images[i]));
    CHECK(embed(b, &images[i]) == 2);
  }
  void *tables = NULL;
  size_t bytes;
  Program p;
  RtError error = {0};
  CHECKF(program_builder_finish(b, &facts, &tables, &bytes, &error) == RT_OK &&
             program_open(tables, bytes, &p, &error) == RT_OK,
         "%s", error.text);
  if (!error.status) {
    check_choice(&p, &images[0], "sm_86", PIMAGE_cubin);
    check_choice(&p, &images[1], "sm_90", PIMAGE_cubin);
    check_choice(&p, &images[1], "sm_120", PIMAGE_ptx);
    program_close(&p);
  }
  for (int i = 0; i < 2; i++) kernel_images_free(&images[i]);
  program_builder_free(b);
  free(tables);
}

/* ---- the log is read right */

static void log_is_read(void) {
  static const char source[] =
      "extern \"C\" __global__ void __launch_bounds__(32) greedy(float *p, int n) {\n"
      "  __shared__ float s[256];\n  float a[64];\n  for (int i = 0; i < n; i++) a[i & 63] = p[i * n];\n"
      "  s[threadIdx.x] = a[n % 64];\n  __syncthreads();\n  p[threadIdx.x] = s[31 - threadIdx.x] + a[(n + 1) % "
      "64];\n}\n";
  CudaImage image;
  Diags *d = diags_new(arena);
  CHECK(nvrtc_compile(arena, d, source, "sm_80", &image));
  CHECK(image.usage.n == 1 && strcmp(image.usage.items[0].symbol, "greedy") == 0);
  if (image.usage.n == 1)
    CHECKF(image.usage.items[0].stack == 256 && image.usage.items[0].shared == 1024, "%d %d",
           image.usage.items[0].stack, image.usage.items[0].shared);
  CHECK(!nvrtc_compile(arena, d, "this is no CUDA", "sm_80", &image));
  CHECK(!nvrtc_compile(arena, d, source, "sm_70", &image));
}

int main(int argc, char **argv) {
  int major, minor;
  if (argc != 2) return 2;
  if (!nvrtc_found(&major, &minor)) {
    printf("skipped: no NVRTC\n");
    return 77;
  }
  arena = arena_new();
  build = argv[1];
  make_cases();
  RUN(log_is_read);
  RUN(images_of_two_architectures);
  RUN(models);
  RUN(cases_compile);
  printf("NVRTC %d.%d: %d kernels, %d registers at most\n", major, minor, compiled, heaviest);
  return test_summary();
}
