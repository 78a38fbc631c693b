// The subset of YAML that cards use: lists of maps, block by block, by their indentation.
#include "stoker/formats/arrow/hub_card.h"

#include <algorithm>

namespace stoker {
namespace {

struct Line {
    std::size_t indent = 0;
    bool item = false;  // begins with "- "; the indent is that of what follows
    std::string_view key;
    std::string value;
};

std::string unquoted(std::string_view text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) {
        text.remove_suffix(1);
    }
    const bool quoted =
        text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
    return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

Line parse_line(std::string_view text) {
    Line line;
    line.indent = std::min(text.find_first_not_of(' '), text.size());
    text.remove_prefix(line.indent);
    if (text.starts_with("- ")) {
        line.item = true;
        const std::size_t skipped = std::min(text.find_first_not_of(' ', 1), text.size());
        line.indent += skipped;
        text.remove_prefix(skipped);
    }
    const bool quoted = text.starts_with('"') || text.starts_with('\'');
    const std::size_t colon = quoted ? std::string_view::npos : text.find(": ");
    if (colon != std::string_view::npos) {
        line.key = text.substr(0, colon);
        text.remove_prefix(std::min(text.find_first_not_of(' ', colon + 1), text.size()));
        line.value = unquoted(text);
    } else if (const std::string plain = unquoted(text); !quoted && plain.ends_with(':')) {
        line.key = text.substr(0, plain.size() - 1);
    } else {
        line.value = plain;
    }
    return line;
}

// The lines between the first two "---".
std::vector<Line> head_of(std::string_view readme) {
    std::vector<Line> lines;
    bool begun = false;
    while (!readme.empty()) {
        const std::string_view text = readme.substr(0, readme.find('\n'));
        readme.remove_prefix(std::min(text.size() + 1, readme.size()));
        const std::string plain = unquoted(text);
        if (plain == "---") {
            if (begun) {
                return lines;
            }
            begun = true;
        } else if (!begun) {
            return {};
        } else if (!plain.empty() && !std::string_view(plain).starts_with('#')) {
            lines.push_back(parse_line(text));
        }
    }
    return {};
}

}  // namespace

std::vector<HubConfig> read_hub_card(std::string_view readme) {
    const std::vector<Line> lines = head_of(readme);
    auto line = std::ranges::find_if(lines, [](const Line& one) { return one.indent == 0 && one.key == "configs"; });
    std::vector<HubConfig> configs;
    if (line == lines.end()) {
        return configs;
    }
    std::size_t outer = 0;  // the indent of a configuration's keys
    bool in_files = false;
    for (++line; line != lines.end() && (line->indent > 0 || line->item); ++line) {
        if (configs.empty() || (line->item && line->indent == outer)) {
            configs.emplace_back();
            outer = line->indent;
        }
        HubConfig& config = configs.back();
        if (line->indent == outer) {
            in_files = line->key == "data_files";
            if (line->key == "config_name") {
                config.name = line->value;
            } else if (line->key == "default") {
                config.is_default = line->value == "true";
            } else if (in_files && !line->value.empty()) {
                config.files.push_back({.split = "train", .patterns = {line->value}});
            }
        } else if (in_files && line->key == "split") {
            config.files.push_back({.split = line->value, .patterns = {}});
        } else if (in_files && (line->key == "path" || line->key.empty()) && !line->value.empty()) {
            if (config.files.empty()) {
                config.files.push_back({.split = "train", .patterns = {}});
            }
            config.files.back().patterns.push_back(line->value);
        }
    }
    return configs;
}

}  // namespace stoker
