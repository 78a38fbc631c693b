// Checks of the disks: the storage of the working directory and of the data, its speed, free inodes.
#include <sys/statvfs.h>

#include <fmt/format.h>

#include "cli/commands/doctor.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/monitor/storage.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kSequential = 100e6;  // bytes a second: 1,000 photographs of 100 KB
constexpr double kRandom = 1000;       // reads a second

std::string kind_text(const Storage& storage) {
    const std::string place =
        storage.device.empty() ? storage.file_system : fmt::format("{} on {}", storage.file_system, storage.device);
    return fmt::format("{} ({})", storage_name(storage.kind), place.empty() ? "not listed" : for_terminal(place, 60));
}

void add_rates(const ReadRates& rates, Check& check) {
    const bool fast = rates.sequential_bytes >= kSequential && rates.random_reads >= kRandom;
    check.status = fast ? CheckStatus::ok : CheckStatus::warn;
    check.found +=
        fmt::format(": {} MB/s in sequence, {} random 4 KiB reads/s{}", with_commas(1e-6 * rates.sequential_bytes),
                    with_commas(rates.random_reads),
                    rates.cached ? ", perhaps from the page cache (this file system cannot read past it)" : "");
    if (fast) {
        check.fix.clear();
    }
}

Check speed_check(const std::string& name, const Storage& storage, std::string fix) {
    return {.name = name,
            .found = kind_text(storage),
            .expected = "100 MB/s in sequence and 1,000 random 4 KiB reads/s",
            .why = "a slower disk cannot feed a GPU with photographs; random reads are those of shuffled small files",
            .fix = std::move(fix)};
}

// A measurement that fails is a finding about the disk, not the end of the doctor.
template <typename Measure>
Check measured(Check check, const Measure& measure) {
    try {
        if (const std::optional<ReadRates> rates = measure()) {
            add_rates(*rates, check);
            return check;
        }
        check.found += ": not measured, no file of 4 KiB or more";
    } catch (const IoError& error) {
        check.found += fmt::format(": not measured: {}", error.what());
    }
    check.status = CheckStatus::warn;
    return check;
}

constexpr double kSeconds = 0.6;  // of reads for each disk

Check check_working_disk(const fs::path& folder) {
    constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;
    const Storage storage = storage_of(folder);
    return measured(speed_check("disk speed", storage, "train with --out and the data on a local SSD"), [&] {
        std::vector<ReadableFile> files;
        files.push_back(nameless_file(folder, kBytes, kSeconds));
        return measure_reads(files, kSeconds);
    });
}

Check check_data(const fs::path& data) {
    std::error_code error;
    const fs::path path = fs::canonical(data, error);
    if (error) {
        throw errno_error(data.string(), "a data set on a local or mounted disk", error.value());
    }
    const Storage storage = storage_of(path);
    const std::string fix =
        "stoker pack DATA data.stk, which is read in sequence; copy it to a local SSD; or data.cache = \"ram\"";
    return measured(speed_check("data speed", storage, fix),
                    [&] { return measure_reads(files_to_read(path), kSeconds); });
}

// File systems without a table of inodes report 0 in all.
Check check_inodes() {
    constexpr std::uint64_t kLeast = 10'000;
    struct statvfs info {};
    const bool known = statvfs(".", &info) == 0;
    const bool enough = known && (info.f_files == 0 || info.f_favail >= kLeast);
    return {.name = "inodes",
            .status = enough ? CheckStatus::ok : CheckStatus::warn,
            .found = !known              ? errno_text()
                     : info.f_files == 0 ? "no limit"
                                         : fmt::format("{} free of {}", with_commas(static_cast<double>(info.f_favail)),
                                                       with_commas(static_cast<double>(info.f_files))),
            .expected = "10,000 free in the working directory",
            .why = "each file takes one: a disk without free inodes is full, whatever its space",
            .fix = enough ? "" : "remove small files, or pack them: stoker pack FOLDER data.stk"};
}

}  // namespace

std::vector<Check> check_storage(const std::string& data) {
    std::error_code error;
    const fs::path here = fs::current_path(error);
    if (error) {
        throw errno_error(".", "a working directory", error.value());
    }
    std::vector<Check> checks = {check_inodes(), check_working_disk(here)};
    if (!data.empty()) {
        checks.push_back(check_data(data));
    }
    return checks;
}

}  // namespace stoker::cli
