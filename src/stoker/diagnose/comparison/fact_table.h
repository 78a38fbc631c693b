// The table of facts: which phases of a step, and which stages of the loader, each of them changes, and the rules that
// speak of it. The ranking of causes reads this table and names no fact itself.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "stoker/records/account.h"
#include "stoker/records/stages.h"

namespace stoker {

template <typename Value>
class SetOf {
  public:
    constexpr SetOf() = default;
    constexpr SetOf(std::initializer_list<Value> values) {
        for (const Value value : values) {
            bits_ |= 1u << static_cast<unsigned>(value);
        }
    }
    constexpr bool has(Value value) const { return (bits_ >> static_cast<unsigned>(value) & 1u) != 0; }
    constexpr int size() const { return std::popcount(bits_); }
    constexpr SetOf operator|(SetOf other) const {
        other.bits_ |= bits_;
        return other;
    }
    bool operator==(const SetOf&) const = default;

  private:
    std::uint32_t bits_ = 0;
};
using PhaseSet = SetOf<Phase>;
using StageSet = SetOf<Stage>;

// The change of a number that makes steps slower; `any`: either may, or the value is a word.
enum class SlowerWith : std::uint8_t { any, more, less };

struct FactRow {
    std::string_view key;  // of the facts, of the recipe, or observed; one that ends in '.' stands for all below it
    PhaseSet phases;
    SlowerWith slower_with = SlowerWith::any;
    // How much the fact alone explains: 1 for a setting that acts on these phases directly; less for what acts through
    // other facts, or changes them only sometimes; below kLeastCause it is listed and never named as the cause.
    double weight = 1;
    std::string_view rules = {};    // that speak of it, with a space between them
    StageSet stages = {};           // of the loader's workers, if the fact acts on the wait through them
    double tolerance = 0;           // numbers are alike if they differ by this part
    std::string_view same_as = {};  // the fact that says the same as this key of a recipe
};

inline constexpr double kLeastCause = 0.2;
// A fact with these changes the speed of all that the workers do, whether their clocks show it or not.
inline constexpr StageSet kAnyStage = {Stage::read, Stage::entropy, Stage::pixels, Stage::augment};

// The longest row that fits; never null: keys that no row names change anything, a little.
const FactRow& row_of(std::string_view key);

std::span<const FactRow> fact_rows();

}  // namespace stoker
