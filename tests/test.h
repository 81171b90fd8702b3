/* tests/test.h - the whole unit test framework.
 *
 * A test program is a list of functions called from main through RUN; CHECK prints the failing
 * expression and counts it; main ends with `return test_summary();`.  The closing line is
 * "N passed, M failed".
 */
#ifndef APC_TESTS_TEST_H
#define APC_TESTS_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The build detects memory errors and is many times slower: tests that count cases need fewer of them there. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* So does the thread sanitizer, which also makes vfork a fork and allows no threads in the child of a threaded
 * process. */
#if defined(__SANITIZE_THREAD__)
enum { THREAD_SANITIZER = 1 };
#else
enum { THREAD_SANITIZER = 0 };
#endif

/* Long tests run a quarter of their cases: APC_QUARTER, 0 to 3, says which (test.sh).  Without it they run all.  Checks
 * that every kind of case occurs count all cases, or expect quarter_of(n), a fifth of the count over all cases. */
static inline int the_quarter(void) { /* -1: all of them */
  const char *quarter = getenv("APC_QUARTER");
  return quarter ? atoi(quarter) : -1;
}
static inline bool in_quarter(long number) { return the_quarter() < 0 || number % 4 == the_quarter(); }
/* Two of the four quarters run it. */
static inline bool in_half(long number) { return the_quarter() < 0 || number % 2 == the_quarter() % 2; }
/* A quarter of [0, n), for seeds and the like: contiguous, so that it contains all kinds of cases that alternate with
   the seed. */
typedef struct Quarter {
  int from, to;
} Quarter;
static inline Quarter quarter_range(int n) {
  int q = the_quarter();
  return q < 0 ? (Quarter){0, n} : (Quarter){n * q / 4, n * (q + 1) / 4};
}
static inline long quarter_of(long n) { return the_quarter() < 0 ? n : n / 5; }

static int test_failed, test_passed, test_failed_here, test_failed_outside;

#define CHECK(cond) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #cond); \
      test_failed_here++; \
    } \
  } while (0)

/* CHECK with a printf-style explanation. */
#define CHECKF(cond, ...) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "%s:%d: CHECK failed: %s: ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__); \
      fprintf(stderr, "\n"); \
      test_failed_here++; \
    } \
  } while (0)

#define CHECK_STR(got, want) \
  do { \
    const char *g_ = (got), *w_ = (want); \
    if (!g_ || strcmp(g_, w_) != 0) { \
      fprintf(stderr, "%s:%d: got:\n%s\nwant:\n%s\n", __FILE__, __LINE__, g_ ? g_ : "(null)", w_); \
      test_failed_here++; \
    } \
  } while (0)

#define RUN(fn) \
  do { \
    test_failed_outside += test_failed_here; \
    test_failed_here = 0; \
    fn(); \
    if (test_failed_here) { \
      test_failed++; \
      fprintf(stderr, "FAILED %s\n", #fn); \
    } else { \
      test_passed++; \
    } \
    test_failed_here = 0; \
  } while (0)

static inline int test_summary(void) {
  int failed = test_failed + (test_failed_outside + test_failed_here > 0); /* a failed check in main fails the test,
                                                                              too */
  printf("%d passed, %d failed\n", test_passed, failed);
  return failed ? 1 : 0;
}

#endif
