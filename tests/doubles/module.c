/* tests/doubles/module.c - see module.h.
 *
 * A launch is checked against the cubin (parameters, threads, shared memory) and the cubin against the text.  Words of
 * the parameters that are addresses of devices must lie in allocations of this device, and are replaced by the
 * addresses where the double keeps the bytes; words that look like addresses of the host must be pinned memory. */
#include "tests/doubles/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/memory.h"
#include "tests/doubles/ptx.h"
#include "tests/doubles/queue.h"
#include "tests/doubles/text.h"
#include "tests/doubles/watch.h"

enum { SHARED_USUAL = 48 << 10, SHARED_MOST = 227 << 10, GRID_MOST = 0x7fffffff, PARAMETER_WORDS = 4095 };

static CUmodule modules;

/* ---- modules */

static bool find_symbol(void *library, const char *name, const char *suffix, void *to) {
  char symbol[200];
  snprintf(symbol, sizeof symbol, "%s%s", name, suffix);
  void *at = dlsym(library, symbol);
  if (!at) double_violation("the text has no %s", symbol);
  memcpy(to, &at, sizeof at);
  return at != NULL;
}

static void bind_function(CUmodule m, void *library, int i) {
  CUfunction f = &m->functions[i];
  const int *bytes = NULL, *threads = NULL;
  *f = (struct CUfunc_st){.module = m, .kernel = &m->cubin.kernels[i]};
  const char *name = f->kernel->name;
  if (!find_symbol(library, name, "", &f->run) || !find_symbol(library, name, "_bytes", &bytes) ||
      !find_symbol(library, name, "_threads", &threads))
    return;
  f->bytes = *bytes, f->threads = *threads;
  if (f->bytes != f->kernel->parameter_bytes)
    double_violation("%s: %d bytes of parameters in the image, %d in the text", name, f->kernel->parameter_bytes,
                     f->bytes);
  if (f->threads != f->kernel->threads)
    double_violation("%s: %d threads in the image, %d in the text", name, f->kernel->threads, f->threads);
}

/* Accepts machine code for this device or a smaller one of its generation; PTX, which the driver compiles, for any
 * smaller one. */
static CUresult read_image(int arch, const void *image, Cubin *out) {
  bool machine = memcmp(image, "\177ELF", 4) == 0;
  const char *wrong = machine ? cubin_read(image, out) : ptx_read(image, out);
  if (!wrong && out->arch <= arch && (!machine || out->arch / 10 == arch / 10)) return CUDA_SUCCESS;
  free(out->kernels);
  if (!wrong) return machine ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_PTX;
  double_violation("cuModuleLoadData: %s", wrong);
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult module_load(int device, int arch, const void *image, CUmodule *out) {
  Cubin cubin;
  CUresult error = read_image(arch, image, &cubin);
  if (error) return error;
  void *library = text_load(image, cubin.bytes);
  if (!library) {
    free(cubin.kernels);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  CUmodule m = calloc(1, sizeof *m);
  *m = (struct CUmod_st){.device = device, .cubin = cubin, .next = modules};
  void **hook = dlsym(library, "double_watch");
  void (*touch)(const void *, size_t, int) = watch_touch;
  if (hook) memcpy(hook, &touch, sizeof touch);
  m->functions = calloc((size_t)cubin.n + 1, sizeof *m->functions);
  for (int i = 0; i < cubin.n; i++) bind_function(m, library, i);
  modules = *out = m;
  return CUDA_SUCCESS;
}

static CUmodule *find_module(CUmodule m) {
  CUmodule *p = &modules;
  while (*p && *p != m) p = &(*p)->next;
  return *p ? p : NULL;
}

CUresult module_unload(CUmodule m) {
  CUmodule *p = find_module(m);
  if (!p) return CUDA_ERROR_INVALID_HANDLE;
  if (!queue_error(m->device) && !queue_idle(m->device))
    double_violation("cuModuleUnload: device %d still has work", m->device);
  *p = m->next;
  for (int i = 0; i < m->cubin.n; i++) free(m->functions[i].last), free(m->functions[i].other);
  free(m->functions);
  free(m->cubin.kernels);
  free(m);
  return CUDA_SUCCESS;
}

CUresult module_function(CUmodule m, const char *name, CUfunction *out) {
  if (!find_module(m)) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < m->cubin.n; i++)
    if (strcmp(m->cubin.kernels[i].name, name) == 0) {
      *out = &m->functions[i];
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

/* ---- work */

typedef struct LaunchWork {
  DoubleWork work;
  CUfunction f;
  int64_t blocks;
  size_t bytes;
  char *parameters;
} LaunchWork;

/* True for values in the host's range of addresses. */
static bool looks_like_host(uint64_t v) { return v >= UINT64_C(0x550000000000) && v < UINT64_C(0x800000000000); }

static bool check_word(const LaunchWork *w, size_t at, uint64_t *word) {
  const MemoryPlace *p = memory_place(*word);
  int of = memory_device_of(*word);
  if (of < 0 && !looks_like_host(*word)) return true;
  if (of < 0 && p) return true;
  if (of < 0) double_violation("%s: parameter %zu is memory of the host that is not pinned", w->work.what, at);
  else if (of != w->work.device)
    double_violation("%s on device %d: parameter %zu is memory of device %d", w->work.what, w->work.device, at, of);
  else if (!p) double_violation("%s: parameter %zu is memory that is not allocated", w->work.what, at);
  else {
    *word += MEMORY_SHIFT;
    return true;
  }
  return false;
}

static bool launch_run(const DoubleWork *work, void *state) {
  const LaunchWork *w = (const LaunchWork *)work;
  uint64_t words[PARAMETER_WORDS];
  (void)state;
  memcpy(words, w->parameters, w->bytes);
  for (size_t i = 0; i < w->bytes / 8; i++)
    if (!check_word(w, i, &words[i])) {
      double_device_error(work->device, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", work->what);
      return true;
    }
  w->f->run(words, w->blocks, (int)(double_random() & 1));
  return true;
}

static void launch_drop(DoubleWork *work) {
  free(((LaunchWork *)work)->parameters);
  free(work);
}

/* All allocations that its parameters point into. */
static void launch_ranges(const DoubleWork *work, DoubleVisit *visit, void *context) {
  const LaunchWork *w = (const LaunchWork *)work;
  for (size_t i = 0; i < w->bytes / 8; i++) {
    uint64_t word;
    memcpy(&word, w->parameters + 8 * i, 8);
    const MemoryPlace *p = memory_device_of(word) >= 0 || looks_like_host(word) ? memory_place(word) : NULL;
    if (p) visit(context, p->at, p->bytes, false), visit(context, p->at, p->bytes, true);
  }
}

static const DoubleWorkKind launch_kind = {NULL, launch_run, launch_drop, NULL, launch_ranges, true};

/* ---- launches */

static CUresult check_shape(CUfunction f, const Launch *l) {
  uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
  const CubinKernel *k = f->kernel;
  if (!l->grid[0] || !l->grid[1] || !l->grid[2] || l->grid[0] > GRID_MOST || !threads || threads > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if (threads > (uint64_t)k->threads || l->shared > (uint32_t)f->dynamic) return CUDA_ERROR_INVALID_VALUE;
  if (threads != (uint64_t)f->threads || l->block[0] != threads || l->grid[1] != 1 || l->grid[2] != 1)
    double_violation("%s: %u x %u x %u blocks of %u x %u x %u threads; the text is written for rows of blocks of %d",
                     k->name, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], f->threads);
  return CUDA_SUCCESS;
}

/* The only struct of a kernel: by its address, or in a buffer with its size (then the size is checked too). */
static CUresult copy_parameters(LaunchWork *w, const Launch *l) {
  size_t bytes = (size_t)w->f->kernel->parameter_bytes, given = bytes;
  const void *from = l->parameters ? l->parameters[0] : NULL;
  for (void **x = l->extra; x && *x; x += 2) {
    if (*x == (void *)1) from = x[1];
    if (*x == (void *)2) given = *(const size_t *)x[1];
  }
  if (given != bytes) double_violation("%s: %zu bytes of parameters of %zu", w->work.what, given, bytes);
  if ((bytes && !from) || given != bytes || bytes > sizeof(uint64_t[PARAMETER_WORDS]) || (l->parameters && l->extra))
    return CUDA_ERROR_INVALID_VALUE;
  w->bytes = bytes, w->parameters = malloc(bytes + 1);
  memcpy(w->parameters, from, bytes);
  return CUDA_SUCCESS;
}

/* On demand, makes an address of one launch wrong. */
static void shift(LaunchWork *w) {
  static int64_t launches;
  size_t n = 0;
  if (++launches != double_setting("DOUBLES_SHIFT", -1) || !report_is_meant()) return;
  while (n < w->bytes / 8 && memory_device_of(((uint64_t *)(void *)w->parameters)[n]) >= 0) n++;
  if (!n) return;
  ((uint64_t *)(void *)w->parameters)[(size_t)launches % n] += 64;
  fprintf(stderr, "double: launch %lld, %s, has a wrong address as asked for\n", (long long)launches, w->work.what);
}

static bool are_addresses(uint64_t x, uint64_t y) { return memory_device_of(x) >= 0 && memory_device_of(y) >= 0; }

/* On demand, a launch keeps the addresses that it had at other sizes. */
static void keep(CUfunction f, LaunchWork *w) {
  static int64_t seen;
  uint64_t *now = (uint64_t *)(void *)w->parameters, *before = f->last;
  size_t n = w->bytes / 8;
  bool sizes = false, places = false;
  for (size_t i = 0; before && i < n; i++) sizes |= before[i] != now[i] && !are_addresses(before[i], now[i]);
  if (sizes) free(f->other), f->other = before;
  else free(before);
  f->last = malloc(w->bytes + 1);
  memcpy(f->last, now, w->bytes);
  for (size_t i = 0; f->other && i < n; i++) places |= f->other[i] != now[i] && are_addresses(f->other[i], now[i]);
  if (!places || !double_turn("DOUBLES_STALE", &seen, f->kernel->name)) return;
  for (size_t i = 0; i < n; i++)
    if (are_addresses(f->other[i], now[i])) now[i] = f->other[i];
}

CUresult module_launch(CUfunction f, CUstream s, const Launch *l) {
  if (!f || !f->run) return CUDA_ERROR_INVALID_HANDLE;
  CUresult error = check_shape(f, l);
  if (error) {
    fprintf(stderr, "double: %s: %u blocks of %u threads, %u bytes of shared memory are refused\n", f->kernel->name,
            l->grid[0], l->block[0], l->shared);
    return error;
  }
  LaunchWork *w = calloc(1, sizeof *w);
  *w = (LaunchWork){.work = {&launch_kind, f->kernel->name, f->module->device, 1, double_pretended(0) ? 15000 : 0},
                    .f = f,
                    .blocks = l->grid[0]};
  error = copy_parameters(w, l);
  if (error) {
    launch_drop(&w->work);
    return error;
  }
  shift(w);
  keep(f, w);
  return double_submit(s, &w->work);
}

void module_leaks(int device) {
  int n = 0;
  for (CUmodule m = modules; m; m = m->next) n += m->device == device;
  if (n) double_violation("%d modules of device %d are not unloaded", n, device);
}
