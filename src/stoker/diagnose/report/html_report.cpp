// The page's text lies around its data. Nothing else is put into it, so nothing else needs escaping.
#include "stoker/diagnose/report/html_report.h"

#include <nlohmann/json.hpp>

#include "stoker/diagnose/report/page_data.h"
#include "stoker/diagnose/report/page_text.h"

namespace stoker {

std::string report_html(const Report& report) {
    std::string html(page_head());
    html += script_json(page_data(report));
    html += page_tail();
    return html;
}

}  // namespace stoker
