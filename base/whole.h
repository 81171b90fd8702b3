/* base/whole.h - integers that are given in another type: ids as i32, u16 or f32 where i64 is wanted.
 *
 * They are accepted if every one is exactly a number of the wanted type.  Not converted: floats to another float
 * type, which a user should know about, and bool, which is not a number. */
#ifndef APC_BASE_WHOLE_H
#define APC_BASE_WHOLE_H

#include "base/tensor.h"

/* True if elements of `from` may stand for integers of `to`, judging by the types alone; also if both are the same. */
bool whole_may_be(DType from, DType to);

/* Reads the element as an integer of type `to`; false if it is none. */
bool whole_number(const Tensor *t, int64_t element, DType to, int64_t *out);

/* The first element that is not such an integer; -1 if there is none. */
int64_t whole_first_other(const Tensor *t, DType to);

/* Converts a tensor whose elements are all such integers; false without memory. */
bool whole_convert(const Tensor *t, DType to, Tensor *out);

#endif
