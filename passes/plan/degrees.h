/* passes/plan/degrees.h - what the axes of a mesh amount to: degrees of data, context, expert and tensor parallelism.
 *
 * An axis carries the label of what it splits most (labels.h), experts where it splits most of their arithmetic,
 * whatever its name; a degree is the product of the axes that carry its label.  What stages split is a degree as well,
 * which has no axis.  The table of degrees is degrees.def.
 */
#ifndef APC_PASSES_PLAN_DEGREES_H
#define APC_PASSES_PLAN_DEGREES_H

#include "passes/cost/loops.h"
#include "passes/facts/labels.h"

/* In the order their axes have on the mesh, stages first. */
typedef enum Degree {
#define DEGREE(name, place, label, help) DEGREE_##name = place,
#include "passes/plan/degrees.def"
#undef DEGREE
  DEGREE_COUNT = 5
} Degree;

/* From here on degrees are of axes. */
enum { DEGREE_FIRST_AXIS = DEGREE_pp + 1, AXIS_DEGREES = DEGREE_COUNT - DEGREE_FIRST_AXIS };

extern const char *const degree_names[DEGREE_COUNT];
extern const Label degree_labels[DEGREE_COUNT];
extern const Degree degrees_listed[DEGREE_COUNT]; /* in the order in which people are told of them */

/* Arithmetic that each axis cuts through factors of each label.  Contractions decide where a function has some. */
typedef struct Shares {
  double by_label[MAX_AXES][LABEL_COUNT];
  double minor[MAX_AXES][LABEL_COUNT]; /* the same of all other operations */
  double all, of_experts; /* of the operations in by_label, cut or not; of those with a factor of experts */
} Shares;

Shares shares_of(CostModel *cost, const Func *f, const Rule *const *rules, const OpLabels *labels,
                 const Strategy *strategies);

/* The part of the arithmetic an axis of that degree is there for that it cuts: for experts theirs alone, as it may cut
 * the batch elsewhere. */
double share_of(const Shares *x, int axis, Degree d);

/* The degree the axis counts for; -1 when it splits no arithmetic. */
int main_degree(const Shares *x, int axis);

/* The degrees of a plan on that mesh. */
void degrees_of(const Mesh *mesh, const Shares *x, int degrees[DEGREE_COUNT]);

#endif
