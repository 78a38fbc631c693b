// Writes one of the made-up reports; tests/python/test_report.py opens it in a browser.
#include <fstream>
#include <string_view>

#include "diagnose/report/sample_report.h"

int main(int count, char** arguments) {
    if (count != 3) {
        return 2;
    }
    const std::string_view kind = arguments[1];
    const stoker::Report report = kind == "records" ? stoker::records_report()
                                  : kind == "ranks" ? stoker::ranks_report()
                                                    : stoker::sample_report();
    std::ofstream out(arguments[2], std::ios::binary);
    out << stoker::report_html(report);
    return out.flush() ? 0 : 1;
}
