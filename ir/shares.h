/* ir/shares.h - mesh axes whose members take parts of different size, for ranks that are not alike.
 *
 * A dimension of U units that an axis with the shares w0, w1, ... cuts is cut at floor(U (w0 + .. + w(r-1)) / all).
 * Several axes multiply: the parts of the outer one are cut by the inner one's shares.  Without shares all members
 * have 1, which is the usual cut (ir.h, Layout).  In text: `tp=3 shares 2:1:1`.
 */
#ifndef APC_IR_SHARES_H
#define APC_IR_SHARES_H

#include "ir/ir.h"

enum { MAX_SHARE = 1000, MAX_SHARED = 1024 }; /* of one member; members of an axis that has shares */

/* Part `before` to `before + own` of `all`. */
typedef struct SharePlace {
  int64_t before, own, all;
} SharePlace;

/* Of the member with these coordinates (by axis), of a dimension that is cut so. */
SharePlace layout_place(const Mesh *mesh, const DimLayout *d, const int *coordinates);
/* The largest or least part that a member can have: each axis's largest or least share; `before` is 0. */
SharePlace layout_extreme(const Mesh *mesh, const DimLayout *d, bool largest);
/* The place of layout_place as expressions of the coordinates. */
void layout_place_expr(Module *m, const DimLayout *d, const Expr **before, const Expr **own, const Expr **all);

/* Reads "2:1:1" for an axis of that size and moves *at after it; NULL: these are no shares, or not so many. */
const int *mesh_shares_read(Arena *a, const char **at, int size);
/* " shares 2:1:1"; nothing for an axis without shares. */
void mesh_shares_print(Text *t, const MeshAxis *axis);
/* Equal shares are none. */
bool mesh_shares_equal(const int *shares, int size);
bool mesh_has_shares(const Mesh *mesh);
/* All parts of a dimension that every axis cuts are at most so many, so that sizes times parts can be computed. */
enum { MAX_SHARE_PARTS = 1 << 20 };
bool mesh_shares_fit(const Mesh *mesh);
bool layout_has_shares(const Mesh *mesh, const DimLayout *d);

#endif
