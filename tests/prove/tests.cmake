# Hand-written programs, and the verdicts of the prover.
apc_test(NAME prove COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR}/apc-opt)
