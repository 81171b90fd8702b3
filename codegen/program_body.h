/* codegen/program_body.h - one body of a Program while it is written: program.c writes units and communication,
 * program_loops.c computes lifetimes of values and writes loops, program_checks.c writes the checks of sizes. */
#ifndef APC_CODEGEN_PROGRAM_BODY_H
#define APC_CODEGEN_PROGRAM_BODY_H

#include "codegen/program_tables.h"
#include "ir/loops.h"

/* A loop among the units. */
typedef struct BodyLoop {
  int begin, end; /* its UNIT_LOOP and UNIT_REPEAT */
  int parent;     /* the loop around it; -1 if none */
  uint32_t instr; /* its instruction, once it is written */
} BodyLoop;

/* A buffer through which bodies pass values, and the bodies that touch it. */
typedef struct EmitTouch {
  uint32_t buffer;
  bool *parts; /* by part */
} EmitTouch;

typedef struct EmitTouches {
  EmitTouch *items;
  size_t n, cap;
  int nparts;
} EmitTouches;

/* Transfers of stages that interleave forward and backward, on devices with a queue for communication: each is a body
 * of its own, and a transfer issued in one body is awaited in another. */
typedef struct EmitTransfer {
  uint32_t buffer, instr;
  int part;    /* its body */
  bool sends;  /* else it receives */
  bool waited; /* for a receive: the first body that touches it waits for it */
} EmitTransfer;

typedef struct EmitTransfers {
  EmitTransfer *items; /* by event */
  size_t n, cap;
  uint32_t events; /* their events, which come first; no body uses them for communication that begins and ends in it */
} EmitTransfers;

typedef struct EmitBody {
  Emitting *e;
  const ProgramEntrySpec *spec;
  uint32_t entry, body, start; /* instruction 0 of the body */
  uint32_t buffers;            /* its first buffer */
  int stage;
  int part;                 /* the number of this body among those of its entry and stage */
  EmitTouches *touches;     /* of all these bodies */
  EmitTransfers *transfers; /* the same; NULL if no other body waits for any */
  bool is_transfer;         /* this body is a transfer */
  int at;                   /* the unit being written */
  int checks_bind;          /* checks of sizes being written: those that this computed size completes; -1: no such */
  bool checks_in_loop;      /* or those of a loop's body, all of them */
  uint32_t writes;          /* launch: the number of tensors that the instruction being added writes */
  struct {
    uint32_t *items;
    size_t n, cap;
  } pending; /* instructions of communication not waited for yet */
  const UnitList *units;
  uint32_t *tensor; /* by value (temporaries last): Program tensor, NONE before it exists */
  int *last_use;    /* by value: the unit after which no round of any loop reads it or a view of it; -1 if never read */
  Val *root;        /* by value: the value whose memory a view shares */
  Val *becomes;     /* by value: the carry whose next value it is, or 0; it is then as large as the carry */
  BodyLoop *loops;
  int *loop;      /* by unit: the loop whose body it is in or that it ends, -1 if none */
  Arena *scratch; /* for data of this body alone */
  bool *given;    /* by value: an earlier body of the stage made it, so it is not overwritten; NULL if none */
  bool *handed;   /* by value: a later body reads it or a view of it; NULL if none */
  const ProgramClass *classes; /* by value of level 2: activation, or the purpose of its buffer; NULL if not a training
                                  step */
  size_t first_gradient;       /* the operation of level 2 with which gradients begin */
  uint32_t *away;   /* by value: the home of the state that it reads, NONE for others; NULL if no state is away */
  int *stow;        /* by value: 1 + the unit that writes it to such a state; 0 if none does, or once it is written */
  uint32_t *target; /* by value: the tensor of the prepared weight it is, NONE for others; NULL except in @prepare */
} EmitBody;

/* ---- program.c */

/* Returns the type of a value or temporary of the units. */
const Type *emit_body_type(const EmitBody *b, Val v);
uint32_t emit_body_tensor(const EmitBody *b, Val v); /* of a value that has memory */
/* Gives a value its own memory, or that of the weight or carry that it becomes. */
void emit_fresh_tensor(EmitBody *b, Val v, ProgramClass class_);
/* Returns a tensor of scratch memory for the unit being written. */
uint32_t emit_scratch(EmitBody *b, const Type *t);
/* Gives a value the memory of `tensor`. */
void emit_share_tensor(EmitBody *b, Val v, uint32_t tensor);
/* True if output `v` of the unit being written may take the memory of its input `x`: the input dies here and is not a
 * weight; only the next value of a state or carry may overwrite that state or carry. */
bool emit_may_share(const EmitBody *b, Val x, Val v);

/* Notes the predicted seconds of an instruction; none was noted for a later one. */
void emit_predicted(EmitBody *b, uint32_t instr, double seconds);
/* Adds an instruction and extends the lifetimes of the buffers it touches. */
uint32_t emit_instr(EmitBody *b, ProgramInstrKind kind, const char *where, uint32_t object, uint32_t n,
                    const uint32_t *tensors, ProgramList exprs);
/* Adds a copy of a whole tensor of that type. */
void emit_copy(EmitBody *b, uint32_t from, uint32_t to, const Type *t, const char *where);

/* emit_unit writes the unit at `at`.  emit_state_write writes a state at the end of the body, when the old value has no
 * more readers.  Both false after a diagnostic. */
bool emit_unit(EmitBody *b);
bool emit_state_write(EmitBody *b, const Unit *u);
/* Adds the fetch of an output.  emit_output_stage returns the stage that holds it. */
void emit_fetch(EmitBody *b, uint32_t port, const Output *o);
int emit_output_stage(const Func *l2, const Output *o);
/* @prepare: emit_find_targets lets the operations that compute a weight write it in its final place; emit_targets
 * copies weights computed elsewhere, as a view or under another name. */
bool emit_find_targets(EmitBody *b, size_t nvalues);
void emit_targets(EmitBody *b);

/* ---- program_facts.c */

/* Finds the facts of an entry that all its bodies use (EmitFacts). */
void emit_find_facts(Emitting *e, const ProgramEntrySpec *spec);
/* Returns the type at level 1 of an input of the entry; NULL if none has that name. */
const Type *emit_input(const Emitting *e, const char *name, uint32_t *port);

/* ---- program_bodies.c */

/* Begin a body without units, and end it. */
EmitBody emit_body_new(Emitting *e, const LegalBody *legal, uint32_t entry, uint32_t *tensors);
void emit_body_end(EmitBody *b, Phase phase, const char *name);
/* Writes the bodies of an entry and place with their calls; `list`: by stage.  False after a diagnostic. */
bool emit_bodies(Emitting *e, const LegalBody *list, int place, uint32_t entry, uint32_t micro_batches);

/* ---- program_classes.c */

/* Fill classes and first_gradient: first the part of an entry that all bodies share, then that of a body, after
 * emit_find_uses. */
void emit_find_entry_classes(Emitting *e, const ProgramEntrySpec *spec);
void emit_find_classes(EmitBody *b);
/* Returns the class of the buffer of a value being computed. */
ProgramClass emit_class_of(const EmitBody *b, Val v);

/* ---- program_away.c */

/* Fills away and stow, after emit_find_uses.  False after a diagnostic. */
bool emit_find_away(EmitBody *b, size_t nvalues);
bool emit_is_away(const EmitBody *b, const Op *op); /* it reads a state that is away */
/* Bring the states that a value, or the operands of a unit, need; nothing if they are in memory. */
void emit_bring(EmitBody *b, Val v, const char *where);
void emit_bring_operands(EmitBody *b, const Unit *u, const char *where);
/* The value's state is not needed any more: the next reader brings it again. */
void emit_send_back(EmitBody *b, Val v);
/* After a unit: stows its results that are new values of states. */
void emit_stow_results(EmitBody *b, const Unit *u);
/* At the end of a body: stows the value that a write names, if that is still to be done.  False if its state is not
 * away. */
bool emit_stow_last(EmitBody *b, const Unit *write);

/* ---- program_loops.c */

/* Fills last_use, root, becomes, loops and loop. */
void emit_find_uses(EmitBody *b);
/* True if `v` can be computed in the memory of the carry that it becomes, since no later unit reads the carry. */
bool emit_in_carry(const EmitBody *b, Val v);
/* Write the instructions of a loop's beginning and end. */
void emit_loop(EmitBody *b, const Unit *u, const char *where);
void emit_repeat(EmitBody *b, const Unit *u, const char *where);

/* ---- program_events.c */

/* Gives an event to the communication just added. */
void emit_event(EmitBody *b, uint32_t instr);
/* Before a transfer of `tensor` is sent: waits for the transfer of the previous micro-batch. */
void emit_wait_for_sent(EmitBody *b, const char *where, uint32_t tensor);
/* True if a transfer that part `part` sends reads the buffer until the next micro-batch is sent. */
bool emit_sends(const EmitTransfers *t, uint32_t buffer, int part);
/* Waits for communication that must end before the next instruction: communication that writes a tensor which the
 * instruction touches, or reads one which it writes; all of it where a round begins or ends. */
void emit_waits(EmitBody *b, ProgramInstrKind kind, uint32_t n, const uint32_t *tensors);
/* Waits for the oldest pending reduce-scatter if many are pending. */
void emit_limit_scattered(EmitBody *b);
/* Waits for all pending communication. */
void emit_wait_all(EmitBody *b);
/* True if pending communication uses the value's memory, so that a write there would have to wait. */
bool emit_is_sent(const EmitBody *b, Val v);

/* ---- program_panels.c */

/* In @prepare: packs a weight into panels from its tensor. */
void emit_pack(EmitBody *b, const EmitKnown *weight, uint32_t from);
/* In @prepare: packs all weights of the stage that @prepare does not compute, from their files.  False after a
 * diagnostic. */
bool emit_panels(EmitBody *b);
/* True if there are such weights.  @prepare then exists, even if it computes nothing. */
bool emit_has_panels(const Emitting *e);

/* ---- program_checks.c */

/* Add instructions that refuse sizes with which an index or a slice of the entry would leave its table or tensor.
 * Those of a loop are checked in its rounds, since it may have none; `name` is the loop's. */
void emit_size_checks(EmitBody *b);
void emit_size_checks_of_loop(EmitBody *b, const char *name);
void emit_size_checks_of_bind(EmitBody *b, int symbol);

#endif
