/* ir/opaque_rule.h - the sharding rule of an operator that apc does not know, as the user states it.
 *
 *   b.. s (h k), i64 s -> b.. s h; frozen: s; k=64; work=2*b*s*h*k
 *
 * The text is that of factor rules (docs/ir.md, "Sharding"): a tensor is the list of its dimensions by name, a name
 * with
 * `..` stands for any number of them, `(h k)` is one dimension of the extent h*k, a number is an extent that is given,
 * `()` has no dimension.  A tensor may begin with its element type.  Clauses follow, separated by semicolons:
 *
 *   frozen: s t      these dimensions are whole on every rank
 *   sum: k           if k is cut, each rank computes a summand of the results; also product, max, min, or, and
 *   n=2*k            the extent of a name; names that are no dimensions are attributes of the node
 *   work=2*b*s       floating-point operations; without it the operator costs the time to move its bytes
 *   scratch=4*b*s    bytes of scratch memory that the kernel needs
 *   function=NAME    the symbol of the kernel; without it the name of the operator, characters other than letters and
 *                    digits being _
 *
 * Dimensions that some operand and every result have may be cut, and those with a reduction.  All others stay whole, so
 * a rule that says too little makes a program slow, not wrong: dimensions that no result has, or only some, or that no
 * operand has, whose extent is given or determines another, or that a tensor has twice.
 *
 * opaque_bind (ir/opaque_bind.c) applies a rule to types.
 */
#ifndef APC_IR_OPAQUE_RULE_H
#define APC_IR_OPAQUE_RULE_H

#include "ir/ir.h"

enum { OPAQUE_NAMES = 24, OPAQUE_FACTORS = 4 /* of one dimension */, OPAQUE_TEXT = 2000 /* characters */ };

/* A size: a number, the extent of a name (for a group the product of its dimensions), an attribute, or two sizes. */
typedef struct SizeText {
  char op; /* '0' number, 'd' dimension, 'a' attribute, + - * / */
  int64_t number;
  int name; /* of the dimension */
  const char *attribute;
  const struct SizeText *left, *right;
} SizeText;

typedef struct OpaqueDim {
  int n; /* names, major to minor; 0: the extent is `number` */
  int names[OPAQUE_FACTORS];
  int64_t number;
} OpaqueDim;

typedef struct OpaqueTensor {
  bool typed; /* the rule says the element type */
  DType dtype;
  int n;
  OpaqueDim dims[MAX_RANK];
} OpaqueTensor;

typedef struct OpaqueName {
  const char *name;
  bool group; /* name.. */
  bool frozen;
  Reduction reduction;  /* RED_NONE unless a clause says one */
  const SizeText *size; /* NULL: that of the operands */
  size_t at;            /* where the text has it first */
} OpaqueName;

typedef struct OpaqueRule {
  const char *text;     /* without the operator's name, as written */
  const char *function; /* NULL: made from the operator's name */
  int noperands, nresults, nnames;
  OpaqueTensor operands[MAX_OPERANDS], results[MAX_RESULTS];
  OpaqueName names[OPAQUE_NAMES];
  Reduction reduction;            /* of all names that have one; RED_NONE if none has */
  const SizeText *work, *scratch; /* NULL if not given */
} OpaqueRule;

/* Why a text is no rule, and the character of it. */
typedef struct OpaqueFault {
  const char *why;
  size_t at;
} OpaqueFault;

/* Parses the text of a rule into the arena; NULL with the fault. */
const OpaqueRule *opaque_rule_parse(Arena *a, const char *text, OpaqueFault *fault);
/* The rule of an opaque operation, parsed once per module; NULL if it has none, or a faulty one (V2). */
const OpaqueRule *opaque_rule_of(Module *m, const char *text);

/* The name of the kernel's function: "my.Op" is my_Op. */
const char *opaque_function(Arena *a, const char *kind, const OpaqueRule *r);

/* ---- on types */

typedef struct OpaqueBound {
  int n[OPAQUE_NAMES]; /* dimensions of a name: 1, or how many a group stands for */
  const Expr *size[OPAQUE_NAMES][MAX_RANK];
  const Type *results[MAX_RESULTS];
  const Expr *clash[2]; /* after an error: two extents that should be equal; NULL if that was not the reason */
} OpaqueBound;

/* Finds the extents and the types of the results.  `local`: the operands are a rank's parts, whose extents may have
 * different forms.  attributes: of the node, a JSON object; NULL: none.  False with *why. */
bool opaque_bind(Module *m, const OpaqueRule *r, int nin, const Type *const *in, const char *attributes, bool local,
                 OpaqueBound *out, const char **why);

/* A size under extents as expressions, and as numbers. */
const Expr *size_text_expr(Module *m, const SizeText *s, const OpaqueBound *b, const char *attributes);
double size_text_number(const SizeText *s, const double *extent, const char *attributes);

/* The integer attribute of that name in a JSON object; false if there is none. */
bool opaque_attribute(const char *attributes, const char *name, int64_t *out);

#endif
