/* tests/dialect/prelude_host.h - the names of the CUDA dialect (codegen/cuda/prelude_device.h) on a CPU, so that the
 * emitted text runs without a GPU.
 *
 * Every thread of a block is a fiber.  Barriers and shuffles switch to the scheduler, which goes on when all threads of
 * the warp or block have arrived.  Threads run one after another until they wait, in ascending or in descending order:
 * without a needed barrier, one of the two orders reads memory before it is written.  Shared memory is filled with 0xff
 * (NaN) before each block.  A barrier or shuffle that not all threads reach ends the process with a message.
 *
 * An asynchronous copy fills its destination with 0xff at once and with the data when its thread waits: a thread that
 * reads too early, or still reads the old contents, gets NaN.  Tensor cores are exact except for the rounding of a sum
 * of sixteen products to f32, which the hardware does in undocumented steps.
 *
 * Loads and stores of shared arrays are ordinary C: AddressSanitizer finds those out of bounds.  Not modelled: bank
 * conflicts, the memory model of a GPU, rounding of its mathematical library. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FN static inline __attribute__((always_inline, unused))
#define CALLED static __attribute__((noinline, unused))
#define IN_PLACE
#define SHARED(type, name, count) \
  static type name[count] __attribute__((aligned(16))); \
  host_shared(name, sizeof name)
#define TABLE(type, name, count) static const type name[count]
#define STATE(type, name) static type name __attribute__((unused))
#define UNROLL
#define UNROLL_4
#define ROLL
#define KERNEL(name, args, threads) \
  static void name##_thread(const args a); \
  static void name##_start(const void *words) { name##_thread(*(const args *)words); } \
  const int name##_bytes = sizeof(args), name##_threads = (threads); \
  void name(const void *words, int64_t blocks, int descending) { \
    host_run(name##_start, #name, words, blocks, threads, descending); \
  } \
  static void name##_thread(const args a)

enum { HOST_THREADS = 1024, HOST_WARPS = 32, HOST_STACK = 96 << 10, HOST_SHARED = 64, HOST_COPIES = 256 };

typedef enum HostState { HOST_READY, HOST_WARP, HOST_BLOCK, HOST_DONE } HostState;

static struct {
  void (*kernel)(const void *);
  const char *name;
  const void *words;
  int threads, descending, current;
  int64_t block;
  void *scheduler, *fiber[HOST_THREADS]; /* stack pointers */
  char *stack[HOST_THREADS];
  HostState state[HOST_THREADS];
  uint64_t slot[2][HOST_THREADS]; /* of shuffles, used alternately */
  int turn[HOST_THREADS];
  const void *seen[HOST_SHARED];
  int nseen;
  float factor[2][HOST_THREADS][12]; /* of tensor cores: eight of a, four of b */
  struct HostCopy {
    void *to;
    const void *from;
  } copy[HOST_THREADS][HOST_COPIES]; /* asynchronous, in flight */
  int copies[HOST_THREADS];
} host;

/* ---- fibers */

#ifdef __x86_64__
void host_switch(void **save, void *to) __attribute__((visibility("hidden")));
__asm__(
    ".text\n.hidden host_switch\n.type host_switch,@function\nhost_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

static void host_entry(void);
static void host_prepare(int i) {
  void **top = (void **)((uintptr_t)(host.stack[i] + HOST_STACK) & ~(uintptr_t)15) - 8;
  memset(top, 0, 8 * sizeof *top);
  *(void (**)(void))(top + 6) = host_entry;
  host.fiber[i] = top;
}
#else
#include <ucontext.h>
static void host_entry(void);
static ucontext_t host_contexts[HOST_THREADS + 1];
static void host_switch(void **save, void *to) {
  *save = *save ? *save : &host_contexts[HOST_THREADS];
  swapcontext(*save, to);
}
static void host_prepare(int i) {
  getcontext(&host_contexts[i]);
  host_contexts[i].uc_stack.ss_sp = host.stack[i];
  host_contexts[i].uc_stack.ss_size = HOST_STACK;
  makecontext(&host_contexts[i], host_entry, 0);
  host.fiber[i] = &host_contexts[i];
}
#endif

/* Lets the other threads run until this one is ready again. */
static void host_wait(HostState why) {
  int i = host.current;
  host.state[i] = why;
  host_switch(&host.fiber[i], host.scheduler);
}

static void host_fail(const char *what) {
  fprintf(stderr, "%s, block %lld: %s\n", host.name, (long long)host.block, what);
  abort();
}

static void host_entry(void) {
  host.kernel(host.words);
  if (host.copies[host.current]) host_fail("a thread ends with copies in flight");
  host_wait(HOST_DONE);
}

static int host_count(int from, int to, HostState s) {
  int n = 0;
  for (int i = from; i < to; i++) n += host.state[i] == s;
  return n;
}

static void host_release(int from, int to, HostState s) {
  for (int i = from; i < to; i++)
    if (host.state[i] == s) host.state[i] = HOST_READY;
}

/* Runs a warp until all its threads wait for the block or have ended. */
static void host_run_warp(int from, int to) {
  for (;;) {
    for (int k = from; k < to; k++) {
      int i = host.descending ? to - 1 - (k - from) : k;
      if (host.state[i] != HOST_READY) continue;
      host.current = i;
      host_switch(&host.scheduler, host.fiber[i]);
    }
    int waiting = host_count(from, to, HOST_WARP);
    if (waiting == 0) return;
    if (waiting != to - from) host_fail("not all threads of a warp reach a shuffle or warp_barrier");
    host_release(from, to, HOST_WARP);
  }
}

static void host_run_block(void) {
  int n = host.threads;
  host.nseen = 0;
  for (int i = 0; i < n; i++) {
    host.state[i] = HOST_READY;
    host.turn[i] = host.copies[i] = 0;
    host_prepare(i);
  }
  for (;;) {
    for (int w = 0; w < n / 32; w++) {
      int warp = host.descending ? n / 32 - 1 - w : w;
      host_run_warp(32 * warp, 32 * warp + 32);
    }
    int waiting = host_count(0, n, HOST_BLOCK);
    if (waiting == 0) return;
    if (waiting != n) host_fail("not all threads of the block reach a barrier");
    host_release(0, n, HOST_BLOCK);
  }
}

static __attribute__((unused)) void host_run(void (*kernel)(const void *), const char *name, const void *words,
                                             int64_t blocks, int threads, int descending) {
  host.kernel = kernel, host.name = name, host.words = words, host.threads = threads, host.descending = descending;
  if (threads < 32 || threads > HOST_THREADS || threads % 32) host_fail("a block has 32, 64 ... 1024 threads");
  for (int i = 0; i < threads; i++)
    if (!host.stack[i] && !(host.stack[i] = malloc(HOST_STACK))) host_fail("out of memory");
  for (int64_t b = 0; b < blocks; b++) {
    host.block = descending ? blocks - 1 - b : b;
    host_run_block();
  }
}

/* ---- the names */

static inline int thread_index(void) { return host.current; }
static inline int64_t block_index(void) { return host.block; }
static inline void barrier(void) { host_wait(HOST_BLOCK); }
static inline void warp_barrier(void) { host_wait(HOST_WARP); }

/* The first thread finds the array of the last block and overwrites it. */
static __attribute__((unused)) void host_shared(void *data, size_t bytes) {
  for (int i = 0; i < host.nseen; i++)
    if (host.seen[i] == data) return;
  if (host.nseen == HOST_SHARED) host_fail("too many shared arrays");
  host.seen[host.nseen++] = data;
  memset(data, 0xff, bytes);
}

static inline uint64_t shuffle_u64(uint64_t v, int from) {
  int i = host.current, turn = host.turn[i];
  host.turn[i] = !turn;
  host.slot[turn][i] = v;
  host_wait(HOST_WARP);
  return host.slot[turn][i / 32 * 32 + (from & 31)];
}
static inline uint32_t shuffle_u32(uint32_t v, int from) { return (uint32_t)shuffle_u64(v, from); }

static inline void load_wide(void *to, const void *from, int bytes) {
  if ((uintptr_t)from % (uintptr_t)(bytes < 16 ? bytes : 16)) host_fail("a packet is not aligned");
  memcpy(to, from, (size_t)bytes);
}
static inline void store_wide(void *to, const void *from, int bytes) {
  if ((uintptr_t)to % (uintptr_t)(bytes < 16 ? bytes : 16)) host_fail("a packet is not aligned");
  memcpy(to, from, (size_t)bytes);
}

/* ---- asynchronous copies */

static inline void copy_async(void *to, const void *from, int bytes) {
  int i = host.current;
  if (((uintptr_t)to | (uintptr_t)from) % 16) host_fail("an asynchronous copy is not aligned");
  if (host.copies[i] == HOST_COPIES) host_fail("too many asynchronous copies in flight");
  memset(to, 0xff, 16);
  host.copy[i][host.copies[i]++] = (struct HostCopy){to, bytes ? from : NULL};
}
static inline void copy_wait(void) {
  int i = host.current;
  for (int n = 0; n < host.copies[i]; n++) {
    if (host.copy[i][n].from) memcpy(host.copy[i][n].to, host.copy[i][n].from, 16);
    else memset(host.copy[i][n].to, 0, 16);
  }
  host.copies[i] = 0;
}

/* ---- tensor cores */

static inline const char *host_row_of(int turn, int lane) {
  return (const char *)(uintptr_t)host.slot[turn][host.current / 32 * 32 + lane];
}
/* Every lane gives the address of a row; returns the turn of this exchange. */
static inline int host_say_row(const void *row) {
  int i = host.current, turn = host.turn[i];
  if ((uintptr_t)row % 16) host_fail("a row of a matrix is not aligned");
  host.turn[i] = !turn;
  host.slot[turn][i] = (uint64_t)(uintptr_t)row;
  host_wait(HOST_WARP);
  return turn;
}
static inline void load_matrices(uint32_t *r, const void *row) {
  int turn = host_say_row(row), lane = host.current % 32;
  for (int m = 0; m < 4; m++) memcpy(&r[m], host_row_of(turn, 8 * m + lane / 4) + 4 * (lane % 4), 4);
}
static inline void load_matrices_turned(uint32_t *r, const void *row) {
  int turn = host_say_row(row), lane = host.current % 32;
  for (int m = 0; m < 4; m++)
    for (int h = 0; h < 2; h++)
      memcpy((char *)&r[m] + 2 * h, host_row_of(turn, 8 * m + 2 * (lane % 4) + h) + 2 * (lane / 4), 2);
}

static inline float host_f16(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  float v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf((float)(1024 + m), e - 25) : ldexpf((float)m, -24);
  return h >> 15 ? -v : v;
}
static inline float host_bf16(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

/* d[16 x 8] += a[16 x 16] b[16 x 8]: lane l has rows l / 4 and l / 4 + 8 of d, columns 2 (l % 4) and the next. */
static inline void host_tensor(float *d, const uint32_t *a, const uint32_t *b, float (*value)(uint16_t)) {
  int i = host.current, turn = host.turn[i], lane = i % 32, warp = i / 32 * 32;
  float *mine = host.factor[turn][i];
  host.turn[i] = !turn;
  for (int n = 0; n < 12; n++) mine[n] = value((uint16_t)((n < 8 ? a[n / 2] : b[n / 2 - 4]) >> n % 2 * 16));
  host_wait(HOST_WARP);
  for (int n = 0; n < 4; n++) {
    int row = lane / 4 + n / 2 * 8, column = lane % 4 * 2 + n % 2;
    double sum = d[n];
    for (int k = 0; k < 16; k++)
      sum += (double)host.factor[turn][warp + row % 8 * 4 + k % 8 / 2][(row / 8 + k / 8 * 2) * 2 + k % 2] *
             (double)host.factor[turn][warp + column * 4 + k % 8 / 2][8 + k / 8 * 2 + k % 2];
    d[n] = (float)sum;
  }
}
static inline void tensor_f16(float *d, const uint32_t *a, const uint32_t *b) { host_tensor(d, a, b, host_f16); }
static inline void tensor_bf16(float *d, const uint32_t *a, const uint32_t *b) { host_tensor(d, a, b, host_bf16); }

#define pack_f16(low, high) ((uint32_t)bits_f16(low) | (uint32_t)bits_f16(high) << 16) /* kernel_elements.h */
#define pack_bf16(low, high) ((uint32_t)bits_bf16(low) | (uint32_t)bits_bf16(high) << 16)
static inline float exp2_fast(float x) { return exp2f(x); }

/* ---- operations between blocks, which run one after another */

static inline uint64_t least_u64(uint64_t *p, uint64_t v) {
  uint64_t before = *p;
  *p = v < before ? v : before;
  return before;
}
static inline _Bool count_to(uint32_t *count, uint32_t n) {
  *count = (*count + 1) % n;
  return *count == 0;
}
