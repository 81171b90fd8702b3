/* runtime/train/order.h - the order in which steps take the rows of training data.
 *
 * A data set has one source of rows, or a mixture of several with weights.  A source gives all its rows, then all
 * again: in the order of its files or, shuffled, in another order in each epoch.  Row number n of a mixture comes from
 * the source that lacks the most of its share of the first n rows, as in Megatron's blends (build_blending_indices).
 *
 * The place in this order is a few numbers per source.  It is part of a checkpoint, as a text, so a resumed run takes
 * the rows that it would have taken, with any number of ranks.
 */
#ifndef APC_RUNTIME_TRAIN_ORDER_H
#define APC_RUNTIME_TRAIN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rest of an epoch, if it is no whole batch: filled from the next epoch, left out, or filled with rows that count
 * nothing. */
typedef enum LastBatch { LAST_WRAP, LAST_DROP, LAST_PAD } LastBatch;
#define LAST_BATCH_NAMES \
  { "wrap", "drop", "pad" }

enum { ORDER_SOURCES = 64 };
/* No count of rows or epochs is above it, so that the sum of those of all sources is a number. */
#define ORDER_MOST (INT64_C(1) << 56)

typedef struct OrderSource {
  int64_t rows;
  uint64_t weight;   /* its share of ORDER_WHOLE */
  int64_t epoch, at; /* the next row: earlier epochs, and rows taken in this one */
  int64_t taken;     /* rows taken since the weights are these */
} OrderSource;

typedef struct Order {
  bool shuffled;
  uint64_t seed;
  LastBatch last;
  int64_t batch; /* rows of a step */
  int64_t given; /* rows of all earlier steps */
  int n;
  OrderSource sources[ORDER_SOURCES];
} Order;

/* A row of a step. */
typedef struct RowPlace {
  int source;
  int64_t row; /* -1: padding */
} RowPlace;

/* Sets the weights of all sources from numbers that are positive. */
void draw_weigh(Order *o, const double *weights);
/* Gives the rows of the next step, o->batch of them, and advances. */
void draw_next(Order *o, RowPlace *out);
/* Advances by that many steps, from the beginning; their rows are at most ORDER_MOST.  A mixture is walked through if
 * rows times sources are at most ORDER_WALK, which takes seconds.  False: they are more, and only `given` has advanced.
 */
bool draw_skip(Order *o, int64_t steps);
#define ORDER_WALK (INT64_C(1) << 30)

/* Returns the steps of an epoch of the only source. */
int64_t draw_steps(const Order *o);

/* The place as a text, and back: `o` has the order of this run, at its beginning.  *other: differences from the order
 * of the text, each with "; " before it, or "".  False: it is no such text; then `o` is as before. */
void draw_write(const Order *o, char *text, size_t size);
bool draw_read(Order *o, const char *text, char *other, size_t size);
enum { ORDER_TEXT = 120 + 120 * ORDER_SOURCES };

#endif
