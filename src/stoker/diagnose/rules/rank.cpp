// Communication between ranks, and ranks that are slower than others.
#include "stoker/diagnose/rules/rule_families.h"

namespace stoker {

std::span<const Rule> rank_rules() {
    return {};
}

}  // namespace stoker
