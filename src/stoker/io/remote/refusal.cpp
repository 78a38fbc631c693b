#include "stoker/io/remote/refusal.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace stoker {
namespace {

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
    });
}

}  // namespace

std::string error_code(const HttpAnswer& answer) {
    constexpr std::string_view kTag = "<Code>";
    const std::string_view body(reinterpret_cast<const char*>(answer.body.data()), answer.body.size());
    std::string_view code = answer.header("x-error-code").value_or("");
    if (const std::size_t begin = body.find(kTag); begin != std::string_view::npos) {
        code = body.substr(begin + kTag.size(), body.find('<', begin + kTag.size()) - begin - kTag.size());
    }
    return is_word(code) ? std::string(code) : "";
}

std::string status_text(const HttpAnswer& answer) {
    const std::string code = error_code(answer);
    return fmt::format("status {}{}", answer.status, code.empty() ? "" : fmt::format(" ({})", code));
}

}  // namespace stoker
