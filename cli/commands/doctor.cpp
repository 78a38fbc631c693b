// stoker doctor: checks that this machine can train, and says how to fix what it lacks.
#include "cli/commands/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/terminal/print.h"
#include "cli/terminal/wrapped_text.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"

namespace stoker::cli {
namespace {

const char* status_name(CheckStatus status) {
    return status == CheckStatus::ok ? "ok" : status == CheckStatus::warn ? "warn" : "fail";
}

void print_json(const std::vector<Check>& checks) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Check& check : checks) {
        list.push_back({{"name", check.name},
                        {"status", status_name(check.status)},
                        {"found", check.found},
                        {"expected", check.expected},
                        {"why", check.why},
                        {"fix", check.fix}});
    }
    print_document({{"checks", list}});
}

// In a terminal, prose is broken to its width. A command to copy is not.
void print_table(const std::vector<Check>& checks) {
    std::size_t name = 0;
    for (const Check& check : checks) {
        name = std::max(name, check.name.size());
    }
    const std::size_t indent = 8 + name;
    const std::optional<int> columns = terminal_columns(STDOUT_FILENO);
    const auto print_prose = [&](const std::string& line) {
        print_lines((columns ? wrapped_line(line, static_cast<std::size_t>(*columns), indent) : line) + "\n");
    };
    for (const Check& check : checks) {
        print_prose(
            fmt::format("{:<4}  {:<{}}  {}", status_name(check.status), check.name, name, printable(check.found)));
        if (check.status != CheckStatus::ok) {
            print_prose(
                fmt::format("{:{}}expected {}; {}", "", indent, printable(check.expected), printable(check.why)));
            if (!check.fix.empty()) {
                print_stdout("{:{}}fix: {}\n", "", indent, check.fix);
            }
        }
    }
}

struct DoctorArguments {
    std::string data;
    bool json = false;
};

std::vector<Check> all_checks(const std::string& data) {
    std::vector<Check> checks = check_host(data);
    const auto add = [&](std::vector<Check> more) { std::ranges::move(more, std::back_inserter(checks)); };
    const HostCounters before = read_host_counters();
    std::vector<Check> storage = check_storage(data);  // gives the settings' counters time
    add(check_settings(before));
    add(std::move(storage));
    TorchChecks torch = check_torch();
    add(std::move(torch.checks));
    add(check_cuda_files(torch));
    add(check_gpu(torch.cuda));
    add(check_nvml());
    return checks;
}

int run(const DoctorArguments& options) {
    const std::vector<Check> checks = all_checks(options.data);
    const auto count = [&](CheckStatus status) { return std::ranges::count(checks, status, &Check::status); };
    const auto failed = count(CheckStatus::fail);
    if (options.json) {
        print_json(checks);
    } else {
        print_table(checks);
        print_stdout("\n{} ok, {}, {} failed\n", count(CheckStatus::ok), pluralize(count(CheckStatus::warn), "warning"),
                     failed);
    }
    return failed > 0 ? 1 : 0;
}

}  // namespace

std::string raise_limit(const std::string& name, const std::string& unit, const std::string& flag, bool allowed,
                        const std::string& value) {
    if (allowed) {
        return fmt::format("ulimit {} {}, in the shell or the job's script", flag, value);
    }
    const bool unlimited = value == "unlimited";
    return fmt::format(
        "the hard limit is lower: \"* - {} {}\" in /etc/security/limits.conf, Limit{}={} in the service's unit, or the "
        "container's --ulimit {}={}",
        name, value, unit, unlimited ? "infinity" : value, name, unlimited ? "-1" : value);
}

std::string lasting(const std::string& how) {
    return fmt::format(" (until the next boot; to keep it: {})", how);
}

Command add_doctor(CLI::App& app) {
    auto options = std::make_shared<DoctorArguments>();
    app.add_option("--data", options->data, "also measure how fast this data set's disk reads")->type_name("DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker doctor\n"
            "  stoker doctor --data path/to/images");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
