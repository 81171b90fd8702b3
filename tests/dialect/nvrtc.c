/* Compiles emitted CUDA text with NVRTC, without a GPU: every kernel of tests/kernel_cases.h and of models that apc
 * writes compiles to machine code, spills nothing, keeps nothing in local memory, and fits the registers and shared
 * memory of a block.  Where the text moves packets of sixteen bytes the machine code does so too, and where it
 * multiplies by tensor cores the machine code uses them (sass.h; skipped with a message if there is no disassembler).
 *
 *   dialect_nvrtc BUILD_DIRECTORY                   models for two of five architectures alternately, cases for one; a
 *                                                   quarter of both if test.sh says so
 *   dialect_nvrtc BUILD_DIRECTORY all               all for five architectures (25 minutes)
 *   dialect_nvrtc BUILD_DIRECTORY table             only the models; the output is docs/inside/kernels_gpu.md
 *   dialect_nvrtc BUILD_DIRECTORY table FILE...     the same for models in files
 *
 * Exit 77: there is no NVRTC. */
#include "base/file.h"
#include "codegen/cuda/kernels.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/target.h"
#include "program/build.h"
#include "program/image.h"
#include "tests/dialect/sass.h"
#include "tests/kernel_cases.h"
#include "tests/kernel_decoding.h"

static int threads_of(const char *definition) {
  int threads = 0;
  sscanf(definition, "KERNEL(%*[^,], %*[^,], %d)", &threads);
  return threads;
}

/* Registers per thread: the blocks of a multiprocessor share 64 K, and enough of them must fit to hide the latency of
 * memory: 16 warps, as blocks of 256 threads do with 96 registers and with 128.  Kernels that multiply tiles compute
 * longer on registers.  A warp that keeps a row in registers has many loads in flight: 12 warps are enough. */
static int most_registers(int threads, const char *definition) {
  if (strstr(definition, "attention_tile") || strstr(definition, "attention_grad_tile") ||
      strstr(definition, "attention_few") || strstr(definition, "conv_tile"))
    return 65536 / threads - 1;
  bool half = strstr(definition, "tensor_") || strstr(definition, "  FewPlace ");
  if (half) return 65536 / 2 / threads;
  if (threads <= 128 && strstr(definition, "  float k0[")) return 65536 / 3 / threads;
  return threads <= 256 ? 128 : 64;
}

/* The kinds of attention that fill the registers, products of few rows, convolutions, and blocks of 1024 threads: there
 * ptxas takes a few bytes of local memory to fit one more block.  And one register of grouped products of f64, only for
 * sm_100a, with a third of the registers unused. */
static int most_spilled(const char *definition) {
  if (strstr(definition, "  attention_") || strstr(definition, "  FewPlace ")) return 64;
  if (strstr(definition, "  conv_tile_")) return 32;
  return strstr(definition, "  grouped_f64(") || threads_of(definition) == 1024 ? 8 : 0;
}

enum { MOST_SHARED = 48 << 10, TOGETHER = 48, MOST_KERNELS = 4096, ARCHS = 5 };
static const char *const archs[ARCHS] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

/* The resources of a model's kernels; a row of the table. */
typedef struct Taken {
  int kernels, shared, registers[ARCHS]; /* the last two: of the kernel that takes most */
  int wide_loads, wide_stores, tensor;   /* kernels that have such instructions */
} Taken;

static Arena *arena;
static const char *disassembler;
static int compiled, heaviest, with_shared, with_less, by_tensor;

/* The definition of a kernel. */
static const char *definition_of(const char *text, const char *symbol) {
  const char *at = strstr(text, arena_printf(arena, "KERNEL(%s, ", symbol)), *end = at ? strstr(at, "\n}\n") : NULL;
  return end ? arena_strndup(arena, at, (size_t)(end - at)) : "";
}

/* True if it calls loadN_TYPE (or storeN_TYPE) for packets of sixteen bytes or more. */
static bool moves_packets(const char *definition, const char *what) {
  for (const char *p = definition; (p = strstr(p, what)); p++) {
    int n = 0, bits = 8;
    char type[8] = "";
    if (sscanf(p + strlen(what), "%d_%7[a-z]%d(", &n, type, &bits) >= 2 && n * bits >= 128) return true;
  }
  return false;
}

/* The resources of a block as the printer states them, by kernel of the set. */
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

/* Checks that the machine code does what the text requests; in cases, whose extents are constants, it knows that some
 * packets are never whole. */
static void check_sass(const char *where, const char *definition, const Sass *s, bool model, Taken *taken) {
  CHECKF(s->instructions > 0, "%s: no instruction is read", where);
  by_tensor += strstr(definition, "tensor_") && s->tensor > 0 && s->copies > 0 && s->wide_stores > 0;
  if (!model) return;
  CHECKF(s->tensor > 0 || !strstr(definition, "tensor_"), "%s: no instruction for tensor cores", where);
  CHECKF(s->local <= most_spilled(definition) / 2, "%s: %d accesses of local memory", where, s->local);
  CHECKF(s->wide_loads > 0 || !moves_packets(definition, "load"), "%s: packets, but no wide load", where);
  CHECKF(s->wide_stores > 0 || !moves_packets(definition, "store"), "%s: packets, but no wide store", where);
  taken->wide_loads += s->wide_loads > 0, taken->wide_stores += s->wide_stores > 0, taken->tensor += s->tensor > 0;
}

static SassList disassemble(const CudaImage *image) {
  const char *file = temp_path("kernels.cubin");
  Diags *d = diags_new(arena);
  if (!disassembler) return (SassList){0};
  CHECK(file_write(d, file, 0666, image->cubin, image->cubin_bytes));
  return sass_read(arena, disassembler, file);
}

static void check_kernel(const char *where, const char *definition, const CudaUsage *u) {
  int threads = threads_of(definition);
  int most = most_spilled(definition);
  CHECKF(u->spill_stores <= most && u->spill_loads <= most && u->stack <= most,
         "%s spills %d and %d bytes, keeps %d in local "
         "memory",
         where, u->spill_stores, u->spill_loads, u->stack);
  CHECKF(threads >= 32 && u->registers > 0 && u->registers <= most_registers(threads, definition),
         "%s takes %d registers, %d threads", where, u->registers, threads);
  CHECKF(u->shared <= MOST_SHARED, "%s takes %d bytes of shared memory", where, u->shared);
}

/* A text with so many kernels, for archs[arch]. */
static void check_text(const Stated *stated, const char *name, const char *text, int arch, size_t kernels_in_it,
                       Taken *taken) {
  Diags *d = diags_new(arena);
  CudaImage image;
  bool ok = nvrtc_compile(arena, d, text, archs[arch], &image);
  *taken = (Taken){.kernels = (int)kernels_in_it};
  if (!ok) diags_print(d, stderr, false);
  CHECKF(ok, "%s for %s", name, archs[arch]);
  if (!ok) return;
  CHECKF(image.usage.n == kernels_in_it, "%s for %s: %zu kernels of %zu", name, archs[arch], image.usage.n,
         kernels_in_it);
  CHECKF(image.cubin_bytes > 4 && memcmp(image.cubin, "\177ELF", 4) == 0, "%s for %s: no machine code", name,
         archs[arch]);
  SassList sass = disassemble(&image);
  for (size_t i = 0; i < image.usage.n; i++) {
    const CudaUsage *u = &image.usage.items[i];
    const Sass *s = sass_of(&sass, u->symbol);
    const char *definition = definition_of(text, u->symbol),
               *where = arena_printf(arena, "%s for %s: %s", name, archs[arch], u->symbol);
    CHECKF(strstr(image.ptx, u->symbol) != NULL, "%s: not in PTX", where);
    check_stated(stated, u);
    check_kernel(where, definition, u);
    if (disassembler) CHECKF(s != NULL, "%s: no machine code", where);
    if (s) check_sass(where, definition, s, !stated, taken);
    if (u->registers > taken->registers[arch]) taken->registers[arch] = u->registers;
    if (u->shared > taken->shared) taken->shared = u->shared;
    compiled++;
  }
  if (taken->registers[arch] > heaviest) heaviest = taken->registers[arch];
}

/* True for kernels of cases that call the C library, as elementwise operations of f64 do; those keep tables in local
 * memory. */
static bool calls_library(const char *text) {
  static const char *const names[] = {"tan_", "sin_f64", "cos_f64", "pow_f64", "rope_f64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(text, names[i])) return true;
  return false;
}

static bool every; /* each model and case for every architecture */

/* A compiled kernel declares at most the stated shared memory: compilers drop arrays that are never read. */
static void cases_compile(void) {
  Taken taken;
  KernelSet set = {.arena = arena};
  Stated stated = {&set, ARENA_ARRAY(arena, int, MOST_KERNELS)};
  for (const Case *c = cases; c; c = c->next) {
    const CudaKernel *k = cuda_kernels(c->p.m, c->f, c->units, &set);
    CHECK(set.kernels.n <= MOST_KERNELS);
    for (size_t i = 0; i < c->units->n; i++)
      if (c->units->items[i].kind == UNIT_KERNEL) stated.shared[k[i].kernel] = k[i].launch.shared;
  }
  int ntexts = 0;
  for (size_t i = 0; i < set.kernels.n;) {
    Text t = {.arena = arena};
    size_t n = 0;
    text_add(&t, dialect_prelude);
    for (; i < set.kernels.n && n < TOGETHER; i++) {
      if (calls_library(set.kernels.items[i].text)) continue;
      text_add(&t, cuda_text(arena, &set.kernels.items[i]));
      n++;
    }
    if (!in_quarter(ntexts++)) continue;
    for (int arch = 0; arch < ARCHS; arch++)
      if (every || arch == ntexts % ARCHS)
        check_text(&stated, arena_printf(arena, "cases to %zu", i), text_str(&t), arch, n, &taken);
  }
  if (disassembler && every)
    CHECKF(by_tensor >= 4 * ARCHS, "%d kernels with tensor cores, asynchronous copies and wide stores", by_tensor);
  CHECKF(with_shared > quarter_of(20) && with_less * 3 < with_shared,
         "%d of %d kernels take less shared memory than stated", with_less, with_shared);
}

/* ---- models, as apc writes them */

static const char *build;

static size_t count_kernels(const char *text) {
  size_t n = 0;
  for (const char *p = text; (p = strstr(p, "\nKERNEL(")); p++) n++;
  return n;
}

static int max_int(int a, int b) { return a > b ? a : b; }

static void print_row(const char *name, const Taken *t) {
  printf("| %s | %d |", name, t->kernels);
  for (int i = 0; i < ARCHS; i++) printf(" %d%s", t->registers[i], i + 1 < ARCHS ? "," : " |");
  printf(" %d | %d | %d | %d |\n", t->shared, t->wide_loads, t->wide_stores, t->tensor);
}

/* A model for the given architectures, a digit each: 0 is the first of archs. */
static Taken model(const char *path, const char *options, const char *which) {
  const char *file = temp_path("model.cu"), *name = strrchr(path, '/') + 1;
  const char *command =
      arena_printf(arena, "%s/apc '%s' -q --target dgx-a100x4 %s --emit=cuda=%s", build, path, options, file);
  Diags *d = diags_new(arena);
  Taken all = {0};
  CHECKF(system(command) == 0, "%s", command);
  const char *text = file_read_text(d, arena, file, NULL);
  CHECK(text != NULL);
  if (!text) return all;
  size_t n = count_kernels(text);
  CHECKF(n > 0, "%s has no kernel", name);
  for (; *which; which++) {
    Taken one;
    check_text(NULL, name, text, *which - '0', n, &one);
    one.shared = max_int(one.shared, all.shared);
    for (int i = 0; i < ARCHS; i++) one.registers[i] = max_int(one.registers[i], all.registers[i]);
    all = one;
  }
  return all;
}

static const struct {
  const char *name, *options;
} models[] = {
    {"gpt-tiny.onnx", "--tp 2 --pp 2"},
    {"gpt.apc", "-D layers=2 -D d=256 -D heads=4 -D vocab=1000"},
    {"gpt.apc", "-D layers=2 -D d=2048 -D heads=16 -D vocab=50257 --tp 4"},
    {"llama.apc", "-D layers=2 -D d=1024 -D heads=8 -D kv_heads=4 -D ffn=2816 -D vocab=32000 --tp 4"},
    {"llama.apc", "-D layers=1 -D d=8192 -D heads=64 -D kv_heads=8 -D ffn=28672 -D vocab=32000 --tp 4"},
    {"resnet.apc", "-D depth=50 -D width=64 -D classes=1000 -D image=224"},
    {"unet.apc", "-D channels=4 -D levels=2 -D image=16 --dim batch=2"},
    {"vit.apc", "-D layers=2 -D d=32 -D heads=4 -D patch=8 -D image=32 -D classes=10"},
    {"bert.apc", "-D layers=2 -D d=768 -D heads=12 -D vocab=30522 -D ctx=512"},
    {"t5.apc", "-D layers=2 -D d=32 -D d_kv=8 -D heads=4 -D ffn=64 -D vocab=50"},
    {"moe.apc", "-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50"},
    {"moe.apc", "-D layers=2 -D d=32 -D heads=4 -D kv_heads=2 -D ffn=48 -D vocab=50 -D routing=dropless"},
    {"lstm.apc", "-D layers=2 -D d=32 -D vocab=50"},
    {"gpt.apc", "-D layers=2 -D d=2048 -D heads=16 -D vocab=50257 --tp 4 --dtype bf16"},
    {"llama.apc", "-D layers=1 -D d=8192 -D heads=64 -D kv_heads=8 -D ffn=28672 -D vocab=32000 --tp 4 --dtype bf16"},
    {"resnet.apc", "-D depth=50 -D width=64 -D classes=1000 -D image=224 --dtype f16"},
};

static void examples(void) {
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    if (in_quarter((long)i))
      model(arena_printf(arena, "examples/%s", models[i].name), models[i].options,
            every ? "01234" : arena_printf(arena, "%zu%zu", i % ARCHS, (i + 2) % ARCHS));
  model(
      "examples/llama.apc",
      "-D layers=1 -D d=1024 -D heads=8 -D kv_heads=2 -D ffn=2816 -D vocab=32000 -D cache=1 --dim batch=4 --dtype bf16",
      every ? "01234" : "2");
  /* A training step with attention in 16 bits: all its gradients in one kernel, those of norms, losses and tables. */
  model("examples/gpt.apc",
        "-D layers=1 -D d=768 -D heads=12 -D vocab=50257 --dim seq=1024 --train cross_entropy --batch 8 --dtype bf16",
        every ? "01234" : "3");
  /* Bundles; one for sm_100a spilled when ptxas put its forms into one function. */
  model("examples/mlp.apc", "-D layers=3 -D d=256 --train mse --batch 64 --dtype bf16", every ? "01234" : "4");
}

static void table(int n, char **files) {
  printf(
      "# Machine code of kernels for GPUs\n\n"
      "Made by `build/tests/dialect_nvrtc build table > docs/inside/kernels_gpu.md`, and with FILE... for models in "
      "files.\n"
      "NVRTC compiles what `apc --target dgx-a100x4 --emit=cuda` writes for sm_80, sm_86, sm_89, sm_90a and "
      "sm_100a; no\nGPU is needed. Registers: the most per thread, for each of these. Shared: the most bytes of a "
      "block. Then how many\nkernels have loads and stores of 16 bytes, and how many use tensor cores (sm_100a). "
      "No kernel spills, but for 64 bytes\nat most of attention and products of few rows, 16 of convolutions, 8 "
      "of grouped products of f64 and of blocks of\n1024 threads.\n\n");
  printf(
      "| model | kernels | registers | shared | wide loads | wide stores | tensor cores |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (int i = 0; i < n; i++) {
    Taken t = model(files[i], "", "01234");
    print_row(strrchr(files[i], '/') + 1, &t);
  }
  for (size_t i = 0; !n && i < sizeof models / sizeof *models; i++) {
    Taken t = model(arena_printf(arena, "examples/%s", models[i].name), models[i].options, "01234");
    print_row(arena_printf(arena, "`%s %s`", models[i].name, models[i].options), &t);
  }
}

/* ---- a Program with images for two architectures */

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

/* The text is kept by the name of its image. */
static void check_kept(const char *text, const KernelImage *image) {
  unsigned long long hash = program_blob_hash(image->data, image->bytes);
  const char *kept =
      file_read_text(diags_new(arena), arena, arena_printf(arena, "%s/%016llx.cu", temp_root(), hash), NULL);
  CHECK(kept && strcmp(kept, text) == 0);
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
  static const char *const two[] = {"sm_80", "sm_90"};
  const KernelTarget *target = kernel_target(target_device_traits_find("gpu"));
  KernelSet set = {.arena = arena};
  KernelImages images[2];
  ProgramBuilder *b = program_builder_new();
  ProgramFacts facts = {"two", "gpus", "test", 1, 0, NULL, NULL, 0, NULL};
  const Case *c = cases;
  add_kernels(b, c, &set, cuda_kernels(c->p.m, c->f, c->units, &set));
  CHECK(set.kernels.n > 0 && program_count_kernels(b) == set.kernels.n);
  for (int i = 0; i < 2; i++) {
    size_t n;
    const char **texts = target->texts(&set, &n);
    KernelCompile how = {.arena = arena, .diags = diags_new(arena), .dir = temp_root(), .arch = two[i]};
    CHECK(target->ready(arena, how.diags, NULL) && target->compile(&how, texts, n, &images[i]));
    check_kept(texts[0], kernel_image_of(&images[i], PIMAGE_cubin));
    check_kept(texts[0], kernel_image_of(&images[i], PIMAGE_ptx));
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

/* ---- parsing the log */

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
  if (argc < 2) return 2;
  if (!nvrtc_found(&major, &minor)) {
    printf("skipped: no NVRTC\n");
    return 77;
  }
  arena = arena_new();
  build = argv[1];
  disassembler = sass_disassembler(arena);
  if (!disassembler) printf("no nvdisasm: machine code is not looked at\n");
  if (argc > 2 && strcmp(argv[2], "table") == 0) {
    if (!disassembler) return 1; /* half of the table would be zeros */
    table(argc - 3, argv + 3);
    return test_failed_here > 0;
  }
  every = argc > 2 && strcmp(argv[2], "all") == 0;
  make_cases();
  split_attentions();
  placed_attentions();
  joined_convolutions();
  few_products();
  cached_attentions();
  RUN(log_is_read);
  RUN(images_of_two_architectures);
  RUN(examples);
  RUN(cases_compile);
  printf("NVRTC %d.%d: %d kernels, %d registers at most\n", major, minor, compiled, heaviest);
  return test_summary();
}
