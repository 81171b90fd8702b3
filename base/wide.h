/* base/wide.h - functions compiled a second time for wider vectors, if the compiler supports a choice at program
 * start.
 *
 * Sums keep their order in both versions, so results have the same bits.  Not used with sanitizers,
 * since the choice runs before a sanitizer is ready.
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
