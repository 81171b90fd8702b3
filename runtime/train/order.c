/* runtime/train/order.c - see order.h.
 *
 * The order of an epoch is a permutation of [0, rows) that is computed, not stored: a Feistel network of four rounds
 * over the smallest even number of bits that holds `rows`, iterated until the number is below it (Black and Rogaway,
 * "Ciphers with Arbitrary Finite Domains", 2002; the range is at most 4 times `rows`, so few iterations are needed).
 */
#include "runtime/train/order.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

static const uint64_t whole = UINT64_C(1) << 32; /* the sum of all weights, about */
static const char *const last_names[] = LAST_BATCH_NAMES;

static uint32_t mix(uint64_t seed, uint64_t pass, uint32_t half, uint32_t round) {
  uint32_t out[4];
  random_block(seed, (pass << 2) + round, half, out);
  return out[0];
}

/* Returns the row at position `at` of a pass. */
static int64_t shuffled(uint64_t seed, uint64_t pass, uint64_t at, uint64_t rows) {
  int half = 1;
  while (half < 31 && (1ull << (2 * half)) < rows) half++;
  const uint32_t mask = (uint32_t)((1ull << half) - 1);
  do {
    uint32_t left = (uint32_t)(at >> half) & mask, right = (uint32_t)at & mask;
    for (uint32_t round = 0; round < 4; round++) {
      uint32_t next = left ^ (mix(seed, pass, right, round) & mask);
      left = right, right = next;
    }
    at = (uint64_t)left << half | right;
  } while (at >= rows);
  return (int64_t)at;
}

void draw_weigh(Order *o, const double *weights) {
  double sum = 0;
  for (int i = 0; i < o->n; i++) sum += weights[i];
  for (int i = 0; i < o->n; i++) {
    o->sources[i].weight = (uint64_t)(weights[i] / sum * (double)whole + 0.5);
    if (!o->sources[i].weight) o->sources[i].weight = 1;
  }
}

/* Returns the source of the next row: the first of those with the largest distance from its share. */
static int next_source(const Order *o) {
  int64_t n = 0;
  uint64_t sum = 0;
  int best = 0;
  __int128 most = 0;
  for (int i = 0; i < o->n; i++) n += o->sources[i].taken, sum += o->sources[i].weight;
  for (int i = 0; i < o->n; i++) {
    const OrderSource *s = &o->sources[i];
    const __int128 behind = (__int128)s->weight * (n > 1 ? n : 1) - (__int128)s->taken * (__int128)sum;
    if (i == 0 || behind > most) best = i, most = behind;
  }
  return best;
}

static void pass_row(OrderSource *s) {
  if (s->at >= s->rows) s->epoch++, s->at = 0;
  s->at++, s->taken++;
}

static RowPlace next_row(Order *o) {
  const int i = o->n > 1 ? next_source(o) : 0;
  OrderSource *s = &o->sources[i];
  pass_row(s);
  const int64_t at = s->at - 1;
  const uint64_t seed = o->seed + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15);
  const int64_t row = o->shuffled ? shuffled(seed, (uint64_t)s->epoch, (uint64_t)at, (uint64_t)s->rows) : at;
  return (RowPlace){i, row};
}

void draw_next(Order *o, RowPlace *out) {
  OrderSource *s = &o->sources[0];
  if (o->last == LAST_DROP && s->at + o->batch > s->rows) s->epoch++, s->at = 0;
  for (int64_t k = 0; k < o->batch; k++)
    out[k] = o->last == LAST_PAD && k > 0 && s->at >= s->rows ? (RowPlace){0, -1} : next_row(o);
  o->given += o->batch;
}

int64_t draw_steps(const Order *o) {
  const int64_t rows = o->sources[0].rows;
  return o->last == LAST_DROP ? rows / o->batch : (rows + o->batch - 1) / o->batch;
}

bool draw_skip(Order *o, int64_t steps) {
  OrderSource *s = &o->sources[0];
  o->given += steps * o->batch;
  if (o->n == 1 && o->last == LAST_WRAP) {
    const int64_t n = steps * o->batch;
    s->epoch = n / s->rows, s->at = n % s->rows, s->taken = n;
  } else if (o->n == 1) {
    s->epoch = steps / draw_steps(o), s->at = steps % draw_steps(o) * o->batch, s->taken = steps * o->batch;
    if (s->epoch && !s->at) s->epoch--, s->at = s->rows; /* as draw_next leaves it */
  } else {
    if (steps > ORDER_WALK / o->n / o->batch) return false;
    for (int64_t i = steps * o->batch; i-- > 0;) pass_row(&o->sources[next_source(o)]);
  }
  return true;
}

/* ---- as a text */

void draw_write(const Order *o, char *text, size_t size) {
  char shuffle[24] = "none";
  if (o->shuffled) snprintf(shuffle, sizeof shuffle, "%" PRIu64, o->seed);
  int n = snprintf(text, size, "given %" PRId64 " batch %" PRId64 " shuffle %s last %s", o->given, o->batch, shuffle,
                   last_names[o->last]);
  for (int i = 0; i < o->n && (size_t)n < size; i++) {
    const OrderSource *s = &o->sources[i];
    n += snprintf(text + n, size - (size_t)n,
                  ", rows %" PRId64 " weight %" PRIu64 " epoch %" PRId64 " at %" PRId64 " taken %" PRId64, s->rows,
                  s->weight, s->epoch, s->at, s->taken);
  }
}

static bool is_count(int64_t n) { return n >= 0 && n <= ORDER_MOST; }

/* Reads the sources after the head; false if these are no sources. */
static bool read_sources(Order *o, const char *text) {
  o->n = 0;
  for (const char *c = text; (c = strchr(c, ',')); c++) {
    OrderSource *s = &o->sources[o->n];
    if (o->n == ORDER_SOURCES ||
        sscanf(c, ", rows %" SCNd64 " weight %" SCNu64 " epoch %" SCNd64 " at %" SCNd64 " taken %" SCNd64, &s->rows,
               &s->weight, &s->epoch, &s->at, &s->taken) != 5)
      return false;
    if (s->rows < 1 || !is_count(s->epoch) || s->at < 0 || s->at > s->rows || !is_count(s->taken)) return false;
    o->n++;
  }
  return o->n > 0;
}

static bool read_order(const char *text, Order *o) {
  char shuffle[24], last[8];
  *o = (Order){.n = 0};
  if (sscanf(text, "given %" SCNd64 " batch %" SCNd64 " shuffle %23s last %7[a-z]", &o->given, &o->batch, shuffle,
             last) != 4 ||
      !is_count(o->given) || o->batch < 1)
    return false;
  o->shuffled = strcmp(shuffle, "none") != 0;
  if (o->shuffled && sscanf(shuffle, "%" SCNu64, &o->seed) != 1) return false;
  for (int i = 0; i < 3; i++)
    if (strcmp(last, last_names[i]) == 0) o->last = (LastBatch)i;
  return read_sources(o, text);
}

static void add(char *text, size_t size, const char *format, ...) {
  const size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  if (n < size) vsnprintf(text + n, size - n, format, args);
  va_end(args);
}

/* Says how the order of the checkpoint differs from that of this run. */
static void compare(const Order *before, const Order *o, char *other, size_t size) {
  if (before->batch != o->batch) add(other, size, "; batches of %" PRId64, before->batch);
  if (before->shuffled != o->shuffled || before->seed != o->seed) {
    if (before->shuffled) add(other, size, "; --shuffle %" PRIu64, before->seed);
    else add(other, size, "; --shuffle none");
  }
  if (before->last != o->last) add(other, size, "; --last-batch %s", last_names[before->last]);
  if (before->n != o->n) add(other, size, "; %d source%s", before->n, before->n == 1 ? "" : "s");
}

bool draw_read(Order *o, const char *text, char *other, size_t size) {
  Order before;
  bool weighed = true;
  if (size) *other = 0;
  if (!read_order(text, &before)) return false;
  compare(&before, o, other, size);
  for (int i = 0; i < o->n && before.n == o->n; i++)
    weighed = weighed && before.sources[i].weight == o->sources[i].weight;
  if (!weighed) add(other, size, "; other weights");
  o->given = before.given;
  for (int i = 0; i < o->n && before.n == o->n; i++) {
    OrderSource *s = &o->sources[i];
    const OrderSource *b = &before.sources[i];
    s->epoch = b->epoch, s->at = b->at < s->rows ? b->at : s->rows;
    s->taken = weighed ? b->taken : 0;
  }
  return true;
}
