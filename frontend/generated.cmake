# Generated sources of the frontend; they are compiled without our warning flags.

# --- ONNX: protobuf-c code from the installed onnx.proto and from our overlay of newer fields ---
find_path(ONNX_PROTO_DIR onnx.proto PATH_SUFFIXES onnx)
if(NOT ONNX_PROTO_DIR)
  message(FATAL_ERROR "onnx.proto not found: install libonnx-dev, or set ONNX_PROTO_DIR to the folder that holds it")
endif()
set(proto_out ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${proto_out})
set(proto_sources)
foreach(proto ${ONNX_PROTO_DIR}/onnx.proto ${CMAKE_SOURCE_DIR}/frontend/onnx/onnx_overlay.proto)
  get_filename_component(proto_name ${proto} NAME_WE)
  get_filename_component(proto_dir ${proto} DIRECTORY)
  add_custom_command(
    OUTPUT ${proto_out}/${proto_name}.pb-c.c ${proto_out}/${proto_name}.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${proto_out} -I${proto_dir} ${proto}
    DEPENDS ${proto} VERBATIM)
  list(APPEND proto_sources ${proto_out}/${proto_name}.pb-c.c ${proto_out}/${proto_name}.pb-c.h)
endforeach()
add_library(apc_onnx_proto STATIC ${proto_sources})
target_include_directories(apc_onnx_proto SYSTEM PUBLIC ${proto_out})
target_link_libraries(apc_onnx_proto PUBLIC PkgConfig::PROTOBUFC)
target_link_libraries(apc_frontend PUBLIC apc_onnx_proto)

# --- targets: the text of targets/*.topo as C strings ---
file(GLOB topo_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/targets/*.topo)
set(topo_c ${CMAKE_BINARY_DIR}/generated/builtin_targets.c)
add_custom_command(
  OUTPUT ${topo_c}
  COMMAND ${CMAKE_COMMAND} -DOUT=${topo_c} -DDIR=${CMAKE_SOURCE_DIR}/targets -P ${CMAKE_SOURCE_DIR}/frontend/topo/embed.cmake
  DEPENDS ${topo_files} ${CMAKE_SOURCE_DIR}/frontend/topo/embed.cmake VERBATIM)
set(topo_out ${CMAKE_BINARY_DIR}/generated)
bison_target(topo_parser ${CMAKE_SOURCE_DIR}/frontend/topo/topo.y ${topo_out}/topo.tab.c DEFINES_FILE ${topo_out}/topo.tab.h
  COMPILE_FLAGS "-Werror")
flex_target(topo_scanner ${CMAKE_SOURCE_DIR}/frontend/topo/topo.l ${topo_out}/topo.lex.c DEFINES_FILE ${topo_out}/topo.lex.h)
add_flex_bison_dependency(topo_scanner topo_parser)
set(topo_generated ${topo_out}/topo.tab.c ${topo_out}/topo.lex.c ${topo_out}/topo.tab.h ${topo_out}/topo.lex.h)
target_sources(apc_frontend PRIVATE ${topo_c} ${topo_generated})
set_source_files_properties(${topo_generated} PROPERTIES COMPILE_OPTIONS "-w;-I${topo_out};-I${CMAKE_SOURCE_DIR}")

# --- DSL: scanner, parser, and the layer libraries (frontend/dsl/*.apc) as C arrays ---
set(dsl_out ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${dsl_out})
file(GLOB dsl_library_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/frontend/dsl/*.apc)
bison_target(dsl_parser ${CMAKE_SOURCE_DIR}/frontend/dsl/dsl.y ${dsl_out}/dsl.tab.c DEFINES_FILE ${dsl_out}/dsl.tab.h
  COMPILE_FLAGS "-Werror")
flex_target(dsl_scanner ${CMAKE_SOURCE_DIR}/frontend/dsl/dsl.l ${dsl_out}/dsl.lex.c DEFINES_FILE ${dsl_out}/dsl.lex.h)
add_flex_bison_dependency(dsl_scanner dsl_parser)
add_custom_command(
  OUTPUT ${dsl_out}/dsl_library.c
  COMMAND ${CMAKE_COMMAND} -DOUT=${dsl_out}/dsl_library.c -DHEADER=frontend/dsl/eval.h -DTYPE=DslLibrary
          -DNAME=dsl_libraries "-DFILES=${dsl_library_files}" -P ${CMAKE_SOURCE_DIR}/tools/embed_texts.cmake
  DEPENDS ${dsl_library_files} ${CMAKE_SOURCE_DIR}/tools/embed_texts.cmake VERBATIM)
set(dsl_generated ${dsl_out}/dsl.tab.c ${dsl_out}/dsl.lex.c ${dsl_out}/dsl_library.c ${dsl_out}/dsl.tab.h ${dsl_out}/dsl.lex.h)
target_sources(apc_frontend PRIVATE ${dsl_generated})
set_source_files_properties(${dsl_generated} PROPERTIES COMPILE_OPTIONS "-w;-I${dsl_out};-I${CMAKE_SOURCE_DIR}")

# --- Hugging Face: the templates of models (frontend/hf/*.hf) as C arrays ---
file(GLOB hf_templates CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/frontend/hf/*.hf)
add_custom_command(
  OUTPUT ${dsl_out}/hf_templates.c
  COMMAND ${CMAKE_COMMAND} -DOUT=${dsl_out}/hf_templates.c -DHEADER=frontend/hf/template.h -DTYPE=HfTemplate
          -DNAME=hf_templates "-DFILES=${hf_templates}" -P ${CMAKE_SOURCE_DIR}/tools/embed_texts.cmake
  DEPENDS ${hf_templates} ${CMAKE_SOURCE_DIR}/tools/embed_texts.cmake VERBATIM)
target_sources(apc_frontend PRIVATE ${dsl_out}/hf_templates.c)
set_source_files_properties(${dsl_out}/hf_templates.c PROPERTIES COMPILE_OPTIONS "-w;-I${CMAKE_SOURCE_DIR}")
