/* apc_operator.h - kernels of operators that apc does not know, in C or C++.
 *
 *   #include <apc_operator.h>
 *
 *   int my_Scale(const ApcOpCall *call) {               // the operator my.Scale, one operand and one result
 *     const float *x = call->inputs[0].data;
 *     float *y = call->outputs[0].data;
 *     const float by = (float)apc_op_number(call, "by", 1);
 *     for (int64_t i = 0; i < call->outputs[0].elements; i++) y[i] = by * x[i];
 *     return 0;
 *   }
 *
 *   cc -O3 -march=native -shared -fPIC my_scale.c -o my_scale.so
 *   apc model.onnx --op 'my.Scale: x.. -> x..' --op-library my_scale.so
 *
 * A library has a function for each of its operators.  It becomes part of every program compiled with it.  Programs
 * call a function on the part of the tensors that a rank holds, as the operator's rule allows
 * (docs/guide/operators.md); every rank is a process of its own.  A rank calls one function at a time, from one thread.
 * The function must write every element of the outputs, and the same ones whenever the inputs are the same; it must not
 * keep pointers.
 *
 * The version of this header becomes part of the library.  Later versions of apc_operator.h only add fields at the ends
 * of the structs.
 */
#ifndef APC_OPERATOR_H
#define APC_OPERATOR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define APC_OPERATOR_VERSION 1

/* Element types; bool is one byte, 0 or 1; of types below 8 bits an element is a byte, of which the low bits count. */
typedef enum ApcOpType {
  APC_OP_F32,
  APC_OP_F64,
  APC_OP_F16,
  APC_OP_BF16,
  APC_OP_I8,
  APC_OP_I16,
  APC_OP_I32,
  APC_OP_I64,
  APC_OP_U8,
  APC_OP_U16,
  APC_OP_U32,
  APC_OP_U64,
  APC_OP_BOOL,
  APC_OP_F8E4M3FN,
  APC_OP_F8E4M3FNUZ,
  APC_OP_F8E5M2,
  APC_OP_F8E5M2FNUZ,
  APC_OP_F8E8M0,
  APC_OP_F4E2M1,
  APC_OP_I4,
  APC_OP_U4,
  APC_OP_I2,
  APC_OP_U2
} ApcOpType;

/* A dense row-major tensor.  Extents may be 0. */
typedef struct ApcOpTensor {
  void *data; /* of inputs only to be read */
  ApcOpType type;
  int32_t rank;
  const int64_t *extents; /* of this rank's part */
  int64_t elements;       /* their product */
} ApcOpTensor;

typedef struct ApcOpCall {
  int32_t version; /* of the caller */
  int32_t ninputs, noutputs;
  int32_t threads; /* that `parallel` uses */
  const ApcOpTensor *inputs, *outputs;
  const char *attributes; /* of the node: a JSON object */
  void *scratch;          /* memory until the function returns, aligned to 64; as many bytes as the rule says */
  int64_t scratch_bytes;
  /* Calls body(0, data) ... body(n - 1, data), on several threads at once; returns when all have returned.  A function
   * that does not use it runs on one thread. */
  void (*parallel)(int64_t n, void (*body)(int64_t i, void *data), void *data);
  char *error; /* for apc_op_fail */
  size_t error_bytes;
} ApcOpCall;

/* Returns 0, or the result of apc_op_fail, which ends the program with that message. */
typedef int ApcOpFunction(const ApcOpCall *call);

/* Sets the message; returns 1. */
__attribute__((unused, format(printf, 2, 3))) static int apc_op_fail(const ApcOpCall *call, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(call->error, call->error_bytes, format, args);
  va_end(args);
  return 1;
}

/* The text after `"name":` in the attributes; NULL if the node has no such attribute.  The JSON has no spaces outside
 * of texts. */
__attribute__((unused)) static const char *apc_op_attribute(const ApcOpCall *call, const char *name) {
  const size_t n = strlen(name);
  int depth = 0, key = 1;
  for (const char *s = call->attributes; *s;) {
    if (*s == '"') {
      const char *begin = ++s;
      while (*s && *s != '"') s += *s == '\\' && s[1] ? 2 : 1;
      if (key && depth == 1 && (size_t)(s - begin) == n && memcmp(begin, name, n) == 0 && s[0] && s[1] == ':')
        return s + 2;
      if (*s) s++;
      continue;
    }
    depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
    if (depth == 1 && (*s == ',' || *s == '{')) key = 1;
    if (*s == ':') key = 0;
    s++;
  }
  return NULL;
}

/* A number among the attributes; `otherwise` if there is none of that name, or a text that is no number. */
__attribute__((unused)) static double apc_op_number(const ApcOpCall *call, const char *name, double otherwise) {
  const char *s = apc_op_attribute(call, name);
  const char *from = s && *s == '"' ? s + 1 : s; /* "inf", "-inf" and "nan" are texts */
  char *end;
  double v = s ? strtod(from, &end) : 0;
  return s && end != from ? v : otherwise;
}

/* The library's version of this header; apc refuses libraries without it. */
extern const int apc_operator_version __attribute__((weak, visibility("default")));
const int apc_operator_version = APC_OPERATOR_VERSION;

#ifdef __cplusplus
}
#endif

#endif
