/* program/cpu.h - instruction sets of this machine's CPU.
 *
 * The compiler records the sets that its kernels may use (those of the machine it runs on); the loader refuses an
 * artifact that needs a set this machine lacks. */
#ifndef APC_PROGRAM_CPU_H
#define APC_PROGRAM_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the known sets that this machine has, e.g. "sse4.2 avx avx2 fma"; "" if none. */
const char *program_cpu_features(void);

/* True if list `has` contains every set of list `needs`.  Otherwise copies the first missing set to missing[size].
 * Lists are words separated by blanks. */
bool program_cpu_list_has(const char *has, const char *needs, char *missing, size_t size);

#endif
