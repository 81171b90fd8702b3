# The transport over MPI: compiled against the MPI found here and embedded in the runtime as bytes, so that a compiled
# program is one file.  Without mpicc there are no bytes, and the runtime reports that when an MPI launcher starts it.
find_program(APC_MPICC mpicc)
set(mpi_image ${CMAKE_BINARY_DIR}/generated/mpi_image.c)
if(APC_MPICC)
  set(mpi_plugin ${CMAKE_BINARY_DIR}/libapcrt_mpi.so)
  set(mpi_sources ${CMAKE_SOURCE_DIR}/runtime/mpi/plugin.c ${CMAKE_SOURCE_DIR}/runtime/comm/transport.c
                  ${CMAKE_SOURCE_DIR}/runtime/comm/contention.c ${CMAKE_SOURCE_DIR}/program/status.c ${CMAKE_SOURCE_DIR}/base/show.c)
  add_custom_command(OUTPUT ${mpi_plugin}
    COMMAND ${APC_MPICC} -std=gnu11 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror
            -I${CMAKE_SOURCE_DIR} ${mpi_sources} -o ${mpi_plugin}
    DEPENDS ${mpi_sources} runtime/comm/transport_mpi.h runtime/comm/transport.h runtime/comm/contention.h
            runtime/comm/relax.h program/status.h program/status.def VERBATIM)
  set(mpi_include ".incbin \\\"${mpi_plugin}\\\"\\n")
endif()
file(CONFIGURE OUTPUT ${mpi_image} @ONLY CONTENT
"__asm__(\".section .rodata\\n.balign 16\\n.global apc_mpi_image\\napc_mpi_image:\\n@mpi_include@.global apc_mpi_image_end\\napc_mpi_image_end:\\n.byte 0\\n.text\\n\");
extern const char apc_mpi_image[];
")
set_source_files_properties(${mpi_image} PROPERTIES OBJECT_DEPENDS "${mpi_plugin}")
target_sources(apc_runtime PRIVATE ${mpi_image})

# SHA-256 of Mbed TLS becomes part of one object that exports only secret_*: compiled programs need no library for it,
# and libapcrt.a can be linked with any other Mbed TLS.
find_library(APC_MBEDCRYPTO libmbedcrypto.a REQUIRED)
find_path(APC_MBEDTLS_INCLUDE mbedtls/md.h REQUIRED)
set(secret_object ${CMAKE_BINARY_DIR}/generated/secret.o)
add_library(apc_secret OBJECT runtime/secret/secret.c)
target_compile_options(apc_secret PRIVATE -fPIC)
target_link_libraries(apc_secret PRIVATE apc_warnings)
target_include_directories(apc_secret SYSTEM PRIVATE ${APC_MBEDTLS_INCLUDE})
add_custom_command(OUTPUT ${secret_object}
  COMMAND ${CMAKE_LINKER} -r $<TARGET_OBJECTS:apc_secret> ${APC_MBEDCRYPTO} -o ${secret_object}
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=secret_* ${secret_object}
  DEPENDS apc_secret $<TARGET_OBJECTS:apc_secret> ${APC_MBEDCRYPTO} VERBATIM)
target_sources(apc_runtime PRIVATE ${secret_object})

# The prebuilt runtime at the start of every artifact.
add_executable(apcrt-stub runtime/stub/main.c runtime/stub/help.c runtime/stub/threads.c runtime/stub/steps.c
               runtime/stub/log.c runtime/stub/progress.c runtime/stub/training.c)
target_link_options(apcrt-stub PRIVATE -Wl,--dynamic-list=${CMAKE_SOURCE_DIR}/runtime/stub/threads.list)
set_target_properties(apcrt-stub PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/stub/threads.list APC_ALONE ON)
target_link_libraries(apcrt-stub PRIVATE apc_warnings apc_runtime apc_base)

# The library for programs that embed the runtime (apc_runtime.h), static and shared.  ${apc_link} lists the other
# libraries to link with the static one, also in apc.pc and apcConfig.cmake.  The shared one exports the functions of
# the header and nothing else (runtime/apcrt.map; test embed).  Its SONAME has the major version.
set(apc_link -lz -ljansson -lpthread -ldl -lm)
set(apcrt_objects $<TARGET_OBJECTS:apc_runtime> $<TARGET_OBJECTS:apc_program> $<TARGET_OBJECTS:apc_base> ${secret_object})
add_library(apcrt STATIC ${apcrt_objects})
add_library(apcrt_shared SHARED ${apcrt_objects})
foreach(library apcrt apcrt_shared)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME apcrt)
  add_dependencies(${library} apc_runtime apc_program apc_base)
endforeach()
set_target_properties(apcrt_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/apcrt.map)
target_link_options(apcrt_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/runtime/apcrt.map)
if(NOT APC_SANITIZE) # the sanitizers' functions come with the program
  target_link_options(apcrt_shared PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(apcrt_shared PRIVATE ${apc_libraries} Threads::Threads dl m)
