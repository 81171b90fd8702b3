/* runtime/device/cpu_operators.c - the functions of operator libraries (program/apc_operator.h) on CPUs.
 *
 * The bytes of a library are copied from the program into memory of our own, checked there, and loaded.  It stays
 * loaded as long as the process, as threads of it may run. */
#define _GNU_SOURCE /* fcntl.h: F_DUPFD_CLOEXEC */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "program/operator_call.h"
#include "program/operator_symbol.h"
#include "runtime/device/cpu.h"
#include "runtime/device/openmp.h"

/* The loader takes libraries of one name for one library, and the names of our files are their numbers: those of
 * libraries are from here on and stay open, so that no other file gets them. */
enum { FIRST_FILE = 200 };

static RtStatus load(CpuDevice *d, const ProgramOperator *o, void **library, RtError *error) {
  const char *name = program_text(d->p, o->name);
  char path[64], what[160];
  int fd = -1;
  snprintf(what, sizeof what, "the library of operator %s", name);
  RtStatus status = cpu_copy_code(d->artifact, &d->p->blobs[o->blob], what, &fd, error);
  if (status) return status;
  int kept = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FILE), number = errno;
  close(fd);
  errno = number;
  if (kept < 0 && number == EINVAL)
    return rt_error(error, RT_FAILED, "%s cannot be loaded: the limit of open files (ulimit -n) must exceed %d", what,
                    FIRST_FILE);
  if (kept < 0) return rt_error_errno(error, RT_FAILED, "%s cannot be loaded", what);
  snprintf(path, sizeof path, "/proc/self/fd/%d", kept);
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*library) return rt_error(error, RT_UNSUPPORTED, "%s cannot be loaded: %s", what, dlerror());
  return openmp_check(*library, what, error);
}

/* Finds or loads the library of operator i; those before it are loaded. */
static RtStatus library_of(CpuDevice *d, uint32_t i, void **libraries, RtError *error) {
  const ProgramOperator *all = d->p->operators;
  for (uint32_t k = 0; k < i; k++)
    if (all[k].blob == all[i].blob) return libraries[i] = libraries[k], RT_OK;
  return load(d, &all[i], &libraries[i], error);
}

static RtStatus find_functions(CpuDevice *d, OperatorSlot *slots, void **libraries, RtError *error) {
  const Program *p = d->p;
  for (uint32_t i = 0; i < p->n_operators; i++) {
    const char *function = program_text(p, p->operators[i].function);
    RtStatus status = library_of(d, i, libraries, error);
    if (status) return status;
    slots[i] = (OperatorSlot){program_text(p, p->operators[i].name), function, operator_symbol(libraries[i], function)};
    if (!slots[i].address)
      return rt_error(error, RT_BAD_INPUT, "damaged program: its library has no function '%s'", function);
  }
  return RT_OK;
}

RtStatus cpu_operators_open(CpuDevice *d, RtError *error) {
  const OperatorSlot **table = d->library ? dlsym(d->library, OPERATOR_SLOTS_SYMBOL) : NULL;
  if (!d->p->n_operators || !table) return RT_OK;
  void **libraries = calloc(d->p->n_operators, sizeof *libraries);
  d->operators = calloc(d->p->n_operators + 1u, sizeof *d->operators);
  RtStatus status = libraries && d->operators ? find_functions(d, d->operators, libraries, error)
                                              : rt_error(error, RT_FAILED, "out of memory");
  free(libraries);
  *table = d->operators;
  d->operator_fault = dlsym(d->library, OPERATOR_FAULT_SYMBOL);
  return status;
}

RtStatus cpu_operator_error(const CpuDevice *d, RtError *error) {
  OperatorFault *f = d->operator_fault;
  f->found = 0;
  return rt_error(error, RT_BAD_INPUT, "operator %s failed: %s", f->kind, *f->text ? f->text : "without a message");
}

void cpu_operators_close(CpuDevice *d) { free(d->operators); }
