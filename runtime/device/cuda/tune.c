/* runtime/device/cuda/tune.c - times several ways to compute the same on the GPU.
 *
 * In: operands, and a function that makes the call in way 0, 1, ...  Out: the fastest way.
 *
 * Operands are random numbers in memory of their own, so that the call's data are not touched; the GPU's cache is
 * overwritten before every call.  Each way is called once to load its code, then timed by events.  In each round every
 * way is timed once; a way whose median is more than GIVEN_UP times the best one is given up.  It ends after ROUNDS
 * rounds, or when the calls have taken MOST_MS of the GPU's time.  The library's recommendation stays unless another
 * way is clearly faster, so that noise changes nothing.
 *
 * The kernels and the clocks of the GPU are taken as they are: other programs on the GPU disturb the times. */
#include "runtime/device/cuda/tune.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7, ALIGN = 256, RANDOM = 1 << 20, KEEP_FREE = 64 << 20 };

static const float MOST_MS = 30, GIVEN_UP = 1.5f, FASTER = 0.98f;
static const char *const purpose = "timing kernels";

/* Kept while the ways of a request are timed. */
struct GpuTuner {
  CUevent begin, called, ended; /* before the cache is overwritten, before the call, after it */
  CUdeviceptr area, cache;
  uint64_t area_bytes, cache_bytes;
};

/* ---- memory */

/* True if so much memory is free besides what the program may still need. */
static RtStatus has_room(CudaDevice *d, uint64_t bytes, bool *fits, RtError *error) {
  uint64_t room = 0;
  RtStatus status = gpu_room(&d->base, &room, error);
  *fits = !status && room >= KEEP_FREE && bytes <= room - KEEP_FREE;
  return status;
}

/* Makes the tuner if it does not exist yet, and there is room for what it overwrites the cache with. */
static RtStatus open_tuner(CudaDevice *d, bool *fits, RtError *error) {
  int l2 = 0;
  *fits = d->tuner != NULL;
  if (d->tuner) return RT_OK;
  RtStatus status = GPU_CALL(d, device_attribute, purpose, error, &l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, d->device);
  uint64_t bytes = 2 * (uint64_t)(l2 > 0 ? l2 : 1 << 20);
  if (!status) status = has_room(d, bytes, fits, error);
  if (status || !*fits) return status;
  GpuTuner *t = d->tuner = calloc(1, sizeof *t);
  if (!t) return rt_error(error, RT_FAILED, "out of memory");
  t->cache_bytes = bytes;
  status = GPU_CALL(d, event_create, purpose, error, &t->begin, CU_EVENT_DEFAULT);
  if (!status) status = GPU_CALL(d, event_create, purpose, error, &t->called, CU_EVENT_DEFAULT);
  if (!status) status = GPU_CALL(d, event_create, purpose, error, &t->ended, CU_EVENT_DEFAULT);
  return status ? status : GPU_CALL(d, memory_alloc, purpose, error, &t->cache, t->cache_bytes);
}

RtStatus gpu_tune_end(CudaDevice *d, RtError *error) {
  GpuTuner *t = d->tuner;
  if (!t) return RT_OK;
  RtStatus status = gpu_wait_queue(d, d->compute, purpose, error);
  const CUevent events[] = {t->begin, t->called, t->ended};
  for (int i = 0; i < 3; i++)
    if (events[i]) GPU_LATER(d, event_destroy, purpose, events[i]);
  if (t->area) GPU_LATER(d, memory_free, purpose, t->area);
  if (t->cache) GPU_LATER(d, memory_free, purpose, t->cache);
  free(t);
  d->tuner = NULL;
  return status;
}

/* Makes the area at least so large; *fits is false if too little memory is free. */
static RtStatus reserve(CudaDevice *d, uint64_t bytes, bool *fits, RtError *error) {
  GpuTuner *t = d->tuner;
  *fits = bytes <= t->area_bytes;
  if (*fits) return RT_OK;
  RtStatus status = gpu_wait_queue(d, d->compute, purpose, error);
  if (!status && t->area) status = GPU_CALL(d, memory_free, purpose, error, t->area);
  t->area = 0, t->area_bytes = 0;
  if (!status) status = has_room(d, bytes, fits, error);
  if (status || !*fits) return status;
  status = GPU_CALL(d, memory_alloc, purpose, error, &t->area, bytes);
  if (!status) t->area_bytes = bytes;
  return status;
}

/* ---- random numbers */

/* Returns a number from -1 to 1, away from 0. */
static double random_number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  double v = (double)(*state >> 40) / (1 << 24);
  return *state >> 39 & 1 ? 0.25 + 0.75 * v : -0.25 - 0.75 * v;
}

/* Fills an operand with one block of random numbers after the other. */
static RtStatus fill(CudaDevice *d, const TuneOperand *o, RtError *error) {
  size_t size = dtype_bytes(o->dtype), n = o->bytes < RANDOM ? o->bytes : RANDOM;
  unsigned char *block = malloc(RANDOM);
  if (!block) return rt_error(error, RT_FAILED, "out of memory");
  uint64_t state = 36;
  for (size_t i = 0; i + size <= n; i += size) dtype_store_f(o->dtype, block + i, random_number(&state));
  RtStatus status = gpu_upload(&d->base, o->at, block, n / size * size, error);
  free(block);
  for (uint64_t done = n, more; done < o->bytes && !status; done += more) {
    more = done < o->bytes - done ? done : o->bytes - done;
    status =
        GPU_CALL(d, copy_on, purpose, error, gpu_address(o->at) + done, gpu_address(o->at), (size_t)more, d->compute);
  }
  return status;
}

RtStatus gpu_tune_begin(CudaDevice *d, TuneOperand *operands, int n, bool *fits, RtError *error) {
  uint64_t bytes = 0, at = 0;
  RtStatus status = open_tuner(d, fits, error);
  for (int i = 0; i < n; i++) bytes += (operands[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (!status && *fits) status = reserve(d, bytes, fits, error);
  for (int i = 0; i < n && !status && *fits; i++) {
    operands[i].at = (char *)(uintptr_t)d->tuner->area + at;
    at += (operands[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    status = fill(d, &operands[i], error);
  }
  return status;
}

/* ---- times */

/* The times of a way. */
typedef struct Times {
  float ms[ROUNDS]; /* ascending */
  int n;
  bool dropped;
} Times;

static float median(const Times *t) { return t->ms[t->n / 2]; }

static void add_time(Times *t, float ms) {
  int i = t->n++;
  for (; i > 0 && t->ms[i - 1] > ms; i--) t->ms[i] = t->ms[i - 1];
  t->ms[i] = ms;
}

/* Calls a way once with a cold cache; *spent grows by the GPU's time for all of it. */
static RtStatus time_once(CudaDevice *d, TuneCall *call, void *context, int way, Times *times, float *spent,
                          RtError *error) {
  const GpuTuner *t = d->tuner;
  float ms = 0, all = 0;
  bool usable = true;
  RtStatus status = GPU_CALL(d, event_record, purpose, error, t->begin, d->compute);
  if (!status) status = GPU_CALL(d, set_8, purpose, error, t->cache, 0, (size_t)t->cache_bytes, d->compute);
  if (!status) status = GPU_CALL(d, event_record, purpose, error, t->called, d->compute);
  if (!status) status = call(d, context, way, &usable, error);
  if (!status) status = GPU_CALL(d, event_record, purpose, error, t->ended, d->compute);
  if (!status) status = gpu_wait_event(d, t->ended, purpose, error);
  if (!status) status = GPU_CALL(d, event_elapsed, purpose, error, &ms, t->called, t->ended);
  if (!status) status = GPU_CALL(d, event_elapsed, purpose, error, &all, t->begin, t->ended);
  times->dropped |= !usable;
  if (!status && usable) add_time(times, ms);
  *spent += all;
  return status;
}

static int best_of(const Times *times, int n) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if (!times[i].dropped && times[i].n && (best < 0 || median(&times[i]) < median(&times[best]))) best = i;
  return best;
}

static void give_up(Times *times, int n) {
  int best = best_of(times, n);
  for (int i = 0; i < n && best >= 0; i++)
    if (times[i].n && median(&times[i]) > GIVEN_UP * median(&times[best])) times[i].dropped = true;
}

RtStatus gpu_tune_time(CudaDevice *d, int n, TuneCall *call, void *context, TuneResult *out, RtError *error) {
  Times times[TUNE_MOST] = {{{0}, 0, false}};
  float spent = 0;
  RtStatus status = RT_OK;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < n && !status && (spent < MOST_MS || best_of(times, n) < 0); i++) {
      Times first = {{0}, 0, false};
      if (times[i].dropped) continue;
      if (round == 0) status = time_once(d, call, context, i, &first, &spent, error); /* loads its code */
      times[i].dropped |= first.dropped;
      if (!status && !times[i].dropped) status = time_once(d, call, context, i, &times[i], &spent, error);
      give_up(times, n);
    }
  int best = best_of(times, n);
  if (best > 0 && times[0].n && median(&times[best]) >= FASTER * median(&times[0])) best = 0;
  *out = (TuneResult){best, best < 0 ? 0 : 1e3f * median(&times[best]), times[0].n ? 1e3f * median(&times[0]) : 0};
  return status;
}

/* ---- the table */

RtStatus gpu_tune_keep(CudaDevice *d, const char *key, const char *name, const TuneResult *r, RtError *error) {
  char choice[TUNING_CHOICE];
  int n = snprintf(choice, sizeof choice, "%s, %.1f us, ", name, (double)r->us);
  if (r->first_us > 0) snprintf(choice + n, sizeof choice - (size_t)n, "recommended %.1f us", (double)r->first_us);
  else snprintf(choice + n, sizeof choice - (size_t)n, "the recommended way was refused");
  return tuning_add(d->options.tuning, key, choice) ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

RtStatus gpu_tune_bad(const CudaDevice *d, const char *key, const char *why, RtError *error) {
  return rt_error(error, RT_BAD_INPUT, "--tune %s: '%s': %s; remove the file to measure again", d->options.tuning->path,
                  key, why);
}

void gpu_tuned_for(const Device *device, char text[TUNING_OF]) {
  const CudaDevice *d = (const CudaDevice *)device;
  snprintf(text, TUNING_OF, "%s (%s), driver for CUDA %d, cuBLASLt %zu, cuDNN %zu", d->name, d->arch, d->driver_version,
           d->products_of ? d->blas.version() : 0, d->convs_of ? d->dnn.version() : 0);
}

RtStatus gpu_tune(Device *device, const DeviceCall *c, RtError *error) {
  if (c->kind == PI_gemm) return gpu_gemm_tune(device, c, error);
  return c->kind == PI_conv ? gpu_conv_tune(device, c, error) : RT_OK;
}

RtStatus gpu_tuned(Device *device, RtError *error) {
  CudaDevice *d = (CudaDevice *)device;
  RtStatus status = gpu_tune_end(d, error);
  if (!status) status = gpu_products_choose(d, error);
  return status ? status : gpu_convs_choose(d, error);
}
