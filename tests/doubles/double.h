/* tests/doubles/double.h - shared by the doubles of NVIDIA's libraries, exported by the double of libcuda.so.1 to the
 * others: the environment they obey, faults, violations, device memory, work on streams.
 *
 * A double is found by LD_LIBRARY_PATH like the library it replaces; the program under test does not know of it.  It is
 * a hostile GPU: it does work as late, and in as strange an order, as events, streams and synchronisations allow.
 *
 * Environment (all optional):
 *   DOUBLES_SEED=N            the order of work; each seed gives another one
 *   DOUBLES_GPUS=N            devices (8), with the properties DOUBLES_ARCH=90, DOUBLES_DRIVER=13000,
 *                             DOUBLES_MEMORY=BYTES
 *   DOUBLES_TEXTS=DIR:DIR     where --save-temps kept the texts of cubins
 *   DOUBLES_CACHE=DIR         where compiled texts are kept (APC_COMPILED, else /tmp)
 *   DOUBLES_HEADERS=DIR       the source tree with tests/dialect/prelude_host.h (default: that of the build)
 *   DOUBLES_DNN_GAPS=N        cuDNN does not support one request in N (8; 0: it supports all)
 *   DOUBLES_ALGORITHMS=N      cuBLASLt offers N algorithms for each product (1)
 *   DOUBLES_FASTEST=K         events give pretended times: algorithm K of a product or convolution takes 10 us, others
 *                             20 us or more, a kernel 15 us
 *   DOUBLES_FAIL=[NAME:]N     the N-th call (of that function) fails; DOUBLES_FAIL_LATE=N: the N-th piece of work fails
 *   DOUBLES_DROP=NAME:N       the N-th call of that function does nothing but reports success
 *   DOUBLES_SHIFT=N           the N-th launch gets one of its addresses 64 bytes too high
 *   DOUBLES_STALE=N           the N-th possible launch gets the addresses of one of the same kernel with other sizes
 *   DOUBLES_EARLY=N           the N-th query is answered too early: an event after a copy from or to the host counts as
 *                             reached, or a stream as empty before a graph in it has written to the host; only first
 *                             queries that came too early are counted
 *   DOUBLES_LATER=N           the N-th group of NCCL calls begins after the next one
 *   DOUBLES_KEY=N             in the N-th split of a communicator this rank becomes the first, or the last if it is
 *                             first
 *   DOUBLES_ENDING=N          the end of a communicator is reached after N queries
 *   DOUBLES_STALL=N           from its N-th piece of work on, the device makes no progress
 *   DOUBLES_ON=D              faults, stalls, names and traces apply to the process that uses device D (default: any)
 *   DOUBLES_WATCH=1           unordered uses of memory are violations (watch.h)
 *   DOUBLES_TRACE=FILE        with WATCH: appends requests and the memory that they touch to that file (waits.py)
 *   DOUBLES_REPORT=FILE       violations are also appended to that file
 *   DOUBLES_CALLS=FILE        at the end a line with the number of calls is appended to that file
 *   DOUBLES_NAMES=FILE        the name of every call is appended to that file (cuMemsetD32Async_host: of one that fills
 *                             host memory), and that of the settings STALE, EARLY, LATER and KEY whenever they could
 *                             have applied
 *   DOUBLES_ALLOCATED=FILE    a line "DEVICE BYTES" is appended to that file for allocated memory; BYTES is negative
 *                             for freed memory
 *
 * A violation is an error that a GPU would not report, or would report as an error of the device: it is written to
 * standard error, and the process ends with DOUBLE_EXIT instead of its exit code.
 *
 * Everything is called with the lock held (double_enter). */
#ifndef APC_TESTS_DOUBLES_DOUBLE_H
#define APC_TESTS_DOUBLES_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/doubles/cuda_types.h"

#define DOUBLE_API __attribute__((visibility("default")))
enum { DOUBLE_EXIT = 97, DOUBLE_DEVICES = 16 };

/* ---- calls: the first line of every function of an API is ENTER(name), or ENTER_OR(name, code) if the library's
 * errors are not the driver's */

/* Takes the lock, serves queues for a while, counts the call.  False: this call must fail. */
DOUBLE_API bool double_enter(const char *name);
DOUBLE_API bool double_drops(void); /* it does nothing but reports success */
DOUBLE_API void double_leave(const bool *entered);
#define ENTER_OR(name, code) \
  __attribute__((cleanup(double_leave))) const bool entered = double_enter(#name); \
  if (!entered) return (code)

/* True if that setting applies now, which is then reported.  `seen` counts the occasions. */
DOUBLE_API bool double_turn(const char *setting, int64_t *seen, const char *what);

/* ---- violations */

DOUBLE_API void double_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Called when the process ends without an error: reports leaks. */
DOUBLE_API void double_at_end(void (*leaks)(void));

/* ---- the environment */

DOUBLE_API int64_t double_setting(const char *name, int64_t otherwise);
DOUBLE_API uint64_t double_random(void);
static inline bool double_chance(int of) { return double_random() % (uint64_t)of == 0; }

/* ---- memory of devices */

/* Returns the double's own memory for a device address; NULL after a violation unless all bytes are in one allocation
 * of that device.  `what` names the caller. */
DOUBLE_API char *double_at(int device, CUdeviceptr at, uint64_t bytes, const char *what);

/* ---- work */

/* Work in the order of a stream, run once per launch.  Immutable except for its references: a graph launches it
 * repeatedly. */
typedef struct DoubleWork DoubleWork;
typedef void DoubleVisit(void *context, uint64_t at, uint64_t bytes, bool writes);
typedef struct DoubleWorkKind {
  /* Begins on the host, in the order of calls, at each launch; may be NULL.  Returns the state for `run`. */
  void *(*launch)(const DoubleWork *w);
  /* True if done; false if it depends on other work. */
  bool (*run)(const DoubleWork *w, void *state);
  void (*drop)(DoubleWork *w); /* with the last reference */
  void (*forget)(void *state); /* the state of a launch that never ran; may be NULL */
  /* Visits the memory that it may read or write: of devices and of the host. */
  void (*ranges)(const DoubleWork *w, DoubleVisit *visit, void *context);
  bool tells; /* it reports what it really touches while it runs (watch.h); `ranges` is a superset */
} DoubleWorkKind;
struct DoubleWork {
  const DoubleWorkKind *kind;
  const char *what;
  int device, refs;
  int64_t pretended; /* nanoseconds that it is said to take, with DOUBLES_FASTEST */
};

/* The pretended nanoseconds of way number `way`: 10,000 for DOUBLES_FASTEST, twice as many and more for others; 0
 * without that setting. */
DOUBLE_API int64_t double_pretended(int way);

DOUBLE_API void double_work_drop(DoubleWork *w);

/* Adds work to a stream, or to the graph that is captured there; takes ownership of the reference. */
DOUBLE_API CUresult double_submit(CUstream stream, DoubleWork *w);

/* True if that stream is being captured. */
DOUBLE_API bool double_captures(CUstream stream);
DOUBLE_API bool double_in_graph(bool (*is)(const DoubleWork *w, const void *what), const void *what);

/* The device of this thread's current context, or of a stream; -1 if none. */
DOUBLE_API int double_current(void);
DOUBLE_API int double_stream_device(CUstream stream);
DOUBLE_API int double_physical(int device);

/* Work on the device has failed: all calls report the error from now on. */
DOUBLE_API void double_device_error(int device, CUresult error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Lets other processes and threads run while this one waits. */
DOUBLE_API void double_nap(void);

/* Serves queues for a moment without need; for calls that poll. */
DOUBLE_API void double_serve(void);

#endif
