# Programs written by hand, and what the prover says of them.
apc_test(NAME prove COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR}/apc-opt)
