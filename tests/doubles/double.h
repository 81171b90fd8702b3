/* tests/doubles/double.h - what the doubles of NVIDIA's libraries have in common, exported by the double of
 * libcuda.so.1 to those of the others: the environment they obey, faults, violations, device memory, work on streams.
 *
 * A double is found by LD_LIBRARY_PATH like the library it stands for; the program under test knows nothing of it.  It
 * is a hostile GPU: work is done as late, and in as strange an order, as events, streams and synchronisations allow.
 *
 * Environment (all optional):
 *   DOUBLES_SEED=N            the order of work; every seed another one
 *   DOUBLES_GPUS=N            devices (8); DOUBLES_ARCH=90, DOUBLES_DRIVER=13000, DOUBLES_MEMORY=BYTES, what they are
 *   DOUBLES_TEXTS=DIR:DIR     where --save-temps kept the texts of cubins
 *   DOUBLES_CACHE=DIR         where compiled texts are kept (APC_COMPILED, else /tmp)
 *   DOUBLES_HEADERS=DIR       the source tree with tests/dialect/prelude_host.h (that of the build)
 *   DOUBLES_DNN_GAPS=N        one thing in N that could be asked for is not supported by cuDNN (8; 0: all is)
 *   DOUBLES_FAIL=[NAME:]N     the N-th call (of that function) fails; DOUBLES_FAIL_LATE=N: the N-th piece of work does
 *   DOUBLES_DROP=NAME:N       the N-th call of that function does nothing and says that it did
 *   DOUBLES_SHIFT=N           the N-th launch gets one of its addresses 64 bytes further
 *   DOUBLES_STALE=N           the N-th launch that could gets the addresses of one of the same kernel with other sizes
 *   DOUBLES_EARLY=N           an event behind a copy from or to the host has happened before it has, or a stream is
 *                             empty before a graph in it has written to the host: the N-th of those that had not, or
 *                             was not, when it was asked for first
 *   DOUBLES_LATER=N           the N-th group of calls of NCCL is begun behind the next one
 *   DOUBLES_KEY=N             in the N-th split of a communicator this rank comes first, or last if it is the first
 *   DOUBLES_ENDING=N          the end of a communicator is there after N questions
 *   DOUBLES_STALL=N           from its N-th piece of work on the device makes no progress
 *   DOUBLES_ON=D              faults, stalls, names and traces are those of the process that uses device D (any)
 *   DOUBLES_WATCH=1           work that uses memory without an order is a violation (watch.h)
 *   DOUBLES_TRACE=FILE        with WATCH: what is asked for and what it touches is added to that file (waits.py)
 *   DOUBLES_REPORT=FILE       violations are also added to that file
 *   DOUBLES_CALLS=FILE        at the end a line with the number of calls is added to that file
 *   DOUBLES_NAMES=FILE        a line with the name of every call is added to that file (cuMemsetD32Async_host: of one
 *                             that fills memory of the host), and of the settings STALE, EARLY, LATER and KEY whenever
 *                             there could have been a turn of theirs
 *   DOUBLES_ALLOCATED=FILE    a line "DEVICE BYTES" is added to that file for memory that is allocated; BYTES is below
 *                             0 where it is given back
 *
 * A violation is what a GPU would not report but must not happen, or what it reports as an error of the device: it is
 * written to standard error, and the process ends with DOUBLE_EXIT instead of its exit code.
 *
 * Everything is called with the lock held (double_enter). */
#ifndef APC_TESTS_DOUBLES_DOUBLE_H
#define APC_TESTS_DOUBLES_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/doubles/cuda_types.h"

#define DOUBLE_API __attribute__((visibility("default")))
enum { DOUBLE_EXIT = 97, DOUBLE_DEVICES = 16 };

/* ---- calls: the first line of every function of an API is ENTER(name), or ENTER_OR(name, code) where the library's
 * errors are not the driver's */

/* Takes the lock, lets queues be served for a while, counts the call.  False: this call is to fail. */
DOUBLE_API bool double_enter(const char *name);
DOUBLE_API bool double_drops(void); /* it fails, but is to say that it succeeded */
DOUBLE_API void double_leave(const bool *entered);
#define ENTER_OR(name, code) \
  __attribute__((cleanup(double_leave))) const bool entered = double_enter(#name); \
  if (!entered) return (code)

/* Is it now the turn of what that setting asks for?  Then it says so.  `seen` counts the turns. */
DOUBLE_API bool double_turn(const char *setting, int64_t *seen, const char *what);

/* ---- what is wrong */

DOUBLE_API void double_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Called when the process ends without an error: reports what was not given back. */
DOUBLE_API void double_at_end(void (*leaks)(void));

/* ---- the environment */

DOUBLE_API int64_t double_setting(const char *name, int64_t otherwise);
DOUBLE_API uint64_t double_random(void);
static inline bool double_chance(int of) { return double_random() % (uint64_t)of == 0; }

/* ---- memory of devices */

/* Where the doubles themselves find device memory; NULL after a violation unless all bytes are in one allocation of
 * that device.  `what` names who asks. */
DOUBLE_API char *double_at(int device, CUdeviceptr at, uint64_t bytes, const char *what);

/* ---- work */

/* What is done in the order of a stream, once per launch.  Immutable but for its references: a graph launches it again
 * and again. */
typedef struct DoubleWork DoubleWork;
typedef void DoubleVisit(void *context, uint64_t at, uint64_t bytes, bool writes);
typedef struct DoubleWorkKind {
  /* Begun on the host, in the order of calls, whenever it is launched; may be NULL.  Its state is handed on. */
  void *(*launch)(const DoubleWork *w);
  /* True when done; false: others have to do something first. */
  bool (*run)(const DoubleWork *w, void *state);
  void (*drop)(DoubleWork *w); /* with the last reference */
  void (*forget)(void *state); /* of a launch that never ran; may be NULL */
  /* Visits what it may read or write: device memory and the host's. */
  void (*ranges)(const DoubleWork *w, DoubleVisit *visit, void *context);
  bool tells; /* what it really touches it says while it runs (watch.h); `ranges` is more than that */
} DoubleWorkKind;
struct DoubleWork {
  const DoubleWorkKind *kind;
  const char *what;
  int device, refs;
};

DOUBLE_API void double_work_drop(DoubleWork *w);

/* Adds work to a stream, or to the graph that is captured there; takes the reference. */
DOUBLE_API CUresult double_submit(CUstream stream, DoubleWork *w);

/* Is it captured what that stream is asked for?  Does an executable graph have work like that? */
DOUBLE_API bool double_captures(CUstream stream);
DOUBLE_API bool double_in_graph(bool (*is)(const DoubleWork *w, const void *what), const void *what);

/* The device whose context is current on this thread, of a stream; -1: none. */
DOUBLE_API int double_current(void);
DOUBLE_API int double_stream_device(CUstream stream);
DOUBLE_API int double_physical(int device);

/* Device work has failed: all calls say so from now on. */
DOUBLE_API void double_device_error(int device, CUresult error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Lets other processes and threads come on while something is waited for. */
DOUBLE_API void double_nap(void);

/* Serves queues for a moment without being forced to; for calls that poll. */
DOUBLE_API void double_serve(void);

#endif
