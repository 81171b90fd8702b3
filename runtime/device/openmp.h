/* runtime/device/openmp.h - the OpenMP run time that the libraries of this process use.
 *
 * A compiled program has threads of its own (stub/threads.c) under the names of libgomp, which libraries find first.  A
 * library that needs more of OpenMP than those would get the rest from libgomp, and each of the two would take the
 * other's teams for teams of one: silently wrong results.  So such a library is refused.
 */
#ifndef APC_RUNTIME_DEVICE_OPENMP_H
#define APC_RUNTIME_DEVICE_OPENMP_H

#include "program/status.h"

/* Returns a function of the run time in use: this program's, or that of libgomp, which is loaded for it.  NULL if there
 * is none. */
void *openmp_symbol(const char *name);

/* RT_UNSUPPORTED if `library`, a handle of dlopen that messages call `name`, mixes two run times. */
RtStatus openmp_check(void *library, const char *name, RtError *error);

#endif
