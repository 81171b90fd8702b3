# Tests of the command line; each program is one shell script.
find_program(APC_BASH bash REQUIRED)
foreach(name
    artifact
    before
    bench
    caches
    chars
    compiler
    cuda
    docs
    dtype
    train
    recompute
    zero
    train_data
    train_files
    train_mode
    train_models
    train_kinds
    train_numbers
    train_runs
    empty
    files
    gpu
    families
    hostile
    inputs
    json
    kernels
    killed
    malformed
    masked
    memory
    models
    mixtral
    moe
    multiples
    recurrent
    samples
    loops
    onnx
    panels
    planning
    profile
    same
    proof
    readme
    rounds
    spatial
    swapped
    targets
    tour
    unfit
    unknown
    usage)
  add_test(NAME cli.${name} COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${CMAKE_BINARY_DIR}/apc)
  set_tests_properties(cli.${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endforeach()

# Long; the others run their commands under the sanitizers.
set_tests_properties(cli.models cli.mixtral cli.gpu PROPERTIES LABELS slow)

# Something happens at random moments: a few times, and 200 times.
foreach(name kills renames)
  add_test(NAME cli.${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py ${CMAKE_BINARY_DIR}/apc)
  add_test(NAME cli.${name}_long COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py ${CMAKE_BINARY_DIR}/apc 200)
  set_tests_properties(cli.${name} cli.${name}_long PROPERTIES TIMEOUT 900)
  set_tests_properties(cli.${name}_long PROPERTIES LABELS slow)
endforeach()

# A rank of a training run is killed, 20 times.
add_test(NAME cli.train_kills COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_kills.py ${CMAKE_BINARY_DIR}/apc)
set_tests_properties(cli.train_kills PROPERTIES TIMEOUT 300 LABELS slow)
# Wrong training steps are caught without a run.
add_test(NAME cli.train_faults COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_faults.py ${CMAKE_BINARY_DIR}/apc
  ${CMAKE_BINARY_DIR}/apc-opt)
set_tests_properties(cli.train_faults PROPERTIES TIMEOUT 600 LABELS slow)

# At least 40 plans of the same training, and random ones.
add_test(NAME cli.train_plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_plans.py ${CMAKE_BINARY_DIR}/apc
  $<TARGET_FILE:apc-opt>)
set_tests_properties(cli.train_plans PROPERTIES TIMEOUT 900 LABELS slow)

# The layout of sources and documents.
add_test(NAME format COMMAND ${APC_BASH} ${CMAKE_SOURCE_DIR}/tests/format.sh ${CMAKE_SOURCE_DIR})
# Which room may include which, and whether files that are named are there.
add_test(NAME rooms COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/rooms.py ${CMAKE_SOURCE_DIR})
add_test(NAME names COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/names.py ${CMAKE_SOURCE_DIR})
# docs/status.md is generated: build/apc-status > docs/status.md
add_test(NAME cli.status COMMAND ${APC_BASH} -c "diff '${CMAKE_SOURCE_DIR}/docs/status.md' <('${CMAKE_BINARY_DIR}/apc-status')")
