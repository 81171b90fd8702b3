/* passes/search/symmetry.h - mesh axes that can stand for each other.
 *
 * Where axes have one size, one use, and links that make no difference between them, every plan has others that differ
 * in which of the axes does what.  A graph in which each operation may exchange them as it likes has one value for all
 * strategies that differ in nothing else, several times fewer with three axes, and a conversion costs what it costs
 * between the cheapest of the layouts that stand for each other.  So its optimum is a bound for all plans, which loses
 * only where operations around a cycle could not agree.
 */
#ifndef APC_PASSES_SEARCH_SYMMETRY_H
#define APC_PASSES_SEARCH_SYMMETRY_H

#include "ir/layout/rule.h"

enum { MAX_EXCHANGES = 24 };

typedef struct Symmetry Symmetry;

/* Axes with equal numbers can stand for each other; -1: for none.  NULL when there are none, or too many ways. */
Symmetry *symmetry_new(Arena *a, Module *m, const int alike[MAX_AXES]);
/* In so many ways. */
int symmetry_ways(const Symmetry *s);
/* The layout that stands for all that it can be exchanged for; these, with itself: returns how many. */
const Layout *symmetry_layout(Symmetry *s, const Layout *l);
int symmetry_layouts(Symmetry *s, const Layout *l, const Layout *out[MAX_EXCHANGES]);
/* A strategy stands for all others that it can be exchanged for; these, with itself. */
bool symmetry_stands(const Symmetry *s, const Strategy *x);
int symmetry_strategies(const Symmetry *s, const Strategy *x, Strategy out[MAX_EXCHANGES]);

#endif
