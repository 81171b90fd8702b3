/* codegen/cuda/template.h - the CUDA kernel of an operation that is not a row program, being printed. */
#ifndef APC_CODEGEN_CUDA_TEMPLATE_H
#define APC_CODEGEN_CUDA_TEMPLATE_H

#include "codegen/cuda/kernels.h"

typedef struct CudaTemplate {
  Module *m;
  const Func *f;
  const UnitList *units;
  const Unit *u;
  const Op *op; /* without the operations that joined it */
  Text body;    /* statements of the kernel: argument `a` with pointers p0, p1 ..., scalars x */
  Scalars scalars;
  CudaKernel *k; /* launch and how are set */
  bool tensor;   /* the architecture has the instructions for tensor_T, load_matrices and copy_async: sm_80 and later */
} CudaTemplate;

/* Return the types of operand i and of the first result. */
const Type *ct_in(const CudaTemplate *k, int i);
const Type *ct_out(const CudaTemplate *k);
/* Return the places of operand i and of the first result, also if these are in the memory of other values
 * (codegen/rows/work_place.c); their types are then those of the places. */
TensorPlace ct_in_place(const CudaTemplate *k, int i);
TensorPlace ct_out_place(const CudaTemplate *k);
/* Returns the epilogue that joined a convolution: its operands follow the image and the weights, the result is last. */
Epilogue ct_epilogue(const CudaTemplate *k);
/* Returns the text of a value: a literal or x[i]. */
const char *ct_scalar(CudaTemplate *k, const Expr *e);
/* Returns the text of an argument: tensor i of the kernel from the offset of its place on. */
const char *ct_at(CudaTemplate *k, int i, const TensorPlace *p);
/* Sets the launch: enough blocks for `jobs`, each block doing per_block of them; `how` describes it. */
void ct_launch(CudaTemplate *k, const Expr *jobs, int per_block, int threads, const char *how);

/* template.c: prints rotations and updates of caches (Unit.cache). */
void cuda_cache(CudaTemplate *k);
/* few.c: prints products of few rows (Unit.few). */
void cuda_few(CudaTemplate *k);

/* conv.c: prints a convolution in tiles; false if it is unsuitable. */
bool cuda_conv_tiles(CudaTemplate *k);

/* The functions by family (codegen/rows/templates.def): attention.c, window.c (with conv.c), indexing.c, grouped.c;
 * template.c has the others. */
typedef void CudaTemplateFn(CudaTemplate *k);
#define TEMPLATE(op, family) CudaTemplateFn cuda_##family;
#include "codegen/rows/templates.def"

#endif
