# Doubles of NVIDIA's libraries, which programs find by LD_LIBRARY_PATH (double.h).  Never sanitized: they are loaded
# into programs that are not.
function(apc_double name file)
  add_library(double_${name} SHARED ${ARGN})
  target_link_libraries(double_${name} PRIVATE apc_warnings Threads::Threads dl m)
  target_compile_options(double_${name} PRIVATE -fvisibility=hidden -fno-sanitize=all)
  target_compile_definitions(double_${name} PRIVATE DOUBLES_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_options(double_${name} PRIVATE -fno-sanitize=all -Wl,-z,nodelete -Wl,-soname,${file} -Wl,--no-undefined)
  string(REGEX REPLACE "^lib(.*)[.]so[.].*$" "\\1" stem ${file})
  string(REGEX REPLACE "^lib.*([.]so[.].*)$" "\\1" suffix ${file})
  set_target_properties(double_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/doubles NO_SONAME ON
                        OUTPUT_NAME ${stem} SUFFIX ${suffix} POSITION_INDEPENDENT_CODE ON)
endfunction()
set(doubles ${CMAKE_CURRENT_LIST_DIR})
apc_double(cuda libcuda.so.1 ${doubles}/report.c ${doubles}/memory.c ${doubles}/queue.c ${doubles}/graph.c
           ${doubles}/cubin.c ${doubles}/ptx.c ${doubles}/text.c ${doubles}/watch.c ${doubles}/module.c ${doubles}/copy.c
           ${doubles}/cuda.c ${doubles}/cuda_memory.c ${doubles}/cuda_streams.c ${CMAKE_SOURCE_DIR}/base/hash.c)
apc_double(nccl libnccl.so.2 ${doubles}/nccl_comm.c ${doubles}/nccl_calls.c ${doubles}/board.c ${doubles}/reduction.c
           ${CMAKE_SOURCE_DIR}/base/hash.c)
target_link_libraries(double_nccl PRIVATE double_cuda)
apc_double(blas libcublasLt.so.13 ${doubles}/blas.c ${doubles}/product.c ${CMAKE_SOURCE_DIR}/base/hash.c)
target_link_libraries(double_blas PRIVATE double_cuda)
apc_double(dnn libcudnn.so.9 ${doubles}/dnn.c ${doubles}/convolve.c ${CMAKE_SOURCE_DIR}/base/hash.c)
target_link_libraries(double_dnn PRIVATE double_cuda)

# Their own tests.
add_executable(doubles_blas ${doubles}/blas_test.c)
target_link_libraries(doubles_blas PRIVATE apc_warnings double_blas double_cuda m)
set_target_properties(doubles_blas PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME doubles.blas COMMAND doubles_blas ${CMAKE_BINARY_DIR}/doubles)
add_executable(doubles_dnn ${doubles}/dnn_test.c ${doubles}/convolve.c)
target_link_libraries(doubles_dnn PRIVATE apc_warnings double_dnn double_cuda m)
set_target_properties(doubles_dnn PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME doubles.dnn COMMAND doubles_dnn ${CMAKE_BINARY_DIR}/doubles)
add_executable(doubles_nccl ${doubles}/nccl_test.c)
target_link_libraries(doubles_nccl PRIVATE apc_warnings double_nccl double_cuda)
set_target_properties(doubles_nccl PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME doubles.nccl COMMAND doubles_nccl ${CMAKE_BINARY_DIR}/doubles)
add_executable(doubles_driver ${doubles}/driver_test.c ${doubles}/cubin.c ${doubles}/ptx.c)
target_link_libraries(doubles_driver PRIVATE apc_warnings double_cuda apc_codegen apc_base)
set_target_properties(doubles_driver PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME doubles.driver COMMAND doubles_driver ${CMAKE_BINARY_DIR}/doubles)
apc_test(NAME doubles.headers COMMAND ${doubles}/headers.sh ${CMAKE_SOURCE_DIR})

# Programs on the doubles.
add_executable(doubles_programs ${doubles}/programs.c)
target_link_libraries(doubles_programs PRIVATE apc_warnings apc_driver apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)
target_compile_definitions(doubles_programs PRIVATE _GNU_SOURCE)
set_target_properties(doubles_programs PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(doubles_programs apcrt-stub double_cuda double_nccl double_blas double_dnn)
apc_test(NAME doubles.programs COMMAND doubles_programs ${CMAKE_BINARY_DIR} 6)
apc_test(NAME doubles.faults COMMAND ${doubles}/faults.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles)
apc_test(NAME doubles.mutants COMMAND ${doubles}/mutants.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles
         $<TARGET_FILE:doubles_programs> 12)
apc_test(NAME doubles.train COMMAND ${doubles}/train.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles)
apc_test(NAME doubles.graphs COMMAND ${doubles}/graphs.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles)
apc_test(NAME doubles.tune COMMAND ${doubles}/tune.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles)
apc_test(NAME doubles.indices COMMAND ${doubles}/indices.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles)
add_executable(doubles_tensors ${doubles}/tensors.c)
target_link_libraries(doubles_tensors PRIVATE apc_warnings apc_runtime apc_base double_cuda)
set_target_properties(doubles_tensors PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
apc_test(NAME doubles.tensors COMMAND ${doubles}/tensors.sh $<TARGET_FILE:apc> ${CMAKE_BINARY_DIR}/doubles
         $<TARGET_FILE:doubles_tensors>)
set_tests_properties(doubles.programs PROPERTIES PROCESSORS 2)
