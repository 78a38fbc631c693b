// The tables of advice: rows for each rule, a table for each audience. Texts have the fields of `filled` in braces.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

// What words are made from.
struct Case {
    const Finding& finding;
    const JudgedRun& records;
    const RankRecords& rank;  // where the finding is worst
    const RunSummary& run;    // of that rank

    bool is(std::string_view variant) const { return finding.facts.variant == variant; }
};

// The text with its fields filled in: "{share:.0f} % of the time". Shares are in per cent.
std::string filled(std::string_view text, const Case& c);

// A text to fill, or a function that makes one.
class Words {
  public:
    constexpr Words() = default;
    constexpr Words(const char* text) : text_(text) {}
    template <std::convertible_to<std::string (*)(const Case&)> Make>
    constexpr Words(Make make) : make_(make) {}

    explicit operator bool() const { return text_ != nullptr || make_ != nullptr; }
    std::string operator()(const Case& c) const { return make_ != nullptr ? make_(c) : filled(text_, c); }

  private:
    const char* text_ = nullptr;
    std::string (*make_)(const Case&) = nullptr;
};

// A column that is missing, or makes an empty text, is taken from the next row for the finding: of the same table, or
// of the audience's next one.
struct Row {
    std::string_view rule;
    std::string_view variant;  // of the finding; empty: all
    Words text = {};
    Words code = {};
    Words place = {};  // where a watched program has what has to change
};

// A change of a recipe; an empty value: none.
struct Key {
    std::string_view rule;
    std::string_view variant;
    const char* key;
    Words value;  // as TOML
};

std::span<const Row> everyones_rows();      // all rules
std::span<const Row> recipe_rows();         // what differs in a run of Stoker
std::span<const Row> keyless_rows();        // what such a run can do where no key is left, or the recipe is not known
std::span<const Row> pytorch_rows();        // what differs in a watched program
std::span<const Row> stoker_loader_rows();  // likewise, with stoker.Loader
std::span<const Key> recipe_keys();

template <typename Entry>
bool is_for(const Entry& entry, const Finding& finding) {
    return entry.rule == finding.rule && (entry.variant.empty() || entry.variant == finding.facts.variant);
}

// The first text of this column for the finding.
std::string words_of(std::span<const Row> rows, Words Row::*column, const Case& c);

// stoker.Loader, where it was measured to give more: behind the text, and in the code, first if it gains more.
std::string offer_text(const Case& c);
std::string with_offer(const Case& c, const std::string& code);

}  // namespace stoker
