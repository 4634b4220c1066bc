# shardproof_embed_rule_pages(<target> <folder>)
# Compiles <folder>/SP*.md into <target>, so that `shardproof explain` works from an installed binary. Run as a
# script (cmake -P, with PAGES and OUTPUT defined) this file writes the .cpp.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Generated from verifier/rules/SP*.md.\n#include \"verifier/rules.h\"\n\n")
  string(APPEND text "namespace shardproof::verifier {\n\nnamespace {\n\nconstexpr std::string_view kPages[] = {\n")
  file(GLOB pages ${PAGES}/SP*.md)
  list(SORT pages)
  foreach(page IN LISTS pages)
    file(READ "${page}" page_text)
    string(APPEND text "R\"PAGE(${page_text})PAGE\",\n")
  endforeach()
  string(APPEND text "};\n\n}  // namespace\n\n")
  string(APPEND text "std::span<const std::string_view> rule_pages() { return kPages; }\n\n")
  string(APPEND text "}  // namespace shardproof::verifier\n")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

set(SHARDPROOF_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(shardproof_embed_rule_pages target folder)
  file(GLOB pages CONFIGURE_DEPENDS ${folder}/SP*.md)
  set(names ${CMAKE_CURRENT_BINARY_DIR}/rule_pages.txt)
  file(GENERATE OUTPUT ${names} CONTENT "${pages}")  # so that a page taken away is noticed
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/rule_pages.cpp)
  add_custom_command(OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DPAGES=${folder} -DOUTPUT=${generated} -P ${SHARDPROOF_EMBED_SCRIPT}
    DEPENDS ${pages} ${names} ${SHARDPROOF_EMBED_SCRIPT}
    COMMENT "Embedding rule pages" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
