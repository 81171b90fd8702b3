/* program/cpu.h - instruction sets of this machine's CPU.
 *
 * The compiler records the sets its kernels may use (those of the machine it compiles on); the loader refuses
 * an artifact that needs one this machine lacks. */
#ifndef APC_PROGRAM_CPU_H
#define APC_PROGRAM_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* What this machine has of the known sets, e.g. "sse4.2 avx avx2 fma"; "" when it has none of them. */
const char *program_cpu_features(void);

/* Is every set of the list `needs` in the list `has`?  The first that is not is copied to missing[size].  Lists have
 * their words between blanks. */
bool program_cpu_list_has(const char *has, const char *needs, char *missing, size_t size);

#endif
