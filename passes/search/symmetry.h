/* passes/search/symmetry.h - mesh axes that can stand for each other.
 *
 * If axes have equal size and use, and links make no difference between them, every plan has equivalents that only
 * differ in the roles of these axes.  A graph in which each operation may exchange them freely has one value for all
 * equivalent strategies, several times fewer with three axes, and a conversion costs as much as between the cheapest
 * equivalent layouts.  So its optimum is a bound for all plans, which is too low only if operations around a cycle
 * could not agree.
 */
#ifndef APC_PASSES_SEARCH_SYMMETRY_H
#define APC_PASSES_SEARCH_SYMMETRY_H

#include "ir/layout/rule.h"

enum { MAX_EXCHANGES = 24 };

typedef struct Symmetry Symmetry;

/* Axes with equal numbers can stand for each other; -1: not with any.  NULL if there are none, or too many ways. */
Symmetry *symmetry_new(Arena *a, Module *m, const int alike[MAX_AXES]);
/* Returns the number of ways to exchange axes. */
int symmetry_ways(const Symmetry *s);
/* symmetry_layout returns the layout that stands for all its equivalents; symmetry_layouts fills these, itself
 * included, and returns their number. */
const Layout *symmetry_layout(Symmetry *s, const Layout *l);
int symmetry_layouts(Symmetry *s, const Layout *l, const Layout *out[MAX_EXCHANGES]);
/* The same for strategies: symmetry_stands is true if the strategy stands for its equivalents. */
bool symmetry_stands(const Symmetry *s, const Strategy *x);
int symmetry_strategies(const Symmetry *s, const Strategy *x, Strategy out[MAX_EXCHANGES]);

#endif
