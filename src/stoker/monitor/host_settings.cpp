#include "stoker/monitor/host_settings.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

std::string first_word(const std::string& path) {
    const auto text = read_counter_file(path);
    std::string_view rest = text ? std::string_view(*text) : "";
    return std::string(take_word(rest));
}

}  // namespace

bool ClockPolicy::saves_power() const {
    if (driver == "intel_pstate" || driver == "amd-pstate-epp") {
        return preference == "power" || preference == "balance_power";
    }
    return governor == "powersave";
}

std::vector<ClockPolicy> clock_policies(const std::string& root) {
    std::set<ClockPolicy> policies;
    std::error_code unreadable;  // then there are none
    for (fs::directory_iterator entry(root + "/sys/devices/system/cpu", unreadable), end; entry != end;
         entry.increment(unreadable)) {
        if (entry->path().filename().string().starts_with("cpu")) {
            const std::string folder = entry->path() / "cpufreq/";
            policies.insert({.governor = first_word(folder + "scaling_governor"),
                             .driver = first_word(folder + "scaling_driver"),
                             .preference = first_word(folder + "energy_performance_preference")});
        }
    }
    policies.erase(ClockPolicy());
    return {policies.begin(), policies.end()};
}

std::string chosen_word(std::string_view text) {
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
        if (word.size() > 2 && word.front() == '[' && word.back() == ']') {
            return std::string(word.substr(1, word.size() - 2));
        }
    }
    return "";
}

std::string huge_pages(const std::string& root) {
    return chosen_word(read_counter_file(root + "/sys/kernel/mm/transparent_hugepage/enabled").value_or(""));
}

std::optional<std::int64_t> swappiness(const std::string& root) {
    return read_counter_number(root + "/proc/sys/vm/swappiness");
}

bool has_rdma(const std::string& root) {
    std::error_code unreadable;
    return fs::directory_iterator(root + "/sys/class/infiniband", unreadable) != fs::directory_iterator();
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  ...", with "Open" before "Kernel" in the open module.
std::string nvidia_module_version(const std::string& root) {
    const std::string text = read_counter_file(root + "/proc/driver/nvidia/version").value_or("");
    std::string_view rest = text;
    bool named = false;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
        if (named && word.find('.') != std::string_view::npos) {
            return std::string(word);
        }
        named = named || word == "Module";
    }
    return "";
}

// {"cuda" : {"name" : "CUDA SDK", "version" : "13.0.1"}, ...}: base/ cannot parse JSON, and the key is enough.
std::string toolkit_version(std::string_view version_json) {
    const auto skip_to = [&](std::string_view what) {
        const std::size_t at = version_json.find(what);
        version_json.remove_prefix(at == std::string_view::npos ? version_json.size() : at + what.size());
    };
    skip_to("\"cuda\"");
    skip_to("\"version\"");
    skip_to("\"");
    const std::string_view version = version_json.substr(0, version_json.find('"'));
    const bool digits = std::ranges::all_of(version, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    return digits ? std::string(version) : "";
}

}  // namespace stoker
