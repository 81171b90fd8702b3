/* base/wide.h - functions compiled again for wider vectors, where a compiler can choose when the program starts.
 *
 * Sums have the same order in both, so the same bits.  What chooses runs before a sanitizer is ready.
 */
#ifndef APC_BASE_WIDE_H
#define APC_BASE_WIDE_H

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#define PART_OF_WIDE static inline __attribute__((always_inline))
#else
#define WIDE
#define PART_OF_WIDE static inline
#endif

#endif
