/* tests/doubles/watch_text.h - precedes the text of watched kernels (watch.h): the compiler's race detection
 * (-fsanitize=thread) puts a call before every load and store that may matter.  These are the functions that it calls,
 * which pass the accesses on; its own library is not needed.  Copies by memcpy are reported as well. */
#include <stddef.h>
#include <string.h>

#define UNWATCHED __attribute__((no_sanitize("thread"), unused))

void (*double_watch)(const void *at, size_t bytes, int writes);

static UNWATCHED inline void watch_say(const void *at, size_t bytes, int writes) {
  if (double_watch) double_watch(at, bytes, writes);
}

#define WATCH_SIZE(n) \
  UNWATCHED void __tsan_read##n(void *at) { watch_say(at, n, 0); } \
  UNWATCHED void __tsan_write##n(void *at) { watch_say(at, n, 1); } \
  UNWATCHED void __tsan_unaligned_read##n(void *at) { watch_say(at, n, 0); } \
  UNWATCHED void __tsan_unaligned_write##n(void *at) { watch_say(at, n, 1); } \
  UNWATCHED void __tsan_volatile_read##n(void *at) { watch_say(at, n, 0); } \
  UNWATCHED void __tsan_volatile_write##n(void *at) { watch_say(at, n, 1); }
WATCH_SIZE(1)
WATCH_SIZE(2)
WATCH_SIZE(4)
WATCH_SIZE(8)
WATCH_SIZE(16)
UNWATCHED void __tsan_read_range(void *at, size_t bytes) { watch_say(at, bytes, 0); }
UNWATCHED void __tsan_write_range(void *at, size_t bytes) { watch_say(at, bytes, 1); }
UNWATCHED void __tsan_func_entry(void *at) { (void)at; }
UNWATCHED void __tsan_func_exit(void *at) { (void)at; }
UNWATCHED void __tsan_init(void) {}

static UNWATCHED inline __attribute__((always_inline)) void *watch_copy(void *to, const void *from, size_t bytes) {
  watch_say(from, bytes, 0);
  watch_say(to, bytes, 1);
  return __builtin_memcpy(to, from, bytes);
}
#define memcpy watch_copy
