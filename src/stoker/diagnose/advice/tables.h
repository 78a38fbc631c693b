// The tables of advice: rows for each rule, a table for each audience. Texts have the fields of `filled` in braces.
#pragma once

#include <concepts>
#include <fmt/format.h>
#include <span>
#include <string>
#include <string_view>

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

// The input of a template.
struct Case {
    const Finding& finding;
    const RunView& records;
    const RankRecords& rank;  // the worst one of the finding
    const RunSummary& run;    // of that rank

    bool is(std::string_view variant) const { return finding.variant == variant; }
    bool is_of(std::string_view row) const {
        return row == finding.rule || row == fmt::format("{}/{}", finding.rule, finding.variant);
    }
    double evidence(std::string_view name) const;  // 0: there is none
};

// The text with its fields filled in, the evidence by its names: "{wait_share:.0f} % of the time". Shares are in
// per cent.
std::string filled(std::string_view text, const Case& c);

// A text to fill, or a function that makes one.
class Template {
  public:
    constexpr Template() = default;
    constexpr Template(const char* text) : text_(text) {}
    template <std::convertible_to<std::string (*)(const Case&)> Make>
    constexpr Template(Make make) : make_(make) {}

    explicit operator bool() const { return text_ != nullptr || make_ != nullptr; }
    std::string operator()(const Case& c) const { return make_ != nullptr ? make_(c) : filled(text_, c); }

  private:
    const char* text_ = nullptr;
    std::string (*make_)(const Case&) = nullptr;
};

// A column that is missing, or makes an empty text, is taken from the next row for the finding: of the same table, or
// of the audience's next one.
struct Row {
    std::string_view of;  // a rule, "launch-bound", or one of its variants, "launch-bound/graphs"
    Template text = {};
    Template code = {};
    Template place = {};  // the line of a watched program that has to change
};

// A change of a recipe; an empty value: none.
struct Key {
    std::string_view of;  // as in a row
    const char* key;
    Template value;  // as TOML
};

extern const std::span<const Row> kEveryone;      // all rules
extern const std::span<const Row> kRecipe;        // what differs in a run of Stoker
extern const std::span<const Row> kWithoutKey;    // such a run where no key is left, or the recipe is not known
extern const std::span<const Row> kPytorch;       // what differs in a watched program
extern const std::span<const Row> kStokerLoader;  // likewise, with stoker.Loader
extern const std::span<const Key> kRecipeKeys;

// The first text of this column for the finding.
std::string text_of(std::span<const Row> rows, Template Row::*column, const Case& c);

// An offer of stoker.Loader, if it was measured to give more: after the text, and in the code, first if it gains more.
std::string offer_text(const Case& c);
std::string with_offer(const Case& c, const std::string& code);

}  // namespace stoker
