/* driver/operators.c - see operators.h. */
#include "driver/operators.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/nearest.h"
#include "ir/opaque.h"
#include "ir/opaque_rule.h"
#include "program/apc_operator.h"
#include "program/operator_symbol.h"

/* ---- rules */

static size_t operator_length(const char *s) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
  return strspn(s, allowed);
}

static Loc at(Loc line, size_t column) {
  line.col = (int)column + 1;
  return line;
}

/* Reads "my.Op: RULE"; `line` is its place, columns counted from 0. */
static bool read_rule(const ModelOptions *o, const char *text, Loc line, bool asked, OnnxRules *out) {
  size_t begin = strspn(text, " \t"), n = operator_length(text + begin), colon = begin + n;
  OpaqueFault fault;
  colon += strspn(text + colon, " \t");
  if (!n || text[begin + n - 1] == '.')
    return diag_error(o->diags, DIAG_opaque_rule, at(line, begin), "expected an operator, as in my.Op: b.. k -> b.. k");
  if (text[colon] != ':')
    return diag_error(o->diags, DIAG_opaque_rule, at(line, colon), "expected : after the operator");
  const char *name = arena_strndup(o->arena, text + begin, n), *rule = text + colon + 1;
  size_t skipped = strspn(rule, " \t");
  if (!opaque_rule_parse(o->arena, rule + skipped, &fault))
    return diag_error(o->diags, DIAG_opaque_rule, at(line, colon + 1 + skipped + fault.at), "%s", fault.why);
  for (size_t i = 0; i < out->n; i++) {
    if (strcmp(out->items[i].kind, name) != 0) continue;
    if (!asked && out->items[i].asked) return true; /* the option replaces the file's */
    return diag_error(o->diags, DIAG_opaque_rule, at(line, begin), "a second rule for the operator %s", name);
  }
  OnnxRule item = {name, arena_strdup(o->arena, rule + skipped), at(line, begin), asked, false};
  ARENA_PUSH(o->arena, out, item);
  return true;
}

static bool read_file(const ModelOptions *o, const char *path, OnnxRules *out) {
  char *text = file_read_text(o->diags, o->arena, path, NULL);
  bool ok = text != NULL;
  if (text) diag_source(o->diags, path, text);
  char *copy = arena_strdup(o->arena, text ? text : "");
  Loc line = {.file = path, .line = 1};
  for (char *s = copy; ok && s; line.line++) {
    char *end = strchr(s, '\n'), *next = end ? end + 1 : NULL;
    if (end) *end = 0;
    char *comment = strchr(s, '#');
    if (comment) *comment = 0;
    size_t length = strlen(s);
    while (length && strchr(" \t\r", s[length - 1])) s[--length] = 0;
    if (length) ok = read_rule(o, s, line, false, out);
    s = next;
  }
  return ok;
}

/* The file of rules beside a library: NAME.so has NAME.ops.  NULL if there is none. */
static const char *rules_beside(const ModelOptions *o, const char *library) {
  size_t n = strlen(library);
  if (n < 3 || strcmp(library + n - 3, ".so") != 0) return NULL;
  const char *path = arena_printf(o->arena, "%.*s.ops", (int)(n - 3), library);
  return access(path, F_OK) == 0 ? path : NULL;
}

bool operators_rules(const ModelOptions *o, OnnxRules *out) {
  *out = (OnnxRules){0};
  for (size_t i = 0; i < o->noperators; i++) {
    const char *source = i ? arena_printf(o->arena, "--op (number %zu)", i + 1) : "--op";
    diag_source(o->diags, source, o->operators[i]);
    if (!read_rule(o, o->operators[i], (Loc){.file = source, .line = 1}, true, out)) return false;
  }
  for (size_t i = 0; i < o->nlibraries; i++) {
    const char *path = rules_beside(o, o->libraries[i]);
    if (path && !read_file(o, path, out)) return false;
  }
  return true;
}

bool operators_used(const ModelOptions *o, const OnnxRules *rules) {
  bool all = true;
  for (size_t i = 0; i < rules->n; i++) {
    const OnnxRule *r = &rules->items[i];
    if (r->used || !r->asked) continue;
    all = diag_error(o->diags, DIAG_opaque_rule, r->loc, "the model has no operator %s", r->kind);
  }
  return all;
}

/* ---- kernels */

static void in_order(int64_t n, void (*body)(int64_t i, void *data), void *data) {
  for (int64_t i = 0; i < n; i++) body(i, data);
}

static void fill(const OpaqueArray *from, int n, ApcOpTensor *to) {
  for (int i = 0; i < n; i++) {
    to[i] = (ApcOpTensor){from[i].data, (ApcOpType)from[i].dtype, from[i].rank, from[i].dims, 1};
    for (int d = 0; d < from[i].rank; d++) to[i].elements *= from[i].dims[d];
  }
}

/* Memory that a child of this process writes: the results of a call, its scratch and its message, one after the other.
 */
typedef struct Shared {
  char *at;
  size_t bytes, result[MAX_RESULTS], scratch;
} Shared;

enum { SHARED_ALIGN = 64, MESSAGE = 400, SECONDS = 300 };

static size_t bytes_of(const OpaqueArray *a) {
  size_t bytes = dtype_bytes(a->dtype);
  for (int d = 0; d < a->rank; d++) bytes *= (size_t)a->dims[d];
  return bytes;
}

static bool share(const OpaqueCall *c, Shared *s) {
  *s = (Shared){.bytes = MESSAGE};
  bool fits = true;
  for (int i = 0; i <= c->nout; i++) {
    size_t n = i < c->nout ? bytes_of(&c->out[i]) : c->scratch > 0 ? (size_t)c->scratch : 0;
    size_t *to = i < c->nout ? &s->result[i] : &s->scratch;
    *to = (s->bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
    fits = fits && !__builtin_add_overflow(*to, n, &s->bytes);
  }
  s->at = fits ? mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  return s->at != MAP_FAILED;
}

/* Fills the results with numbers that are large, or NaN: an element that the function does not write differs. */
static void mark_results(const OpaqueCall *c, const Shared *s) {
  for (int i = 0; i < c->nout; i++)
    memset(s->at + s->result[i], c->out[i].dtype == DT_bool ? 1 : 0x7f, bytes_of(&c->out[i]));
}

/* Calls the function, in the child. */
static int call_function(const OpaqueKernel *k, const OpaqueCall *c, const Shared *s) {
  ApcOpTensor in[MAX_OPERANDS], out[MAX_RESULTS];
  ApcOpFunction *function;
  memcpy(&function, &k->address, sizeof function);
  fill(c->in, c->nin, in);
  fill(c->out, c->nout, out);
  for (int i = 0; i < c->nout; i++) out[i].data = s->at + s->result[i];
  const ApcOpCall call = {.version = APC_OPERATOR_VERSION,
                          .ninputs = c->nin,
                          .noutputs = c->nout,
                          .threads = 1,
                          .inputs = in,
                          .outputs = out,
                          .attributes = c->attributes,
                          .scratch = s->at + s->scratch,
                          .scratch_bytes = c->scratch,
                          .parallel = in_order,
                          .error = s->at,
                          .error_bytes = MESSAGE};
  return function(&call) != 0;
}

static bool ended_well(int status, const Shared *s, char *why, size_t n) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) snprintf(why, n, "it did not return within %d s", SECONDS);
  else if (WIFSIGNALED(status))
    snprintf(why, n, "it was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else snprintf(why, n, "%.*s", MESSAGE - 1, *s->at ? s->at : "without a message");
  return false;
}

/* Calls the function for the reference interpreter, on whole tensors.  It runs in a child of this process, so that a
 * fault of the function is an error of the model and not the end of apc. */
static bool run(const OpaqueKernel *k, const OpaqueCall *c, char *why, size_t n) {
  Shared s;
  int status = 0;
  if (!share(c, &s)) return snprintf(why, n, "no memory for its results"), false;
  mark_results(c, &s);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(SECONDS);
    _exit(call_function(k, c, &s));
  }
  bool ran = child > 0;
  while (ran && waitpid(child, &status, 0) < 0) ran = errno == EINTR;
  bool ok = ran ? ended_well(status, &s, why, n) : (snprintf(why, n, "no process for it: %s", strerror(errno)), false);
  for (int i = 0; ok && i < c->nout; i++) { memcpy(c->out[i].data, s.at + s.result[i], bytes_of(&c->out[i])); }
  munmap(s.at, s.bytes);
  return ok;
}

_Static_assert((int)APC_OP_F32 == (int)DT_f32 && (int)APC_OP_BOOL == (int)DT_bool && (int)APC_OP_U2 == (int)DT_u2 &&
                   (int)APC_OP_U2 + 1 == (int)DT_COUNT,
               "element types have the numbers of base/dtype.def");

/* Opens a library.  It stays open as long as the process: threads of it may still run. */
static void *open_library(const ModelOptions *o, const char *path) {
  const char *with_folder = strchr(path, '/') ? path : arena_printf(o->arena, "./%s", path);
  Loc loc = file_loc(o->diags, path);
  void *library = access(path, R_OK) == 0 ? dlopen(with_folder, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library && access(path, R_OK) != 0) {
    diag_error(o->diags, DIAG_file_read, loc, "no such library, or it cannot be read");
    return NULL;
  }
  if (!library) {
    diag_error(o->diags, DIAG_opaque_library, loc, "the library cannot be loaded: %s", dlerror());
    return NULL;
  }
  const int *version = dlsym(library, "apc_operator_version");
  if (version && *version >= 1 && *version <= APC_OPERATOR_VERSION) return library;
  if (version)
    diag_error(o->diags, DIAG_opaque_library, loc, "the library is for version %d of apc_operator.h, not %d", *version,
               APC_OPERATOR_VERSION);
  else diag_error(o->diags, DIAG_opaque_library, loc, "the library was not compiled with apc_operator.h");
  return NULL;
}

static bool find_kernel(const ModelOptions *o, Module *m, const Op *op, void *const *libraries) {
  const char *kind = op_str(op, AT_kind);
  if (opaque_kernel(m, kind)) return true;
  OpaqueKernel k = {
      .kind = kind, .function = opaque_function(m->arena, kind, opaque_rule_of(m, op_str(op, AT_rule))), .run = run};
  for (size_t i = 0; i < o->nlibraries; i++) {
    void *address = operator_symbol(libraries[i], k.function);
    if (!address || libraries[i] == k.library) continue;
    if (k.address)
      return diag_error(o->diags, DIAG_opaque_library, file_loc(o->diags, o->libraries[i]),
                        "the function %s of operator %s is also in %s", k.function, kind, k.path);
    k.address = address, k.library = libraries[i], k.path = module_string(m, o->libraries[i]);
  }
  if (k.address) opaque_kernel_add(m, &k);
  return k.address || !o->nlibraries || !o->computes ||
         diag_error(o->diags, DIAG_opaque_library, file_loc(o->diags, o->libraries[o->nlibraries - 1]),
                    "%s has no function %s, the kernel of operator %s",
                    o->nlibraries > 1 ? "no library" : "the library", k.function, kind);
}

bool operators_kernels(const ModelOptions *o, Module *m) {
  void **libraries = ARENA_ARRAY(o->arena, void *, o->nlibraries + 1);
  for (size_t i = 0; i < o->nlibraries; i++)
    if (!(libraries[i] = open_library(o, o->libraries[i]))) return false;
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_opaque && op_attr(op, AT_rule) && !find_kernel(o, m, op, libraries)) return false;
    }
  return true;
}
