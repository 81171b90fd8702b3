# Compares the planner with exhaustive enumeration of random graphs.
add_executable(oracle_brute ${CMAKE_CURRENT_LIST_DIR}/brute.c)
target_link_libraries(oracle_brute PRIVATE apc_warnings apc_passes apc_ir apc_runtime apc_base)
set_target_properties(oracle_brute PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME oracle.brute COMMAND oracle_brute 240 1)

# Compares the outer search with layouts that are forced one by one, and small functions with choices without the
# search; by hand, all layouts: build/tests/oracle_whole 0
add_executable(oracle_whole ${CMAKE_CURRENT_LIST_DIR}/whole.c)
target_link_libraries(oracle_whole PRIVATE apc_warnings apc_frontend apc_passes apc_ir apc_runtime apc_base)
set_target_properties(oracle_whole PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME oracle.whole COMMAND oracle_whole 8 1)

# Compares throughput and cost with forced layouts, on every number of devices.
add_executable(oracle_steady ${CMAKE_CURRENT_LIST_DIR}/steady.c)
target_link_libraries(oracle_steady PRIVATE apc_warnings apc_driver apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)
set_target_properties(oracle_steady PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME oracle.steady COMMAND oracle_steady)
