/* runtime/device/device.h - what a kind of device offers to the executor: a table of functions, DeviceOps.
 *
 * The executor (runtime/exec) knows schedules, bodies, loops, sizes, addresses and the order of communication; a device
 * knows memory and how to do one call of the list (program/device_calls.h).  All is asked for from one thread, in the
 * order of the list, and done in this order; a device may do it later, but before `finish` returns, before a `read` of
 * what was asked for before, and before communication that the executor enqueues behind it reads memory: an engine of
 * communication (CommOps) for a device knows the device's order.
 *
 * Addresses are the device's: the executor adds offsets to them and reads nothing there, unless DeviceFacts.host_memory
 * says that they are the host's as well.
 *
 * Errors say what went wrong; the executor puts the instruction, its name and the rank before.
 *
 * A new device is a folder or file beside cpu.c and a row in devices.def.
 */
#ifndef APC_RUNTIME_DEVICE_DEVICE_H
#define APC_RUNTIME_DEVICE_DEVICE_H

#include "program/artifact.h"
#include "program/device_calls.h"
#include "runtime/comm/comm.h"

typedef struct DeviceOptions {
  const Artifact *artifact; /* with the kernels */
  uint32_t rank, stage;
  uint32_t local_rank; /* among the ranks of this machine */
  int threads;         /* of the host that it computes with; 0: as the environment says */
  bool kernels;        /* convolutions by the Program's kernels, though a library may be there */
  bool eager;          /* nothing is captured on this rank */
  /* Asked now and then while the device waits; it stops waiting when that is not RT_OK.  May be NULL. */
  RtStatus (*check)(void *context, RtError *error);
  /* Told while it waits: the step of the last mark that it has come to.  May be NULL. */
  void (*reached)(void *context, uint32_t step);
  void *context;
} DeviceOptions;

typedef struct DeviceFacts {
  bool host_memory;    /* its addresses are the host's: weights are used and loaded where they lie */
  uint64_t most_ports; /* the most bytes of inputs and outputs of a request that it captures */
} DeviceFacts;

/* The weights of a rank, when they are loaded: per buffer. */
typedef struct DeviceWeights {
  const char *const *address; /* NULL: none */
  const uint64_t *bytes;
  const bool *writable; /* it is the device's own memory, not a file's */
} DeviceWeights;

enum { DEVICE_PORT_ALIGN = 64 };

typedef struct Device Device;

typedef RtStatus DeviceRun(Device *d, const DeviceCall *c, RtError *error);

typedef struct DeviceOps {
  const char *name;

  /* Gets everything that the rank's part of the Program needs: kernels, libraries. */
  RtStatus (*open)(const DeviceOptions *options, Device **out, RtError *error);
  void (*close)(Device *d);
  DeviceFacts (*facts)(const Device *d);

  /* Memory that alloc could give now; NULL: as much as the system has, which is not asked. */
  RtStatus (*room)(Device *d, uint64_t *bytes, RtError *error);
  /* Memory; alloc may be asked for 0 bytes by nobody.  What is new is not cleared on every device. */
  RtStatus (*alloc)(Device *d, uint64_t bytes, char **out, RtError *error);
  void (*release)(Device *d, char *at, uint64_t bytes);
  /* Makes whole pages of what alloc gave those of a file, at `offset`, which other processes may write as well; NULL on
   * devices whose memory is not of pages. */
  RtStatus (*share)(Device *d, char *at, uint64_t bytes, int fd, uint64_t offset, RtError *error);
  RtStatus (*upload)(Device *d, void *to, const void *from, size_t bytes, RtError *error); /* from the host */
  RtStatus (*read)(Device *d, void *to, const void *from, size_t bytes, RtError *error);   /* to the host, at once */

  /* What alloc gave for its libraries to work in, before any call; may be NULL where Programs have none. */
  void (*workspace)(Device *d, char *at, uint64_t bytes);

  /* All weights have their values, but those that `prepare` makes; may be NULL. */
  RtStatus (*weights)(Device *d, const DeviceWeights *w, RtError *error);

  /* An engine of communication that reaches the device's memory, made with the one of the host, which stays open behind
   * it; all ranks ask for it.  staged: through the host's memory.  NULL: the host's engine, or the owner's, reaches
   * it. */
  RtStatus (*comm)(Device *d, Comm *host, const CommOptions *options, bool staged, Comm **out, RtError *error);

  /* Calls. */
  DeviceRun *launch, *gemm, *conv, *copy, *fill;
  /* Of weights, in `prepare`; may be NULL on devices whose products take no panels.  data[0] may lie at any address of
   * the host's memory where host_memory is; scalars[0] may be fewer rows than the panels have, data[1] then where the
   * first of them goes.  Threads of `parallel` may ask for different parts at the same time. */
  DeviceRun *pack;
  /* Calls body(data) once on each of the host's threads that it computes with, and returns when all have returned; NULL
   * on devices that compute with none. */
  void (*parallel)(Device *d, void (*body)(void *), void *data);
  /* `host`: where the whole port is, `extents` its shape. */
  RtStatus (*feed)(Device *d, const DeviceCall *c, const void *host, const int64_t *extents, RtError *error);
  RtStatus (*fetch)(Device *d, const DeviceCall *c, void *host, const int64_t *extents, RtError *error);

  /* Makes one of n calls that follow each other (launch, gemm, conv, copy, fill), to be replayed while nothing about
   * them changes.  All three may be NULL: then calls are made one by one. */
  RtStatus (*record)(Device *d, const DeviceCall *calls, uint32_t n, void **recording, RtError *error);
  RtStatus (*replay)(Device *d, void *recording, RtError *error);
  void (*forget)(Device *d, void *recording);

  /* Makes one of all that a request asks for, to be done again and again while nothing about it but its inputs changes.
   * Between `capture` and `captured` launches, products, convolutions, copies, fills, feeds, fetches, marks, and what
   * goes to the device's own engine of communication are kept and not made; nothing may be waited for or read.  Each
   * must have been made before.  bytes: of all parts that are fed and fetched, each rounded up to DEVICE_PORT_ALIGN;
   * io: the area of inputs and outputs that they are in.  `captured` follows, after an error too: `out` is NULL then,
   * and what was kept is thrown away.  `again` makes the request, with another area, and returns when it is done;
   * `release_capture` may come while it is not, after an error.  All may be NULL, like those above. */
  RtStatus (*capture)(Device *d, uint64_t bytes, const void *io, RtError *error);
  RtStatus (*captured)(Device *d, void **out, RtError *error);
  RtStatus (*again)(Device *d, void *capture, void *io, RtError *error);
  void (*release_capture)(Device *d, void *capture);

  /* What is asked for from here on is of that step.  NULL on devices that have done a call when it returns, like the
   * two below. */
  RtStatus (*mark)(Device *d, uint32_t step, RtError *error);

  /* Times of calls: `stamp` has the device note when it comes here; `times` gives all that it noted, nanoseconds since
   * the first one, once the device has finished, and the next stamp is a first one again. */
  RtStatus (*stamp)(Device *d, RtError *error);
  RtStatus (*times)(Device *d, uint64_t *ns, uint32_t n, RtError *error);

  /* Everything that was asked for is done. */
  RtStatus (*finish)(Device *d, RtError *error);

  /* The first index outside its table that a launch has met of those that are done, and was not told yet: *instr is the
   * launch's.  RT_OK: none.  It waits for nothing, and is asked where the device was waited for.  NULL on devices that
   * have done a call when it returns: there it is the call's error. */
  RtStatus (*looked)(Device *d, uint32_t *instr, RtError *error);
} DeviceOps;

/* Every implementation starts with this. */
struct Device {
  const DeviceOps *ops;
};

/* The rows of devices.def; NULL: there is none of this name. */
const DeviceOps *devices_find(const char *name);

#endif
