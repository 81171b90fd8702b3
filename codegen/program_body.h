/* codegen/program_body.h - one body of a Program while it is written: program.c writes units and communication,
 * program_loops.c finds out how long values live and writes loops, program_checks.c what the sizes have to be. */
#ifndef APC_CODEGEN_PROGRAM_BODY_H
#define APC_CODEGEN_PROGRAM_BODY_H

#include "codegen/program_tables.h"
#include "ir/loops.h"

/* A loop among the units. */
typedef struct BodyLoop {
  int begin, end; /* its UNIT_LOOP and UNIT_REPEAT */
  int parent;     /* the loop around it; -1: none */
  uint32_t instr; /* its instruction, once it is written */
} BodyLoop;

/* A buffer that bodies hand to each other, and which of them touch it. */
typedef struct EmitTouch {
  uint32_t buffer;
  bool *parts; /* by part */
} EmitTouch;

typedef struct EmitTouches {
  EmitTouch *items;
  size_t n, cap;
  int nparts;
} EmitTouches;

/* Transfers of stages that take turns, on devices with a queue for communication: each is a body of its own, and what
 * is asked for in one body is waited for in another. */
typedef struct EmitTransfer {
  uint32_t buffer;
  int part;    /* its body */
  bool sends;  /* else it receives */
  bool waited; /* received: the first body that touches it waits for it */
} EmitTransfer;

typedef struct EmitTransfers {
  EmitTransfer *items; /* by event */
  size_t n, cap;
  uint32_t events; /* theirs: the first ones, which no body has for what begins and ends in it */
} EmitTransfers;

typedef struct EmitBody {
  Emitting *e;
  const ProgramEntrySpec *spec;
  uint32_t entry, body, start; /* instruction 0 of the body */
  uint32_t buffers;            /* its first buffer */
  int stage;
  int part;                 /* which of the bodies of its entry and stage it is */
  EmitTouches *touches;     /* of these */
  EmitTransfers *transfers; /* of these; NULL: there are none that another body waits for */
  bool is_transfer;         /* it is one of these */
  int at;                   /* the unit being written */
  uint32_t writes;          /* launch: how many tensors the instruction being added writes */
  struct {
    uint32_t *items;
    size_t n, cap;
  } pending; /* communication that nobody waited for yet: instructions */
  const UnitList *units;
  uint32_t *tensor; /* by value (temporaries behind): Program tensor, NONE before it exists */
  int *last_use;    /* by value: the unit behind which no round of any loop reads it or a view of it; -1 never */
  Val *root;        /* by value: the value whose memory a view shares */
  Val *becomes;     /* by value: the carry whose next value it is, or 0; then it is as large as the carry */
  BodyLoop *loops;
  int *loop;      /* by unit: the loop whose body it is in or that it ends, -1 none */
  Arena *scratch; /* for what is known of this body alone */
  bool *given;    /* by value: an earlier body of the stage made it, so that nothing is written over it; NULL: none */
  bool *handed;   /* by value: a later body reads it or a view of it; NULL: none */
  const ProgramClass *classes; /* by value of level 2: activation, or what its buffer is for; NULL: no training step */
  size_t first_gradient;       /* the operation of level 2 with which gradients begin */
  uint32_t *target; /* by value: the tensor of the prepared weight it is, NONE for others; NULL but for @prepare */
} EmitBody;

/* ---- program.c */

const Type *emit_body_type(const EmitBody *b, Val v);
uint32_t emit_body_tensor(const EmitBody *b, Val v); /* of a value that has memory */
/* Memory of its own; or that of the weight that it is to become, or of the carry. */
void emit_fresh_tensor(EmitBody *b, Val v, ProgramClass class_);
uint32_t emit_scratch(EmitBody *b, const Type *t);
/* The value lies where `tensor` does. */
void emit_share_tensor(EmitBody *b, Val v, uint32_t tensor);
/* May output `v` of the unit being written take the memory of its input `x`?  The input dies here and is no weight; a
 * state and a carry may be overwritten only by what becomes that state or carry. */
bool emit_may_share(const EmitBody *b, Val x, Val v);

/* Adds an instruction and extends the lifetimes of what it touches. */
uint32_t emit_instr(EmitBody *b, ProgramInstrKind kind, const char *where, uint32_t object, uint32_t n,
                    const uint32_t *tensors, ProgramList exprs);
void emit_copy(EmitBody *b, uint32_t from, uint32_t to, const Type *t, const char *where);

/* The unit at `at`; at the end of the body a write, when nobody reads the old state any more.  False after a
 * diagnostic. */
bool emit_unit(EmitBody *b);
bool emit_state_write(EmitBody *b, const Unit *u);
void emit_fetch(EmitBody *b, uint32_t port, const Output *o);
int emit_output_stage(const Func *l2, const Output *o);
/* @prepare: the operations that make a weight write it where it stays; what was made elsewhere, as a view or a weight
 * of another name, is copied. */
bool emit_find_targets(EmitBody *b, size_t nvalues);
void emit_targets(EmitBody *b);

/* ---- program_facts.c */

void emit_find_facts(Emitting *e, const ProgramEntrySpec *spec);
/* Of the entry: its type at level 1; NULL: it has none of that name. */
const Type *emit_input(const Emitting *e, const char *name, uint32_t *port);

/* ---- program_bodies.c */

/* A body without units, and its end. */
EmitBody emit_body_new(Emitting *e, const LegalBody *legal, uint32_t entry, uint32_t *tensors);
void emit_body_end(EmitBody *b, Phase phase, const char *name);
/* The bodies of an entry and place with their calls; `list`: by stage.  False after a diagnostic. */
bool emit_bodies(Emitting *e, const LegalBody *list, int place, uint32_t entry, uint32_t micro_batches);

/* ---- program_classes.c */

/* Fills classes and first_gradient: of the entry what is the same in all bodies, then of a body, behind
 * emit_find_uses. */
void emit_find_entry_classes(Emitting *e, const ProgramEntrySpec *spec);
void emit_find_classes(EmitBody *b);
/* What the buffer of a value that is computed now is for. */
ProgramClass emit_class_of(const EmitBody *b, Val v);

/* ---- program_loops.c */

/* Fills last_use, root, becomes, loops and loop. */
void emit_find_uses(EmitBody *b);
/* Can `v` be computed where the carry is that it becomes, since nobody reads the carry any more? */
bool emit_in_carry(const EmitBody *b, Val v);
void emit_loop(EmitBody *b, const Unit *u, const char *where);
void emit_repeat(EmitBody *b, const Unit *u, const char *where);

/* ---- program_events.c */

/* The communication just added gets an event. */
void emit_event(EmitBody *b, uint32_t instr);
/* Before a transfer of `tensor` is sent: the one of the micro-batch before is over. */
void emit_wait_for_sent(EmitBody *b, const char *where, uint32_t tensor);
/* Does a transfer that part `part` sends read the buffer until the next micro-batch is sent? */
bool emit_sends(const EmitTransfers *t, uint32_t buffer, int part);
/* Waits for what must be over before the instruction that is added next: what writes a tensor that it touches or reads
 * one that it writes, and all where a round begins or ends. */
void emit_waits(EmitBody *b, ProgramInstrKind kind, uint32_t n, const uint32_t *tensors);
void emit_wait_all(EmitBody *b);
/* Does communication that nobody waited for yet use the value's memory?  Who writes there would have to wait. */
bool emit_is_sent(const EmitBody *b, Val v);

/* ---- program_panels.c */

/* In @prepare: the panels of a weight from its tensor. */
void emit_pack(EmitBody *b, const EmitKnown *weight, uint32_t from);
/* In @prepare: the panels of all weights of the stage that @prepare does not compute, from where they are stored. */
bool emit_panels(EmitBody *b);
/* Is there such a weight?  Then there is a @prepare, even if it computes nothing. */
bool emit_has_panels(const Emitting *e);

/* ---- program_checks.c */

/* Instructions that refuse the sizes with which an index or a slice of the entry would leave what it reads.  Those of a
 * loop are checked in its rounds, since there may be none; `name` is the loop's. */
void emit_size_checks(EmitBody *b);
void emit_size_checks_of_loop(EmitBody *b, const char *name);

#endif
