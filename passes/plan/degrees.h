/* passes/plan/degrees.h - the degrees of data, context, expert and tensor parallelism of a mesh.
 *
 * An axis counts for the label that it splits most (labels.h), or for experts if it splits most of their arithmetic,
 * whatever its name; a degree is the product of the axes that count for its label.  Pipeline stages are a degree
 * without an axis.  degrees.def is the table of degrees.
 */
#ifndef APC_PASSES_PLAN_DEGREES_H
#define APC_PASSES_PLAN_DEGREES_H

#include "passes/cost/loops.h"
#include "passes/facts/labels.h"

/* In the order of their axes on the mesh, stages first. */
typedef enum Degree {
#define DEGREE(name, place, label, help) DEGREE_##name = place,
#include "passes/plan/degrees.def"
#undef DEGREE
  DEGREE_COUNT = 5
} Degree;

/* Degrees from this one on have axes. */
enum { DEGREE_FIRST_AXIS = DEGREE_pp + 1, AXIS_DEGREES = DEGREE_COUNT - DEGREE_FIRST_AXIS };

extern const char *const degree_names[DEGREE_COUNT];
extern const Label degree_labels[DEGREE_COUNT];
extern const Degree degrees_listed[DEGREE_COUNT]; /* in the order of output */

/* Arithmetic that each axis splits by factors of each label: of contractions, if the function has some. */
typedef struct Shares {
  double by_label[MAX_AXES][LABEL_COUNT];
  double minor[MAX_AXES][LABEL_COUNT]; /* the same for all other operations */
  double all, of_experts;              /* of all operations in by_label; of those with a factor of experts */
} Shares;

/* Computes the shares of a plan's strategies on the cost model's mesh. */
Shares shares_of(CostModel *cost, const Func *f, const Rule *const *rules, const OpLabels *labels,
                 const Strategy *strategies);

/* Returns the share of the arithmetic of degree d that the axis splits: for experts only theirs, because the axis may
 * split the batch elsewhere. */
double share_of(const Shares *x, int axis, Degree d);

/* Returns the degree the axis counts for; -1 if it splits no arithmetic. */
int main_degree(const Shares *x, int axis);

/* Computes the degrees of a plan on that mesh. */
void degrees_of(const Mesh *mesh, const Shares *x, int degrees[DEGREE_COUNT]);

#endif
