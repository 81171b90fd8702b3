# Compares apc plan without force with forced plans: a few random ones; all of them by hand:
#   tests/forced/plans.py build/apc
apc_test(NAME forced.plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/plans.py ${CMAKE_BINARY_DIR}/apc --plans 8
         --models mlp,decoder.onnx --targets cpux4,pairs12.topo)

# Compares usual plans with the plan that apc chooses: a few of them; by hand, 200 of each case:
#   tests/forced/usual.py build/apc
apc_test(NAME forced.usual COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/usual.py ${CMAKE_BINARY_DIR}/apc --plans 25
         --cases gpt-small-train-16,gpt-small-8,vit-64 --targets dgx-a100x4 --most 0.01)
