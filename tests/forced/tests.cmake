# What apc plan prints without force against what can be forced: a few of the random plans; by hand, all of them:
#   tests/forced/plans.py build/apc
apc_test(NAME forced.plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/plans.py ${CMAKE_BINARY_DIR}/apc --plans 8
         --models mlp,decoder.onnx --targets cpux4,pairs12.topo)
