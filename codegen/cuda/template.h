/* codegen/cuda/template.h - the CUDA kernel of an operation that is no row program, being printed. */
#ifndef APC_CODEGEN_CUDA_TEMPLATE_H
#define APC_CODEGEN_CUDA_TEMPLATE_H

#include "codegen/cuda/kernels.h"

typedef struct CudaTemplate {
  Module *m;
  const Func *f;
  const UnitList *units;
  const Unit *u;
  const Op *op; /* without what joined it */
  Text body;    /* statements of the kernel: argument `a` with pointers p0, p1 ..., scalars x */
  Scalars scalars;
  CudaKernel *k; /* launch and how are set */
  bool tensor;   /* the architecture has what tensor_T, load_matrices and copy_async need: sm_80 and later */
} CudaTemplate;

const Type *ct_in(const CudaTemplate *k, int i);
const Type *ct_out(const CudaTemplate *k);
/* Where operand i and the first result lie, also where these are other values' memory (codegen/rows/work_place.c);
 * then their types are those of the places. */
TensorPlace ct_in_place(const CudaTemplate *k, int i);
TensorPlace ct_out_place(const CudaTemplate *k);
/* What joined a convolution: its operands stand behind the image and the weights, the result behind all of them. */
Epilogue ct_epilogue(const CudaTemplate *k);
/* The text of a value: a literal or x[i]. */
const char *ct_scalar(CudaTemplate *k, const Expr *e);
/* An argument: tensor i of the kernel from the offset of its place on. */
const char *ct_at(CudaTemplate *k, int i, const TensorPlace *p);
/* So many blocks that `jobs` are done, per_block by each. */
void ct_launch(CudaTemplate *k, const Expr *jobs, int per_block, int threads, const char *how);

/* conv.c: prints a convolution in tiles; false where that is not for it. */
bool cuda_conv_tiles(CudaTemplate *k);

/* The functions by family (codegen/rows/templates.def): attention.c, window.c (with conv.c), indexing.c, grouped.c and,
 * the rest, template.c. */
typedef void CudaTemplateFn(CudaTemplate *k);
#define TEMPLATE(op, family) CudaTemplateFn cuda_##family;
#include "codegen/rows/templates.def"

#endif
