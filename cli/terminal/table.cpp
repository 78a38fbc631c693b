// Widths follow the Unicode blocks that terminals draw two columns wide; that is right for the letters of file names.
#include "cli/terminal/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "stoker/base/printable.h"
#include "stoker/base/utf8.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kGap = 2;        // blanks between columns
constexpr std::size_t kWidest = 8192;  // columns of a cell: a command with two paths

std::size_t code_width(std::uint32_t code) {
    using Block = std::pair<std::uint32_t, std::uint32_t>;
    static constexpr std::array<Block, 9> kWide = {{{0x1100, 0x115f},
                                                    {0x2e80, 0xa4cf},
                                                    {0xac00, 0xd7a3},
                                                    {0xf900, 0xfaff},
                                                    {0xfe30, 0xfe6f},
                                                    {0xff00, 0xff60},
                                                    {0xffe0, 0xffe6},
                                                    {0x1f300, 0x1faff},
                                                    {0x20000, 0x3fffd}}};
    if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f) || code == 0xfe0f) {
        return 0;
    }
    return std::ranges::any_of(kWide, [&](const Block& at) { return code >= at.first && code <= at.second; }) ? 2 : 1;
}

using Letters = std::vector<std::string>;

// The letters of `text` made printable.
Letters letters_of(std::string_view text) {
    const std::string safe = printable(text);
    Letters letters;
    for (std::string_view rest = safe; !rest.empty(); rest.remove_prefix(letters.back().size())) {
        letters.emplace_back(rest.substr(0, utf8_sequence(rest)));
    }
    return letters;
}

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
    const std::string fill(width - std::min(width, display_width(text)), ' ');
    return align == Table::Align::right ? fill + text : text + fill;
}

std::vector<std::string> texts_of(const std::vector<Letters>& all) {
    std::vector<std::string> texts;
    for (const Letters& letters : all) {
        texts.emplace_back();
        for (const std::string& letter : letters) {
            texts.back() += letter;
        }
    }
    return texts;
}

// Replaces what all texts begin with by an ellipsis, except for the last letters of it.
void cut_common_start(std::vector<Letters>& all) {
    constexpr std::size_t kKept = 12;
    std::size_t common = 0;
    while (std::ranges::all_of(all, [&](const Letters& letters) {
        return common < letters.size() && letters[common] == all.front()[common];
    })) {
        ++common;
    }
    if (common <= kKept + 1) {
        return;
    }
    for (Letters& letters : all) {
        letters.erase(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(common - kKept));
        letters.insert(letters.begin(), "…");
    }
}

}  // namespace

std::size_t display_width(std::string_view text) {
    std::size_t sum = 0;
    for (const std::string& letter : letters_of(text)) {
        sum += code_width(utf8_code_point(letter));
    }
    return sum;
}

std::string cut_to_width(std::string_view text, std::size_t max_width) {
    std::string cut;
    std::size_t width = 0;
    for (const std::string& letter : letters_of(text)) {
        width += code_width(utf8_code_point(letter));
        if (width > max_width) {
            break;
        }
        cut += letter;
    }
    return cut;
}

std::string for_terminal(std::string_view text, std::size_t max_width) {
    const std::size_t most = 8 * max_width;  // bytes of each end that may be shown; a letter has four, or is four
    std::string ends;
    if (text.size() > 2 * most) {
        text = ends = fmt::format("{}{}", text.substr(0, most), text.substr(text.size() - most));
    }
    const Letters letters = letters_of(text);
    std::string safe;
    for (const std::string& letter : letters) {
        safe += letter;
    }
    if (display_width(safe) <= max_width) {
        return safe;
    }
    // The end of a path matters more than its beginning.
    const std::size_t head_room = (max_width - 1) / 3;
    std::string head, tail;
    for (const std::string& letter : letters) {
        if (display_width(head + letter) > head_room) {
            break;
        }
        head += letter;
    }
    for (std::size_t i = letters.size(); i > 0 && display_width(letters[i - 1] + tail) + head_room < max_width; --i) {
        tail = letters[i - 1] + tail;
    }
    return head + "…" + tail;
}

std::vector<std::string> for_comparison(std::span<const std::string> texts, std::size_t max_width) {
    std::vector<Letters> all;
    for (const std::string& text : texts) {
        all.push_back(letters_of(text));
    }
    std::vector<std::string> whole = texts_of(all);
    const auto fits = [&](const std::string& text) { return display_width(text) <= max_width; };
    const bool equal = std::ranges::adjacent_find(texts, std::not_equal_to()) == texts.end();
    if (equal || std::ranges::all_of(whole, fits)) {
        std::ranges::transform(whole, whole.begin(), [&](const auto& text) { return for_terminal(text, max_width); });
        return whole;
    }
    cut_common_start(all);
    std::ranges::for_each(all, [](Letters& letters) { std::ranges::reverse(letters); });
    cut_common_start(all);
    std::ranges::for_each(all, [](Letters& letters) { std::ranges::reverse(letters); });
    whole = texts_of(all);
    std::vector<std::string> cells;
    std::set<std::pair<std::string, std::string>> pairs;  // different texts with equal cells are two pairs
    std::set<std::string> different;
    for (std::size_t i = 0; i < whole.size(); ++i) {
        cells.push_back(for_terminal(whole[i], max_width));
        pairs.emplace(cells[i], texts[i]);
        different.insert(cells[i]);
    }
    return different.size() == pairs.size() ? cells : whole;
}

void Table::column(const std::string& title, Align align) {
    columns_.push_back({printable(title), align});
}

void Table::row(std::vector<std::string> cells) {
    std::ranges::transform(cells, cells.begin(), [](const std::string& cell) { return for_terminal(cell, kWidest); });
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        widths.push_back(display_width(columns_[i].title));
        for (const auto& row : rows_) {
            widths[i] = std::max(widths[i], display_width(row[i]));
        }
    }
    return widths;
}

void Table::fit(std::size_t width, std::span<const std::string_view> titles) {
    const auto line = [&] {
        const std::vector<std::size_t> all = widths();
        return std::accumulate(all.begin(), all.end(), kGap * (std::max<std::size_t>(all.size(), 1) - 1));
    };
    for (auto title = titles.begin(); title != titles.end() && line() > width; ++title) {
        const auto found = std::ranges::find(columns_, *title, &Column::title);
        if (found == columns_.end()) {
            continue;
        }
        const auto at = found - columns_.begin();
        columns_.erase(found);
        for (auto& row : rows_) {
            row.erase(row.begin() + at);
        }
    }
}

std::string Table::text() const {
    const std::vector<std::size_t> widths = this->widths();
    std::string out;
    const auto line = [&](auto cell) {
        std::string text;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            text += std::string(i == 0 ? 0 : kGap, ' ') + padded(cell(i), widths[i], columns_[i].align);
        }
        text.erase(text.find_last_not_of(' ') + 1);
        out += text + "\n";
    };
    line([&](std::size_t i) { return columns_[i].title; });
    for (const auto& row : rows_) {
        line([&](std::size_t i) { return row[i]; });
    }
    return out;
}

}  // namespace stoker::cli
