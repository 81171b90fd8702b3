/* frontend/onnx/tree_post.h - post_transform of decision trees: what the sums of the leaves' weights become.
 *
 * Numbers that ai.onnx.ml leaves open (PROBIT, SOFTMAX_ZERO) are those of ONNX Runtime.
 */
#ifndef APC_FRONTEND_ONNX_TREE_POST_H
#define APC_FRONTEND_ONNX_TREE_POST_H

#include "frontend/onnx/import_private.h"

typedef enum TreePost { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT } TreePost;

/* x: [rows, targets]; 0 after an error. */
Val tree_post(ImportNode *n, TreePost post, Val x);

#endif
