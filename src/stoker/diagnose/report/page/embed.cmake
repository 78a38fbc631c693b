# cmake -DOUT=page_text.cpp -P embed.cmake: page.html with the style and the scripts in it, as a C++ source.
# The page's policy names the hashes of both, so that a browser runs nothing else.
set(here ${CMAKE_CURRENT_LIST_DIR})
file(READ ${here}/page.html html)
file(READ ${here}/page.css css)
set(js "(() => {\n'use strict';\n")
foreach(script elements charts tables steps boxes lines sections page)
  file(READ ${here}/${script}.js text)
  string(APPEND js "${text}")
endforeach()
string(APPEND js "})();\n")

# SHA-256 as base64: 24 bits (6 hexadecimal digits) make 4 letters.
function(base64_of_sha256 text out)
  string(SHA256 hex "${text}")
  string(APPEND hex "00")  # 32 bytes and one of padding
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(result "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING ${hex} ${at} 6 digits)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${digits} >> ${shift}) & 63")
      string(SUBSTRING ${alphabet} ${index} 1 letter)
      string(APPEND result ${letter})
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" result ${result})
  set(${out} ${result} PARENT_SCOPE)
endfunction()

base64_of_sha256("${css}" css_hash)
base64_of_sha256("${js}" js_hash)
string(REPLACE "@CSS_HASH@" "${css_hash}" html "${html}")
string(REPLACE "@JS_HASH@" "${js_hash}" html "${html}")
string(REPLACE "@CSS@" "${css}" html "${html}")
string(REPLACE "@JS@" "${js}" html "${html}")
string(FIND "${html}" "@DATA@" cut)
string(SUBSTRING "${html}" 0 ${cut} head)
math(EXPR cut "${cut} + 6")
string(SUBSTRING "${html}" ${cut} -1 tail)
file(WRITE ${OUT} "// Made by page/embed.cmake.
#include \"stoker/diagnose/report/page_text.h\"

namespace stoker {

std::string_view page_head() {
    return R\"stoker_page(${head})stoker_page\";
}

std::string_view page_tail() {
    return R\"stoker_page(${tail})stoker_page\";
}

}  // namespace stoker
")
