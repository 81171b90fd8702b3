/* base/whole.h - whole numbers that are given in another type: ids as i32, u16 or f32 where i64 is wanted.
 *
 * They are taken when every one of them is exactly a number of the type that is wanted.  Not done: floats in another
 * type of floats, of which a user should know; bool, which is no number. */
#ifndef APC_BASE_WHOLE_H
#define APC_BASE_WHOLE_H

#include "base/tensor.h"

/* May elements of `from` stand for integers of `to`, as far as their types tell?  Also when both are the same. */
bool whole_may_be(DType from, DType to);

/* The element of a tensor as an integer of that type; false where it is none. */
bool whole_number(const Tensor *t, int64_t element, DType to, int64_t *out);

/* The first element that is none; -1: there is no such element. */
int64_t whole_first_other(const Tensor *t, DType to);

/* The tensor in that type, all of whose elements are such integers; false without memory. */
bool whole_convert(const Tensor *t, DType to, Tensor *out);

#endif
