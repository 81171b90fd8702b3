/* proof/prove_term.h - logical terms of the prover; private to proof/prove*.c.
 *
 * A term is a hash-consed expression over level-1 primitives: inputs, weights, states, constants, and operations on
 * terms.  Composites are expanded by their bodies, copies are transparent.  Equal terms are equal numbers.  Constants,
 * sizes and index ramps do not carry extents: they are the same function on any box.
 *
 * Loops: the round number and the carries are bound variables, named by the number of enclosing loops, so terms of a
 * body are functions of them.  The term of a leave depends on everything that defines its loop: rounds, initial and
 * next values, condition.
 */
#ifndef APC_PROOF_PROVE_TERM_H
#define APC_PROOF_PROVE_TERM_H

#include "ir/loops.h"

typedef uint32_t Term; /* 0 if none */

/* A level-1 operation (or one of an expanded body) and the terms of its results. */
typedef struct Fact {
  const Func *f;
  const Op *op;
  Term terms[MAX_RESULTS];
  struct Fact *next; /* the next one with the same kind and arguments */
} Fact;

/* A state that level 1 writes, and its new value. */
typedef struct Written {
  const char *name;
  Term term;
} Written;

/* A computed size of level 1, and the value that it is set to. */
typedef struct BoundTerm {
  const Expr *size;
  Term term;
} BoundTerm;

/* A level-1 loop. */
typedef struct LoopTerms {
  int depth, ncarries; /* depth: number of enclosing loops */
  const Expr *trips;   /* NULL if none */
  Term count, again;   /* again: 0 if there is no condition */
  const Type **types;  /* of the carries */
  Term *inits, *nexts, *leaves;
} LoopTerms;

/* Interned text -> the term of that identity, or the facts of that kind and arguments; linear probing. */
typedef struct KeySlot {
  const char *key;
  Term term;
  Fact *facts;
} KeySlot;

typedef struct KeyMap {
  KeySlot *slots;
  size_t n, cap;
} KeyMap;

/* The operation and arguments of a term, and properties of its numbers (prove_real.c). */
typedef struct TermFacts {
  OpKind kind; /* OP_none if unknown */
  const Op *op;
  Term args[3]; /* of the first operands */
  uint8_t numbers;
} TermFacts;

typedef struct Terms {
  Module *m;
  KeyMap by_key;  /* identity -> term */
  KeyMap by_args; /* "kind(args)" -> facts */
  uint32_t count;
  struct {
    Written *items;
    size_t n, cap;
  } writes;
  struct {
    BoundTerm *items;
    size_t n, cap;
  } binds;
  struct {
    Written *items;
    size_t n, cap;
  } defined; /* weights that stand for a term (prove_same.c); all others are themselves */
  struct {
    TermFacts *items;
    size_t n, cap;
  } facts;   /* by term */
  int depth; /* number of open loops while terms are built */
  struct {
    LoopTerms *items;
    size_t n, cap;
  } loops;
} Terms;

/* An empty store of terms, in the module's arena. */
Terms *terms_new(Module *m);

/* Terms of all values of a function whose inputs have the given terms (NULL: terms by name); values[f->values.n]. */
Term *terms_of_func(Terms *t, const Func *f, const Term *inputs);

/* Returns the facts with this kind and these arguments; NULL if none. */
const Fact *terms_facts(const Terms *t, OpKind kind, int n, const Term *args);

/* prove_real.c: the facts of a term (OP_none if unknown); notes the facts of an operation's result, and of a
 * softmax. */
const TermFacts *term_facts(const Terms *t, Term term);
void note_term(Terms *t, const Func *f, const Op *op, int result, const Term *args, Term term);
void note_softmax(Terms *t, Term result);
bool prove_size_is_positive(Module *m, const Expr *e); /* true if not negative at all sizes; prove_bound.c */

/* The bound variables of a loop with `depth` loops around it. */
Term term_of_round(Terms *t, int depth);
Term term_of_carry(Terms *t, int depth, int number, const Type *global);

/* Finds the next group of dimensions of a reshape: the fewest from *i and *j on whose products agree.  Moves both past
 * it. */
void reshape_group(Module *m, const Type *x, const Type *y, int *i, int *j);

#endif
