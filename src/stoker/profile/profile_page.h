// A profiled run as the report that report_html (diagnose/report/) makes a page of.
#pragma once

#include <string>

#include "stoker/diagnose/report/html_report.h"
#include "stoker/profile/profile_run.h"

namespace stoker {

// `title` is the recipe's name. The timeline covers the first window.
Report profile_page(const ProfiledRun& run, const Diagnosis& diagnosis, const std::string& title);

}  // namespace stoker
