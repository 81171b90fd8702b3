# Every tests/fuzz/fuzz_NAME.c defines LLVMFuzzerTestOneInput; tests/fuzz/seeds/NAME/ holds its seed files.  Each
# becomes the test fuzz.NAME: standalone.c feeds it the seeds and 2000 fixed mutations of each, under any compiler and
# sanitizers of the build.
# With -DAPC_FUZZ=ON and clang (preset "fuzz", target "fuzzers") each also becomes libfuzzer_NAME, to be run by hand or
# by hours.sh:
#   build-fuzz/tests/libfuzzer_npy -max_total_time=60 /tmp/corpus tests/fuzz/seeds/npy
set(fuzz_dir ${CMAKE_CURRENT_LIST_DIR})
set(fuzz_rooms driver codegen passes frontend ir runtime program base)
set(fuzz_libraries apc_warnings)
foreach(room ${fuzz_rooms})
  list(APPEND fuzz_libraries apc_${room})
endforeach()

if(APC_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT APC_SANITIZE)
    message(FATAL_ERROR "APC_FUZZ needs clang and APC_SANITIZE (see the preset \"fuzz\")")
  endif()
  foreach(room ${fuzz_rooms})
    target_compile_options(apc_${room} PRIVATE -fsanitize=fuzzer-no-link)
  endforeach()
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${fuzz_dir}/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(target ${source} NAME_WE)
  string(REPLACE "fuzz_" "" name ${target})
  add_executable(${target} ${source} ${fuzz_dir}/standalone.c)
  target_link_libraries(${target} PRIVATE ${fuzz_libraries})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  if(name MATCHES "^(program|artifact)$")
    apc_test(NAME fuzz.${name} COMMAND ${fuzz_dir}/run_programs.sh ${CMAKE_BINARY_DIR} ${name}
             NEEDS ${target} fuzz_cut)
  elseif(name STREQUAL "prove") # its seeds are the programs of other tests
    apc_test(NAME fuzz.prove COMMAND ${target} -n 3000 tests/prove tests/proofs)
  elseif(name STREQUAL "found")
    apc_test(NAME fuzz.found COMMAND ${target} -c tests/fuzz/seeds/found)
  else()
    apc_test(NAME fuzz.${name} COMMAND ${target} tests/fuzz/seeds/${name})
  endif()
  if(APC_FUZZ)
    add_executable(libfuzzer_${name} ${source})
    target_compile_definitions(libfuzzer_${name} PRIVATE _GNU_SOURCE)
    target_compile_options(libfuzzer_${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(libfuzzer_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(libfuzzer_${name} PRIVATE ${fuzz_libraries})
    set_target_properties(libfuzzer_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
endforeach()

# Programs are not stored as seeds: after a change of their format they would be refused at once.  run_programs.sh
# compiles some; tests/fuzz/seeds/program and artifact hold only findings.
add_executable(fuzz_cut ${fuzz_dir}/cut.c)
target_link_libraries(fuzz_cut PRIVATE apc_warnings apc_runtime apc_base)
set_target_properties(fuzz_cut PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Everything that hours.sh needs.
if(APC_FUZZ)
  list(TRANSFORM fuzz_sources REPLACE ".*/fuzz_(.*)\\.c" "libfuzzer_\\1" OUTPUT_VARIABLE fuzzers)
  add_custom_target(fuzzers DEPENDS ${fuzzers} fuzz_cut apc apcrt-stub)
endif()
