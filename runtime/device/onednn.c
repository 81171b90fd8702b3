/* runtime/device/onednn.c - see onednn.h.  Names and numbers are those of oneDNN's dnnl.h and dnnl_types.h. */
#include "runtime/device/onednn.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/openmp.h"

typedef int64_t Dims[12]; /* dnnl_dims_t */
typedef void *Handle;     /* engine, stream, memory, primitive, attributes ... */
typedef struct ExecArg {  /* dnnl_exec_arg_t */
  int arg;
  Handle memory;
} ExecArg;

enum { /* equal in both versions unless a name ends in one */
       CPU = 1,
       ANY_TAG = 1,
       FORWARD_TRAINING = 64,
       FORWARD_INFERENCE = 96,
       CONVOLUTION_DIRECT = 1,
       BINARY_ADD = 0x1fff0,
       SCRATCHPAD_USER = 1,
       STREAM_DEFAULT = 1,
       QUERY_IMPLEMENTATION = 8,
       QUERY_WEIGHTS = 131,
       QUERY_DIFF_WEIGHTS = 132,
       QUERY_SCRATCHPAD = 136,
       ARG_X = 1,
       ARG_Y = 17,
       ARG_W = 33,
       ARG_BIAS = 41,
       ARG_SCRATCHPAD = 80,
       ARG_DIFF_X = 129,
       ARG_DIFF_Y = 145,
       ARG_DIFF_W = 161,
       ARG_POST_OP_2 = 16384,
       ARG_POST_OP_3 = 32768,
       ARG_SECOND = 2,
       ARG_FROM = 1,
       ARG_TO = 17
};
enum {
  LAYOUT_BYTES = 1024,
  DESCRIPTION_BYTES = 16384
}; /* version 2: room for dnnl_memory_desc_t and the descriptors of operations */

/* Functions that are the same in both versions. */
#define SAME(X) \
  X(engine_create, int (*)(Handle *, int, size_t)) \
  X(stream_create, int (*)(Handle *, Handle, unsigned)) \
  X(stream_wait, int (*)(Handle)) \
  X(memory_desc_get_size, size_t (*)(const void *)) \
  X(memory_desc_equal, int (*)(const void *, const void *)) \
  X(memory_create, int (*)(Handle *, const void *, Handle, void *)) \
  X(memory_set_data_handle, int (*)(Handle, void *)) \
  X(memory_destroy, int (*)(Handle)) \
  X(primitive_attr_create, int (*)(Handle *)) \
  X(primitive_attr_destroy, int (*)(Handle)) \
  X(primitive_attr_set_scratchpad_mode, int (*)(Handle, int)) \
  X(primitive_attr_set_post_ops, int (*)(Handle, Handle)) \
  X(post_ops_create, int (*)(Handle *)) \
  X(post_ops_destroy, int (*)(Handle)) \
  X(post_ops_append_binary, int (*)(Handle, int, const void *)) \
  X(primitive_desc_query, int (*)(Handle, int, int, void *)) \
  X(primitive_desc_query_md, const void *(*)(Handle, int, int)) \
  X(primitive_desc_destroy, int (*)(Handle)) \
  X(primitive_create, int (*)(Handle *, Handle)) \
  X(primitive_destroy, int (*)(Handle)) \
  X(primitive_execute, int (*)(Handle, Handle, int, const ExecArg *)) \
  X(reorder_primitive_desc_create, int (*)(Handle *, const void *, Handle, const void *, Handle, Handle))

#define ONLY_2(X) \
  X(memory_desc_init_by_strides, int (*)(void *, int, const int64_t *, int, const int64_t *)) \
  X(memory_desc_init_by_tag, int (*)(void *, int, const int64_t *, int, int)) \
  X(primitive_desc_create, int (*)(Handle *, const void *, Handle, Handle, Handle)) \
  X(dilated_convolution_forward_desc_init, \
    int (*)(void *, int, int, const void *, const void *, const void *, const void *, const int64_t *, \
            const int64_t *, const int64_t *, const int64_t *)) \
  X(dilated_convolution_backward_data_desc_init, \
    int (*)(void *, int, const void *, const void *, const void *, const int64_t *, const int64_t *, const int64_t *, \
            const int64_t *)) \
  X(dilated_convolution_backward_weights_desc_init, \
    int (*)(void *, int, const void *, const void *, const void *, const void *, const int64_t *, const int64_t *, \
            const int64_t *, const int64_t *)) \
  X(matmul_desc_init, int (*)(void *, const void *, const void *, const void *, const void *))

#define ONLY_3(X) \
  X(memory_desc_create_with_strides, int (*)(void **, int, const int64_t *, int, const int64_t *)) \
  X(memory_desc_create_with_tag, int (*)(void **, int, const int64_t *, int, int)) \
  X(memory_desc_clone, int (*)(void **, const void *)) \
  X(memory_desc_destroy, int (*)(void *)) \
  X(convolution_forward_primitive_desc_create, \
    int (*)(Handle *, Handle, int, int, const void *, const void *, const void *, const void *, const int64_t *, \
            const int64_t *, const int64_t *, const int64_t *, Handle)) \
  X(convolution_backward_data_primitive_desc_create, \
    int (*)(Handle *, Handle, int, const void *, const void *, const void *, const int64_t *, const int64_t *, \
            const int64_t *, const int64_t *, Handle, Handle)) \
  X(convolution_backward_weights_primitive_desc_create, \
    int (*)(Handle *, Handle, int, const void *, const void *, const void *, const void *, const int64_t *, \
            const int64_t *, const int64_t *, const int64_t *, Handle, Handle)) \
  X(matmul_primitive_desc_create, \
    int (*)(Handle *, Handle, const void *, const void *, const void *, const void *, Handle))

#define FIELD(name, type) __typeof__((type)0) name;
static struct {
  void *handle;
  int version;
  SAME(FIELD) ONLY_2(FIELD) ONLY_3(FIELD) int (*append_sum_2)(Handle, float);
  int (*append_sum_3)(Handle, float, int32_t, int);
  int (*append_eltwise_2)(Handle, float, int, float, float);
  int (*append_eltwise_3)(Handle, int, float, float);
  Handle engine, stream;
  void *scratch;
  size_t scratch_bytes;
  int (*max_threads)(void);
  void (*set_threads)(int);
  int chosen; /* threads; 0: not chosen yet */
} lib;

/* ---- opening */

/* Finds the address of a function as any function pointer type (POSIX guarantees that this works). */
static bool find(const char *name, void *to) {
  void *address = onednn_symbol(name);
  memcpy(to, &address, sizeof address);
  return address != NULL;
}

void *onednn_symbol(const char *name) { return lib.handle ? dlsym(lib.handle, name) : NULL; }
int onednn_version(void) { return lib.version; }

/* If a function is missing, the version stays 0: products still work (gemm_dnnl.c needs one function only). */
static void find_functions(int version) {
  bool all = true;
#define FIND(name, type) all = find("dnnl_" #name, &lib.name) && all;
  SAME(FIND)
  if (version == 2) {
    ONLY_2(FIND)
    all = find("dnnl_post_ops_append_sum", &lib.append_sum_2) &&
          find("dnnl_post_ops_append_eltwise", &lib.append_eltwise_2) && all;
  } else {
    ONLY_3(FIND)
    all = find("dnnl_post_ops_append_sum", &lib.append_sum_3) &&
          find("dnnl_post_ops_append_eltwise", &lib.append_eltwise_3) && all;
  }
  if (all && lib.engine_create(&lib.engine, CPU, 0) == 0 &&
      lib.stream_create(&lib.stream, lib.engine, STREAM_DEFAULT) == 0)
    lib.version = version;
}

static void find_threads(void) {
  void *most = openmp_symbol("omp_get_max_threads"), *set = openmp_symbol("omp_set_num_threads");
  if (!most || !set) return;
  memcpy(&lib.max_threads, &most, sizeof most);
  memcpy(&lib.set_threads, &set, sizeof set);
  if (lib.chosen) lib.set_threads(lib.chosen);
}

/* Distinguishes a missing library from one that cannot be opened (no free descriptor, no memory, another
 * architecture). */
static RtStatus not_opened(char said[2][256], RtError *error) {
  for (int i = 0; i < 2; i++)
    if (!strstr(said[i], strerror(ENOENT)))
      return rt_error(error, RT_UNSUPPORTED, "oneDNN cannot be loaded: %s", said[i]);
  return rt_error(error, RT_UNSUPPORTED,
                  "oneDNN is missing: matrix products need libdnnl.so.3 or libdnnl.so.2 (Debian and Ubuntu: "
                  "apt-get install libdnnl3 or libdnnl2)");
}

/* Opens what the library needs from its own folder, where a Python wheel has it too; a library that is loaded already,
 * or is missing there, is found as usual. */
static void open_beside(const char *path) {
  static const char *const needed[] = {"libgomp.so.1", "libOpenCL.so.1"};
  const char *end = strrchr(path, '/');
  char file[4096];
  for (size_t i = 0; end && i < sizeof needed / sizeof *needed; i++)
    if (snprintf(file, sizeof file, "%.*s/%s", (int)(end - path), path, needed[i]) < (int)sizeof file)
      (void)dlopen(file, RTLD_NOW);
}

/* Asks the library for its version: its file may have any name. */
static RtStatus ask_version(const char *name, int *version, RtError *error) {
  typedef struct Version { /* the beginning of dnnl_version_t */
    int major, minor, patch;
  } Version;
  const Version *(*ask)(void);
  if (!find("dnnl_version", &ask))
    return rt_error(error, RT_UNSUPPORTED, "%s is not oneDNN: it has no function dnnl_version", name);
  const Version *v = ask();
  if (!v) return rt_error(error, RT_UNSUPPORTED, "%s is not oneDNN: its function dnnl_version gives no version", name);
  *version = v->major;
  return v->major == 2 || v->major == 3
             ? RT_OK
             : rt_error(error, RT_UNSUPPORTED, "%s is oneDNN %d.%d.%d; programs need oneDNN 2 or 3", name, v->major,
                        v->minor, v->patch);
}

static RtStatus open_library(const char *name, RtError *error) {
  int version = 0;
  lib.handle = dlopen(name, RTLD_NOW);
  if (!lib.handle) return RT_OK;
  RtStatus status = openmp_check(lib.handle, name, error);
  if (!status) status = ask_version(name, &version, error);
  if (status) {
    dlclose(lib.handle);
    lib.handle = NULL;
    return status;
  }
  find_functions(version);
  find_threads();
  return RT_OK;
}

RtStatus onednn_open(RtError *error) {
  static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
  const char *given = getenv(ONEDNN_VARIABLE);
  char said[2][256];
  if (lib.handle) return RT_OK;
  if (given && *given) {
    open_beside(given);
    RtStatus status = open_library(given, error);
    if (!status && !lib.handle)
      status = rt_error(error, RT_UNSUPPORTED, "oneDNN cannot be loaded from " ONEDNN_VARIABLE ": %s", dlerror());
    return status;
  }
  for (int i = 0; i < 2 && !lib.handle; i++) {
    RtStatus status = open_library(names[i], error);
    if (status) return status;
    if (!lib.handle) snprintf(said[i], sizeof said[i], "%s", dlerror());
  }
  return lib.handle ? RT_OK : not_opened(said, error);
}

int onednn_threads(void) { return lib.max_threads ? lib.max_threads() : 1; }
void onednn_set_threads(int n) {
  if (lib.set_threads) lib.set_threads(n);
}
void onednn_choose_threads(int n) {
  lib.chosen = n;
  onednn_set_threads(n);
}

/* ---- layouts */

/* dnnl_data_type_t; -1: unsupported */
static int type_number(DType t) { return t == DT_f32 ? 3 : t == DT_bf16 ? 2 : t == DT_f16 ? 1 : -1; }

static OnednnLayout *new_layout(int n, const int64_t *dims, DType dtype, const int64_t *strides) {
  void *l = NULL;
  int status;
  if (!lib.version || type_number(dtype) < 0) return NULL;
  if (lib.version == 3) {
    status = strides ? lib.memory_desc_create_with_strides(&l, n, dims, type_number(dtype), strides)
                     : lib.memory_desc_create_with_tag(&l, n, dims, type_number(dtype), ANY_TAG);
    return status == 0 ? l : NULL;
  }
  l = calloc(1, LAYOUT_BYTES);
  if (!l) return NULL;
  status = strides ? lib.memory_desc_init_by_strides(l, n, dims, type_number(dtype), strides)
                   : lib.memory_desc_init_by_tag(l, n, dims, type_number(dtype), ANY_TAG);
  if (status == 0) return l;
  free(l);
  return NULL;
}

OnednnLayout *onednn_strided(int n, const int64_t *dims, DType dtype, const int64_t *strides) {
  return new_layout(n, dims, dtype, strides);
}
OnednnLayout *onednn_any(int n, const int64_t *dims, DType dtype) { return new_layout(n, dims, dtype, NULL); }

/* Copies a layout.  Those of version 2 are records of 696 bytes, kept in LAYOUT_BYTES. */
OnednnLayout *onednn_layout_copy(const OnednnLayout *l) {
  void *copy = NULL;
  if (!l) return NULL;
  if (lib.version == 3) return lib.memory_desc_clone(&copy, l) == 0 ? copy : NULL;
  enum { RECORD = 696 };
  copy = calloc(1, LAYOUT_BYTES);
  if (copy) memcpy(copy, l, RECORD);
  return copy;
}

void onednn_layout_free(OnednnLayout *l) {
  if (l && lib.version == 3) lib.memory_desc_destroy(l);
  else free(l);
}

size_t onednn_layout_bytes(const OnednnLayout *l) { return lib.memory_desc_get_size(l); }
bool onednn_layout_equal(const OnednnLayout *a, const OnednnLayout *b) { return lib.memory_desc_equal(a, b) != 0; }

bool onednn_reorder(const OnednnLayout *from, void *source, const OnednnLayout *to, void *target) {
  Handle description = NULL, primitive = NULL, a = NULL, b = NULL;
  bool ok = lib.reorder_primitive_desc_create(&description, from, lib.engine, to, lib.engine, NULL) == 0 &&
            lib.primitive_create(&primitive, description) == 0 &&
            lib.memory_create(&a, from, lib.engine, source) == 0 && lib.memory_create(&b, to, lib.engine, target) == 0;
  ok = ok && lib.primitive_execute(primitive, lib.stream, 2, (ExecArg[]){{ARG_FROM, a}, {ARG_TO, b}}) == 0 &&
       lib.stream_wait(lib.stream) == 0;
  if (a) lib.memory_destroy(a);
  if (b) lib.memory_destroy(b);
  if (primitive) lib.primitive_destroy(primitive);
  if (description) lib.primitive_desc_destroy(description);
  return ok;
}

/* ---- primitives */

struct OnednnPrimitive {
  Handle description, primitive;
  Handle memory[ONEDNN_ARGS], scratch;
  void *data[ONEDNN_ARGS], *scratch_data; /* addresses in the memory objects */
  int arg[ONEDNN_ARGS];
  ProgramConvResult result;
  size_t room; /* bytes of scratch memory */
};

typedef struct ActivationRow {
  int number[2];
} ActivationRow;

static const ActivationRow activations[] = {
#define ACTIVATION(name, v2, v3, value, doc) {{v2, v3}},
#include "program/program.def"
#undef ACTIVATION
};

/* relu: alpha is the slope below 0; clip: alpha and beta are the bounds; swish: alpha is the factor of its argument. */
static float alpha_of(Activation a) { return a == ACT_silu ? 1 : 0; }
static float beta_of(Activation a) { return a == ACT_relu6 ? 6 : 0; }

static bool append(Handle post, OnednnEpilogue e, const void *result) {
  Activation a = e.what.activation;
  int number = activations[a].number[lib.version - 2];
  if (e.what.residual) {
    int failed = !e.in_place        ? lib.post_ops_append_binary(post, BINARY_ADD, result)
                 : lib.version == 2 ? lib.append_sum_2(post, 1)
                                    : lib.append_sum_3(post, 1, 0, 0);
    if (failed) return false;
  }
  if (a == ACT_none) return true;
  return (lib.version == 2 ? lib.append_eltwise_2(post, 1, number, alpha_of(a), beta_of(a))
                           : lib.append_eltwise_3(post, number, alpha_of(a), beta_of(a))) == 0;
}

static Handle attributes(OnednnEpilogue e, const void *result) {
  Handle attr = NULL, post = NULL;
  bool ok = lib.primitive_attr_create(&attr) == 0 &&
            lib.primitive_attr_set_scratchpad_mode(attr, SCRATCHPAD_USER) == 0 && lib.post_ops_create(&post) == 0 &&
            append(post, e, result) && lib.primitive_attr_set_post_ops(attr, post) == 0;
  if (post) lib.post_ops_destroy(post);
  if (ok) return attr;
  if (attr) lib.primitive_attr_destroy(attr);
  return NULL;
}

typedef struct Description {
  const OnednnConv *conv;
  const void *x, *w, *y, *bias;
  Dims dilation;
} Description;

/* `forward`: the description of the convolution, for its gradients. */
static bool describe_3(const Description *d, Handle forward, Handle attr, Handle *out) {
  const OnednnConv *c = d->conv;
  const void *x = d->x, *w = d->w, *y = d->y;
  int how = CONVOLUTION_DIRECT, training = c && c->result ? FORWARD_TRAINING : FORWARD_INFERENCE;
  if (!c) return lib.matmul_primitive_desc_create(out, lib.engine, x, w, d->bias, y, attr) == 0;
  if (!forward)
    return lib.convolution_forward_primitive_desc_create(out, lib.engine, training, how, x, w, d->bias, y, c->stride,
                                                         d->dilation, c->before, c->behind, attr) == 0;
  if (c->result == CONV_OF_IMAGE)
    return lib.convolution_backward_data_primitive_desc_create(out, lib.engine, how, x, w, y, c->stride, d->dilation,
                                                               c->before, c->behind, forward, attr) == 0;
  return lib.convolution_backward_weights_primitive_desc_create(out, lib.engine, how, x, w, NULL, y, c->stride,
                                                                d->dilation, c->before, c->behind, forward, attr) == 0;
}

static int begin_2(const Description *d, Handle forward, void *op) {
  const OnednnConv *c = d->conv;
  const void *x = d->x, *w = d->w, *y = d->y;
  int how = CONVOLUTION_DIRECT, training = c && c->result ? FORWARD_TRAINING : FORWARD_INFERENCE;
  if (!c) return lib.matmul_desc_init(op, x, w, d->bias, y);
  if (!forward)
    return lib.dilated_convolution_forward_desc_init(op, training, how, x, w, d->bias, y, c->stride, d->dilation,
                                                     c->before, c->behind);
  if (c->result == CONV_OF_IMAGE)
    return lib.dilated_convolution_backward_data_desc_init(op, how, x, w, y, c->stride, d->dilation, c->before,
                                                           c->behind);
  return lib.dilated_convolution_backward_weights_desc_init(op, how, x, w, NULL, y, c->stride, d->dilation, c->before,
                                                            c->behind);
}

static bool describe_2(const Description *d, Handle forward, Handle attr, Handle *out) {
  void *op = calloc(1, DESCRIPTION_BYTES);
  bool ok = op && begin_2(d, forward, op) == 0 && lib.primitive_desc_create(out, op, attr, lib.engine, forward) == 0;
  free(op);
  return ok;
}

static bool describe(const OnednnConv *conv, OnednnLayout *const layout[ONEDNN_ARGS], const void *bias, Handle attr,
                     Handle *out) {
  bool (*make)(const Description *, Handle, Handle, Handle *) = lib.version == 3 ? describe_3 : describe_2;
  Description d = {conv, layout[ONEDNN_X], layout[ONEDNN_W], layout[ONEDNN_Y], bias, {0}};
  Handle forward = NULL;
  for (int i = 0; conv && i < conv->n; i++) d.dilation[i] = conv->dilation[i] - 1;
  if (!conv || conv->result == CONV_OF_OUTPUT) return make(&d, NULL, attr, out);
  bool ok = make(&d, NULL, NULL, &forward) && make(&d, forward, attr, out);
  if (forward) lib.primitive_desc_destroy(forward);
  return ok;
}

const char *onednn_implementation(const OnednnPrimitive *p) {
  const char *name = NULL;
  return lib.primitive_desc_query(p->description, QUERY_IMPLEMENTATION, 0, &name) == 0 && name ? name : "";
}

/* Reference implementations are slow; "gemm" is a convolution that copies the image into columns. */
static bool is_fast(const OnednnPrimitive *p, bool conv) {
  const char *name = onednn_implementation(p);
  return !strstr(name, "ref") && !strstr(name, "simple") && !(conv && strstr(name, "gemm"));
}

/* The library's numbers of the three tensors, per result. */
static const struct {
  int x, w, y, weights;
} names_of[CONV_RESULTS] = {[CONV_OF_OUTPUT] = {ARG_X, ARG_W, ARG_Y, QUERY_WEIGHTS},
                            [CONV_OF_IMAGE] = {ARG_DIFF_X, ARG_W, ARG_DIFF_Y, QUERY_WEIGHTS},
                            [CONV_OF_WEIGHTS] = {ARG_X, ARG_DIFF_W, ARG_DIFF_Y, QUERY_DIFF_WEIGHTS}};

/* Makes a memory object for argument i; onednn_execute sets its address. */
static bool add_memory(OnednnPrimitive *p, int i, int arg, const void *layout) {
  p->arg[i] = arg;
  return lib.memory_create(&p->memory[i], layout, lib.engine, NULL) == 0;
}

/* Provides scratch memory: the caller's, or the library's, which all primitives share. */
static bool add_scratch(OnednnPrimitive *p, size_t room) {
  const void *scratch = lib.primitive_desc_query_md(p->description, QUERY_SCRATCHPAD, 0);
  size_t bytes = p->room = scratch ? lib.memory_desc_get_size(scratch) : 0;
  if (bytes && room) return bytes <= room && add_memory(p, ONEDNN_ROOM, ARG_SCRATCHPAD, scratch);
  if (bytes > (size_t)onednn_threads() * ONEDNN_SCRATCH) return false;
  if (bytes > lib.scratch_bytes) {
    void *more = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!more) return false;
    free(lib.scratch);
    lib.scratch = more;
    lib.scratch_bytes = bytes;
  }
  return !bytes || lib.memory_create(&p->scratch, scratch, lib.engine, NULL) == 0;
}

static bool add_memories(OnednnPrimitive *p, OnednnLayout *const layout[ONEDNN_ARGS], OnednnEpilogue e, size_t room) {
  int residual = (lib.version == 2 ? ARG_POST_OP_2 : ARG_POST_OP_3) | ARG_SECOND;
  const void *weights = lib.primitive_desc_query_md(p->description, names_of[p->result].weights, 0);
  if (!add_scratch(p, room) || !add_memory(p, ONEDNN_X, names_of[p->result].x, layout[ONEDNN_X]) ||
      !add_memory(p, ONEDNN_Y, names_of[p->result].y, layout[ONEDNN_Y]) ||
      !add_memory(p, ONEDNN_W, names_of[p->result].w, weights))
    return false;
  if (e.what.bias && !add_memory(p, ONEDNN_BIAS, ARG_BIAS, layout[ONEDNN_BIAS])) return false;
  return !e.what.residual || e.in_place || add_memory(p, ONEDNN_RESIDUAL, residual, layout[ONEDNN_Y]);
}

OnednnPrimitive *onednn_primitive(const OnednnConv *conv, OnednnLayout *const layout[ONEDNN_ARGS], OnednnEpilogue e) {
  OnednnPrimitive *p = lib.version ? calloc(1, sizeof *p) : NULL;
  if (!p || !layout[ONEDNN_X] || !layout[ONEDNN_W] || !layout[ONEDNN_Y] || (e.what.bias && !layout[ONEDNN_BIAS])) {
    free(p);
    return NULL;
  }
  if (conv) p->result = conv->result;
  Handle attr = attributes(e, layout[ONEDNN_Y]);
  bool ok = attr && describe(conv, layout, e.what.bias ? layout[ONEDNN_BIAS] : NULL, attr, &p->description) &&
            is_fast(p, conv && !conv->result) && lib.primitive_create(&p->primitive, p->description) == 0 &&
            add_memories(p, layout, e, conv ? conv->room : 0);
  if (attr) lib.primitive_attr_destroy(attr);
  if (ok) return p;
  onednn_primitive_free(p);
  return NULL;
}

void onednn_primitive_free(OnednnPrimitive *p) {
  if (!p) return;
  for (int i = 0; i < ONEDNN_ARGS; i++)
    if (p->memory[i]) lib.memory_destroy(p->memory[i]);
  if (p->scratch) lib.memory_destroy(p->scratch);
  if (p->primitive) lib.primitive_destroy(p->primitive);
  if (p->description) lib.primitive_desc_destroy(p->description);
  free(p);
}

OnednnLayout *onednn_weights_layout(const OnednnPrimitive *p) {
  return onednn_layout_copy(lib.primitive_desc_query_md(p->description, names_of[p->result].weights, 0));
}

size_t onednn_room(const OnednnPrimitive *p) { return p->memory[ONEDNN_ROOM] ? p->room : 0; }

/* Sets an address only if it changes: for a padded tensor this makes the library write the padding. */
static bool set_data(Handle memory, void **have, void *want) {
  if (*have == want) return true;
  *have = want;
  return lib.memory_set_data_handle(memory, want) == 0;
}

bool onednn_execute(OnednnPrimitive *p, void *const data[ONEDNN_ARGS]) {
  ExecArg args[ONEDNN_ARGS + 1];
  int n = 0;
  for (int i = 0; i < ONEDNN_ARGS; i++) {
    if (!p->memory[i]) continue;
    if (!set_data(p->memory[i], &p->data[i], data[i])) return false;
    args[n++] = (ExecArg){p->arg[i], p->memory[i]};
  }
  if (p->scratch) {
    if (!set_data(p->scratch, &p->scratch_data, lib.scratch)) return false;
    args[n++] = (ExecArg){ARG_SCRATCHPAD, p->scratch};
  }
  return lib.primitive_execute(p->primitive, lib.stream, n, args) == 0 && lib.stream_wait(lib.stream) == 0;
}

/* ---- epilogues */

#define ACTIVATION(name, v2, v3, value, doc) \
  static void row_##name(float *y, int64_t n) { \
    for (int64_t i = 0; i < n; i++) { \
      float x = y[i]; \
      y[i] = value; \
    } \
  }
#include "program/program.def"
#undef ACTIVATION

/* Blocks of a fixed size become vectors. */
static void row_add(float *y, const float *x, int64_t n) {
  enum { BLOCK = 16 };
  for (; n >= BLOCK; n -= BLOCK, y += BLOCK, x += BLOCK)
    for (int i = 0; i < BLOCK; i++) y[i] += x[i];
  for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

void epilogue_apply(Epilogue e, float *y, int64_t rows, int64_t columns, int64_t step, const float *bias,
                    const float *residual) {
  static void (*const activate[])(float *, int64_t) = {
#define ACTIVATION(name, ...) row_##name,
#include "program/program.def"
#undef ACTIVATION
  };
  for (int64_t r = 0; r < rows; r++, y += step) {
    if (e.bias) row_add(y, bias, columns);
    if (e.residual) row_add(y, residual + r * step, columns);
    if (e.activation != ACT_none) activate[e.activation](y, columns);
  }
}
