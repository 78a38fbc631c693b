// stoker diagnose: why the device is idle, and how to fix it: for run folders, and for traces of torch.profiler. Two
// runs are compared.
#include "stoker/diagnose/diagnose.h"

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands/comparison_text.h"
#include "cli/commands/diagnose_paths.h"
#include "cli/commands/diagnosis_text.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/diagnose/comparison/comparison.h"
#include "stoker/diagnose/report/html_report.h"

namespace stoker::cli {
namespace {

constexpr int kSlower = 3;  // the exit status of --fail-above

struct DiagnoseArguments {
    std::vector<std::string> paths;
    std::vector<std::string> against;
    std::string fail_above;
    bool rules = false;
    bool json = false;
    std::string html;
};

// The table of docs/diagnosis.md.
int print_rules() {
    std::string text = "| rule | fires when | what to do |\n|---|---|---|\n";
    for (const Rule& rule : rules()) {
        text += fmt::format("| `{}` | {} | {} |\n", rule.id, rule.signal, rule.prescription);
    }
    print_lines(text);
    return 0;
}

// Any other name may be that of a trace.
void require_page(const std::string& path) {
    if (!path.ends_with(".html") && !path.ends_with(".htm")) {
        throw InvalidArgument({.where = "--html", .expected = "a file name that ends in .html or .htm", .got = path});
    }
    require_writable_file(path);
}

// "5%" or "0.05".
double part_of(const std::string& text) {
    const bool percent = text.ends_with('%');
    const char* const end = text.data() + text.size() - (percent ? 1 : 0);
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || !(value >= 0) || value > 1e6) {
        throw InvalidArgument({.where = "--fail-above", .expected = "a part such as 5% or 0.05", .got = text});
    }
    return percent ? value / 100 : value;
}

// The two sides of a comparison. Two folders of records cannot be one run, so they need no option; traces may be ranks
// of one.
struct Pair {
    std::vector<std::string> a;  // the base
    std::vector<std::string> b;
};

std::optional<Pair> pair_of(const DiagnoseArguments& options) {
    if (!options.against.empty()) {
        return Pair{.a = options.against, .b = options.paths};
    }
    if (options.paths.size() == 2 && has_records(options.paths[0]) && has_records(options.paths[1])) {
        return Pair{.a = {options.paths[0]}, .b = {options.paths[1]}};
    }
    return std::nullopt;
}

int run_comparison(const DiagnoseArguments& options, const Pair& pair) {
    if (!options.html.empty()) {
        throw InvalidArgument({.where = "--html", .expected = "one run", .got = "a comparison of two"});
    }
    const std::optional<double> fail_above =
        options.fail_above.empty() ? std::nullopt : std::optional(part_of(options.fail_above));
    const RunRecords a = read_diagnosed(pair.a);
    const RunRecords b = read_diagnosed(pair.b);
    const Comparison comparison = compare(a, b);
    if (options.json) {
        write_stdout(to_json(comparison, fail_above) + "\n");
    } else {
        print_lines(comparison_text(comparison, pair.a.front(), pair.b.front()));
    }
    for (const RunRecords* const records : {&a, &b}) {
        for (const std::string& problem : records->problems) {
            print_stderr("stoker: {}: {}\n", records == &a ? "A" : "B", problem);
        }
    }
    if (!fail_above || !fails(comparison, *fail_above)) {
        return 0;
    }
    print_stderr("stoker: B is slower than A by more than {}\n", options.fail_above);
    return kSlower;
}

int run(const DiagnoseArguments& options) {
    if (options.rules) {
        return print_rules();
    }
    if (const std::optional<Pair> pair = pair_of(options)) {
        return run_comparison(options, *pair);
    }
    if (!options.fail_above.empty()) {
        throw InvalidArgument({.where = "--fail-above",
                               .expected = "two runs to compare: OLD NEW, or NEW --against OLD",
                               .got = "one run"});
    }
    if (!options.html.empty()) {
        require_page(options.html);
    }
    const RunRecords records = read_diagnosed(options.paths);
    const Diagnosis diagnosis = diagnose(records);
    if (!options.html.empty()) {
        const Report report{
            .title = title_of(options.paths.front(), records), .records = records, .diagnosis = diagnosis};
        write_file(options.html, report_html(report));
    }
    if (options.json) {
        write_stdout(to_json(records, diagnosis) + "\n");
        return 0;
    }
    print_lines(diagnosis_text(records, diagnosis));
    for (const std::string& problem : records.problems) {
        print_stderr("stoker: {}\n", problem);
    }
    return 0;
}

}  // namespace

Command add_diagnose(CLI::App& app) {
    auto options = std::make_shared<DiagnoseArguments>();
    auto* paths = app.add_option("path", options->paths,
                                 "a run folder of Stoker; or traces of torch.profiler (.json, .json.gz), one for each "
                                 "rank, or a folder of them; or a run folder and traces of it; or what stoker profile "
                                 "has written; or two run folders, which are compared");
    auto* rules = app.add_flag("--rules", options->rules, "print the table of all rules as Markdown");
    app.add_option("--against", options->against, "compare with this run, the base; repeat it for several traces of it")
        ->type_name("PATH")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--fail-above", options->fail_above,
                   "exit with status 3 if the compared run is certainly slower than the base by more than this")
        ->type_name("5%");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the text");
    app.add_option("-o,--html", options->html, "also write an HTML page with charts to this file")
        ->type_name("FILE.html");
    paths->excludes(rules);
    app.callback([options] {
        if (options->paths.empty() && !options->rules) {
            throw CLI::RequiredError("a path, or --rules,");
        }
    });
    example(app,
            "  stoker diagnose runs/photos --html photos.html\n"
            "  stoker diagnose rank0.json.gz rank1.json.gz --json\n"
            "  stoker diagnose runs/before runs/after --fail-above 5%\n"
            "  stoker diagnose new.json.gz --against old.json.gz");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
