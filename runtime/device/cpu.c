/* runtime/device/cpu.c - the CPU as a device: kernels from the Program's shared object, products by gemm_dnnl.h,
 * convolutions by cpu_conv.c, memory from the system.  Every call is done when it returns.
 */
#define _GNU_SOURCE /* memfd_create */
#include "runtime/device/cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/tensor.h"
#include "program/box.h"
#include "program/cpu.h"
#include "program/image.h"
#include "program/operator_call.h"
#include "runtime/device/gemm_dnnl.h"
#include "runtime/device/onednn.h"
#include "runtime/device/openmp.h"

/* ---- kernels and libraries */

static RtStatus write_memfd(const unsigned char *bytes, uint64_t n, const char *what, int *fd, RtError *error) {
  *fd = memfd_create("apc-kernels", MFD_CLOEXEC);
  if (*fd < 0) return rt_error_errno(error, RT_FAILED, "%s cannot be put into memory", what);
  for (uint64_t done = 0; done < n;) {
    ssize_t k = write(*fd, bytes + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      RtStatus status = rt_error_errno(error, RT_FAILED, "%s cannot be put into memory", what);
      close(*fd);
      return status;
    }
    done += (uint64_t)k;
  }
  return RT_OK;
}

/* The checked bytes are the ones that run. */
RtStatus cpu_copy_code(const Artifact *a, const ProgramBlob *b, const char *what, int *fd, RtError *error) {
  unsigned char *bytes = malloc(b->bytes + 1);
  if (!bytes) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status =
      artifact_read_blob(a, b, bytes) ? RT_OK : rt_error_errno(error, RT_BAD_INPUT, "%s cannot be read", what);
  if (!status && b->hash && program_blob_hash(bytes, b->bytes) != b->hash)
    status = rt_error(error, RT_BAD_INPUT, "the compiled model is damaged: %s do not match their checksum", what);
  if (!status) status = write_memfd(bytes, b->bytes, what, fd, error);
  free(bytes);
  return status;
}

static RtStatus open_library(CpuDevice *d, RtError *error) {
  int fd = -1;
  uint32_t image;
  RtStatus status = program_image_choose(d->p, "CPU", program_cpu_features(), &image, error);
  if (!status) status = cpu_copy_code(d->artifact, &d->p->blobs[d->p->images[image].blob], "its kernels", &fd, error);
  if (status) return status;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!d->library) status = rt_error(error, RT_UNSUPPORTED, "the kernels cannot be loaded: %s", dlerror());
  else status = openmp_check(d->library, "the kernels' code", error);
  close(fd);
  return status;
}

static RtStatus find_kernels(CpuDevice *d, RtError *error) {
  const Program *p = d->p;
  d->kernels = calloc(p->n_kernels + 1u, sizeof *d->kernels);
  if (!d->kernels) return rt_error(error, RT_FAILED, "out of memory");
  if (p->n_kernels == 0) return RT_OK;
  RtStatus status = open_library(d, error);
  if (!status) d->fault = dlsym(d->library, INDEX_FAULT_SYMBOL);
  for (uint32_t i = 0; !status && i < p->n_kernels; i++) {
    void *address = dlsym(d->library, program_text(p, p->kernels[i].name));
    memcpy(&d->kernels[i], &address, sizeof address);
    if (!address)
      status = rt_error(error, RT_BAD_INPUT, "damaged program: there is no kernel '%s'",
                        program_text(p, p->kernels[i].name));
  }
  return status;
}

static RtStatus check_product(const Program *p, const ProgramInstr *x, RtError *error) {
  const uint32_t *t = program_list(p, x->tensors);
  DType a = (DType)p->tensors[t[0]].dtype, c = (DType)p->tensors[t[2]].dtype, sums = (DType)x->dim2;
  if (a == DT_f32 && c == DT_f32 && sums == DT_f32) return RT_OK;
  return rt_error(error, RT_UNSUPPORTED, "CPUs multiply f32 into f32, but '%s' is %s into %s, summed in %s",
                  program_text(p, x->where), dtype_name(a), dtype_name(c), dtype_name(sums));
}

/* Opens the product library if there are products. */
static RtStatus open_products(const CpuDevice *d, RtError *error) {
  const Program *p = d->p;
  bool any = false;
  for (uint32_t b = 0; b < p->n_bodies; b++)
    for (uint32_t i = p->bodies[b].instrs; i < p->bodies[b].instrs + p->bodies[b].n; i++) {
      if (p->bodies[b].stage != d->stage || p->instrs[i].kind != PI_gemm) continue;
      RtStatus status = check_product(p, &p->instrs[i], error);
      if (status) return status;
      any = true;
    }
  return any ? gemm_open(error) : RT_OK;
}

static void cpu_close(Device *device) {
  CpuDevice *d = (CpuDevice *)device;
  cpu_convs_close(d);
  cpu_operators_close(d);
  free(d->kernels); /* their library stays open: threads of its OpenMP run time may still be inside */
  free(d);
}

static RtStatus cpu_open(const DeviceOptions *options, Device **out, RtError *error) {
  CpuDevice *d = calloc(1, sizeof *d);
  if (!d) return rt_error(error, RT_FAILED, "out of memory");
  *d = (CpuDevice){.base.ops = &device_cpu,
                   .artifact = options->artifact,
                   .p = &options->artifact->program,
                   .stage = options->stage,
                   .own_convs = options->kernels};
  if (options->threads) onednn_choose_threads(options->threads);
  RtStatus status = find_kernels(d, error);
  if (!status) status = cpu_operators_open(d, error);
  if (!status) status = open_products(d, error);
  if (status) cpu_close(&d->base);
  else *out = &d->base;
  return status;
}

static DeviceFacts cpu_facts(const Device *d) {
  (void)d;
  return (DeviceFacts){.host_memory = true};
}

/* ---- memory */

static RtStatus cpu_alloc(Device *d, uint64_t bytes, char **out, RtError *error) {
  (void)d;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return rt_error(error, RT_FAILED, "%s", strerror(errno));
  if (bytes >= (UINT64_C(4) << 20)) madvise(p, bytes, MADV_HUGEPAGE);
  *out = p;
  return RT_OK;
}

static void cpu_release(Device *d, char *at, uint64_t bytes) {
  (void)d;
  munmap(at, bytes);
}

static RtStatus cpu_share(Device *d, char *at, uint64_t bytes, int fd, uint64_t offset, RtError *error) {
  (void)d;
  void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
  if (p == MAP_FAILED) return rt_error(error, RT_FAILED, "%s", strerror(errno));
  madvise(p, bytes, MADV_HUGEPAGE); /* if the system allows it for such files */
  return RT_OK;
}

static RtStatus cpu_move(Device *d, void *to, const void *from, size_t bytes, RtError *error) {
  (void)d, (void)error;
  memcpy(to, from, bytes);
  return RT_OK;
}

/* ---- calls */

void cpu_launch(const CpuDevice *d, const DeviceCall *c) { d->kernels[c->object](c->data, c->scalars); }

/* Reports that the kernel saw an index outside its table.  The fault is cleared, as another request may have valid
 * ones. */
static RtStatus index_error(IndexFault *f, RtError *error) {
  char why[320];
  f->found = 0;
  return rt_error(error, RT_BAD_INPUT, "%s",
                  tensor_index_refused((int)f->rank, f->place, f->value, f->low, f->below - 1, why, sizeof why));
}

static RtStatus run_launch(Device *device, const DeviceCall *c, RtError *error) {
  const CpuDevice *d = (const CpuDevice *)device;
  cpu_launch(d, c);
  if (d->operator_fault && d->operator_fault->found) return cpu_operator_error(d, error);
  return d->fault && d->fault->found ? index_error(d->fault, error) : RT_OK;
}

static RtStatus run_gemm(Device *d, const DeviceCall *c, RtError *error) {
  (void)d;
  return gemm_run(c->gemm, error);
}

static RtStatus run_conv(Device *d, const DeviceCall *c, RtError *error) { return cpu_conv((CpuDevice *)d, c, error); }

static RtStatus run_copy(Device *d, const DeviceCall *c, RtError *error) {
  (void)d, (void)error;
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  const int64_t *extent = c->scalars, *first = extent + from->rank, *second = first + from->rank;
  box_move(from->rank, dtype_bytes((DType)from->dtype), extent, (Box){c->data[0], from->extents, first},
           (Box){c->data[1], to->extents, second});
  return RT_OK;
}

static RtStatus run_pack(Device *d, const DeviceCall *c, RtError *error) {
  (void)d, (void)error;
  gemm_pack((DType)c->tensors[1].dtype, c->data[0], c->scalars, c->data[1], c->tensors[1].extents[1] * PROGRAM_PANEL);
  return RT_OK;
}

static void run_parallel(Device *d, void (*body)(void *), void *data) {
  (void)d;
  gemm_parallel(body, data);
}

static void fill_row(DType dtype, void *to, int64_t n, double value) {
  size_t size = dtype_bytes(dtype);
  unsigned char element[8] = {0};
  dtype_store_f(dtype, element, value);
  bool zero = true;
  for (size_t i = 0; i < size; i++) zero &= element[i] == 0;
  if (zero) memset(to, 0, (size_t)n * size);
  for (int64_t i = 0; i < n && !zero; i++) memcpy((char *)to + (size_t)i * size, element, size);
}

static RtStatus run_fill(Device *d, const DeviceCall *c, RtError *error) {
  (void)d, (void)error;
  int64_t rows = c->scalars[0], n = c->scalars[1], stride = c->scalars[2];
  for (int64_t row = 0; row < rows; row++)
    fill_row((DType)c->tensors[0].dtype, (char *)c->data[0] + row * stride, n, c->value);
  return RT_OK;
}

/* Copies between a tensor and its part of a port. */
static void move_part(const DeviceCall *c, void *host, const int64_t *extents, bool feed) {
  static const int64_t zero[PROGRAM_MAX_RANK];
  const CallTensor *t = &c->tensors[0];
  Box whole = {host, extents, c->scalars}, mine = {c->data[0], t->extents, zero};
  box_move(t->rank, dtype_bytes((DType)t->dtype), t->extents, feed ? whole : mine, feed ? mine : whole);
}

static RtStatus cpu_feed(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error) {
  (void)d, (void)error;
  move_part(c, port->at, port->extents, true);
  return RT_OK;
}

static RtStatus cpu_fetch(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error) {
  (void)d, (void)error;
  move_part(c, port->at, port->extents, false);
  return RT_OK;
}

static RtStatus cpu_finish(Device *d, RtError *error) {
  (void)d, (void)error;
  return RT_OK;
}

const DeviceOps device_cpu = {.name = "cpu",
                              .open = cpu_open,
                              .close = cpu_close,
                              .facts = cpu_facts,
                              .alloc = cpu_alloc,
                              .release = cpu_release,
                              .share = cpu_share,
                              .upload = cpu_move,
                              .read = cpu_move,
                              .workspace = cpu_convs_workspace,
                              .weights = cpu_convs_weights,
                              .launch = run_launch,
                              .gemm = run_gemm,
                              .conv = run_conv,
                              .copy = run_copy,
                              .fill = run_fill,
                              .pack = run_pack,
                              .parallel = run_parallel,
                              .feed = cpu_feed,
                              .fetch = cpu_fetch,
                              .finish = cpu_finish};
