// A value may be text in quotes, which may contain ">".
#include "stoker/base/setting_names.h"

#include <fmt/format.h>

namespace stoker {
namespace {

constexpr std::string_view kData = "data.";
constexpr std::string_view kOption = "--";

// The length of what stands before the closing ">"; npos if there is none.
std::size_t length_of_name(std::string_view text) {
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (quoted && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (text[i] == '>' && !quoted) {
            return i;
        }
    }
    return std::string_view::npos;
}

std::string named(std::string_view inside, const NameSetting& name) {
    if (inside.starts_with(kForPrograms)) {
        return name(kForPrograms, inside.substr(kForPrograms.size()));
    }
    const std::string_view between = inside.starts_with(kOption) ? " " : " = ";
    const std::size_t key = inside.find(between);
    return key == std::string_view::npos ? name(inside, "")
                                         : name(inside.substr(0, key), inside.substr(key + between.size()));
}

}  // namespace

std::string name_in_program(std::string_view key, std::string_view value) {
    if (key == kForPrograms) {
        return std::string(value);
    }
    const bool option = key.starts_with(kOption);
    if (value.empty() || (option && value == "true")) {
        return std::string(key);
    }
    return fmt::format("{}{}{}", key, option ? " " : " = ", value);
}

std::string fill_settings(std::string_view text, const NameSetting& name) {
    std::string filled;
    while (!text.empty()) {
        const std::size_t begin = text.find('<');
        filled += text.substr(0, begin);
        if (begin == std::string_view::npos) {
            break;
        }
        text.remove_prefix(begin);
        const std::string_view after = text.substr(1);
        const bool known = after.starts_with(kData) || after.starts_with(kOption) || after.starts_with(kForPrograms);
        const std::size_t length = known ? length_of_name(after) : std::string_view::npos;
        if (length == std::string_view::npos) {
            filled += '<';
            text.remove_prefix(1);
        } else {
            filled += named(after.substr(0, length), name);
            text.remove_prefix(length + 2);
        }
    }
    return filled;
}

}  // namespace stoker
