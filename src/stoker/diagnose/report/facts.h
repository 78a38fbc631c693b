// The words and single numbers of the page: the facts of host, data and training, and the figures at its top.
#pragma once

#include <string>
#include <vector>

#include "stoker/diagnose/report/html_report.h"
#include "stoker/diagnose/report/units.h"

namespace stoker {

struct FactGroup {
    std::string title;
    std::vector<Fact> facts;
};

// Facts of the first rank; unknown ones are left out, and so are groups without any.
std::vector<FactGroup> fact_groups(const RunRecords& records);

// Four to six figures: steps, the median step, samples a second, wait, GPU busy, peak memory.
std::vector<Fact> key_figures(const Report& report);

}  // namespace stoker
