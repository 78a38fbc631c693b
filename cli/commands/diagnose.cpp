// stoker diagnose: why the device is idle, and how to fix it: for run folders, and for traces of torch.profiler.
#include "stoker/diagnose/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands/diagnosis_text.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/report/html_report.h"
#include "stoker/diagnose/run_reader.h"
#include "stoker/diagnose/torch_trace/natural_order.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/track/run_record.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

struct DiagnoseArguments {
    std::vector<std::string> paths;
    bool rules = false;
    bool json = false;
    std::string html;
};

bool is_trace_name(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.ends_with(".json") || name.ends_with(".json.gz");
}

struct TraceFiles {
    std::vector<fs::path> paths = {};
    std::size_t listed = 0;  // the last so many were found in folders
};

// Names the newest run of a folder of runs. It looks one level down only, since the folder may hold a whole disk.
ErrorInfo neither_run_nor_traces(const fs::path& folder) {
    std::vector<fs::path> runs = list_folder(folder);
    std::erase_if(runs, [](const fs::path& run) { return !is_file(run / kMetricsFile); });
    const auto written = [](const fs::path& run) {
        std::error_code gone;
        return fs::last_write_time(run / kMetricsFile, gone);
    };
    return {.where = folder.string(),
            .expected = "a run folder with metrics.jsonl, or traces (.json, .json.gz)",
            .got = runs.empty() ? "a folder with neither" : "a folder of " + pluralize(std::ssize(runs), "run"),
            .hint = runs.empty() ? "" : "the newest is " + std::ranges::max_element(runs, {}, written)->string()};
}

// The traces of a folder, as tensorboard_trace_handler writes them; a file stands for itself, and comes first.
TraceFiles traces_of(const std::vector<std::string>& paths) {
    TraceFiles traces;
    std::vector<fs::path> listed;
    for (const fs::path path : paths) {
        if (!is_folder(path)) {
            traces.paths.push_back(path);
            continue;
        }
        std::vector<fs::path> found = list_folder(path);
        std::erase_if(found, [](const fs::path& file) { return !is_file(file) || !is_trace_name(file); });
        if (found.empty()) {
            throw InvalidArgument(neither_run_nor_traces(path));
        }
        std::ranges::sort(found, [](const fs::path& a, const fs::path& b) {
            return NaturalLess()(a.filename().string(), b.filename().string());
        });
        listed.insert(listed.end(), found.begin(), found.end());
    }
    traces.paths.insert(traces.paths.end(), listed.begin(), listed.end());
    traces.listed = listed.size();
    return traces;
}

bool is_run(const fs::path& path) {
    return is_file(path / kMetricsFile);
}

RunRecords read_records(std::vector<std::string> paths) {
    const auto traces = std::stable_partition(paths.begin(), paths.end(), is_run);
    const auto runs = static_cast<std::size_t>(traces - paths.begin());
    if (runs > 1) {
        throw InvalidArgument({.where = "diagnose",
                               .expected = "one run folder, traces, or a run folder and traces of it",
                               .got = std::to_string(runs) + " run folders",
                               .hint = "diagnose one run at a time"});
    }
    std::vector<std::string> of_traces(traces, paths.end());
    if (const fs::path own = fs::path(paths.front()) / "trace"; runs == 1 && of_traces.empty() && is_folder(own)) {
        of_traces.push_back(own);  // what stoker profile has written
    }
    const TraceFiles traced = traces_of(of_traces);
    if (runs == 0) {
        return read_traces(traced.paths, traced.listed);
    }
    RunRecords records = read_run_records(paths.front());
    if (!traced.paths.empty()) {
        add_traces(records, traced.paths, traced.listed);
    }
    return records;
}

// "runs/photos", "runs/photos/" and "." there are all "photos".
std::string name_of(const fs::path& path) {
    const fs::path whole = fs::absolute(path).lexically_normal();
    return whole.has_filename() ? whole.filename() : whole.parent_path().filename();
}

// A watched program gives the name: the folder of its records may be a temporary one.
std::string title_of(const fs::path& path, const RunRecords& records) {
    const std::string program = records.ranks.empty() ? "" : records.ranks.front().facts.program;
    return program.empty() ? name_of(path) : program;
}

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

int run(const DiagnoseArguments& options) {
    if (options.rules) {
        return print_rules();
    }
    if (!options.html.empty()) {
        require_page(options.html);
    }
    const RunRecords records = read_records(options.paths);
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
                                 "has written");
    auto* rules = app.add_flag("--rules", options->rules, "print the table of all rules as Markdown");
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
            "  stoker diagnose rank0.json.gz rank1.json.gz --json");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
