/* ir/shares.h - mesh axes whose members take parts of different sizes, for ranks that differ.
 *
 * An axis with the shares w0, w1, ... cuts a dimension of U units at floor(U (w0 + .. + w(r-1)) / all).  Several axes
 * multiply: the inner one's shares cut the parts of the outer one.  Without shares all members have 1, which is the
 * usual cut (ir.h, Layout).  In text: `tp=3 shares 2:1:1`.
 */
#ifndef APC_IR_SHARES_H
#define APC_IR_SHARES_H

#include "ir/ir.h"

enum { MAX_SHARE = 1000, MAX_SHARED = 1024 }; /* limits: share of one member; members of an axis with shares */

/* Part `before` to `before + own` of `all`. */
typedef struct SharePlace {
  int64_t before, own, all;
} SharePlace;

/* The place of the member with these coordinates (by axis) in a dimension with that layout. */
SharePlace layout_place(const Mesh *mesh, const DimLayout *d, const int *coordinates);
/* The largest or smallest part of any member: each axis's largest or smallest share; `before` is 0. */
SharePlace layout_extreme(const Mesh *mesh, const DimLayout *d, bool largest);
/* The same as layout_place, as expressions of the coordinates. */
void layout_place_expr(Module *m, const DimLayout *d, const Expr **before, const Expr **own, const Expr **all);

/* Reads "2:1:1" for an axis of that size and moves *at after it; NULL if there are no shares, or not as many. */
const int *mesh_shares_read(Arena *a, const char **at, int size);
/* Appends " shares 2:1:1"; nothing for an axis without shares. */
void mesh_shares_print(Text *t, const MeshAxis *axis);
/* Equal shares count as none; mesh_has_shares and layout_has_shares: some axis has shares. */
bool mesh_shares_equal(const int *shares, int size);
bool mesh_has_shares(const Mesh *mesh);
/* Limit of the parts of a dimension that every axis cuts, so that sizes times parts can be computed. */
enum { MAX_SHARE_PARTS = 1 << 20 };
bool mesh_shares_fit(const Mesh *mesh); /* within that limit */
bool layout_has_shares(const Mesh *mesh, const DimLayout *d);

#endif
