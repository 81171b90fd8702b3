/* ir/legal_dot.h - what a kind of device does for a dot or a convolution: a call of its library, or a kernel of ours.
 *
 * In: the einsum, the type of its elements, and which of its letters are known to have extent 1.  Out: for a dot the
 * one batched matrix product that it becomes, with what has to be done to operands and result before and behind. Nobody
 * else decides this: code generation writes it down (codegen/rows/work_dot.c, codegen/rows/work_join.c), the cost
 * model prices it (passes/cost/dot.h).
 *
 * The letters of a dot fall into classes by where they occur: batch (both operands and result), m (first operand and
 * result), n (second operand and result), k (both operands, summed).  Adjacent letters of a class merge when they are
 * contiguous wherever they occur; further m and n letters become batch loops with stride 0 in the other operand.  When
 * the strides do not fit, operands, then the result, are transposed.  A type that the library does not multiply: f16
 * and bf16 are widened to f32 first, all others become a kernel of products and sums.
 */
#ifndef APC_IR_LEGAL_DOT_H
#define APC_IR_LEGAL_DOT_H

#include "ir/device.h"
#include "ir/ir.h"

enum { DOT_MAX_BATCH = 4, DOT_MAX_GROUPS = 2 * MAX_RANK };

typedef enum DotClass { DOT_BATCH, DOT_M, DOT_N, DOT_K } DotClass;

typedef struct DotForm {
  DType dtype;
  char spec[3][MAX_RANK + 1]; /* letters of the operands and of the result */
  bool one[128];              /* by letter: its extent is known to be 1 */
} DotForm;

/* Merged letters, the major one first. */
typedef struct DotGroup {
  DotClass class;
  char letters[MAX_RANK + 1];
} DotGroup;

typedef struct LegalDot {
  bool library;               /* else a kernel; then only dtype and spec below are set */
  DType dtype;                /* in which it is computed: operands and result of another are cast */
  bool swapped;               /* A is the second operand */
  char spec[3][MAX_RANK + 1]; /* letters of A, B and C (kernel: of the operands and the result), those gone that only
                                 one operand has and that are summed first; they differ in order from the form's where a
                                 copy in that order is made */
  int n;
  DotGroup groups[DOT_MAX_GROUPS];
  int row, column, depth;           /* the group that is m, n, k; -1: extent 1 */
  int nbatch, batch[DOT_MAX_BATCH]; /* the others, major first */
} LegalDot;

/* The letters of "bm,cm->bc". */
void op_dot_form(DotForm *f, DType dtype, const char *spec);

void legal_dot(const DeviceTraits *d, const DotForm *f, LegalDot *out);

/* Does the library multiply operands and result where they lie, without copies in another order? */
bool legal_dot_fits(const DeviceTraits *d, const DotForm *f);

/* How many kernels make tensor `t` (operand 0 or 1, result 2) what the library takes, or what was asked for.  Of a
 * kernel's operands: at most so many, since some of that fuses with what multiplies. */
int legal_dot_passes(const DotForm *f, const LegalDot *p, int t);

/* The same letters with classes of a convolution's: of image and result (images), of all three (groups), of image and
 * weights (in), of weights and result (out). */
enum { CONV_IMAGES, CONV_GROUPS, CONV_IN, CONV_OUT, CONV_LETTERS };

typedef struct ConvLetter {
  bool found;
  int dim[3]; /* by role (ir/window.h): its dimension, -1 where it has none */
} ConvLetter;

/* A library's blocks make weights larger, rarely by more than one part in so many. */
enum { LEGAL_CONV_ROOM = 16 };

/* Several groups with fewer channels of the result each than this leave most of a tile of a product empty. */
enum { LEGAL_CONV_FEW = 4 };

/* Is there at most one letter of each class, and none that only one tensor has?  Letters of extent 1 are left out. */
bool op_conv_letters(OpKind kind, const char *spec, const bool *one, ConvLetter letters[CONV_LETTERS]);

/* Is it a convolution that the device does with what follows, or a gradient of one (conv_transpose, conv_filter)?  In a
 * float type, with at most one letter of each class, images that hold their channels last.  Where it puts weights into
 * blocks, gradients and convolutions with other weights than the model's are f32.  Fills `letters`. */
bool op_conv_known(const DeviceTraits *d, OpKind kind, const char *spec, DType dtype, bool of_weights, const bool *one,
                   ConvLetter letters[CONV_LETTERS]);

#endif
