# Programs of tools/.
add_executable(apc-opt tools/apc_opt.c)
target_link_libraries(apc-opt PRIVATE apc_warnings apc_passes apc_ir apc_base)

file(GLOB apc_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
list(FILTER apc_sources EXCLUDE REGEX "apc_opt\\.c$")
add_executable(apc ${apc_sources})
target_compile_definitions(apc PRIVATE APC_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
target_link_libraries(apc PRIVATE apc_warnings apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)
