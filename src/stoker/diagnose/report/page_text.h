// The files of page/ in one text, made at build time (page/embed.cmake).
#pragma once

#include <string_view>

namespace stoker {

std::string_view page_head();  // up to the data
std::string_view page_tail();  // after it

}  // namespace stoker
