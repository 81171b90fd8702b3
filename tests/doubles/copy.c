/* tests/doubles/copy.c - see copy.h.
 *
 * Host memory is read and written when the copy is served, not when it is requested, pinned or not.  The host memory
 * that a copy will write becomes 0xff at the request, unless an earlier request reads it: a host that does not wait for
 * the copy finds 0xff and not the values of the previous run.  Fills of pinned memory leave its contents until then:
 * they are words that the host polls. */
#include "tests/doubles/copy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/memory.h"
#include "tests/doubles/queue.h"

typedef struct CopyWork {
  DoubleWork work;
  Copy copy;
} CopyWork;

static uint64_t span(const Copy *c, const CopySide *s) {
  return (c->planes - 1) * s->plane + (c->rows - 1) * s->row + c->bytes;
}

/* Pinned memory has known bounds; other memory of the host cannot be filled. */
static bool check_host(const Copy *c, const CopySide *s) {
  const MemoryPlace *p = memory_place(s->at);
  if (c->fills && !p) double_violation("%s: 0x%llx is not pinned", c->what, (unsigned long long)s->at);
  else if (memory_device_of(s->at) >= 0)
    double_violation("%s: 0x%llx of a device is used as memory of the host", c->what, (unsigned long long)s->at);
  else if (p && s->at < p->at + p->bytes && span(c, s) > p->at + p->bytes - s->at)
    double_violation("%s: %llu bytes at byte %llu of %llu of pinned memory", c->what, (unsigned long long)span(c, s),
                     (unsigned long long)(s->at - p->at), (unsigned long long)p->bytes);
  else return true;
  return false;
}

static bool check_side(const Copy *c, const CopySide *s) {
  return s->host ? check_host(c, s) : double_at(c->device, s->at, span(c, s), c->what) != NULL;
}

static bool check(const Copy *c) { return check_side(c, &c->to) && (c->fills || check_side(c, &c->from)); }

static void fill_row(char *to, const Copy *c) {
  for (size_t i = 0; i < c->bytes; i += (size_t)c->unit) memcpy(to + i, &c->value, (size_t)c->unit);
}

static bool move_row(const Copy *c, uint64_t to, uint64_t from) {
  uint32_t word[1];
  if (c->fills && c->to.host) { /* the host sees a whole word or nothing */
    if (c->bytes != sizeof *word) double_violation("%s: not one word of the host's memory", c->what);
    fill_row((char *)word, &(Copy){.bytes = sizeof *word, .unit = c->unit, .value = c->value});
    atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)to, *word, memory_order_relaxed);
    return true;
  }
  char *device_to = c->to.host ? NULL : (char *)(uintptr_t)(to + MEMORY_SHIFT);
  const char *device_from = c->fills || c->from.host ? NULL : (const char *)(uintptr_t)(from + MEMORY_SHIFT);
  if (c->fills) fill_row(device_to, c);
  else if (device_to && device_from) memmove(device_to, device_from, c->bytes);
  else if (device_to) return memory_read_host(device_to, (const void *)(uintptr_t)from, c->bytes);
  else return memory_write_host((void *)(uintptr_t)to, device_from, c->bytes);
  return true;
}

static bool copy_run(const DoubleWork *work, void *state) {
  const Copy *c = &((const CopyWork *)work)->copy;
  bool ok = check(c);
  (void)state;
  for (size_t p = 0; ok && p < c->planes; p++)
    for (size_t r = 0; ok && r < c->rows; r++)
      ok = move_row(c, c->to.at + p * c->to.plane + r * c->to.row, c->from.at + p * c->from.plane + r * c->from.row);
  if (!ok) double_violation("%s: its memory is gone when it is done", c->what);
  if (!ok) double_device_error(c->device, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", c->what);
  return true;
}

static void *copy_launch(const DoubleWork *work) {
  const Copy *c = &((const CopyWork *)work)->copy;
  if (!c->to.host || c->fills || queue_uses(c->to.at, span(c, &c->to), true)) return NULL;
  char *row = malloc(c->bytes);
  memset(row, 0xff, c->bytes);
  for (size_t p = 0; p < c->planes; p++)
    for (size_t r = 0; r < c->rows; r++)
      memory_write_host((void *)(uintptr_t)(c->to.at + p * c->to.plane + r * c->to.row), row, c->bytes);
  free(row);
  return NULL;
}

static void visit_side(const Copy *c, const CopySide *s, bool writes, DoubleVisit *visit, void *context) {
  for (size_t p = 0; p < c->planes; p++)
    for (size_t r = 0; r < c->rows; r++) visit(context, s->at + p * s->plane + r * s->row, c->bytes, writes);
}

static void copy_ranges(const DoubleWork *work, DoubleVisit *visit, void *context) {
  const Copy *c = &((const CopyWork *)work)->copy;
  if (!c->fills) visit_side(c, &c->from, false, visit, context);
  visit_side(c, &c->to, true, visit, context);
}

static void copy_drop(DoubleWork *work) { free(work); }

static const DoubleWorkKind copy_kind = {copy_launch, copy_run, copy_drop, NULL, copy_ranges, false};

CUresult copy_submit(CUstream s, const Copy *c) {
  CUresult error = queue_error(c->device);
  if (error) return error;
  if (!c->bytes || !c->rows || !c->planes) return CUDA_SUCCESS;
  if (c->fills && (c->to.at % (uint64_t)c->unit || c->to.row % (size_t)c->unit)) return CUDA_ERROR_INVALID_VALUE;
  if ((c->rows > 1 && (c->to.row < c->bytes || (!c->fills && c->from.row < c->bytes))) || !check(c))
    return CUDA_ERROR_INVALID_VALUE;
  CopyWork *w = calloc(1, sizeof *w);
  *w = (CopyWork){{&copy_kind, c->what, c->device, 1, 0}, *c};
  return double_submit(s, &w->work);
}
