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

/* Are all sets of a list separated by blanks present?  The first that is not (or that is unknown) is copied
 * to missing[size]. */
bool program_cpu_supports(const char *list, char *missing, size_t size);

#endif
