/* runtime/device/openmp.h - which OpenMP run time the libraries of this process use.
 *
 * A compiled program brings threads of its own (stub/threads.c) under the names of libgomp, which libraries find first.
 * A library that needs more of OpenMP than those would get the rest from libgomp, and each of the two would take the
 * other's teams for teams of one: wrong results without a word.  So such a library is refused.
 */
#ifndef APC_RUNTIME_DEVICE_OPENMP_H
#define APC_RUNTIME_DEVICE_OPENMP_H

#include "program/status.h"

/* A function of the run time in use: this program's, or that of libgomp, which is loaded for it.  NULL: there is
 * none. */
void *openmp_symbol(const char *name);

/* RT_UNSUPPORTED when `library`, a handle of dlopen called `name` in the message, mixes two run times. */
RtStatus openmp_check(void *library, const char *name, RtError *error);

#endif
