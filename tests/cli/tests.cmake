# Tests of the command line; each program is one shell script.
find_program(APC_BASH bash REQUIRED)
# Further build targets that they need.
set(needs_of_docs NEEDS apc-documents)
set(needs_of_gpu NEEDS double_cuda double_nccl double_blas double_dnn)
set(needs_of_loops NEEDS test_onnx_control)
set(needs_of_multiples NEEDS test_onnx_assume)
set(needs_of_onnx NEEDS onnx_compare)
set(needs_of_recurrent NEEDS test_onnx_recurrent)
set(needs_of_runtime NEEDS onnx_runtime)
set(needs_of_samples NEEDS test_onnx_samples)
foreach(name
    annotated
    artifact
    asked
    before
    bench
    caches
    cache
    calibrate
    chars
    compiler
    completed
    cuda
    docs
    dtype
    train
    named
    recompute
    zero
    beside
    train_checkpoints
    train_data
    train_files
    train_mode
    train_exported
    train_models
    train_kinds
    train_masked
    train_lora
    train_layers
    train_optimizers
    train_numbers
    train_ties
    train_runs
    offload
    train_monitor
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
    runtime
    samples
    size
    loops
    onnx
    operators
    packed
    panels
    planned
    planning
    profile
    same
    proof
    readme
    report
    rounds
    spatial
    swapped
    targets
    unequal
    unfit
    unknown
    usage
    world)
  apc_test(NAME cli.${name} COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${CMAKE_BINARY_DIR}/apc ${needs_of_${name}})
endforeach()

# Documents whose commands are run.
apc_test(NAME cli.tour COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/tour.sh ${CMAKE_BINARY_DIR}/apc inside/tour.md 26)
apc_test(NAME cli.questions COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/tour.sh ${CMAKE_BINARY_DIR}/apc guide/questions.md 6)
apc_test(NAME cli.gallery COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/tour.sh ${CMAKE_BINARY_DIR}/apc guide/gallery.md 14 all)
apc_test(NAME cli.operators_guide COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/tour.sh ${CMAKE_BINARY_DIR}/apc
  guide/operators.md 11)
# The second goes on where the first ends.
apc_test(NAME cli.start COMMAND ${APC_BASH} ${CMAKE_CURRENT_LIST_DIR}/tour.sh ${CMAKE_BINARY_DIR}/apc
  "guide/start.md guide/training.md" 16 all)

# Tests with random moments: a few times, and 200 times (50 in a quarter).
foreach(name kills renames)
  apc_test(NAME cli.${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py ${CMAKE_BINARY_DIR}/apc)
  apc_test(NAME cli.${name}_long COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py ${CMAKE_BINARY_DIR}/apc 200)
endforeach()

# Data of training: mixtures, indexed tokens, epochs, documents.
apc_test(NAME cli.train_sources COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_sources.py ${CMAKE_BINARY_DIR}/apc)
# Ranks of elastic runs are lost, in several ways.
apc_test(NAME cli.elastic COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/elastic.py ${CMAKE_BINARY_DIR}/apc)
# Sequences of unequal lengths in one batch.
apc_test(NAME cli.slots COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/slots.py ${CMAKE_BINARY_DIR} NEEDS apcrt_shared)
# A rank of a training run is killed, 20 times.
apc_test(NAME cli.train_kills COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_kills.py ${CMAKE_BINARY_DIR}/apc)
# Wrong training steps are caught without a run.
apc_test(NAME cli.train_faults COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_faults.py ${CMAKE_BINARY_DIR}/apc
  ${CMAKE_BINARY_DIR}/apc-opt)

# apc verify finds faults that are linked into apc and its runtime.
apc_test(NAME cli.verify_faults COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/verify_faults.py ${CMAKE_BINARY_DIR})

# At least 40 plans of the same training, and random ones.
apc_test(NAME cli.train_plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/train_plans.py ${CMAKE_BINARY_DIR}/apc
  $<TARGET_FILE:apc-opt>)

# The format of sources and documents.
apc_test(NAME format COMMAND ${APC_BASH} ${CMAKE_SOURCE_DIR}/tests/format.sh ${CMAKE_SOURCE_DIR})
# Checks the rooms that each room may include, and that files named in texts exist.
apc_test(NAME rooms COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/rooms.py ${CMAKE_SOURCE_DIR})
apc_test(NAME names COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/names.py ${CMAKE_SOURCE_DIR})
# Comments, messages and documents are in plain words.
apc_test(NAME plain COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/plain.py ${CMAKE_SOURCE_DIR})
# Commands of documents are run by a test, here without a look at their output, or are listed with the reason.
apc_test(NAME cli.guides COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/guides.py ${CMAKE_BINARY_DIR}/apc)
# Blocks without commands: apc reads their models, IR, plans and targets; each block has a row.
apc_test(NAME cli.blocks COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/blocks.py ${CMAKE_BINARY_DIR}/apc)
apc_test(NAME cli.commands COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/commands.py ${CMAKE_SOURCE_DIR})
# The texts of the recipes in CONTRIBUTING.md compile.
apc_test(NAME recipes COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/recipes.py ${CMAKE_BINARY_DIR})
# docs/status.md is generated: build/apc-status > docs/status.md
apc_test(NAME cli.status COMMAND ${APC_BASH} -c "diff '${CMAKE_SOURCE_DIR}/docs/status.md' <('${CMAKE_BINARY_DIR}/apc-status')" NEEDS apc-status)
# tests/suite/table.txt: it lists all rooms and tests.
apc_test(NAME suite COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/suite/suite.py check)
