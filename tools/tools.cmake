# Programs of tools/.
add_executable(apc-opt tools/apc_opt.c tools/opt_prove.c tools/pass_name.c)
target_link_libraries(apc-opt PRIVATE apc_warnings apc_passes apc_ir apc_base)

# Where an installed apc finds the stub, relative to its own folder: an installation can be moved as a whole.
file(RELATIVE_PATH apc_stub_folder ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/apc)
file(GLOB apc_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
list(FILTER apc_sources EXCLUDE REGEX "(apc_(opt|status|docs)|opt_prove|docs_[a-z]*)\\.c$")
set(apc_report)
foreach(part report.html report.css report.js report_charts.js) # the page of --emit=html
  string(REPLACE "." "_" name ${part})
  set(report ${CMAKE_BINARY_DIR}/generated/${name}.c)
  add_custom_command(
    OUTPUT ${report}
    COMMAND ${CMAKE_COMMAND} -DOUT=${report} -DNAME=${name} -DFILE=${CMAKE_SOURCE_DIR}/tools/${part}
            -P ${CMAKE_SOURCE_DIR}/tools/embed_text.cmake
    DEPENDS tools/${part} tools/embed_text.cmake VERBATIM)
  list(APPEND apc_report ${report})
endforeach()
add_executable(apc ${apc_sources} ${apc_report})
target_compile_definitions(apc PRIVATE APC_VERSION="${PROJECT_VERSION}" APC_STUB_FOLDER="${apc_stub_folder}" _GNU_SOURCE)
target_link_libraries(apc PRIVATE apc_warnings apc_driver apc_codegen apc_passes apc_frontend apc_ir apc_runtime apc_base)

# Writes docs/status.md, the list of what exists; tests/cli compares the committed file with it.
add_executable(apc-status tools/apc_status.c tools/options.c tools/option_values.c)
target_link_libraries(apc-status PRIVATE apc_warnings apc_frontend apc_ir apc_base)

# Manual pages and completion, from the same tables.
add_executable(apc-docs tools/apc_docs.c tools/docs_man.c tools/docs_completion.c tools/options.c tools/option_values.c
               ${CMAKE_BINARY_DIR}/generated/docs_plan.c)
target_compile_definitions(apc-docs PRIVATE APC_VERSION="${PROJECT_VERSION}" APC_DATE="${APC_DATE}")
target_link_libraries(apc-docs PRIVATE apc_warnings apc_frontend apc_passes apc_ir apc_base)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/docs_plan.c
  COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_BINARY_DIR}/generated/docs_plan.c -DNAME=docs_plan_md -DFILE=${CMAKE_SOURCE_DIR}/docs/guide/plan.md
          -P ${CMAKE_SOURCE_DIR}/tools/embed_text.cmake
  DEPENDS docs/guide/plan.md tools/embed_text.cmake VERBATIM)
set(apc_documents)
foreach(name apc.1 apc-opt.1 apc-model.1 apc-targets.5 apc-plan.5 apc.bash _apc apc.fish)
  set(document ${CMAKE_BINARY_DIR}/share/${name})
  add_custom_command(OUTPUT ${document} COMMAND apc-docs ${name} > ${document} DEPENDS apc-docs VERBATIM)
  list(APPEND apc_documents ${document})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share)
add_custom_target(apc-documents ALL DEPENDS ${apc_documents})

include(tools/install.cmake)
