# Programs written by hand, and what the prover says of them.
add_test(NAME prove COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR}/apc-opt)

# The long part of unit.prove_hand: about 100,000 programs, 45 s of processor time.
add_test(NAME prove.hand_long COMMAND test_prove_hand 10000 13500 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(prove.hand_long PROPERTIES TIMEOUT 900 LABELS slow)
