// A missing file gives an empty result; a file that cannot be read is an error.
#include "stoker/io/remote/setting_sources.h"

#include <algorithm>
#include <filesystem>

#include "stoker/base/ascii.h"
#include "stoker/base/environment.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {

namespace fs = std::filesystem;

std::string process_variable(const std::string& name) {
    return std::string(trimmed(environment_variable(name.c_str())));
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kSpace);
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

IniSections parse_ini(std::string_view text) {
    IniSections sections;
    IniSection* section = nullptr;
    std::string above;  // the last setting that was not indented
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::string_view content = trimmed(line);
        if (content.empty() || content.front() == '#' || content.front() == ';') {
            continue;
        }
        if (content.front() == '[') {
            section = content.back() == ']' ? &sections[std::string(trimmed(content.substr(1, content.size() - 2)))]
                                            : nullptr;
            above.clear();
            continue;
        }
        const std::size_t equals = content.find('=');
        if (section == nullptr || equals == std::string_view::npos) {
            continue;
        }
        const std::string key(trimmed(content.substr(0, equals)));
        const std::string value(trimmed(content.substr(equals + 1)));
        const bool indented = (line.front() == ' ' || line.front() == '\t') && !above.empty();
        (*section)[indented ? above + "." + key : key] = value;
        if (!indented) {
            above = key;
        }
    }
    return sections;
}

IniSections read_ini(const std::string& named, const Variables& variables, std::string_view usual) {
    fs::path path = named;
    if (named.empty() || named.starts_with("~/")) {
        const std::string home = variables("HOME");
        if (home.empty()) {
            return {};
        }
        path = fs::path(home) / (named.empty() ? fs::path(usual) : fs::path(named.substr(2)));
    }
    std::error_code unknown;
    return fs::is_regular_file(path, unknown) ? parse_ini(read_text(path)) : IniSections();
}

const IniSection* find_section(const IniSections& sections, const std::string& name) {
    const auto found = sections.find(name);
    return found == sections.end() ? nullptr : &found->second;
}

std::string value_of(const IniSection* section, const std::string& key) {
    if (section == nullptr) {
        return "";
    }
    const auto found = section->find(key);
    return found == section->end() ? "" : found->second;
}

bool is_yes(std::string_view text) {
    const std::string lower = lower_case(text);
    return lower == "1" || lower == "true" || lower == "yes" || lower == "on";
}

void check_header_text(const std::string& text, const char* what) {
    if (std::any_of(text.begin(), text.end(),
                    [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
        throw InvalidArgument({.where = what, .expected = "no spaces and control characters", .got = "some"});
    }
}

}  // namespace stoker
