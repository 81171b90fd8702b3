/* runtime/device/device.h - the functions that a kind of device offers to the executor: DeviceOps.
 *
 * The executor (runtime/exec) knows schedules, bodies, loops, sizes, addresses and the order of communication.  A
 * device knows memory, and how to execute one call of the list (program/device_calls.h).  One thread makes all calls,
 * in the order of the list, and the device executes them in this order.  It may execute them later, but before `finish`
 * returns, before a later `read` of their results, and before communication that is enqueued after them reads memory:
 * an engine of communication (CommOps) for a device knows the device's order.
 *
 * Addresses are the device's: the executor adds offsets to them but never dereferences them, unless
 * DeviceFacts.host_memory makes them addresses of the host too.
 *
 * Errors describe the failure; the executor puts the instruction, its name and the rank in front.
 *
 * A new device is a folder or file beside cpu.c and a row in devices.def.
 */
#ifndef APC_RUNTIME_DEVICE_DEVICE_H
#define APC_RUNTIME_DEVICE_DEVICE_H

#include "program/artifact.h"
#include "program/device_calls.h"
#include "runtime/comm/comm.h"
#include "runtime/device/tuning.h"

typedef struct DeviceOptions {
  const Artifact *artifact; /* with the kernels */
  uint32_t rank, stage;
  uint32_t local_rank; /* number among the ranks of this machine */
  int threads;         /* host threads to compute with; 0: from the environment */
  bool kernels;        /* convolutions use the Program's kernels even if there is a library */
  bool eager;          /* no captures on this rank */
  Tuning *tuning;      /* choices that were measured, and the place of new ones; NULL: libraries recommend */
  /* Called now and then while the device waits; an error ends the wait.  May be NULL. */
  RtStatus (*check)(void *context, RtError *error);
  /* Called while the device waits, with the step of the last mark that it has reached.  May be NULL. */
  void (*reached)(void *context, uint32_t step);
  void *context;
} DeviceOptions;

typedef struct DeviceFacts {
  bool host_memory;    /* its addresses are the host's: weights are loaded and used in place */
  uint64_t most_ports; /* limit in bytes for inputs and outputs of a captured request */
  const char *arch;    /* its architecture as targets name it, "sm_80"; NULL if they do not */
} DeviceFacts;

/* The weights of a rank after loading, per buffer. */
typedef struct DeviceWeights {
  const char *const *address; /* NULL: none */
  const uint64_t *bytes;
  const bool *writable; /* the memory is the device's own, not a file's */
} DeviceWeights;

enum { DEVICE_PORT_ALIGN = 64, DEVICE_HANDLE = 64 };

/* An input or output of a request as the caller or the file holds it: all of it, of which a rank moves a part. */
typedef struct DevicePort {
  uint32_t number; /* in the RequestLayout */
  bool on_device;  /* `at` is an address of this device, from `map`; else of the host */
  char *at;
  const int64_t *extents; /* the shape */
} DevicePort;

/* Memory of a device that the caller's process owns and ranks use: an input or output that never goes through the
 * host. */
typedef struct DevicePlace {
  uint32_t number, device; /* in the RequestLayout; for people */
  uint64_t offset, bytes;  /* in the allocation that the handle names */
  unsigned char handle[DEVICE_HANDLE];
} DevicePlace;

/* The caller's side of such memory.  Its process has no Device.  Every function may be called from any thread, and
 * leaves the thread's state as it was.  `device` is a number among the devices that the process sees. */
typedef struct DeviceTensors DeviceTensors;

typedef struct DeviceTensorOps {
  RtStatus (*open)(DeviceTensors **out, RtError *error);
  void (*close)(DeviceTensors *t);
  /* Names `bytes` of memory to other processes.  RT_BAD_INPUT if this is no memory of the device; RT_UNSUPPORTED if it
   * was allocated so that no other process can use it. */
  RtStatus (*place)(DeviceTensors *t, int device, const void *at, uint64_t bytes, DevicePlace *out, RtError *error);
  /* Waits for all earlier work of the device's default queue. */
  RtStatus (*settle)(DeviceTensors *t, int device, RtError *error);
  RtStatus (*alloc)(DeviceTensors *t, int device, uint64_t bytes, void **out, RtError *error);
  void (*release)(DeviceTensors *t, int device, void *at);
  /* Copies to the host's memory, or from it, and waits. */
  RtStatus (*read)(DeviceTensors *t, int device, void *to, const void *from, uint64_t bytes, RtError *error);
  RtStatus (*write)(DeviceTensors *t, int device, void *to, const void *from, uint64_t bytes, RtError *error);
} DeviceTensorOps;

typedef struct Device Device;

typedef RtStatus DeviceRun(Device *d, const DeviceCall *c, RtError *error);

typedef struct DeviceOps {
  const char *name;

  /* Opens everything that the rank's part of the Program needs: kernels, libraries. */
  RtStatus (*open)(const DeviceOptions *options, Device **out, RtError *error);
  void (*close)(Device *d);
  DeviceFacts (*facts)(const Device *d);

  /* Returns how many bytes alloc could provide now; NULL: the host's memory, without such a limit. */
  RtStatus (*room)(Device *d, uint64_t *bytes, RtError *error);
  /* Memory.  Callers never request 0 bytes.  New memory is uninitialised on some devices. */
  RtStatus (*alloc)(Device *d, uint64_t bytes, char **out, RtError *error);
  void (*release)(Device *d, char *at, uint64_t bytes);
  /* Replaces whole pages from alloc by those of a file at `offset`, which other processes may write as well; NULL on
   * devices without pages. */
  RtStatus (*share)(Device *d, char *at, uint64_t bytes, int fd, uint64_t offset, RtError *error);
  RtStatus (*upload)(Device *d, void *to, const void *from, size_t bytes, RtError *error); /* from the host */
  RtStatus (*read)(Device *d, void *to, const void *from, size_t bytes, RtError *error);   /* to the host; done when it
                                                                                            * returns */

  /* Gives the device the workspace of its libraries, from alloc, before any call; may be NULL if Programs have none. */
  void (*workspace)(Device *d, char *at, uint64_t bytes);

  /* Called when all weights have their values, except those that `prepare` computes; may be NULL. */
  RtStatus (*weights)(Device *d, const DeviceWeights *w, RtError *error);

  /* Opens an engine of communication that reaches the device's memory, with the help of the host's engine, which
   * outlives it; all ranks call it.  staged: through host memory.  NULL: the host's engine, or the owner's, reaches the
   * memory itself. */
  RtStatus (*comm)(Device *d, Comm *host, const CommOptions *options, bool staged, Comm **out, RtError *error);

  /* Execute one call of this kind. */
  DeviceRun *launch, *gemm, *conv, *copy, *fill;
  /* Packs weights, in `prepare`; may be NULL on devices whose products take no panels. data[0] is any address of host
   * memory if host_memory is true. scalars[0] may be fewer rows than the panels have; then data[1] is the place of the
   * first one.  Threads of `parallel` may pack different parts at the same time. */
  DeviceRun *pack;
  /* Calls body(data) once on each host thread that the device computes with, and returns when all have returned; NULL
   * on devices without such threads. */
  void (*parallel)(Device *d, void (*body)(void *), void *data);
  /* Move this rank's part from the port, and to it. */
  RtStatus (*feed)(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error);
  RtStatus (*fetch)(Device *d, const DeviceCall *c, const DevicePort *port, RtError *error);

  /* Memory of the caller on a device: NULL on devices whose tensors are in the host's memory.  `map` makes the
   * allocation of a place accessible, at *out, until `unmap`; of places with one handle only the first is mapped. */
  const DeviceTensorOps *tensors;
  RtStatus (*map)(Device *d, const DevicePlace *place, char **out, RtError *error);
  RtStatus (*unmap)(Device *d, char *at, RtError *error);

  /* Records n consecutive calls (launch, gemm, conv, copy, fill) as one, to be replayed while nothing about them
   * changes.  All three may be NULL: then calls are made one by one. */
  RtStatus (*record)(Device *d, const DeviceCall *calls, uint32_t n, void **recording, RtError *error);
  RtStatus (*replay)(Device *d, void *recording, RtError *error);
  void (*forget)(Device *d, void *recording);

  /* Captures all calls of a request, to be repeated while nothing but its inputs changes.  Between `capture` and
   * `captured` launches, products, convolutions, copies, fills, feeds, fetches, marks, and operations of the device's
   * own engine of communication are kept, not executed; waits and reads are forbidden.  Each call must have been
   * executed once before.  bytes: all fed and fetched parts together, each rounded up to DEVICE_PORT_ALIGN, and
   * those of ports on a device; io: the area of inputs and outputs that contains the others.  `captured` follows, even
   * after an error: then `out` is NULL and the kept calls are dropped.  `again` executes the request, with another area
   * and other places (per number of a port, NULL if it is in the area), and returns when it is done. `release_capture`
   * may come after an error while the request still runs.  All may be NULL, like those above. */
  RtStatus (*capture)(Device *d, uint64_t bytes, uint64_t device_bytes, const void *io, RtError *error);
  RtStatus (*captured)(Device *d, void **out, RtError *error);
  RtStatus (*again)(Device *d, void *capture, void *io, char *const *places, RtError *error);
  void (*release_capture)(Device *d, void *capture);

  /* The calls from here on, up to the next mark, belong to that step and the following ones.  NULL on devices that are
   * done with a call when it returns, like the two below. */
  RtStatus (*mark)(Device *d, uint32_t step, RtError *error);

  /* Times of calls: `stamp` makes the device note the time when it gets there.  `times` returns all noted times, in
   * nanoseconds since the first one, after the device has finished; the next stamp is a first one again. */
  RtStatus (*stamp)(Device *d, RtError *error);
  RtStatus (*times)(Device *d, uint64_t *ns, uint32_t n, RtError *error);

  /* Choices among ways to compute the same.  `tuned_for` names this device and the versions of its libraries; `tune`
   * times the ways of a call that was executed before, and adds the best one to the options' table if it has none for
   * such calls; `tuned` ends that: later calls follow the table.  All may be NULL: there is nothing to choose. */
  void (*tuned_for)(const Device *d, char text[TUNING_OF]);
  RtStatus (*tune)(Device *d, const DeviceCall *c, RtError *error);
  RtStatus (*tuned)(Device *d, RtError *error);

  /* Waits until all calls are done. */
  RtStatus (*finish)(Device *d, RtError *error);

  /* Fails with the first index outside its table that a completed launch has met and that was not reported yet; *instr
   * is the launch.  RT_OK if there is none.  Does not wait; called after waits for the device.  NULL on devices that
   * are done with a call when it returns: there the call itself fails. */
  RtStatus (*looked)(Device *d, uint32_t *instr, RtError *error);
} DeviceOps;

/* Common start of every implementation. */
struct Device {
  const DeviceOps *ops;
};

/* Returns the device of that name from devices.def; NULL if there is none. */
const DeviceOps *devices_find(const char *name);

#endif
