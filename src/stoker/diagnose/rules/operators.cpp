// What the operators of a profile show.
#include "stoker/diagnose/rules/rule_families.h"

namespace stoker {

std::span<const Rule> operator_rules() {
    return {};
}

}  // namespace stoker
