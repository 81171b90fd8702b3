# The GPU as a device, on doubles of NVIDIA's libraries (tests/doubles/double.h), found where a program would find the
# real ones.
add_executable(gpu_device ${CMAKE_CURRENT_LIST_DIR}/device.c)
target_link_libraries(gpu_device PRIVATE apc_warnings apc_runtime apc_base)
set_target_properties(gpu_device PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(gpu_device double_cuda double_blas double_dnn double_nccl)
apc_test(NAME gpu.device COMMAND gpu_device)
# Not with sanitizers, which use the addresses that the doubles give to GPUs.
set_tests_properties(gpu.device PROPERTIES ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/doubles)

# Compares every kernel on a GPU with the interpreter; bench/gpu/pack.sh takes it to machines that have one.
add_executable(gpu_kernels ${CMAKE_CURRENT_LIST_DIR}/kernels.c)
target_link_libraries(gpu_kernels PRIVATE apc_warnings apc_codegen apc_ir apc_runtime apc_base)
set_target_properties(gpu_kernels gpu_device PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests APC_ALONE ON)
apc_test(NAME gpu.rehearsal COMMAND ${CMAKE_CURRENT_LIST_DIR}/rehearsal.sh $<TARGET_FILE:apc>)
