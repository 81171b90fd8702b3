/* ir/legal_dot.h - how a kind of device computes a dot or a convolution: by a call of its library, or by a kernel of
 * ours.
 *
 * Input: the einsum, its element type, and the letters known to have extent 1.  Output: for a dot the single batched
 * matrix product that it becomes, and the changes of operands and result before and after it.  This is the only place
 * that decides it: code generation applies it (codegen/rows/work_dot.c, codegen/rows/work_join.c), the cost model
 * prices it (passes/cost/dot.h).
 *
 * The letters of a dot are classified by where they occur: batch (both operands and result), m (first operand and
 * result), n (second operand and result), k (both operands, summed).  Adjacent letters of a class merge if they are
 * contiguous wherever they occur; further m and n letters become batch loops with stride 0 in the other operand.  If
 * strides do not fit, operands are transposed, then the result.  If the library does not multiply the type, f16 and
 * bf16 are first widened to f32; all other types use a kernel of products and sums.
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
  bool library;               /* else a kernel: then only dtype and spec below are set */
  DType dtype;                /* type of the computation; operands and result of another type are cast */
  bool swapped;               /* A is the second operand */
  char spec[3][MAX_RANK + 1]; /* letters of A, B and C (kernel: of the operands and the result), without those that only
                                 one operand has and that are summed first; a different order than the form's means a
                                 copy in that order */
  int n;
  DotGroup groups[DOT_MAX_GROUPS];
  int row, column, depth;           /* the group that is m, n, k; -1 if its extent is 1 */
  int nbatch, batch[DOT_MAX_BATCH]; /* the other groups, major first */
} LegalDot;

/* Sets the form from a spec such as "bm,cm->bc"; no letter has extent 1 yet. */
void op_dot_form(DotForm *f, DType dtype, const char *spec);

/* The legal form of a dot on a device. */
void legal_dot(const DeviceTraits *d, const DotForm *f, LegalDot *out);

/* True if the library multiplies operands and result in place, without copies in another order. */
bool legal_dot_fits(const DeviceTraits *d, const DotForm *f);

/* Number of kernels that bring tensor `t` (operand 0 or 1, result 2) into the form of the library, or back.  For a
 * kernel's operands an upper bound, since some of the work is fused into the product. */
int legal_dot_passes(const DotForm *f, const LegalDot *p, int t);

/* Classes of a convolution's letters: images (image and result), groups (all three), in (image and weights), out
 * (weights and result). */
enum { CONV_IMAGES, CONV_GROUPS, CONV_IN, CONV_OUT, CONV_LETTERS };

typedef struct ConvLetter {
  bool found;
  int dim[3]; /* by role (ir/window.h): its dimension; -1 if there is none */
} ConvLetter;

/* A library's blocks enlarge weights, rarely by more than one part in LEGAL_CONV_ROOM. */
enum { LEGAL_CONV_ROOM = 16 };

/* Several groups with fewer output channels each than this leave most of a product's tile empty. */
enum { LEGAL_CONV_FEW = 4 };

/* Fills `letters`.  True if each class has at most one letter, and every letter is in at least two tensors; letters of
 * extent 1 are ignored. */
bool op_conv_letters(OpKind kind, const char *spec, const bool *one, ConvLetter letters[CONV_LETTERS]);

/* True if the device computes the convolution together with the operations after it, or the gradient of one
 * (conv_transpose, conv_filter).  Requires a float type, at most one letter of each class, and images with channels
 * last.  If the device packs weights into blocks, gradients and convolutions with other weights than the model's must
 * be f32.  Fills `letters`. */
bool op_conv_known(const DeviceTraits *d, OpKind kind, const char *spec, DType dtype, bool of_weights, const bool *one,
                   ConvLetter letters[CONV_LETTERS]);

#endif
